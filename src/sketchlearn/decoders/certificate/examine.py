"""What is known of a fitted mixture: standard errors, what is left of the residual, what may be missing.

All tests look at the whitened residual r of :mod:`sketchlearn.decoders.certificate.whitened`, off the derivatives of the
model (the fit has used those up):

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

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sketchlearn.decoders.certificate.whitened import Array, State, Whitened, quadratic, real, simplex_basis

RESIDUAL, SPLIT = 4.0, 6.0  # standard deviations up to which chance explains it
COORDINATE, DISTANCE = 0.5, 1.0  # widths: standard error of a coordinate, root mean square distance of a mean
_POWER = 1.64  # with which what could have been seen is seen in 95 % of the cases
_AWAY = 4.0  # widths from all others: where the smallest cluster is looked for
_DRAWS = 300  # rows that measure the noise
_LIGHTEST = 0.5  # rows: a component with fewer explains nothing by moving
_JITTER = 1e-11  # of the normal equations, whose diagonal is 1
_PLACES = 240
_CHANGES = 12  # changes of a covariance that measure the information on it
_SAMPLED = 6  # components that measure what the fit has used up of it


def missing_limit(d: int) -> float:
    """Largest score that chance leaves: it is a maximum over places in d dimensions."""
    return math.sqrt(25.0 + 1.6 * d)


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
        Weight of a cluster that would have been noticed wherever it is (95 % of the places in the box).
    closest : ndarray (k,)
        Distance in widths at which a component that is an equal pair would have been noticed.
    worst_coordinate, worst_distance : float
        Largest standard error of a coordinate, and root mean square distance of a mean from its place, in widths.
    worst : int
        The component that is known least.
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

    @property
    def explained(self) -> bool:
        """Nothing is left that the model does not explain."""
        return self.residual < RESIDUAL and self.missing < missing_limit(len(self.missing_at)) and self.split < SPLIT

    @property
    def determined(self) -> bool:
        """Every centre is known to within its width."""
        return self.worst_coordinate < COORDINATE and self.worst_distance < DISTANCE

    @property
    def passed(self) -> bool:
        """Both."""
        return self.explained and self.determined


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

    def solve(self, values: Array) -> Array:
        """Inverse of the normal equations, times columns."""
        return np.asarray(cho_solve(self._factor, values, check_finite=False))

    def off(self, values: Array) -> Array:
        """Whitened vectors (2 m, p) less what a change of the parameters explains."""
        return values - self.columns @ self.solve(self.columns.T @ values)

    def covariance(self) -> Array:
        """Of the parameters (means, then weights), times n: what labels would leave, plus what the sketch adds."""
        problem, state = self.problem, self.problem.state
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


def remainders(problem: Whitened, rng: np.random.Generator, count: int = _DRAWS) -> Array:
    """Whitened noise of rows drawn from the mixture, without what counts for weights and means, (2 m, count)."""
    state, w = problem.state, problem.w
    k, d = state.means.shape
    owner = rng.choice(k, count, p=state.weights)
    step = np.einsum("nab,nb->na", state.roots()[owner], rng.standard_normal((count, d)))
    moves = w @ step.T
    q = quadratic(w, state.covariances)
    envelope = np.exp(-0.5 * (q if q.shape[1] == 1 else q[:, owner]))
    plain = np.exp(1j * (w @ state.means.T))[:, owner]
    return problem.white(real(plain * (np.exp(1j * moves) - envelope * (1.0 + 1j * moves))))


def residual_test(tangent: Tangent, noise: Array) -> float:
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
    used = float((noise * noise).sum() - (left * left).sum()) / count
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


def examine(problem: Whitened, box: tuple[Array, Array], rng: np.random.Generator) -> Examination:
    """All tests and standard errors at the present state."""
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
    coordinate = (means_std / state.widths[:, None]).max(1)
    distance = np.sqrt((means_std**2).sum(1)) / state.widths
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
        smallest=float(np.quantile(errors, 0.95)) * (missing_limit(d) + _POWER),
        closest=closest,
        worst_coordinate=float(coordinate.max()),
        worst_distance=float(distance.max()),
        worst=int(coordinate.argmax()),
    )


# -- a component that is missing ---------------------------------------------------------------


def score(tangent: Tangent, points: Array, noise: Array) -> tuple[Array, Array]:
    """Score of a component at each point, and the standard error of its weight.

    The noise in the direction of each is that of the drawn rows, and no less than what the metric says: below it the
    ridge counts more than the rows, and nothing is known about the tails.
    """
    problem = tangent.problem
    w, state = problem.w, problem.state
    phases = (w @ points.T).astype(np.float32)  # only the direction of the test depends on them
    envelope = np.exp(-0.5 * (w * w).sum(1) * state.width**2)[:, None]
    atoms = np.concatenate([envelope * np.cos(phases), envelope * np.sin(phases)])
    g = tangent.off(problem.white(atoms - tangent.model[:, None]))
    norm = np.maximum(np.sqrt((g * g).sum(0)), 1e-12)
    g /= norm
    spread = np.ones(len(points))
    if not problem.dense:
        spread = np.sqrt(np.maximum(((g.T @ noise) ** 2).mean(1), 1.0))
    root = math.sqrt(problem.n)
    return root * (g.T @ tangent.residual) / spread, spread / (norm * root)


def search_missing(
    tangent: Tangent, noise: Array, box: tuple[Array, Array], rng: np.random.Generator, count: int = _PLACES
) -> tuple[float, Array, float, Array, Array]:
    """Largest score, its place, standard error of the weight there; and places all over, with theirs."""
    state = tangent.problem.state
    k, d = state.means.shape
    low, high = box
    places = _places(state, low, high, count, rng)
    scores, errors = score(tangent, places, noise)
    climbed = np.clip(_climb(tangent, places[rng.permutation(len(places))[: min(48, count)]], box), low, high)
    more, more_errors = score(tangent, climbed, noise)
    points, scores, errors_all = np.vstack([places, climbed]), np.append(scores, more), np.append(errors, more_errors)
    best = np.argsort(-scores)[:4]
    x, tx, ex = points[best].copy(), scores[best].copy(), errors_all[best].copy()
    step = np.ones(len(x))
    for _ in range(10):
        if tx.max() < 3.0:  # chance: no need to know its exact height
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
    left = problem.white_adjoint(tangent.off(tangent.residual[:, None])[:, 0])
    target = left[:m] - 1j * left[m:]
    r2 = (w * w).sum(1)
    radius = np.sqrt(np.quantile(r2, 0.9))
    longest = 0.5 * float(np.linalg.norm(box[1] - box[0]))
    x = points.copy()
    smooth = 1.2
    while smooth < 1.6 * radius:
        envelope = np.exp(-0.5 * r2 * (state.width**2 + 1.0 / smooth**2))
        step = d / max(float((envelope * r2).sum() / max(envelope.sum(), 1e-300)), 1e-300)
        for _ in range(2):
            values = np.exp(1j * (x @ w.T)) * (target * envelope)
            height = values.real.sum(1)
            gradient = -values.imag @ w
            length = np.sqrt((gradient**2).sum(1))
            reach = np.sqrt(step)
            move = np.minimum(reach, length * step / np.maximum(height, 0.25 * np.abs(height).max() + 1e-300))
            x += gradient * (np.minimum(move, longest) / np.maximum(length, 1e-300))[:, None]
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
    """With an information that is the same in all directions, as random frequencies make it nearly.

    A change D of a component's covariance without trace then has information A |D|^2.  The noise of its score is that of
    the component's own sample covariance (2 s^4 / a for a unit D, times A^2), and A for the rest.
    """
    problem = tangent.problem
    w, state = problem.w, problem.state
    m, (k, d) = len(w), state.means.shape
    weighted = problem.atoms(state) * state.weights
    left = problem.white_adjoint(tangent.residual)
    pull = -0.5 * (left[:m, None] * weighted.real + left[m:, None] * weighted.imag)
    # a few unit changes without trace, and the trace itself
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((_CHANGES, d, 2)))[0] if d > 1 else np.ones((1, 1, 2))
    forms = ((w @ axes[:, :, 0].T) ** 2 - (w @ axes[:, :, 1].T) ** 2) / math.sqrt(2.0)
    forms = np.concatenate([forms, (w * w).sum(1)[:, None] / math.sqrt(d)], 1)
    raw, kept = np.zeros((k, forms.shape[1])), np.ones(forms.shape[1])
    sample = set(np.linspace(0, k - 1, min(k, _SAMPLED)).astype(int).tolist())
    losses = []
    rest_share = other_noise(problem)
    rest = np.zeros((k, forms.shape[1]))
    for l in range(k):
        g = problem.white(real(-0.5 * weighted[:, l : l + 1] * forms))
        squares = (g * g)[:m] + (g * g)[m:]
        raw[l] = squares.sum(0)
        rest[l] = rest_share[:, l] @ squares
        if l in sample:
            losses.append((tangent.off(g) ** 2).sum(0) / np.maximum(raw[l], 1e-300))
    kept = np.mean(losses, axis=0)
    information = raw * kept
    flat = information[:, :-1].mean(1) if d > 1 else np.zeros(k)
    share = rest / np.maximum(raw, 1e-300)
    even = share[:, :-1].mean(1) if d > 1 else np.zeros(k)
    second = np.stack([(w * pull[:, l : l + 1]).T @ w for l in range(k)])
    trace = np.trace(second, axis1=1, axis2=2)
    off = second - trace[:, None, None] / d * np.eye(d)
    sampling = 2.0 * state.widths**4 / np.maximum(state.weights, 1e-12)
    total, freedom = np.zeros(k), 0
    if d > 1:
        variance = flat**2 * sampling + flat * even
        total += problem.n * (off**2).sum((1, 2)) / np.maximum(variance, 1e-300)
        freedom += d * (d + 1) // 2 - 1
    if state.kind == "shared" and k > 1:
        along = information[:, -1]
        variance = along**2 * sampling + along * share[:, -1]
        total += problem.n * trace**2 / d / np.maximum(variance, 1e-300)
        freedom += 1
    spread = freedom * (1.0 + freedom / (2.0 * m))  # the information is not quite the same in all directions
    scores = (total - freedom) / math.sqrt(2.0 * spread)
    effective = 1.0 / (sampling + even / np.maximum(flat, 1e-300))
    closest = np.array([_closest(e, problem.n, freedom) for e in effective]) / state.widths
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
