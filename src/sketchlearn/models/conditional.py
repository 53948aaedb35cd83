"""Some columns of a Gaussian mixture given others, for many rows at once: regression with a law, not only a mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Flags, Index
from sketchlearn.models.mixture import Mixture, mixture_quantiles
from sketchlearn.models.randomness import RandomState, as_generator

Columns = Index

_ROWS = 4096  # at a time


_LEAST_FREEDOM = 3.0  # degrees of freedom of a variance: with fewer, Student's law has no variance


class _Law(NamedTuple):
    """Of each row a mixture: gates (n, k), means (n, k, t); covariances (k, t, t) times factors of the rows (n, k)."""

    gates: Array
    means: Array
    covariances: Array
    factors: Array

    def variances(self) -> Array:
        """Of the outputs, (n, k, t)."""
        own = np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0)
        return self.factors[:, :, None] * own


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    """The law of some columns of a mixture given the values of others.

    In every component the outputs are linear in the inputs; gates say how probable the components are, given the
    inputs.  Inputs that are NaN are taken out of the condition.

    A mixture that was learned from rows is not known exactly.  With the number of rows, the law of a new row takes that
    into account as linear regression does: in a component with n rows and p inputs, at a squared Mahalanobis distance q
    of the inputs, variances are multiplied by ``1 + (1 + q) / n`` for the plane, and for the residual variance by ``v /
    (v - 2)``, ``v = n - p - 1``: those of Student's law, which is replaced by the normal one of the same variance.

    `mixture`: the law of all columns together. `inputs`, `outputs`: columns that are given, and columns that are
    predicted. `rows`: rows that the mixture was learned from; without end if the mixture is the truth.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.models.conditional import ConditionalMixture
    >>> joint = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
    >>> law = ConditionalMixture(joint, np.array([0]), np.array([1]))
    >>> law.mean(np.array([[2.0], [np.nan]])).ravel(), law.quantiles(np.array([[2.0]]), [0.5])[0].round(6)
    (array([1., 0.]), array([[1.]]))
    """

    mixture: Mixture
    inputs: Columns
    outputs: Columns
    rows: float = float("inf")

    def mean(self, X: Array) -> Array:
        """Expected outputs, (n, t)."""
        out = np.empty((len(X), len(self.outputs)))
        for at, law in self._laws(X):
            out[at] = np.einsum("nk,nkt->nt", law.gates, law.means)
        return out

    def variance(self, X: Array) -> Array:
        """Variances of the outputs about :meth:`mean`, (n, t)."""
        out = np.empty((len(X), len(self.outputs)))
        for at, law in self._laws(X):
            second = np.einsum("nk,nkt->nt", law.gates, law.means**2 + law.variances())
            out[at] = second - np.einsum("nk,nkt->nt", law.gates, law.means) ** 2
        return np.maximum(out, 0.0)

    def quantiles(self, X: Array, p: npt.ArrayLike) -> Array:
        """Quantiles of each output, (n, t, q)."""
        wanted = np.atleast_1d(np.asarray(p, np.float64))
        out = np.empty((len(X), len(self.outputs), len(wanted)))
        for at, law in self._laws(X):
            spreads = np.sqrt(law.variances())
            for t in range(len(self.outputs)):
                out[at, t] = mixture_quantiles(law.gates, law.means[:, :, t], spreads[:, :, t], wanted)
        return out

    def sample(self, X: Array, random_state: RandomState = None) -> Array:
        """One draw of the outputs for each row, (n, t)."""
        rng = as_generator(random_state)
        out = np.empty((len(X), len(self.outputs)))
        for at, law in self._laws(X):
            chosen = (law.gates.cumsum(1) < rng.random((len(law.gates), 1))).sum(1).clip(max=law.gates.shape[1] - 1)
            values, vectors = np.linalg.eigh(law.covariances)
            roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            own = np.arange(len(chosen)), chosen
            noise = rng.standard_normal((len(chosen), len(self.outputs))) * np.sqrt(law.factors[own])[:, None]
            out[at] = law.means[own] + np.einsum("nij,nj->ni", roots[chosen], noise)
        return out

    def log_density(self, X: Array) -> Array:
        """Logarithm of the density of the inputs, (n,): far below that of the model's own draws where it is a guess."""
        out = np.empty(len(X))
        for at, known, rows in self._patterns(X):
            out[at] = self.mixture.marginal(self.inputs[known].tolist()).log_density(rows) if known.any() else 0.0
        return out

    # -- pieces ------------------------------------------------------------------------------

    def _patterns(self, X: Array) -> Iterator[tuple[Columns, Flags, Array]]:
        """Rows by which of their inputs are known: their places, the pattern, and the known values."""
        present = ~np.isnan(X)
        if present.all():
            groups = [(np.ones(X.shape[1], bool), np.arange(len(X)))]
        else:
            patterns, owner = np.unique(present, axis=0, return_inverse=True)
            groups = [(pattern, np.flatnonzero(owner.ravel() == g)) for g, pattern in enumerate(patterns)]
        for known, at in groups:
            for i in range(0, len(at), _ROWS):
                some = at[i : i + _ROWS]
                yield some, known, X[some][:, known]

    def _laws(self, X: Array) -> Iterator[tuple[Columns, _Law]]:
        full, means, t = self.mixture.full_covariances(), self.mixture.means, self.outputs
        for at, known, rows in self._patterns(X):
            x = self.inputs[known]
            own = full[:, t[:, None], t]
            if not len(x):
                gates = np.repeat(self.mixture.weights[None], len(at), 0)
                factors = self._factors(np.zeros(gates.shape), 0)
                yield at, _Law(gates, np.repeat(means[None, :, t], len(at), 0), own, factors)
                continue
            logs = self.mixture.marginal(x.tolist()).log_densities(rows)
            gates = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
            across, inside = full[:, x[:, None], t], full[:, x[:, None], x]
            slopes = np.linalg.solve(inside, across)
            apart = rows[:, None, :] - means[None, :, x]
            far = np.zeros(gates.shape)
            if np.isfinite(self.rows):
                solved = np.linalg.solve(inside, np.moveaxis(apart, 0, 2))  # (k, x, n)
                far = np.maximum(np.einsum("nkx,kxn->nk", apart, solved), 0.0)
            given = means[None, :, t] + np.einsum("nkx,kxt->nkt", apart, slopes)
            left = own - np.swapaxes(slopes, 1, 2) @ across
            yield at, _Law(gates, given, 0.5 * (left + np.swapaxes(left, 1, 2)), self._factors(far, len(x)))

    def _factors(self, far: Array, inputs: int) -> Array:
        """What multiplies variances because the mixture was learned; `far` are squared distances of rows, (n, k)."""
        if not np.isfinite(self.rows):
            return np.ones(far.shape)
        counts = np.maximum(self.rows * self.mixture.weights, 1.0)
        freedom = np.maximum(counts - inputs - 1.0, _LEAST_FREEDOM)
        return (1.0 + (1.0 + far) / counts) * (freedom / (freedom - 2.0))
