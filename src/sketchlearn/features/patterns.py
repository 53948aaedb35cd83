"""Which entries rows miss: patterns with their shares, and what rows with such gaps tell about a second moment."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Flags, Index, Ints

_TABLE = 2**24  # numbers that gains may take: 128 MB
_UNIT = 64  # of weighted rows, counts are multiples of the average weight over this
_FEWEST, _MOST = (
    500,
    2000,
)  # rows with these patterns of which some gaps are filled or made: shares are right to half of one


@dataclass(frozen=True, eq=False)
class Patterns:
    """Patterns of gaps: which entries are there, (p, d), and how often, (p,), as whole numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.features.patterns import Patterns
    >>> found = Patterns.of(np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]]))
    >>> found.there.tolist(), found.counts.tolist(), found.shares.round(2).tolist()
    ([[True, False], [True, True]], [2, 1], [[1.0, 0.33], [0.33, 0.33]])
    """

    there: Flags
    counts: Ints

    @classmethod
    def of(cls, rows: Array, weights: Array | None = None) -> Patterns:
        """Those of rows with NaN for what is missing."""
        there, place = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
        if weights is None:
            counts = np.bincount(place.ravel(), minlength=len(there))
        else:
            counts = np.rint(np.bincount(place.ravel(), weights, len(there)) * (_UNIT / weights.mean()))
        kept = counts > 0
        return cls(there[kept], counts[kept].astype(np.int64))

    @property
    def weights(self) -> Array:
        """Share of each pattern."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def shares(self) -> Array:
        """Share of the rows that hold both of two columns, (d, d)."""
        return np.asarray((self.there.T * self.weights) @ self.there)

    def some(self, most: int) -> Patterns:
        """At most so many of them, as so many rows have them."""
        return self if len(self.counts) <= most else Patterns.of(np.where(self._rows(most), 0.0, np.nan))

    def with_held(self, shares: Array) -> Patterns:
        """Patterns in which columns are there in these shares of the rows, (d,): gaps are filled or made at random.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.features.patterns import Patterns
        >>> half = Patterns(np.array([[True, True], [True, False]]), np.array([1, 1]))
        >>> half.with_held(np.array([1.0, 0.75])).counts.tolist()
        [125, 375]
        """
        if (np.abs(self.weights @ self.there - shares) < 1e-12).all():
            return self
        each = -(-_FEWEST // int(self.counts.sum()))
        found = Patterns(self.there, self.counts * each)
        units = (
            np.repeat(found.there, found.counts, axis=0)
            if each > 1
            else found._rows(min(_MOST, int(found.counts.sum())))
        )
        random = np.random.default_rng(0)  # which of them does not matter, and results must not differ
        for held, share in zip(units.T, shares, strict=True):
            more = int(np.rint(share * len(held))) - int(held.sum())
            others = random.permutation(np.flatnonzero(held != (more > 0)))
            held[others[: abs(more)]] = more > 0
        return Patterns.of(np.where(units, 0.0, np.nan))

    def _rows(self, number: int) -> Flags:
        """The patterns of so many rows, evenly from their order, in which neighbours are alike."""
        until = np.cumsum(self.counts)
        middles = (np.arange(number) + 0.5) * (until[-1] / number)
        return np.asarray(self.there[np.searchsorted(until, middles)])

    def to_json(self) -> dict[str, Any]:
        """As JSON: bits row by row, the first column first in a byte."""
        packed = np.packbits(self.there, axis=1).tobytes()
        return {"bits": base64.b64encode(packed).decode("ascii"), "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, value: Any, dim: int) -> Patterns:
        """Inverse of :meth:`to_json`; ValueError for anything else."""
        try:
            bits = np.frombuffer(base64.b64decode(value["bits"], validate=True), np.uint8)
            counts = value["counts"]
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError("recipe field 'patterns' holds no patterns") from error
        whole = isinstance(counts, list) and all(type(c) is int and 0 < c < 2**53 for c in counts)
        if not whole or not counts or set(value) != {"bits", "counts"} or len(bits) != len(counts) * (-(-dim // 8)):
            raise ValueError(f"recipe field 'patterns' must hold bits of {dim} columns and a count for each pattern")
        there = np.unpackbits(bits.reshape(len(counts), -1), axis=1)[:, :dim].astype(bool)
        return cls(there, np.array(counts, np.int64))


class _Group(NamedTuple):
    """Patterns that miss equally many entries: which, (g, m), what rows of the gain are there, (g, m, d), shares."""

    gone: Index
    gain: Array
    weights: Array


class Information:
    """What rows with given gaps tell about a covariance, to first order about one that is known.

    Let P be the matrix that fills the gaps of a row about the mean: ``S_{.o} S_oo^{-1}`` for the columns o that are
    there, and 0 for the others.  The operator is ``K(X) = E P X P'``, the average over patterns.  It is symmetric and
    positive in the inner product ``tr(S^-1 X S^-1 Y)``, and ``n K / 2`` is the Fisher information of n normal rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.features.patterns import Information, Patterns
    >>> half = Patterns(np.array([[True, True], [True, False]]), np.array([1, 1]))
    >>> told = Information(np.eye(2), np.eye(2), half)  # what is seen of variances and covariance, and solved for again
    >>> told.apply(np.ones((1, 2, 2)))[0].tolist(), told.solve(told.apply(np.ones((1, 2, 2))))[0].round(6).tolist()
    ([[1.0, 0.5], [0.5, 0.5]], [[1.0, 1.0], [1.0, 1.0]])
    """

    def __init__(self, covariance: Array, precision: Array, patterns: Patterns) -> None:
        d = len(covariance)
        self.root = np.linalg.cholesky(covariance)
        self._back = np.linalg.inv(self.root)
        gone = ~patterns.there
        patterns = patterns.some(_TABLE // max(1, int(gone.sum() * d / len(gone))))
        gone, weights, missing = ~patterns.there, patterns.weights, (~patterns.there).sum(1)
        self._groups: list[_Group] = []
        self._average = np.zeros((d, d))  # of I - P
        for few in np.unique(missing[missing > 0]).tolist():
            which = missing == few
            places = np.nonzero(gone[which])[1].reshape(-1, few)
            blocks = precision[places[:, :, None], places[:, None, :]]
            gain = np.linalg.solve(blocks, precision[places])
            np.add.at(self._average, places, weights[which][:, None, None] * gain)
            self._groups.append(_Group(places, np.asarray(gain, np.float64), weights[which]))

    def whitened(self, X: Array) -> Array:
        """In units of the covariance: ``L^-1 X L^-T`` with ``S = L L'``."""
        return np.asarray(self._back @ X @ self._back.T)

    def coloured(self, X: Array) -> Array:
        """Inverse of :meth:`whitened`."""
        return np.asarray(self.root @ X @ self.root.T)

    def apply(self, X: Array) -> Array:
        """K of symmetric matrices (c, d, d)."""
        first = self._average @ X
        out = X - first - np.swapaxes(first, 1, 2)
        for group in self._groups:
            for one, result in zip(X, out, strict=True):
                block = (group.gain @ one) @ np.swapaxes(group.gain, 1, 2) * group.weights[:, None, None]
                place = group.gone[:, :, None] * len(one) + group.gone[:, None, :]
                result += np.bincount(place.ravel(), block.ravel(), one.size).reshape(one.shape)
        return np.asarray(out)

    def solve(self, X: Array, tolerance: float = 1e-8) -> Array:
        """The matrices (c, d, d) of which K gives these, by conjugate gradients to this relative residual."""
        right = self.whitened(X)
        found, rest = right.copy(), right - self.whitened(self.apply(X))
        direction, squares = rest.copy(), _squares(rest)
        least = np.maximum(tolerance**2 * _squares(right), 1e-300)
        for _ in range(10 * len(self.root)):
            if (squares <= least).all():
                break
            moved = self.whitened(self.apply(self.coloured(direction)))
            along = np.sum(direction * moved, axis=(1, 2))
            step = squares / np.where(along > 0, along, np.inf)
            found += step[:, None, None] * direction
            rest -= step[:, None, None] * moved
            before, squares = squares, _squares(rest)
            direction = rest + (squares / np.where(before > 0, before, 1.0))[:, None, None] * direction
        return self.coloured(found)


def _squares(X: npt.NDArray[np.float64]) -> Array:
    return np.asarray(np.sum(X * X, axis=(1, 2)))
