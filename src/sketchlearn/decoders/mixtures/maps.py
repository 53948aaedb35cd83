"""Mixtures of linear maps with structured noise: many targets from a few predictors.

A sketch of all products of features (:class:`~sketchlearn.EmbeddedFeatures`) holds, for Fourier features F of the
predictors x and every target y, the averages of F F' and F y.  These are the normal equations of any regression whose
regressors are combinations of F.  The model is the mean of a Gaussian locally linear mapping, ``E[y | x] = sum_l
r_l(x) (A_l x + b_l)``, whose gates r_l are the responsibilities of a mixture of x.  For given gates the maps of all
targets solve one small linear system.  What is left is a function of the gates alone (variable projection, Golub and
Pereyra 1973), and its gradient costs no more than its value:

1. A mixture of the predictors is decoded from the averages of F.  Draws from it stand for the rows wherever the law of
   x is asked for: in writing ``r_l(x)`` and ``r_l(x) x`` as combinations of F, and in the likelihood of x.
2. Ridge regression on F says how much of each target is noise, and which combinations of targets are not.
3. The mixture is refined: ``0.5 E |y - E[y | x]|^2`` in units of the noise, minus the mean log-density of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.evidence import too_few_rows
from sketchlearn.decoders.metric import View
from sketchlearn.decoders.mixtures.default import decode_problem
from sketchlearn.decoders.mixtures.projection import points_drawn
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import Code, said
from sketchlearn.designs.gmm import default_size
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.adapted import AdaptedFeatures
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.embedded import embedding
from sketchlearn.features.monitoring import MonitoringFeatures
from sketchlearn.features.operator import DenseOperator
from sketchlearn.models.base import column_names
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.mixture_regression import MixtureRegressionModel
from sketchlearn.sketches.value import Sketch

_STEPS = 120  # of the descent from the best start
_TRIAL = 25  # of the descent from each start
_RIDGE = 1e-6  # share of the mean diagonal that normal equations are given: far below any noise, far above rounding
_TELLING = 15  # combinations of targets that the gates are fitted to, at most: they are seldom functions of more
# sin t and sin 2 t that make t, up to t**5 / 30
_LINE = (4.0 / 3.0, -1.0 / 6.0)
_TOGETHER = 2000  # draws
_STARTS = 2  # partitions of the draws, beside the decoded mixture: one that describes x may not suit the targets
_LEFT = 1.1  # variance left over that of regression on all features, up to which maps are as good


def roles(features: FeatureMap) -> tuple[Index, Index]:
    """The columns that a map was designed to predict from, and the others; TypeError for a map of another kind."""
    inner = embedding(features, "a mixture of linear maps").inner
    whitening = inner.whitening if isinstance(inner, MonitoringFeatures) else None
    own = None if whitening is None else np.diag(whitening) > 0
    if own is None or own.all() or not own.any():
        raise UnsuitableMapError(
            "a mixture of linear maps needs a map of predictors and targets, as covariance='diag' designs"
        )
    return np.flatnonzero(own), np.flatnonzero(~own)


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal equations: of features of predictors, 1 first, and of targets.

    `inner` (f, f) and `across` (f, q) are averages of F F' and F y, `squares` (q,) those of y**2; `frequencies` (m, p)
    are those of F = (1, cos, sin) for predictors in units of `units` around `center`; targets are y - `middle`.
    """

    inner: Array
    across: Array
    squares: Array
    frequencies: Array
    center: Array
    units: Array
    middle: Array
    rows: float

    @classmethod
    def of(cls, sketch: Sketch, predictors: Index, targets: Index) -> Normal:
        """Those of a sketch, for some of its columns."""
        phi = embedding(sketch.features, "a mixture of linear maps")
        inner = phi.inner
        assert isinstance(inner, MonitoringFeatures)
        assert inner.whitening is not None
        m, size = inner.joint.size, inner.size
        own = np.diag(inner.whitening)
        mean, second = phi.moments_from_sums(sketch.sums, float(sketch.weight))
        moments = np.empty((len(mean) + 1, len(mean) + 1))
        moments[0, 0], moments[0, 1:], moments[1:, 0], moments[1:, 1:] = 1.0, mean, mean, second
        center = np.zeros(phi.dim) if inner.center is None else np.asarray(inner.center, np.float64)
        w = inner.frequencies
        # embedded rows are about the centre of the map already
        chosen = np.concatenate([[0], 1 + np.arange(m), 1 + size + np.arange(m)])
        T = np.zeros((len(targets), len(moments)))
        for at, j in enumerate(targets):
            sines = 1 + size + inner.entries_of(int(j))[: len(_LINE)]
            T[at, sines] = inner.reach[j] * np.array(_LINE)
        seen = moments @ T.T
        units = 1.0 / own[predictors]
        return cls(
            moments[np.ix_(chosen, chosen)], seen[chosen], np.einsum("qf,fq->q", T, seen), w[:m, predictors] * units,
            center[predictors], units, center[targets], float(sketch.effective_count),
        )  # fmt: skip

    def features(self, points: Array) -> Array:
        """1, cosines and sines of points, (n, f)."""
        phases = points @ self.frequencies.T
        return np.concatenate([np.ones((len(points), 1)), np.cos(phases), np.sin(phases)], 1)

    def noise(self) -> tuple[Array, Array]:
        """Residual variance of each target (q,) and the coefficients of ridge regression on the features (f, q).

        One penalty for all targets, by generalised cross-validation.
        """
        values, vectors = np.linalg.eigh(self.inner)
        values = np.maximum(values, 0.0)
        turned = vectors.T @ self.across
        unit = np.maximum(self.squares, 1e-300)
        energy = (turned**2 / unit).mean(1)
        best: tuple[float, Array] | None = None
        for penalty in np.logspace(-8.0, 0.0, 33):
            shrink = 1.0 / (values + penalty)
            left = 1.0 - float((energy * (2.0 * shrink - values * shrink**2)).sum())
            spent = float((values * shrink).sum()) / self.rows
            score = max(left, 1e-12) / (1.0 - spent) ** 2 if spent < 0.95 else np.inf
            if best is None or score < best[0]:
                best = score, shrink
        assert best is not None
        beta = vectors @ (best[1][:, None] * turned)
        left = self.squares - 2.0 * (self.across * beta).sum(0) + (beta * (self.inner @ beta)).sum(0)
        return np.maximum(left, 1e-6 * unit), beta


