"""Non-negative components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import Model, register_model, shown, stored
from sketchlearn.models.file import Reader
from sketchlearn.models.table import Column, Table, loadings, number

_TURNS = 3  # exchanges of all places that need not help, before places are exchanged one at a time
_CHUNK = 2**22  # numbers of small matrices that are solved at once: 32 MB


@register_model
class NMFModel(Model):
    """Non-negative components that rows are combinations of, with non-negative coefficients.

    Attributes
    ----------
    components : ndarray (k, d)
        The components, of which no entry is negative. Their average coefficients are 1, so they add up to about the
        mean of the rows; those with the largest sums come first.
    mean : ndarray (d,)
        Mean of the rows.
    errors : ndarray (k,)
        Standard errors of the components, as shares of their lengths, if their zeros are where they seem to be; NaN if
        they are not known.
    reconstruction_err : float
        About the root of the squares that the components leave of all rows; a file leaves it out.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import NMFModel
    >>> model = NMFModel(rows=10, columns=("x", "y"), components=np.eye(2), mean=np.ones(2), errors=np.zeros(2))
    >>> model, model.predict([[3.0, -1.0]])
    (Model(nmf: 2 components of 10 rows, 2 columns), array([[3., 0.]]))
    """

    task: str = "nmf"
    title: ClassVar[str] = "Non-negative matrix factorisation"
    praise: ClassVar[str] = "The components explain the rows, and no others do"

    attributes: ClassVar[Mapping[str, str]] = shown("reconstruction_err", n_components="size")

    components: Array = stored("k", "d", shown=True)
    mean: Array = stored("d", shown=True)
    errors: Array | None = stored("k", default=None, shown=True)
    reconstruction_err: float = float("nan")

    def own_numbers(self) -> list[tuple[str, str]]:
        """How well the components are known."""
        if self.errors is None or not np.isfinite(self.errors).all():
            return []
        return [(number(float(self.errors.max())), "largest relative error of a component")]

    def table(self) -> Table:
        """Share of the mean row, error and entries of each component."""
        total = max(float(self.components.sum()), 1e-300)
        columns = [
            Column("component", range(1, self.size + 1), "text"),
            Column("share", self.components.sum(1) / total, "share"),
            *([] if self.errors is None else [Column("± of its length", self.errors)]),
            *loadings(self.columns, self.components.T),
        ]
        return Table("components", "Components", tuple(columns), "What each component adds to each column, on average.")

    def predict_rows(self, rows: Array) -> AnyArray:
        """Coefficients, (n, k)."""
        return self.transform_rows(rows)

    def transform_rows(self, rows: AnyArray) -> Array:
        """Coefficients of the nearest combination, none of them negative, (n, k)."""
        return nonnegative_codes(rows, self.components)

    def inverse_rows(self, codes: Array) -> Array:
        """Combinations with these coefficients, (n, d)."""
        return np.asarray(codes @ self.components)

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Coefficients, one column for each component."""
        return {f"component {l + 1}": code for l, code in enumerate(self.transform_rows(rows).T)}

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """No entry of a component is negative."""
        if (found["components"] < 0).any():
            raise reader.fail("entries of components must not be negative")


def nonnegative_codes(rows: AnyArray, components: Array) -> Array:
    """Coefficients (n, k), none negative, with which components come nearest to rows, by block principal pivoting.

    Which coefficients are zero is exchanged for all of a row at once, until none would be negative and none that is
    zero would help (Kim and Park, "Fast nonnegative matrix factorization", SIAM J. Sci. Comput. 33, 2011).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models.nmf import nonnegative_codes
    >>> nonnegative_codes(np.array([[3.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).round(9) + 0.0
    array([[2., 1.],
           [0., 2.]])
    """
    lengths = np.sqrt((components**2).sum(1))
    used = np.flatnonzero(lengths > 1e-12 * max(float(lengths.max(initial=0.0)), 1e-300))
    out, k = np.zeros((len(rows), len(components))), len(used)
    if not k:
        return out
    units = components[used] / lengths[used, None]
    gram = units @ units.T + 1e-12 * np.eye(k)  # (two components may be equal)
    for at in range(0, len(rows), max(_CHUNK // k**2, 1)):
        part = slice(at, at + max(_CHUNK // k**2, 1))
        out[part, used] = _pivoted(np.asarray(rows[part], np.float64) @ units.T, gram) / lengths[used]
    return out


def _pivoted(targets: Array, gram: Array) -> Array:
    n, k = targets.shape
    found, free = np.zeros((n, k)), targets > 0
    fewest, turns = np.full(n, k + 1), np.full(n, _TURNS)
    left, one = np.arange(n), np.eye(k)
    for _ in range(100 * (k + 1)):
        own, goal = free[left], targets[left]
        both = own[:, :, None] & own[:, None, :]
        code = np.linalg.solve(np.where(both, gram, one), np.where(own, goal, 0.0)[:, :, None])[:, :, 0]
        found[left] = np.where(own, code, 0.0)
        tiny = 1e-10 * np.abs(goal).max(axis=1, keepdims=True)
        wrong = np.where(own, code < -tiny, found[left] @ gram - goal < -tiny)
        count = wrong.sum(1)
        open_ = count > 0
        if not open_.any():
            break
        better = count < fewest[left]
        turns[left] = np.where(better, _TURNS, turns[left] - 1)
        fewest[left] = np.minimum(fewest[left], count)
        last = np.zeros_like(wrong)
        last[np.arange(len(left)), k - 1 - wrong[:, ::-1].argmax(1)] = True
        free[left] ^= np.where((turns[left] < 0)[:, None], last & wrong, wrong)
        left = left[open_]
    return np.maximum(found, 0.0)
