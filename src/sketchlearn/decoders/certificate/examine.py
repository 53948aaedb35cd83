"""What is known of a fitted mixture: standard errors, what is left of the residual, what may be missing.

All tests look at the whitened residual r of :mod:`sketchlearn.decoders.certificate.whitened`, off the derivatives of
the model (the fit has used those up):

- *residual*: n |r|^2 against its mean and variance under the model;
- *missing*: for a component at x, the score of its weight, ``sqrt(n) g'r / |g|`` with g the whitened atom at x less the
  model; standard normal for one x, so the maximum over many is compared with :func:`missing_limit`;
- *split*: for every component, the scores of its second derivatives, a chi-square of d (d + 1)/2: two clusters taken as
  one, another width, an oblong shape.

``1 / (|g| sqrt(n))`` is the standard error of the weight of a cluster at x: the smallest cluster that would have been
noticed follows from it, and the closest pair from the information on the second derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sketchlearn.decoders.certificate.whitened import Array, State, Whitened, quadratic, real, simplex_basis

F32 = npt.NDArray[np.float32]
T = TypeVar("T", np.float32, np.float64)

RESIDUAL, SPLIT = 4.0, 8.0  # standard deviations up to which chance explains it
COORDINATE, DISTANCE = 0.5, 1.0  # widths: standard error of a coordinate, root mean square distance of a mean
REACH = 1.5  # radians
_POWER = 1.64  # with which the closest pair is seen in 95 % of the cases
_SURE, _EVERYWHERE = 2.5, 0.98  # with which the smallest cluster is seen, and at which share of the places in the box
_AWAY = 4.0  # widths from all others: where the smallest cluster is looked for
_DRAWS = 200  # rows that measure the noise
_LIGHTEST = 0.5  # rows: a component with fewer explains nothing by moving
_JITTER = 1e-11  # of the normal equations, whose diagonal is 1
_PLACES = 180
_PROBES = 16  # random signs that measure traces
_TRACE = 5.0  # standard deviations of a single number that chance explains


def missing_limit(d: int) -> float:
    """Largest score that chance leaves: it is a maximum over places in d dimensions."""
    return math.sqrt(28.0 + 2.0 * d)


@dataclass
class Examination:
    """Numbers in normalised units; see the module.

    Attributes
    ----------
    residual, missing, split : float
        In standard deviations.
    missing_at, missing_weight : ndarray (d,), float
        Where a component is missing most, and its estimated weight.
    split_at : int
        The component that is most likely two.
    means_std, weights_std : ndarray (k, d), (k,)
        Standard errors.
    smallest : float
        Weight of a cluster that would have been noticed wherever it is (98 % of the places in the box).
    closest : ndarray (k,)
        Distance in widths at which a component that is an equal pair would have been noticed.
    worst_coordinate, worst_distance : float
        Largest standard error of a coordinate, and root mean square distance of a mean from its place, in widths.
    worst : int
        The component that is known least.
    width_error : float
        Largest relative standard error of a width.
    splits : ndarray (k,)
        Score of each component being two.
    reach : float
        The longest frequencies times the width of a component, or half its distance to the next, whichever is more, at
        the worst component: far below 1 only moments of the data are seen, and other clusters have the same.
    share : float
        Largest smallest weight that is asked for: half of an even share.
    """

    residual: float
    missing: float
    missing_at: Array
    missing_weight: float
    split: float
    split_at: int
    means_std: Array
    weights_std: Array
    covariance: Array
    smallest: float
    closest: Array
    worst_coordinate: float
    worst_distance: float
    worst: int
    width_error: float
    splits: Array
    reach: float
    share: float

    def covariance_of(self, k: int) -> Array:
        """Of the means (k d) and weights (k) of the first k components."""
        count, d = self.means_std.shape
        keep = np.concatenate([np.arange(k * d), count * d + np.arange(k)])
        return self.covariance[np.ix_(keep, keep)]

    @property
    def explained(self) -> bool:
        """Nothing is left that the model does not explain."""
        return self.residual < RESIDUAL and self.missing < missing_limit(len(self.missing_at)) and self.split < SPLIT

    @property
    def determined(self) -> bool:
        """Every centre is known to within its width, and so is the width."""
        return self.worst_coordinate < COORDINATE and self.worst_distance < DISTANCE and self.width_error < COORDINATE

    @property
    def resolved(self) -> bool:
        """The map sees the shape of the components, and a cluster of ordinary size would have been noticed."""
        return self.reach > REACH and self.smallest < self.share

    @property
    def passed(self) -> bool:
        """All of it."""
        return self.explained and self.determined and self.resolved


class Tangent:
    """Normal equations of the whitened problem at its state."""

    def __init__(self, problem: Whitened) -> None:
        self.problem = problem
        state = problem.state
        columns, model = problem.tangents(state)
        columns = problem.white(columns)
        k, d = state.means.shape
        columns[:, : k * d] *= np.repeat(state.weights * problem.n >= _LIGHTEST, d)
        self.scale = np.sqrt((columns * columns).sum(0))
        self.scale[self.scale <= 1e-12 * self.scale.max()] = np.inf  # no information: no column
        columns /= self.scale
        self.columns = columns
        normal = columns.T @ columns
        normal[np.diag_indices_from(normal)] += _JITTER
        self._factor = cho_factor(normal, lower=True, overwrite_a=True, check_finite=False)
        self.model = model
        self.residual = problem.white(problem.y - model)
        # what follows only chooses directions of tests: single precision will do
        basis = solve_triangular(self._factor[0], columns.T, lower=True, check_finite=False)
        self.basis = np.ascontiguousarray(basis, np.float32)
        self.left = self.off(self.residual[:, None])[:, 0]

    def solve(self, values: Array) -> Array:
        """Inverse of the normal equations, times columns."""
        return np.asarray(cho_solve(self._factor, values, check_finite=False))

    def off(self, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Whitened vectors (2 m, p) less what a change of the parameters explains."""
        if values.dtype == np.float64:
            return np.asarray(values - self.columns @ self.solve(self.columns.T @ values))
        return np.asarray(values - self.basis.T @ (self.basis @ values))

    def covariance(self) -> Array:
        """Of the parameters (means, then weights), times n: what labels would leave, plus what the sketch adds."""
        state = self.problem.state
        k, d = state.means.shape
        count = k * d + k - 1
        inverse = self.solve(np.eye(len(self.scale))[:, :count])[:count]
        with np.errstate(divide="ignore"):
            units = 1.0 / np.where(np.isinf(self.scale[:count]), 1e-12, self.scale[:count])
        inverse = inverse * np.outer(units, units)
        spread = np.zeros((k * d + k, count))
        spread[: k * d, : k * d] = np.eye(k * d)
        if k > 1:
            spread[k * d :, k * d :] = simplex_basis(k)
        out = spread @ inverse @ spread.T
        roots = state.roots()
        for l in range(k):
            at = slice(l * d, l * d + d)
            out[at, at] += roots[l] @ roots[l].T / max(state.weights[l], 1e-12)
        a = state.weights
        out[k * d :, k * d :] += np.diag(a) - np.outer(a, a)
        return out

    def width_error(self) -> float:
        """Largest relative standard error of a width."""
        state = self.problem.state
        k, d = state.means.shape
        first = k * d + k - 1
        s = state.covariances
        pick = np.arange(first, len(self.scale))
        if s.ndim == 3:  # the diagonals of the matrices
            a, b = np.tril_indices(d)
            pick = pick.reshape(k, -1)[:, a == b].ravel()
            s = np.diagonal(s, axis1=1, axis2=2)
        unit = np.zeros((len(self.scale), len(pick)))
        unit[pick, np.arange(len(pick))] = 1.0
        variance = self.solve(unit)[pick, np.arange(len(pick))]
        scale = np.where(np.isinf(self.scale[pick]), 1e-12, self.scale[pick])
        error = np.sqrt(np.maximum(variance, 0.0) / self.problem.n) / scale / s.ravel()
        return 0.5 * float(error.reshape(len(s), -1).min(1).max())


