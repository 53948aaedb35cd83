"""Mixtures of flat components: several Gaussians inside each of some subspaces, and one thickness for all.

Component j of subspace l is ``N(o_l + U_l a_j, U_l L_j L_j' U_l' + s^2 I)``: a Gaussian with a diagonal and a few
factors (:mod:`sketchlearn.decoders.families.factors`) whose mean and factors lie in a subspace that several share.
There are dim times as many numbers per subspace as columns to follow the noise with, not half their square.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.budget import STEPS
from sketchlearn.decoders.families import Factors
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.lbfgs import lbfgs


@dataclass(frozen=True, eq=False)
class Flats:
    """The mixture, with g subspaces and c components inside each."""

    log_weights: Array  # up to a constant, (g, c)
    bases: Array  # (g, d, r)
    places: Array  # (g, c, r)
    roots: Array  # (g, c, r, r)
    log_variance: Array  # across the subspaces, (1,)
    offsets: Array | None = None  # where the flats are, (g, d); None: at the origin

    @property
    def weights(self) -> Array:
        """Shares of the components, (g, c)."""
        raw = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(raw / raw.sum())

    @property
    def variance(self) -> float:
        """Variance across the subspaces."""
        return float(np.exp(self.log_variance[0]))

    def state(self) -> State:
        """The components of all subspaces, one behind the other."""
        _, d, r = self.bases.shape
        means = np.einsum("gdr,gcr->gcd", self.bases, self.places)
        if self.offsets is not None:
            means = means + self.offsets[:, None]
        factors = np.einsum("gdq,gcqr->gcrd", self.bases, self.roots)
        shapes = np.concatenate([np.full((*means.shape[:2], 1, d), self.variance), factors], 2)
        return State(Factors(r), self.weights.ravel(), means.reshape(-1, d), shapes.reshape(-1, 1 + r, d))

    def pulled(self, by_weight: Array, by_mean: Array, by_shape: Array) -> Array:
        """Gradient in the numbers of :meth:`vector` from that in weights, means and shapes of the state."""
        g, c, r = self.places.shape
        means, factors = by_mean.reshape(g, c, -1), by_shape[:, 1:].reshape(g, c, r, -1)
        weights, along = self.weights, by_weight.reshape(g, c)
        parts = Flats(
            weights * (along - float((weights * along).sum())),
            np.einsum("gcd,gcr->gdr", means, self.places) + np.einsum("gcrd,gcqr->gdq", factors, self.roots),
            np.einsum("gcd,gdr->gcr", means, self.bases),
            np.einsum("gcrd,gdq->gcqr", factors, self.bases),
            np.array([self.variance * float(by_shape[:, 0].sum())]),
            None if self.offsets is None else means.sum(1),
        )
        return parts.vector()

    def orthonormal(self) -> Flats:
        """The mixture with orthonormal bases."""
        q, r = np.linalg.qr(self.bases)
        turned = r[:, None]
        return replace(self, bases=q, places=(turned @ self.places[..., None])[..., 0], roots=turned @ self.roots)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Index]:
        """Rows of the mixture, and the groups that they are from."""
        state = self.state()
        owner = rng.choice(state.k, n, p=state.weights)
        rows = state.means[owner] + state.family.draw(state.shapes, owner, state.dim, rng)
        return rows, owner // self.places.shape[1]

    def _parts(self) -> list[Array]:
        return [value for field in fields(self) if (value := getattr(self, field.name)) is not None]

    def vector(self) -> Array:
        """All numbers in a row."""
        return np.concatenate([part.ravel() for part in self._parts()])

    def from_vector(self, x: Array) -> Flats:
        """A mixture of these shapes from its numbers."""
        parts = self._parts()
        cut = np.split(x, np.cumsum([part.size for part in parts])[:-1])
        return Flats(*(numbers.reshape(part.shape) for numbers, part in zip(cut, parts, strict=True)))


def misfit(problem: Problem, flats: Flats) -> tuple[float, Array]:
    """Misfit, and its gradient in the numbers of the mixture: times n, so of order 1 where only noise is left."""
    state = flats.state()
    value, *slopes = problem.slopes(state.family, state.weights, state.means, state.shapes)
    return problem.n * value, problem.n * flats.pulled(*slopes)


def fit_flats(problem: Problem, start: Flats) -> tuple[Flats, float]:
    """Fit a mixture to a sketch by least squares; also the misfit.

    Logarithms of weights stay within six of their mean, and the variance across is at most that inside.
    """
    x, middle = start.vector(), float(start.log_weights.mean())
    lower, upper = (start.from_vector(np.full(len(x), side)) for side in (-np.inf, np.inf))
    lower.log_weights[:], upper.log_weights[:] = middle - 6.0, middle + 6.0
    lower.log_variance[:], upper.log_variance[:] = np.log(1e-6), 0.0
    found, value, _ = lbfgs(
        lambda v: misfit(problem, start.from_vector(v)), x, lower.vector(), upper.vector(), 2 * STEPS
    )
    return start.from_vector(found), value / problem.n