class Gates:
    """The loss of a mixture of the predictors as gates, for draws that stand for the rows."""

    def __init__(self, normal: Normal, draws: Array, across: Array, k: int) -> None:
        self.normal, self.draws, self.across, self.k = normal, draws, across, k
        self.lines = np.concatenate([draws, np.ones((len(draws), 1))], 1)
        features = normal.features(draws)
        gram = features.T @ features / len(draws)
        gram[np.diag_indices(len(gram))] += _RIDGE
        self.project = np.linalg.solve(gram, features.T / len(draws))  # functions of draws as combinations of features

    def unpack(self, numbers: Array) -> tuple[Array, Array, Array]:
        """Levels (k,), centres (k, p) and factors (k, p, p) of the precisions."""
        k, p = self.k, self.draws.shape[1]
        return numbers[:k], numbers[k : k + k * p].reshape(k, p), numbers[k + k * p :].reshape(k, p, p)

    def responsibilities(self, numbers: Array, points: Array) -> tuple[Array, Array, Array, Array]:
        """Of each point (n, k); logarithms of their sums (n,), places about the centres, and these in their metric."""
        levels, centres, factors = self.unpack(numbers)
        apart = points[:, None] - centres[None]
        inside = np.einsum("kij,nkj->nki", factors, apart)
        logs = levels - 0.5 * (inside**2).sum(2)
        most = logs.max(1, keepdims=True)
        raised = np.exp(logs - most)
        total = raised.sum(1, keepdims=True)
        return raised / total, (most + np.log(total))[:, 0], apart, inside

    def maps(self, gates: Array, across: Array) -> tuple[Array, Array]:
        """Coefficients of all maps for gates of the draws, and of their regressors in the features."""
        regressors = (gates[:, :, None] * self.lines[:, None]).reshape(len(gates), -1)
        C = self.project @ regressors
        N = C.T @ self.normal.inner @ C
        N[np.diag_indices(len(N))] += _RIDGE * np.trace(N) / len(N)
        return np.linalg.solve(N, C.T @ across), C

    def loss(self, numbers: Array) -> tuple[float, Array]:
        """Nats per row, up to a constant, and their gradient."""
        levels, _, factors = self.unpack(numbers)
        gates, logs, apart, inside = self.responsibilities(numbers, self.draws)
        B, C = self.maps(gates, self.across)
        explained = float((B * (C.T @ self.across)).sum())
        pull = self.project.T @ ((self.normal.inner @ C @ B - self.across) @ B.T)
        own = (pull.reshape(len(gates), self.k, -1) * self.lines[:, None]).sum(2)
        # softmax of the levels, and the density of the draws
        steps = gates * (own - (own * gates).sum(1, keepdims=True)) - gates / len(gates)
        bare = levels - np.linalg.slogdet(factors)[1]
        shares = np.exp(bare - bare.max())
        total = float(bare.max() + np.log(shares.sum()))
        shares /= shares.sum()
        gradient = [
            steps.sum(0) + shares,
            np.einsum("nk,nki,kij->kj", steps, inside, factors).ravel(),
            (
                -np.einsum("nk,nki,nkj->kij", steps, inside, apart)
                - shares[:, None, None] * np.swapaxes(np.linalg.inv(factors), 1, 2)
            ).ravel(),
        ]
        return -0.5 * explained - float(logs.mean()) + total, np.concatenate(gradient)

    def descend(self, numbers: Array, steps: int) -> tuple[Array, float]:
        """A better mixture, and its loss."""
        found = minimize(self.loss, numbers, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        return np.asarray(found.x), float(found.fun)

    def mixture(self, numbers: Array) -> Mixture:
        """The mixture of the predictors."""
        levels, centres, factors = self.unpack(numbers)
        bare = levels - np.linalg.slogdet(factors)[1]
        weights = np.exp(bare - bare.max())
        inverse = np.asarray(np.linalg.inv(factors), np.float64)
        return Mixture(weights / weights.sum(), centres, inverse @ np.swapaxes(inverse, 1, 2))

    @staticmethod
    def numbers(mixture: Mixture) -> Array:
        """The free numbers of a mixture."""
        factors = np.linalg.inv(np.linalg.cholesky(mixture.full_covariances()))
        levels = np.log(np.maximum(mixture.weights, 1e-6)) + np.linalg.slogdet(factors)[1]
        return np.concatenate([levels, mixture.means.ravel(), factors.ravel()])


@decoder
def decode_maps(
    sketch: Sketch, k: int, *, rng: np.random.Generator, targets: Any = (-1,), predictors: Any = None
) -> MixtureRegressionModel:
    """A mixture of linear maps, with independent noise of the targets that all components share.

    Parameters
    ----------
    targets, predictors : sequence of int
        Columns; by default the last one, and all that the map was designed to predict from.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.regression_maps import design_maps
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, (5000, 1))
    >>> rows = np.column_stack([x, np.abs(x), -x]) + 0.1 * rng.normal(size=(5000, 3)) * [0, 1, 1]
    >>> phi, _ = design_maps(rows, [0], 2)
    >>> found = sl.decode(sl.sketch(rows, phi), 2, task="mixture-regression", targets=[1, 2], random_state=0)
    >>> found.conditional.mean(np.array([[1.0], [-1.0]])).round(1)
    array([[ 1., -1.],
           [ 1.,  1.]])
    """
    if sketch.privacy is not None:
        raise ValueError("a mixture of linear maps can't be learned from a private sketch: noise hides the products")
    asked, given = (None if c is None else np.atleast_1d(np.asarray(c, np.intp)) for c in (targets, predictors))
    x, t = roles(sketch.features)
    asked = np.asarray(asked) % sketch.features.dim
    given = x if given is None else given % sketch.features.dim
    for columns, fitting, what in ((given, x, "predictor"), (asked, t, "target")):
        strange = np.setdiff1d(columns, fitting)
        if len(strange):
            raise ValueError(f"column {strange[0]} is no {what} of this sketch: its map was designed for others")
    begin, trace = perf_counter(), list[dict[str, Any]]()

    def note(stage: str, why: str, found: str) -> None:
        nonlocal begin
        now = perf_counter()
        trace.append({"stage": stage, "why": why, "found": found, "accepted": False, "seconds": round(now - begin, 4)})
        begin = now

    normal = Normal.of(sketch, x, t)
    lower, upper = ((end[x] - normal.center) / normal.units for end in (sketch.lower, sketch.upper))
    law = _law_of_predictors(normal, lower, upper, k, rng, _pilot(sketch.features, normal, x, k))
    note("predictors", "always", f"a mixture of {len(law.weights)} components")
    noise, beta = normal.noise()
    mine = np.searchsorted(t, asked)  # the gates are for the targets that are asked for
    scaled = beta[:, mine] / np.sqrt(noise[mine])
    _, axes = np.linalg.eigh(scaled.T @ (normal.inner - np.outer(normal.inner[0], normal.inner[0])) @ scaled)
    telling = axes[:, ::-1][:, :_TELLING]
    floor = float(np.mean((noise / normal.squares)[mine]))
    note("noise", "always", f"features leave {floor:.3g} of the targets' squares")
    draws = np.clip(law.sample(points_drawn(k), rng)[0], lower, upper)
    gates = Gates(normal, draws, normal.across[:, mine] / np.sqrt(noise[mine]) @ telling, k)
    numbers = Gates.numbers(law)
    if k > 1:  # one component has no gates to choose
        starts = [law, *(_partition(draws, k, rng) for _ in range(_STARTS))]
        tried = [gates.descend(Gates.numbers(start), _TRIAL) for start in starts]
        numbers, _ = min(tried, key=lambda one: one[1])
        note("starts", "several components", f"losses of {', '.join(f'{v:.4g}' for _, v in tried)} nats per row")
        numbers, value = gates.descend(numbers, _STEPS)
        note("refine", "several components", f"a loss of {value:.4g} nats per row")
    mixture = gates.mixture(numbers)
    shares = gates.responsibilities(numbers, draws)[0]
    B, C = gates.maps(shares, normal.across)
    left = normal.squares - 2.0 * (B * (C.T @ normal.across)).sum(0) + (B * (C.T @ normal.inner @ C @ B)).sum(0)
    left = np.maximum(left, 1e-12 * normal.squares)
    slopes = B.reshape(k, len(x) + 1, len(t))
    apart = np.zeros(len(t))  # what components differ by
    for first in range(0, len(draws), _TOGETHER):
        some = slice(first, first + _TOGETHER)
        each = np.einsum("nx,kxt->knt", gates.lines[some], slopes)
        mean = np.einsum("nk,knt->nt", shares[some], each)
        apart += np.einsum("nk,knt->t", shares[some], (each - mean) ** 2) / len(draws)
        # what features do not show of the mean is an error of the prediction, too
        left += ((mean - normal.features(draws[some]) @ (C @ B)) ** 2).sum(0) / len(draws)
    # components that piece a bend together differ without being noise: what features leave is noise anyway
    own = np.maximum(left - apart, np.minimum(left, noise))
    judged = _verdict(float(np.mean((left / noise)[mine])), k, len(x), normal.rows)
    names = column_names(sketch.features)
    weights, means, covariances = _together(mixture, slopes, own, normal)
    used = [*x.tolist(), *t.tolist()]
    order = np.argsort(used)
    return MixtureRegressionModel(
        **said("mixture-regression", "maps", float(np.mean((left / normal.squares)[mine])), floor, judged, 0, trace),
        weights=weights,
        means=means[:, order],
        covariances=covariances[:, order][:, :, order],
        predictors=tuple(names[i] for i in given),
        targets=tuple(names[i] for i in asked),
        effective_rows=normal.rows,
    )


def _pilot(features: FeatureMap, normal: Normal, predictors: Index, k: int) -> Mixture | None:
    """The mixture of the predictors that the map was designed for, if it has as many components."""
    inner = embedding(features, "a mixture of linear maps").inner
    joint = inner.joint if isinstance(inner, MonitoringFeatures) else None
    if not isinstance(joint, AdaptedFeatures) or len(joint.parts) != k:
        return None
    means, roots = [], []
    for part in joint.parts:
        assert part.center is not None
        assert part.whitening is not None
        means.append((part.center[predictors] - normal.center) / normal.units)
        roots.append(np.linalg.inv(part.whitening[np.ix_(predictors, predictors)] * normal.units))
    inverse = np.stack(roots)
    return Mixture(np.full(k, 1.0 / k), np.stack(means), inverse @ np.swapaxes(inverse, 1, 2))


def _law_of_predictors(
    normal: Normal, lower: Array, upper: Array, k: int, rng: np.random.Generator, start: Mixture | None
) -> Mixture:
    """A mixture of the predictors alone, decoded from the averages of their features and of products of two of them.

    A product of features at two frequencies is one at their sum, or difference.
    """
    m, E = len(normal.frequencies), normal.inner
    cosines, sines = 1 + np.arange(m), 1 + m + np.arange(m)
    i, j = np.triu_indices(m, 1)
    some = rng.permutation(len(i))[: default_size(k, normal.frequencies.shape[1], "full")]
    i, j = i[some], j[some]
    sign = np.where(rng.random(len(i)) < 0.5, -1.0, 1.0)
    real = E[cosines[i], cosines[j]] - sign * E[sines[i], sines[j]]
    imaginary = E[sines[i], cosines[j]] + sign * E[cosines[i], sines[j]]
    w = np.concatenate([normal.frequencies, normal.frequencies[i] + sign[:, None] * normal.frequencies[j]])
    z = np.concatenate([E[0, cosines] + 1j * E[0, sines], real + 1j * imaginary])
    count, ones = len(w), np.ones(len(w))
    view = View(
        DenseOperator.of(w, np.float64), z, np.zeros(count), normal.rows, lower, upper, np.zeros(w.shape[1]),
        np.ones(count, bool), ones,
    )  # fmt: skip
    found = decode_problem(Problem.from_view(view), k, "full", rng=rng, start=start, project=False).solution
    return found.mixture


def _partition(draws: Array, k: int, rng: np.random.Generator) -> Mixture:
    """Components of the nearest of k draws."""
    centres = draws[rng.choice(len(draws), k, replace=False)]
    nearest = ((draws[:, None] - centres[None]) ** 2).sum(2).argmin(1)
    pooled = np.cov((draws - centres[nearest]).T).reshape(draws.shape[1], -1)
    shares = np.maximum(np.bincount(nearest, minlength=k), 1.0)
    return Mixture(shares / shares.sum(), centres, np.repeat(pooled[None], k, 0))


def _verdict(ratio: float, k: int, p: int, rows: float) -> tuple[Code, str]:
    doubt = too_few_rows(k * ((p + 1) * (p + 2) // 2 + p + 1) - 1, rows)
    if doubt:
        return Code.UNDETERMINED, f"Not certified. {doubt[0].upper()}{doubt[1:]}."
    said = f"The maps leave {ratio:.2f} times the variance that regression on all features leaves"
    if ratio > _LEFT:
        return Code.MISFIT, f"Not certified. Ask for more components. {said}: the targets bend more than these maps."
    return Code.RELIABLE, f"Reliable. {said}."


def _together(mixture: Mixture, slopes: Array, noise: Array, normal: Normal) -> tuple[Array, Array, Array]:
    """The law of predictors and targets, in their own units: weights, means and covariances."""
    A, b = slopes[:, :-1], slopes[:, -1]
    inside = mixture.full_covariances()
    means = np.einsum("kx,kxt->kt", mixture.means, A) + b
    across = inside @ A
    targets = np.swapaxes(A, 1, 2) @ across + np.diag(noise)
    units = np.concatenate([normal.units, np.ones(A.shape[2])])
    joint = np.block([[inside, across], [np.swapaxes(across, 1, 2), targets]]) * units[:, None] * units
    joint = 0.5 * (joint + np.swapaxes(joint, 1, 2))
    places = np.concatenate([mixture.means * normal.units + normal.center, means + normal.middle], 1)
    return mixture.weights, places, joint