def remainders(problem: Whitened, rng: np.random.Generator, count: int = _DRAWS) -> F32:
    """Whitened noise of rows drawn from the mixture, without what counts for weights and means, (2 m, count)."""
    state, w = problem.state, problem.w
    k, d = state.means.shape
    owner = rng.choice(k, count, p=state.weights)
    step = np.einsum("nab,nb->na", state.roots()[owner], rng.standard_normal((count, d)))
    moves = (w @ step.T).astype(np.float32)
    q = quadratic(w, state.covariances)
    envelope = np.exp(-0.5 * (q if q.shape[1] == 1 else q[:, owner])).astype(np.float32)
    turns = (w @ state.means.T).astype(np.float32)
    c, s = np.cos(turns)[:, owner], np.sin(turns)[:, owner]
    # (where the moves are small, the difference is taken of numbers close to 1: an error of 1e-7, below the ridge)
    along, across = np.cos(moves) - envelope, np.sin(moves) - envelope * moves
    return problem.white(np.concatenate([c * along - s * across, s * along + c * across]))


def residual_test(tangent: Tangent, noise: F32) -> float:
    """n |r|^2, standardised.

    Not only the part of r off the derivatives: a fit that has not converged must not pass.
    """
    problem = tangent.problem
    m, count = len(problem.w), noise.shape[1]
    statistic = problem.n * float(tangent.residual @ tangent.residual)
    if problem.dense:
        total = 2 * m - problem.ridge * float((solve_triangular(problem._root, np.eye(2 * m), lower=True) ** 2).sum())
    else:
        total = _block_trace(problem)
    left = tangent.off(noise)
    used = float(np.vdot(noise, noise) - np.vdot(left, left)) / count
    mean = max(total - used, 0.0)
    release = problem.n * float(problem.extra.max(initial=0.0)) > 0
    gram = left.T @ left
    second = (float((gram * gram).sum()) - float((np.diag(gram) ** 2).sum())) / (count * (count - 1))
    if release:  # noise of a release is independent in every entry
        second += 2.0 * m
    return (statistic - mean) / math.sqrt(2.0 * max(second, 1.0))


