"""Tables that ship with scikit-learn, in one shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.datasets.draws import Labels

TABLES = ("breast-cancer", "digits", "iris", "wine")
"""Names that :func:`load_table` knows."""


@dataclass(frozen=True, eq=False)
class TableData:
    """A labelled table of real measurements.

    Attributes
    ----------
    rows : ndarray (n, d)
        The data.
    labels : ndarray (n,)
        The class of each row.
    columns, classes : tuple of str
        Names of the columns and of the classes.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.load_table("iris").classes
    ('setosa', 'versicolor', 'virginica')
    """

    rows: Array
    labels: Labels
    columns: tuple[str, ...]
    classes: tuple[str, ...]


def load_table(name: str, *, standardize: bool = False) -> TableData:
    """A table that ships with scikit-learn; nothing is downloaded.

    Parameters
    ----------
    name : {"breast-cancer", "digits", "iris", "wine"}
        Which one.
    standardize : bool
        Give every column that is not constant the mean 0 and the variance 1.

    Returns
    -------
    TableData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.load_table("digits").rows.shape
    (1797, 64)
    """
    from sklearn import datasets

    if name not in TABLES:
        raise ValueError(f"name={name!r}: choose one of {', '.join(TABLES)}")
    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    rows = np.asarray(bunch.data, np.float64)
    if standardize:
        deviations = rows.std(axis=0)
        rows = (rows - rows.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    return TableData(
        rows,
        np.asarray(bunch.target, np.intp),
        tuple(map(str, bunch.feature_names)),
        tuple(map(str, bunch.target_names)),
    )
