"""Dictionaries of atoms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import Model, register_model, shown, stored
from sketchlearn.models.file import Reader
from sketchlearn.models.table import Column, Table, loadings, number

_CHUNK = 2**22  # numbers of small matrices that are solved at once: 32 MB


@register_model
class DictionaryModel(Model):
    """Atoms, of which every row is a combination of few.

    Attributes
    ----------
    components : ndarray (k, d)
        The atoms, of length 1; those with the largest fourth cumulants come first.
    mean : ndarray (d,)
        Mean of the rows.
    variances, kurtosis : ndarray (k,)
        Variances and excess kurtoses of the coefficients.
    errors : ndarray (k,)
        Standard errors of the atoms, as shares of their lengths.
    noise_share : float
        Share of the variance of each column that the atoms do not explain.
    nonzero : float
        Atoms in a row on average, if coefficients that are there are normal.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import DictionaryModel
    >>> model = DictionaryModel(rows=10, columns=("x", "y"), components=np.array([[1.0, 0.0], [0.6, 0.8]]),
    ...                         mean=np.zeros(2), variances=np.ones(2), kurtosis=np.full(2, 27.0), errors=np.zeros(2),
    ...                         noise_share=0.0, nonzero=0.2)
    >>> model, model.predict([[3.0, 4.0]])
    (Model(dictionary: 2 atoms of 10 rows, 2 columns), array([[0., 5.]]))
    """

    task: str = "dictionary"
    title: ClassVar[str] = "Dictionary"
    thing: ClassVar[str] = "atom"
    praise: ClassVar[str] = "The atoms explain the fourth moments"

    attributes: ClassVar[Mapping[str, str]] = shown("n_nonzero", n_components="size")

    components: Array = stored("k", "d", shown=True)
    mean: Array = stored("d", shown=True)
    variances: Array = stored("k", shown=True)
    kurtosis: Array = stored("k", shown=True)
    errors: Array = stored("k", shown=True)
    noise_share: float = stored(shown=True)
    nonzero: float = stored()

    @property
    def n_nonzero(self) -> int:
        """Atoms in the code of a row: as many as are there on average, rounded up."""
        return int(min(max(math.ceil(self.nonzero), 1), *self.components.shape))

    def own_numbers(self) -> list[tuple[str, str]]:
        """How many are in a row, and how well they are known."""
        return [(str(self.n_nonzero), "in a row"), (number(float(self.errors.max())), "largest error of an atom")]

    def table(self) -> Table:
        """Spread of the coefficients, error and entries of each atom."""
        columns = [
            Column("atom", range(1, self.size + 1), "text"),
            Column("standard deviation", np.sqrt(self.variances)),
            Column("kurtosis", self.kurtosis),
            Column("± of its length", self.errors),
            *loadings(self.columns, self.components.T),
        ]
        return Table("atoms", "Atoms", tuple(columns), "What a coefficient of 1 adds to each column.")

    def predict_rows(self, rows: Array) -> AnyArray:
        """Coefficients, (n, k)."""
        return self.transform_rows(rows)

    def transform_rows(self, rows: AnyArray) -> Array:
        """Coefficients, of which a few are not zero, (n, k)."""
        return sparse_codes(np.asarray(rows, np.float64) - self.mean, self.components, self.n_nonzero)

    def inverse_rows(self, codes: Array) -> Array:
        """Combinations with these coefficients, (n, d)."""
        return np.asarray(codes @ self.components + self.mean)

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Coefficients, one column for each atom."""
        return {f"atom {l + 1}": code for l, code in enumerate(self.transform_rows(rows).T)}

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Atoms have length 1, variances are not negative."""
        if not np.allclose((found["components"] ** 2).sum(1), 1.0, atol=1e-6):
            raise reader.fail("atoms should have length 1")
        if min(found["variances"].min(), found["errors"].min(), found["noise_share"], found["nonzero"]) < 0:
            raise reader.fail("variances, errors and numbers of atoms must not be negative")


def sparse_codes(rows: Array, atoms: Array, count: int) -> Array:
    """Coefficients (n, k) of combinations of `count` atoms of length 1, by orthogonal matching pursuit.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models.dictionary import sparse_codes
    >>> sparse_codes(np.array([[2.0, 0.1]]), np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), 1)
    array([[2., 0., 0.]])
    """
    n, k = len(rows), len(atoms)
    gram = atoms @ atoms.T + 1e-12 * np.eye(k)  # (two atoms may be equal)
    out: Array = np.zeros((n, k))
    step = max(_CHUNK // max(k, count**2), 1)
    for at in range(0, n, step):
        seen = rows[at : at + step] @ atoms.T
        here = np.arange(len(seen))
        chosen = np.empty((len(seen), 0), np.intp)
        rest: AnyArray = seen
        codes: AnyArray = np.zeros((len(seen), 0))
        for _ in range(count):
            size = np.abs(rest)
            size[here[:, None], chosen] = -1.0
            chosen = np.column_stack([chosen, size.argmax(1)])
            inner = gram[chosen[:, :, None], chosen[:, None, :]]
            codes = np.linalg.solve(inner, seen[here[:, None], chosen][:, :, None])[:, :, 0]
            rest = seen - np.einsum("ni,nij->nj", codes, gram[chosen])
        part = np.zeros_like(seen)
        part[here[:, None], chosen] = codes
        out[at : at + step] = part
    return out