def _block_trace(problem: Whitened) -> float:
    """Trace of the noise in whitened coordinates: the ridge is no noise."""
    first, cross, second = problem._first, problem._cross, problem._second
    inverse = 1.0 / first**2 + (cross / (first * second)) ** 2 + 1.0 / second**2
    return 2.0 * len(first) - problem.ridge * float(inverse.sum())


def _smallest(error: float, d: int) -> float:
    """Rows of a cluster that is noticed, if the standard error of their number is `error`.

    The score is then above its limit by some of its own standard deviations, and by some of those with which a number
    of rows stands for a share.
    """
    needed = (missing_limit(d) + _SURE) * error
    return (0.5 * (_SURE + math.sqrt(_SURE**2 + 4.0 * needed))) ** 2


def _reach(problem: Whitened, core: int) -> float:
    """See :class:`Examination`."""
    state, d = problem.state, problem.w.shape[1]
    lengths = np.sort((problem.w**2).sum(1))
    longest = math.sqrt(lengths[-min(d + 1, len(lengths))])  # (a few of them, in all directions)
    apart = ((state.means[:, None] - state.means) ** 2).sum(2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(1)
    if len(nearest) == 1:
        nearest = np.zeros(1)
    return longest * math.sqrt(float((state.widths**2 + nearest / 4.0)[:core].min()))


def examine(
    problem: Whitened, box: tuple[Array, Array], rng: np.random.Generator, core: int | None = None
) -> Examination:
    """All tests and standard errors at the present state; only the first `core` components need be determined."""
    core = core or len(problem.state.weights)
    tangent = Tangent(problem)
    state = problem.state
    k, d = state.means.shape
    covariance = tangent.covariance() / problem.n
    std = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    means_std, weights_std = std[: k * d].reshape(k, d), std[k * d :]
    noise = remainders(problem, rng)
    residual = residual_test(tangent, noise)
    missing, at, error, places, errors = search_missing(tangent, noise, box, rng)
    split, closest = split_test(tangent)
    away = np.sqrt(((places[:, None] - state.means) ** 2).sum(2)).min(1) > _AWAY * state.width
    errors = errors[away] if away.any() else errors
    coordinate = (means_std / state.widths[:, None]).max(1)[:core]
    distance = (np.sqrt((means_std**2).sum(1)) / state.widths)[:core]
    return Examination(
        residual=residual,
        missing=missing,
        missing_at=at,
        missing_weight=max(missing, 0.0) * error,
        split=float(split.max()),
        split_at=int(split.argmax()),
        means_std=means_std,
        weights_std=weights_std,
        covariance=covariance,
        smallest=_smallest(float(np.quantile(errors, _EVERYWHERE)) * problem.n, d) / problem.n,
        closest=closest,
        worst_coordinate=float(coordinate.max()),
        worst_distance=float(distance.max()),
        worst=int(coordinate.argmax()),
        width_error=tangent.width_error(),
        splits=split,
        reach=_reach(problem, core),
        share=0.5 / core,
    )


# -- a component that is missing ---------------------------------------------------------------


def score(tangent: Tangent, points: Array, noise: F32) -> tuple[Array, Array]:
    """Score of a component at each point, and the standard error of its weight.

    The noise in the direction of each is that of the drawn rows, and no less than what the metric says: below it the
    ridge counts more than the rows, and nothing is known about the tails.
    """
    problem = tangent.problem
    w, state = problem.w, problem.state
    phases = (w @ points.T).astype(np.float32)  # only the direction of the test depends on them
    envelope = np.exp(-0.5 * (w * w).sum(1) * state.width**2).astype(np.float32)[:, None]
    atoms = np.concatenate([envelope * np.cos(phases), envelope * np.sin(phases)])
    atoms -= tangent.model.astype(np.float32)[:, None]
    g = tangent.off(problem.white(atoms))
    norm = np.maximum(np.sqrt(np.einsum("ij,ij->j", g, g, dtype=np.float64)), 1e-9)
    spread = np.ones(len(points))
    if not problem.dense:
        spread = np.sqrt(np.maximum(((g.T @ noise) ** 2).mean(1) / norm**2, 1.0))
    root = math.sqrt(problem.n)
    # (r off the derivatives, in double precision: what single precision leaves of them in g meets nothing)
    return root * (tangent.left @ g) / (norm * spread), spread / (norm * root)


def search_missing(
    tangent: Tangent, noise: F32, box: tuple[Array, Array], rng: np.random.Generator, count: int = _PLACES
) -> tuple[float, Array, float, Array, Array]:
    """Largest score, its place, standard error of the weight there; and places all over, with theirs."""
    state = tangent.problem.state
    d = state.means.shape[1]
    low, high = box
    places = _places(state, low, high, count, rng)
    scores, errors = score(tangent, places, noise)
    climbed = np.clip(_climb(tangent, places[rng.permutation(len(places))[: min(32, count)]], box), low, high)
    more, more_errors = score(tangent, climbed, noise)
    points, scores, errors_all = np.vstack([places, climbed]), np.append(scores, more), np.append(errors, more_errors)
    best = np.argsort(-scores)[:4]
    x, tx, ex = points[best].copy(), scores[best].copy(), errors_all[best].copy()
    step = np.ones(len(x))
    for _ in range(10):
        if tx.max() < 0.6 * missing_limit(d):  # chance: no need to know its exact height
            break
        trial = x[:, None] + (step * state.width)[:, None, None] * rng.standard_normal((len(x), 8, d)) / math.sqrt(d)
        trial = np.clip(trial, low, high)
        t, e = (part.reshape(len(x), 8) for part in score(tangent, trial.reshape(-1, d), noise))
        j = t.argmax(1)
        own = np.arange(len(x))
        better = t[own, j] > tx
        x[better], tx[better], ex[better] = trial[own, j][better], t[own, j][better], e[own, j][better]
        step = np.where(better, 1.3 * step, 0.6 * step)
    i = int(tx.argmax())
    return float(tx[i]), x[i], float(ex[i]), places, errors


def _places(state: State, low: Array, high: Array, count: int, rng: np.random.Generator) -> Array:
    """All over the box, around the components at all distances, and around the centre of the data."""
    third, (k, d) = count // 3, state.means.shape
    owner = rng.integers(k, size=third)
    direction = rng.standard_normal((third, d))
    direction /= np.sqrt((direction**2).sum(1))[:, None]
    reach = max(float(np.linalg.norm(high - low)), 2 * state.width)
    radius = np.exp(rng.uniform(math.log(state.width), math.log(reach), third))
    around = state.means[owner] + radius[:, None] * direction
    points = np.concatenate([rng.uniform(low, high, (third, d)), around, rng.standard_normal((third, d))])
    return np.clip(points, low, high)


def _climb(tangent: Tangent, points: Array, box: tuple[Array, Array]) -> Array:
    """Points moved up the correlation of their atom with the residual, from coarse to fine."""
    problem = tangent.problem
    w, state = problem.w, problem.state
    m, d = w.shape
    left = problem.white_adjoint(tangent.left)
    r2 = (w * w).sum(1)
    radius = np.sqrt(np.quantile(r2, 0.9))
    longest = 0.5 * float(np.linalg.norm(box[1] - box[0]))
    x = points.copy()
    smooth, width = 1.2, state.width
    while smooth < 1.6 * radius:
        envelope = np.exp(-0.5 * r2 * (width**2 + 1.0 / smooth**2))
        step = d / max(float((envelope * r2).sum() / max(envelope.sum(), 1e-300)), 1e-300)
        seen = envelope > 1e-3
        v = w[seen].astype(np.float32)
        top = max(float(np.abs(left).max()), 1e-300)
        p, q = ((part[seen] * envelope[seen] / top).astype(np.float32) for part in (left[:m], left[m:]))
        for _ in range(2):
            phases = (x @ v.T).astype(np.float32)
            c, s = np.cos(phases), np.sin(phases)
            height = c @ p + s @ q
            gradient = ((c * q - s * p) @ v).astype(np.float64)
            length = np.sqrt((gradient**2).sum(1))
            move = length * step / np.maximum(height, 0.25 * np.abs(height).max() + 1e-30)
            x += (
                gradient
                * (np.minimum(np.minimum(move, math.sqrt(step)), longest) / np.maximum(length, 1e-300))[:, None]
            )
        smooth *= 1.8
    return x


# -- a component that is two -------------------------------------------------------------------


def split_test(tangent: Tangent) -> tuple[Array, Array]:
    """Standardised score of the second derivatives of each component, and the closest pair it would notice (widths)."""
    return _split_exactly(tangent) if tangent.problem.dense else _split_evenly(tangent)


def _split_exactly(tangent: Tangent) -> tuple[Array, Array]:
    """With the information matrix of all second derivatives of a component."""
    problem = tangent.problem
    w, state = problem.w, problem.state
    k, d = state.means.shape
    a, b = np.tril_indices(d)
    forms = w[:, a] * w[:, b] * np.where(a == b, 1.0, 2.0)
    weighted = problem.atoms(state) * state.weights
    directions = np.concatenate([np.eye(d), np.random.default_rng(0).standard_normal((20, d))])
    directions /= np.sqrt((directions**2).sum(1))[:, None]
    pairs = directions[:, a] * directions[:, b]
    scores, closest = np.zeros(k), np.zeros(k)
    for l in range(k):
        g = tangent.off(problem.white(real(-0.5 * weighted[:, l : l + 1] * forms)))
        information = g.T @ g
        values, vectors = np.linalg.eigh(information)
        seen = values > 1e-9 * max(values[-1], 1e-300)
        freedom = max(int(seen.sum()), 1)
        along = vectors[:, seen].T @ (g.T @ tangent.residual) / np.sqrt(values[seen])
        scores[l] = (problem.n * float(along @ along) - freedom) / math.sqrt(2.0 * freedom)
        least = float(np.einsum("pi,ij,pj->p", pairs, information, pairs).min())
        closest[l] = _closest(least, problem.n, freedom) / state.widths[l]
    return scores, closest


def _split_evenly(tangent: Tangent) -> tuple[Array, Array]:
    """With the squared length of the scores, whose mean and variance need no information matrix.

    For component l, let H be the information on changes D of its covariance without trace: a sum over frequencies of
    ``o_j v_j v_j'`` with v_j the matrix ww' without its trace.  The scores have the covariance c H H + e H, with
    c = 2 s^4 / a of the component's own sample covariance and e the rest of the noise; traces of powers of H come from
    the products ``(w_i·w_j)^2 - |w_i|^2 |w_j|^2 / d``.  A change of the trace is tested alone.
    """
    problem = tangent.problem
    w, state = problem.w, problem.state
    m, (k, d) = len(w), state.means.shape
    weighted = problem.atoms(state) * state.weights
    left = problem.white_adjoint(tangent.left)
    pull = -0.5 * (left[:m, None] * weighted.real + left[m:, None] * weighted.imag)
    r2 = (w * w).sum(1)
    power = weighted.real**2 + weighted.imag**2
    total = problem._first**2 + problem._second**2 + problem._cross**2  # of both parts
    strength = 0.25 * power * (2.0 / total)[:, None]  # o_j, (m, k)
    # what the fit has used up of it: on average over directions, the share of the parameters in the numbers
    used = 1.0 - float(np.isfinite(tangent.scale).sum()) / (2.0 * m)
    sampling = 2.0 * state.widths**4 / np.maximum(state.weights, 1e-12)
    rest = other_noise(problem)
    scores, information = np.zeros(k), np.zeros(k)
    if d > 1:
        kernel = (w @ w.T) ** 2 - np.outer(r2, r2) / d
        probes = np.random.default_rng(0).choice([-1.0, 1.0], (m, _PROBES))
        freedom, e = d * (d + 1) // 2 - 1, 1.0
        powers: list[float] = []
        for l in range(k):
            if l == 0 or state.kind != "shared":  # (components of one width differ by the squares of their weights)
                o = used * strength[:, l] / state.weights[l] ** 2
                once = kernel @ (o[:, None] * probes)
                twice = kernel @ (o[:, None] * once)
                parts = probes * twice, once * twice, twice * twice
                powers = [float(o @ np.diag(kernel)), *(float((o[:, None] * part).sum()) / _PROBES for part in parts)]
                e = float((rest[:, l] * o) @ np.diag(kernel)) / max(powers[0], 1e-300)
            first, second, third, fourth = (max(x, 0.0) * state.weights[l] ** (2 * i + 2) for i, x in enumerate(powers))
            c = sampling[l]
            matrix = (w * pull[:, l : l + 1]).T @ w
            matrix -= np.trace(matrix) / d * np.eye(d)
            mean = c * second + e * first
            variance = 2.0 * (c * c * fourth + 2.0 * c * e * third + e * e * second)
            scores[l] = (problem.n * float((matrix**2).sum()) - mean) / math.sqrt(max(variance, 1e-300))
            information[l] = 1.0 / (c + e * freedom / max(first, 1e-300))
    if state.kind == "shared" and k > 1:
        g = tangent.off(problem.white(real(-0.5 * weighted * (r2 / math.sqrt(d))[:, None])))
        along = (g * g).sum(0)
        share = np.einsum("jl,jl->l", rest, (g * g)[:m] + (g * g)[m:]) / np.maximum(along, 1e-300)
        noise = along**2 * sampling + along * share
        trace = np.abs(tangent.left @ g) * np.sqrt(problem.n / np.maximum(noise, 1e-300))
        scores = np.maximum(scores, SPLIT / _TRACE * trace)
        if d == 1:
            information = along**2 / np.maximum(noise, 1e-300)
    freedom = max(d * (d + 1) // 2, 1)
    closest = np.array([_closest(each, problem.n, freedom) for each in information]) / state.widths
    return scores, closest


def other_noise(problem: Whitened) -> Array:
    """Share of each frequency's whitened noise that is not the quadratic noise of a component itself, (m, k)."""
    state = problem.state
    q = np.broadcast_to(quadratic(problem.w, state.covariances), (len(problem.w), len(state.weights)))
    total = problem._first**2 + problem._second**2 + problem._cross**2
    own = 0.5 * q * q * np.exp(-q) * state.weights
    return np.maximum((total - 2.0 * problem.ridge)[:, None] - own, 0.0) / total[:, None]


def _closest(information: float, n: float, freedom: int) -> float:
    """Distance of an equal pair that is noticed in 95 %: at +-x/2 the covariance grows by x^2/4."""
    need = SPLIT
    for _ in range(20):
        need = SPLIT * math.sqrt(2.0 * freedom) + _POWER * math.sqrt(2.0 * freedom + 4.0 * need)
    return 2.0 * math.sqrt(math.sqrt(need) / math.sqrt(max(information, 1e-300) * n))
