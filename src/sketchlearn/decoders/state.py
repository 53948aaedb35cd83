"""A fitted mixture in the units of its problem: the one value that steps take and return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Complex, Index
from sketchlearn.decoders.families import DIAGONAL, FULL, SHARED, SPHERICAL, Family
from sketchlearn.models.mixture import Mixture

LIGHTEST, NARROWEST = 1e-9, 1e-12
"""Weight and variance (in units of the data's own) of a component, at least: smaller ones are rounding."""


@dataclass(frozen=True, eq=False)
class State:
    """Weighted components of one family.

    Attributes
    ----------
    family : Family
        What the components are.
    weights, means, shapes : ndarray (k,), (k, d), by family
        The components.
    value : float
        Misfit, where it is known.
    """

    family: Family
    weights: Array
    means: Array
    shapes: Array
    value: float = np.inf

    @classmethod
    def shared(cls, weights: Array, means: Array, variance: float, value: float = np.inf) -> State:
        """Round components of one width."""
        return cls(SHARED, weights, means, np.array([variance]), value)

    @classmethod
    def of(cls, mixture: Mixture) -> State:
        """The components of a Gaussian mixture."""
        family = (SPHERICAL, DIAGONAL, FULL)[mixture.covariances.ndim - 1]
        return cls(family, mixture.weights, mixture.means, mixture.covariances)

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.means.shape[1])

    @property
    def parameters(self) -> int:
        """Free numbers."""
        return self.family.parameters(self.k, self.dim)

    @property
    def widths(self) -> Array:
        """Standard deviation of each component, root mean square over the directions, (k,)."""
        return np.sqrt(np.maximum(self.family.variances(self.shapes, self.k, self.dim), 0.0))

    @property
    def width(self) -> float:
        """The median width."""
        return float(np.median(self.widths))

    @property
    def covariances(self) -> Array:
        """Covariance matrices, (k, d, d)."""
        return self.family.covariances(self.shapes, self.k, self.dim)

    @property
    def simplex(self) -> Array:
        """The weights made non-negative with sum 1."""
        return simplex(self.weights)

    def pairs(self, w: Array, absorb: bool = False) -> tuple[Complex, Complex]:
        """Covariances of the features of a row within its component, between frequencies w (m, d).

        With w2, and with -w2 for the conjugate, both (m, m): those of :meth:`Family.pairs`, over all components.
        """
        turns, weights = np.exp(1j * (w @ self.means.T)), self.simplex
        direct, conjugate = (np.zeros((len(w), len(w)), np.complex128) for _ in range(2))
        for at in [np.arange(self.k)] if self.family.shared else np.arange(self.k)[:, None]:
            between, across = self.family.pairs(w, self.family.select(self.shapes, at), absorb)
            weighted = turns[:, at] * weights[at]
            direct += between * (weighted @ turns[:, at].conj().T)
            conjugate += across * (weighted @ turns[:, at].T)
        return direct, conjugate

    # -- other states ----------------------------------------------------------------------------

    def with_weights(self, weights: Array) -> State:
        """The state with other weights; its misfit is unknown."""
        return replace(self, weights=weights, value=np.inf)

    def revived(self) -> State:
        """The state with weights from which a descent can bring all components back."""
        return self.with_weights(np.maximum(self.weights, 1e-4))

    def select(self, keep: Any, weights: Array | None = None) -> State:
        """Some of the components, with new weights if they are given."""
        weights = self.weights[keep] if weights is None else weights
        return State(self.family, weights, self.means[keep], self.family.select(self.shapes, keep))

    def joined(self, means: Array, shapes: Array, weights: Array | None = None) -> State:
        """More components, without weight unless it is given."""
        more = np.zeros(len(means)) if weights is None else weights
        return State(
            self.family,
            np.append(self.weights, more),
            np.vstack([self.means, means]),
            self.family.joined(self.shapes, shapes),
        )

    def split(self, l: int, rng: np.random.Generator) -> State:
        """Component l as two halves that together keep its mean."""
        step, shapes = self.family.halved(self.shapes, l, self.dim, rng)
        means, weights = np.vstack([self.means, self.means[l] + step]), np.append(self.weights, self.weights[l] / 2)
        means[l], weights[l] = self.means[l] - step, self.weights[l] / 2
        return State(self.family, weights, means, shapes)

    def to(self, family: Family) -> State:
        """The state in another family, by its covariances."""
        if family is self.family:
            return self
        return State(family, self.weights, self.means, family.from_covariances(self.covariances, self.weights))

    def turned(self, matrix: Array) -> State:
        """The components of rows ``A y``, with full covariances."""
        return State(FULL, self.weights, self.means @ matrix.T, matrix @ self.covariances @ matrix.T, self.value)

    def mixture(self) -> Mixture:
        """The components as a Gaussian mixture of the same covariances, in the smallest form."""
        if self.family in (SHARED, SPHERICAL):
            s = np.broadcast_to(self.shapes, self.k).copy()
        else:
            s = self.shapes if self.family is DIAGONAL else np.array(self.covariances)
        return Mixture(self.simplex, self.means, s)


def simplex(weights: Array) -> Array:
    """Weights made non-negative with sum 1."""
    w = np.maximum(weights, 0.0)
    return w / w.sum() if w.sum() > 0 else np.full(len(w), 1.0 / len(w))


def merged_pairs(state: State) -> tuple[Index, Array, Array, Array]:
    """All pairs (i, j) of components and their moment-matched unions: weights, means, covariance matrices."""
    means, weights, matrices = state.means, state.weights, state.covariances
    i, j = np.tril_indices(len(weights), -1)
    total = weights[i] + weights[j]
    part = weights[i] / np.maximum(total, 1e-300)
    gap = means[i] - means[j]
    center = means[j] + part[:, None] * gap
    union = np.empty((len(i), *matrices.shape[1:]))
    for pair, (a, b, share) in enumerate(zip(i, j, part, strict=True)):  # (all at once they are many matrices)
        union[pair] = share * matrices[a] + (1 - share) * matrices[b]
        union[pair] += (share * (1 - share)) * gap[pair][:, None] * gap[pair][None, :]
    return np.stack([i, j]), total, center, union


def reduced(state: State, k: int) -> State:
    """The state, with full covariances, merged to k components: each time the pair with the least loss of information.

    Runnalls (2007), "Kullback-Leibler approach to Gaussian mixture reduction", eq. 21.
    """
    state = state.to(FULL)
    while state.k > k:
        pairs, total, center, joint = merged_pairs(state)
        alone = state.weights * np.linalg.slogdet(state.shapes)[1]
        cost = total * np.linalg.slogdet(joint)[1] - alone[pairs[0]] - alone[pairs[1]]
        p = int(np.argmin(cost))
        rest = np.setdiff1d(np.arange(state.k), pairs[:, p])
        state = state.select(rest).joined(center[p : p + 1], joint[p : p + 1], total[p : p + 1])
    return state
