"""The default decoder for Gaussian mixtures: nothing to tune, and it says whether it worked.

1. Components are searched with a shared width (:mod:`sketchlearn.decoders.search`), first as many as asked
   for, then, if that leaves something unexplained, two or three times as many, merged down.
2. They get widths of their own, then covariances of the type asked for.
3. Rounds of splitting and merging, guided by what the sketch still holds, until the misfit is at the
   noise floor.
4. All frequencies are reweighted by the noise that is left once each component's own weight, mean and
   covariance have been fitted, and everything is refined again.  One pseudo-row per component, with the
   pooled covariance, keeps directions that the sketch does not resolve from collapsing.
5. If the misfit stays above the noise floor by more than chance, the data are not such a mixture.  A richer
   mixture is then fitted to the sketch, and the model is the projection of that density on the family asked for
   (maximum likelihood on points drawn from it): what EM would do, had it the rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sketchlearn.decoders import verdicts
from sketchlearn.decoders.metric import unwhiten, whiten, whitened
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit, broadcast, misfit, pooled, refine, tangent_variance
from sketchlearn.decoders.search import climb, pick, prune_indices, search, solve_weights
from sketchlearn.decoders.shapes import (
    append,
    convert,
    from_full,
    mean_variances,
    merged_pairs,
    reduce_mixture,
    select,
    split,
    to_full,
)
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.designs.gmm import check_covariance_type, parameter_count
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.operator import DenseOperator
from sketchlearn.features.radial import MixedLaw, MultiscaleLaw
from sketchlearn.sketches.value import Sketch

_LIMITS = (1.5, 4.0)  # misfit over noise floor beyond which the model is taken to be wrong, at least and at most
_DEVIATIONS = 6.0  # and in between: 1 plus this many standard deviations (the tail is that of a chi-square law)
_PAIRS = 400  # frequencies whose correlations are looked at
_VARIANCE_FLOOR = 0.05  # first weights: 1 / max(1 - |z|^2, this)
_REWEIGHT_FLOOR = 0.01  # final weights: 1 / (conditional variance + this)
_PSEUDO_ROWS = 1.0
_STARTS = (1, 2, 3, 2)  # components searched, in multiples of k
_ROUNDS, _PATIENCE = 12, 2  # of splitting and merging
_STOP = 2.0  # standard deviations above the floor at which rounds end
_LARGEST = 4.0  # variance of a component, in units of the data's
_INFORMATION = 2.0  # pseudo-rows' worth of evidence below which a direction counts as unresolved
_FEW_ROWS = 10.0  # a component of fewer rows than this is not one


def decode_gmm(
    sketch: Sketch,
    n_components: int,
    covariance_type: str = "full",
    *,
    rng: np.random.Generator,
    start: Mixture | None = None,
    starts: int = 4,
    rounds: int = _ROUNDS,
    project: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> MixtureSolution:
    """Decode a Gaussian mixture from a sketch.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features, best from :func:`sketchlearn.designs.gmm.design_gmm`.
    n_components : int
        Number of components.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components.
    rng : numpy Generator
        Source of the random starts.
    start : Mixture, optional
        An earlier model to start from; the search runs only if it does not explain the sketch.
    starts : int
        At most this many searches; no more once the misfit is at the noise floor, and none if `start` is
        given and this is 0.
    rounds : int
        At most this many rounds of splitting and merging after each search.
    project : bool
        For data that no such mixture explains, return the projection of a richer mixture (step 5 of the
        module) instead of the least-squares fit to the sketch.
    trace : list, optional
        Gets one dict per round.

    Returns
    -------
    MixtureSolution

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) * 3 + 5
    >>> s = sl.sketch(X, design_gmm(X[:500], 1, seed=0))
    >>> solution = decode_gmm(s, 1, rng=np.random.default_rng(0))
    >>> solution.means.round(), solution.covariances.shape
    (array([[5.]]), (1, 1, 1))
    """
    check_covariance_type(covariance_type)
    if n_components < 1:
        raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
    # many small products: more than one thread only costs
    with threadpool_limits(1, "blas"):
        return _decode(sketch, n_components, covariance_type, rng, start, starts, rounds, project, trace)


def _decode(
    sketch: Sketch,
    k: int,
    kind: str,
    rng: np.random.Generator,
    start: Mixture | None,
    starts: int,
    rounds: int,
    project: bool,
    trace: list[dict[str, Any]] | None,
) -> MixtureSolution:
    view, matrix = whitened(sketch, kind)
    base = at_designed_scale(Problem.from_sketch(view), view)
    task = MixtureTask(base, view, kind, k, rng, trace, rounds)
    fit = None
    if start is not None:
        means, s = whiten(start.means, start.full_covariances(), "full", matrix)
        begin = Fit((means - base.center) / base.scale, start.weights, s / base.scale**2, np.inf)
        fit = task.from_start(begin)
    if fit is None or (starts > 0 and not task.explained(fit)):
        found = task.explore(starts)
        fit = found if fit is None or found.value < fit.value else fit
    fit = task.finish(fit)
    richer = None
    if project and task.ratio > task.limit:
        fit, rich = task.project(fit)
        if rich is not None:
            m, s = unwhiten(rich.means * base.scale + base.center, rich.covariances * base.scale**2, "full", matrix)
            richer = Mixture(_simplex(rich.weights), m, s)
    return task.solution(fit, matrix, richer)


def mismatch_limit(deviation: float) -> float:
    """Misfit over noise floor beyond which chance no longer explains it."""
    return float(np.clip(1.0 + _DEVIATIONS * deviation, *_LIMITS))


def at_designed_scale(problem: Problem, sketch: Sketch) -> Problem:
    """The problem in units no smaller than those the map was designed in.

    The spread that low frequencies show misses a small component far away; a pilot sample does not.
    """
    features = sketch.features
    if not isinstance(features, FourierFeatures) or features.whitening is not None:
        return problem
    if not isinstance(features.radial, MixedLaw | MultiscaleLaw):
        return problem
    designed = features.scale * float(np.sqrt(features.radial.second_moment(features.dim) / features.dim))
    widest = problem.scale * float(np.max(problem.box[1] - problem.box[0]))
    factor = min(designed, widest) / problem.scale
    if factor <= 1.0:
        return problem
    return Problem(
        DenseOperator(problem.operator._matrix * np.float32(factor)),
        problem.z,
        problem.u,
        problem.n,
        problem.center,
        problem.scale * factor,
        (problem.box[0] / factor, problem.box[1] / factor),
    )


def floor_deviation(problem: Problem, fit: Fit, kind: str, rng: np.random.Generator) -> float:
    """Relative standard deviation of the misfit of the right model, with the correlations between frequencies.

    The noise of two frequencies is correlated within a component with
    ``exp(-(q_i + q_j)/2) [exp(w_i'S w_j) - 1 - w_i'S w_j - h_ij]``, the same projection as in
    :func:`tangent_variance`, turned by exp(i (w_i - w_j)·c); with -w_j for the conjugate.  In few dimensions
    frequencies are close together, and the misfit varies far more than independent ones would make it.
    """
    m, d = problem.size, problem.dim
    part = np.arange(m) if m <= _PAIRS else np.sort(rng.choice(m, _PAIRS, replace=False))
    w = problem.operator._matrix[part].astype(np.float64)
    u = problem.u[part].astype(np.float64)
    k = len(fit.weights)
    matrices = to_full(fit.covariances, kind, k, d)
    direct = np.zeros((len(part), len(part)), np.complex128)
    conjugate = np.zeros_like(direct)
    for a, c, s in zip(_simplex(fit.weights), fit.means, matrices, strict=True):
        cross = w @ s @ w.T
        q = np.diag(cross)
        if kind == "spherical":
            h = np.outer(q, q) / (2 * d)
        elif kind == "diag":
            squares = w * w * np.diag(s)
            h = 0.5 * squares @ squares.T
        else:
            h = 0.5 * cross**2 if kind == "full" else np.zeros_like(cross)
        half = 0.5 * (q[:, None] + q)
        damped, plain = np.exp(-half), np.exp(1j * (w @ c))
        direct += a * (np.exp(cross - half) - damped * (1 + cross + h)) * np.outer(plain, plain.conj())
        conjugate += a * (np.exp(-cross - half) - damped * (1 - cross + h)) * np.outer(plain, plain)
    power = np.abs(direct) ** 2 + np.abs(conjugate) ** 2
    products = np.outer(u, u) * power
    own = float(np.trace(products))
    others = (float(products.sum()) - own) * (m * (m - 1) / (len(part) * max(len(part) - 1, 1)))
    variance = own * m / len(part) + others
    mean = float(u @ np.diag(direct).real) * m / len(part)
    return float(np.sqrt(max(variance, 0.0)) / max(mean, 1e-30))


def _simplex(weights: Array) -> Array:
    w = np.maximum(weights, 0.0)
    return w / w.sum() if w.sum() > 0 else np.full(len(w), 1.0 / len(w))


def _with_total(problem: Problem, raw: Array, weight: float) -> tuple[Problem, float]:
    """The problem with one more equation, "the weights sum to 1" (frequency 0), and the sum of all raw weights."""
    operator = DenseOperator(np.vstack([problem.operator._matrix, np.zeros((1, problem.dim), np.float32)]))
    z = np.concatenate([problem.z, np.array([[1.0], [0.0]], np.float32)], 1)
    u = np.append(raw, weight)
    total = float(u.sum())
    weights = (u / total).astype(np.float32)
    return Problem(operator, z, weights, problem.n, problem.center, problem.scale, problem.box), total


class MixtureTask:
    """One decoding problem: what is the same for all its steps."""

    def __init__(
        self,
        base: Problem,
        sketch: Sketch,
        kind: str,
        k: int,
        rng: np.random.Generator,
        trace: list[dict[str, Any]] | None,
        most_rounds: int = _ROUNDS,
        decoder: str = "tuning-free",
    ) -> None:
        self.decoder = decoder
        self.most_rounds = most_rounds
        self.base, self.kind, self.k, self.rng, self.trace = base, kind, k, rng, trace
        self.n = base.n
        self.parameters = parameter_count(k, base.dim, kind)
        power = (base.z[0] ** 2 + base.z[1] ** 2).astype(np.float64)
        raw = 1.0 / np.maximum(1.0 - power, _VARIANCE_FLOOR)
        features = sketch.features
        assert isinstance(features, FourierFeatures)
        broad = np.flatnonzero(features.broad)
        searchable = len(broad) >= min(base.size, k * (base.dim + 1))
        self.searching = base.subset(broad) if searchable and len(broad) < base.size else base
        self.whole, total = _with_total(base, raw, 1.0 / _VARIANCE_FLOOR)
        self.strength = _PSEUDO_ROWS / (2.0 * self.n * total)
        self.exploring, self.exploring_strength = self.whole, self.strength
        enough = max(2000, int(2.5 * self.parameters))
        if base.size > 1.5 * enough:  # moves are tried on a part of a large sketch
            part = rng.permutation(base.size)[:enough]
            self.exploring, total = _with_total(base.subset(part), raw[part], 1.0 / _VARIANCE_FLOOR)
            self.exploring_strength = _PSEUDO_ROWS / (2.0 * self.n * total)
        self.smallest = 1e-2 / base.effective_radius(k) ** 2
        self.rounds = 0
        self.floor, self.deviation, self.ratio, self.limit = 1.0, 0.0, np.inf, 2.0

    # -- pieces ------------------------------------------------------------------------------

    def noise_floor(self, problem: Problem, fit: Fit) -> tuple[float, float]:
        """Expected misfit of the right model, and its relative standard deviation."""
        v = problem.u * tangent_variance(problem, fit, self.kind)
        freedom = max(1.0 - 0.5 * self.parameters / problem.size, 0.1)
        total = float(v.sum())
        return max(total * freedom / self.n, 1e-14), float(np.sqrt((v * v).sum()) / max(total, 1e-30))

    def improve(self, fit: Fit, steps: int, kind: str | None = None) -> Fit:
        """Refine on the exploring part of the sketch."""
        fit.weights = np.maximum(fit.weights, 1e-5)
        return refine(
            self.exploring,
            fit,
            kind or self.kind,
            steps,
            smallest=self.smallest,
            largest=_LARGEST,
            strength=self.exploring_strength,
        )

    def note(self, **what: Any) -> None:
        if self.trace is not None:
            self.trace.append(what)

    # -- starts ------------------------------------------------------------------------------

    def from_start(self, begin: Fit) -> Fit | None:
        """An earlier model, refined; None if it has too few components."""
        if len(begin.weights) < self.k:
            return None
        means, weights, matrices = begin.means, np.maximum(begin.weights, 1e-4), begin.covariances
        means, weights, matrices = reduce_mixture(means, weights, matrices, self.k)
        fit = self.improve(Fit(means, weights, from_full(matrices, weights, self.kind), np.inf), 150)
        fit = self.split_and_merge(fit)
        self.note(start="warm", ratio=fit.value / self.noise_floor(self.exploring, fit)[0])
        return fit

    def explained(self, fit: Fit) -> bool:
        """Is the misfit on the exploring part about what sampling noise leaves?"""
        floor, deviation = self.noise_floor(self.exploring, fit)
        return fit.value < floor * max(1.0 + 3.0 * deviation, 1.5)

    def explore(self, starts: int) -> Fit:
        """The best of a few starts; one is enough when its misfit is at the noise floor."""
        best: Fit | None = None
        stale = 0
        for attempt, multiple in enumerate(_STARTS[: max(starts, 1)]):
            fit = self.split_and_merge(self.start(multiple, 1 + attempt // 2))
            stale = stale + 1 if best is not None and fit.value > 0.98 * best.value else 0
            if best is None or fit.value < best.value:
                best = fit
            self.note(start=multiple, ratio=fit.value / self.noise_floor(self.exploring, fit)[0])
            if self.k == 1 or self.explained(best) or stale >= 2:
                break
        assert best is not None
        return best

    def start(self, multiple: int, effort: int) -> Fit:
        """Search with a shared width, then own widths, then the type of covariance asked for."""
        d = self.base.dim
        count = self.k * multiple
        replacements = 20 if multiple == 1 else 6
        found = search(self.searching, count, self.rng, effort=effort, replacements=replacements)
        self.rounds += found.rounds
        variance = max(found.variance, 1.01 * self.smallest)
        fit = Fit(found.means, found.weights, np.full(len(found.means), variance), np.inf)
        fit = self.improve(fit, 40, "spherical")
        matrices = to_full(fit.covariances, "spherical", len(fit.weights), d)
        means, weights = fit.means, np.maximum(fit.weights, 1e-5)
        if count > self.k:
            means, weights, matrices = reduce_mixture(means, weights, matrices, self.k)
        elif self.kind == "full" and d > 2:
            fit = self.improve(Fit(means, weights, from_full(matrices, weights, "diag"), np.inf), 40, "diag")
            means, weights = fit.means, fit.weights
            matrices = to_full(fit.covariances, "diag", self.k, d)
        return self.improve(Fit(means, weights, from_full(matrices, weights, self.kind), np.inf), 150)

    # -- moves -------------------------------------------------------------------------------

    def split_and_merge(self, fit: Fit) -> Fit:
        """Rounds of adding a component where the sketch is not explained and giving one up elsewhere."""
        failures = 0
        for _ in range(self.most_rounds if self.k > 1 else 0):
            floor, deviation = self.noise_floor(self.exploring, fit)
            if fit.value < floor * (1.0 + _STOP * deviation) or failures >= _PATIENCE:
                break
            self.rounds += 1
            better = self.one_round(fit, failures)
            failures = failures + 1 if better is None else 0
            self.note(move=better is not None, ratio=(better or fit).value / floor)
            fit = better or fit
        return fit

    def one_round(self, fit: Fit, failures: int) -> Fit | None:
        """A better fit with the same number of components, or None."""
        grown = []
        for candidate in self.larger(fit, failures):
            s = broadcast(candidate.covariances, self.kind)
            candidate.weights = np.maximum(solve_weights(*self.exploring.gram(candidate.means, s)), 1e-4)
            grown.append(self.improve(candidate, 25))
        grown.sort(key=lambda g: g.value)
        for candidate in grown[:2]:
            options = [self.improve(option, 25) for option in self.smaller(candidate)]
            best = self.improve(min(options, key=lambda o: o.value), 80)
            if best.value < 0.99 * fit.value:
                return best
        return None

    def larger(self, fit: Fit, failures: int) -> list[Fit]:
        """Fits with one more component: where the residual has a bump, and the worst components split."""
        p, k, d = self.exploring, self.k, self.base.dim
        s = broadcast(fit.covariances, self.kind)
        residual = p.residual(fit.means, s, fit.weights)
        variance = float(np.median(mean_variances(fit.covariances, self.kind, k))) * (0.4 if failures % 2 else 1.0)
        points = self.rng.standard_normal((max(24, 2 * k), d))
        near = len(points) // 2
        points[:near] = fit.means[self.rng.integers(k, size=near)] + 2.0 * np.sqrt(variance) * points[:near]
        points[-(near // 2) :] *= 3.0  # small components far from the rest
        points = climb(p, residual, variance, points, [1 / 1.2**2, 1 / 2.5**2, 0.0], k, steps=4)
        out = [append(fit, self.kind, x, variance) for x in pick(p, residual, variance, points, 2)]
        cosine, sine, _ = p.atoms(fit.means, s, fit.weights)
        energy = (cosine**2 + sine**2) * p.u
        seen = (energy * (residual[0] ** 2 + residual[1] ** 2)).sum(1) / np.maximum(energy.sum(1), 1e-9)
        worst = np.argsort(-seen)[: 2 if failures == 0 else 4]
        return out + [split(fit, self.kind, int(l), self.rng) for l in worst]

    def smaller(self, fit: Fit) -> list[Fit]:
        """Fits with k components again: the least useful dropped, or a pair merged (the three best pairs)."""
        p, kind = self.exploring, self.kind
        s = broadcast(fit.covariances, kind)
        out = []
        keep, weights = prune_indices(*p.gram(fit.means, s), self.k)
        if len(keep) == self.k:
            out.append(select(fit, kind, keep, weights))
        count, d = fit.means.shape
        a = np.maximum(fit.weights, 1e-6)
        pairs, _, centers, joint, _ = merged_pairs(fit.means, a, to_full(fit.covariances, kind, count, d))
        merged = fit.covariances if kind == "tied" else from_full(joint, np.ones(len(joint)), kind)
        cosine, sine, model = (x.copy() for x in p.atoms(fit.means, s, a))
        alone = np.stack([cosine, sine], 1) * a[:, None, None].astype(np.float32)
        c, q, _ = p.atoms(centers, broadcast(merged, kind), np.zeros(len(centers)))
        # what the union of a pair has to explain: the residual and the pair itself
        target = (p.z - model)[None] + alone[pairs[0]] + alone[pairs[1]]
        along = (p.u * (target[:, 0] * c + target[:, 1] * q)).sum(1)
        energy = (p.u * (c * c + q * q)).sum(1) + 1e-12
        best = np.maximum(along, 0.0) / energy
        cost = (p.u * (target**2).sum(1)).sum(1) - best * along
        for pair in np.argsort(cost)[:3]:
            rest = np.setdiff1d(np.arange(count), pairs[:, pair])
            covariances = merged if kind == "tied" else np.concatenate([fit.covariances[rest], merged[pair : pair + 1]])
            weights = np.append(a[rest], best[pair])
            out.append(Fit(np.vstack([fit.means[rest], centers[pair]]), weights, covariances, np.inf))
        return out

    # -- the end -----------------------------------------------------------------------------

    def finish(self, fit: Fit) -> Fit:
        """Refine on the whole sketch with weights from the conditional noise, which are then renewed once."""
        limits = {"smallest": self.smallest, "largest": _LARGEST}
        fit.weights = np.maximum(fit.weights, 1e-5)
        if not self.explained(fit):  # too far away for those weights
            fit = refine(self.whole, fit, self.kind, 600, strength=self.strength, **limits)
        for steps in (600, 300):
            problem, strength = self.reweighted(fit)
            fit = refine(problem, fit, self.kind, steps, strength=strength, **limits)
        self.certify(fit)
        return fit

    def reweighted(self, fit: Fit) -> tuple[Problem, float]:
        """The whole problem with weights from the noise that the model leaves, and the strength of one pseudo-row."""
        v = tangent_variance(self.whole, fit, self.kind)
        raw = 1.0 / (v + _REWEIGHT_FLOOR)
        raw[-1] = 1.0 / _REWEIGHT_FLOOR
        return self.whole.reweighted(raw), _PSEUDO_ROWS / (2.0 * self.n * float(raw.sum()))

    def certify(self, fit: Fit) -> None:
        """Misfit over noise floor with the final weights."""
        self.final, self.final_strength = self.reweighted(fit)
        fit.value = misfit(self.final, fit, self.kind)
        self.floor, self.deviation = self.noise_floor(self.final, fit)
        self.ratio = fit.value / self.floor
        if self.ratio > _LIMITS[0]:  # below that nobody asks
            self.deviation = max(self.deviation, floor_deviation(self.final, fit, self.kind, self.rng))
        self.limit = mismatch_limit(self.deviation)

    # -- data that no such mixture explains -----------------------------------------------------

    def project(self, fit: Fit) -> tuple[Fit, Fit | None]:
        """The member of the family closest, in likelihood, to a richer mixture decoded from the same sketch."""
        rich = self.richer() if self.n >= _FEW_ROWS * self.k else None
        if rich is None:
            return fit, None
        x = _draw(rich, self.rng, 20_000 + 2_000 * self.k)
        d = self.base.dim
        matrices = to_full(fit.covariances, self.kind, self.k, d)
        merged = reduce_mixture(rich.means, np.maximum(_simplex(rich.weights), 1e-6), rich.covariances, self.k)
        best: tuple[float, Fit] | None = None
        for means, weights, s in ((fit.means, _simplex(fit.weights), matrices), merged):
            candidate, score = _maximum_likelihood(x, means, weights, from_full(s, weights, self.kind), self.kind)
            if best is None or score > best[0]:
                best = score, candidate
        assert best is not None
        # a search that failed, and not the model: then the sketch itself is the better judge
        again = self.improve(Fit(best[1].means, best[1].weights, best[1].covariances, np.inf), 150)
        floor, _ = self.noise_floor(self.exploring, again)
        if again.value < self.limit * floor:
            return self.finish(again), None
        self.certify(best[1])
        return best[1], rich

    def richer(self) -> Fit | None:
        """An over-complete mixture with full covariances that explains the sketch better."""
        d, m = self.base.dim, self.base.size
        each = (d + 1) * (d + 2) // 2
        count = min(max(3 * self.k, 6), m // each)
        if count <= 1:
            return None
        found = search(self.searching, count, self.rng, replacements=8)
        variance = max(found.variance, 1.01 * self.smallest)
        fit = Fit(found.means, np.maximum(found.weights, 1e-4), np.full((count, d), variance), np.inf)
        limits = {"smallest": self.smallest, "largest": _LARGEST}
        fit = refine(self.whole, fit, "diag", 60, strength=self.strength, **limits)
        weights = np.maximum(fit.weights, 1e-4)
        fit = Fit(fit.means, weights, convert(fit.covariances, weights, d, "diag", "full"), np.inf)
        # the richer model is wrong too: shrink in proportion to what it leaves unexplained
        strength = max(self.strength, 0.1 * 2.0 * misfit(self.whole, fit, "full") / m)
        return refine(self.whole, fit, "full", 300, strength=strength, **limits)

    # -- verdict -----------------------------------------------------------------------------

    def solution(self, fit: Fit, matrix: Array | None, richer: Mixture | None = None) -> MixtureSolution:
        """A certified fit in the coordinates of the rows, with its verdict."""
        unreliable = self.judge(fit)
        code, verdict = verdicts.of_mixture(self.ratio, self.limit, self.k, self.kind, unreliable)
        means = fit.means * self.base.scale + self.base.center
        means, s = unwhiten(means, fit.covariances * self.base.scale**2, self.kind, matrix)
        return MixtureSolution(
            task="gmm",
            decoder=self.decoder,
            residual=fit.value,
            noise_floor=self.floor,
            ratio=self.ratio,
            code=code,
            verdict=verdict,
            iterations=self.rounds,
            trace=self.trace or [],
            weights=_simplex(fit.weights),
            means=means,
            covariances=s,
            covariance_type=self.kind,
            deviation=self.deviation,
            unreliable=unreliable,
            richer=richer,
        )

    def _pool(self, fit: Fit) -> Array:
        """The covariance of the pseudo-row as a matrix."""
        pool = pooled(fit, self.kind)
        if self.kind == "spherical":
            return float(pool) * np.eye(self.base.dim)
        return np.diag(pool) if self.kind == "diag" else pool

    def judge(self, fit: Fit) -> tuple[int, ...]:
        """Which components the sketch does not determine, and the certificate in words."""
        problem, k, kind = self.final, self.k, self.kind
        weights = _simplex(fit.weights)
        light = weights * self.n < min(_FEW_ROWS, 0.5 * self.n / k)
        cosine, sine, _ = problem.atoms(fit.means, broadcast(fit.covariances, kind), np.zeros(k))
        energy = (cosine**2 + sine**2) * problem.u
        matrices = to_full(fit.covariances, kind, k, self.base.dim)
        pool = self._pool(fit)
        unresolved = np.zeros(k, bool)
        for l in range(k):
            values, vectors = np.linalg.eigh(matrices[l])
            y2 = (problem.operator._matrix @ (vectors * np.sqrt(np.maximum(values, 1e-30))).astype(np.float32)) ** 2
            # curvature of the misfit in the log width of each axis, against that of the pseudo-row
            evidence = weights[l] ** 2 * (energy[l] @ y2**2)
            prior = (
                4 * self.final_strength * np.einsum("ia,ij,ja->a", vectors, pool, vectors) / np.maximum(values, 1e-30)
            )
            share = 1.0 if kind != "tied" else float((weights**2).sum() / weights[l] ** 2)
            unresolved[l] = bool((evidence * share < _INFORMATION * prior).any())
        if self.n < 50 * k:
            unresolved[:] = False  # so few rows: every width is uncertain, and the count says so
        return tuple(int(l) for l in np.flatnonzero(light | unresolved))


def _draw(fit: Fit, rng: np.random.Generator, count: int) -> Array:
    """Points from a mixture with full covariances, each component getting its share to within one."""
    shares = _simplex(fit.weights) * count
    numbers = np.floor(shares + rng.uniform(size=len(shares))).astype(int)
    parts = []
    for l, number in enumerate(numbers):
        values, vectors = np.linalg.eigh(fit.covariances[l])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        parts.append(fit.means[l] + rng.standard_normal((number, len(root))) @ root.T)
    return np.concatenate(parts)


def _maximum_likelihood(x: Array, means: Array, weights: Array, covariances: Array, kind: str) -> tuple[Fit, float]:
    """EM from a start; the fit and its mean log-likelihood."""
    if kind in ("spherical", "diag"):
        precisions = 1.0 / covariances
    else:
        precisions = np.asarray(np.linalg.inv(covariances), np.float64)
        precisions = np.asarray(0.5 * (precisions + np.swapaxes(precisions, -1, -2)), np.float64)
    weights = _simplex(np.maximum(_simplex(weights), 1e-4 / len(weights)))
    # imported here: loading scikit-learn doubles the memory of a process that only sketches and decodes
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        len(weights),
        covariance_type=kind,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions,
        max_iter=60,
        tol=1e-4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x)
    return Fit(model.means_, model.weights_, model.covariances_, np.inf), float(model.lower_bound_)
