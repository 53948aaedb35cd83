"""Scores of what a model leaves out: a component that is missing, and a component that is two.

Both are tests along the derivatives of a larger model at the fitted one, off those of the fitted one (which the fit has
used up): their noise is known without fitting the larger model.
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.certificate.tangent import F32, Tangent
from sketchlearn.decoders.certificate.whitened import Whitened, real, row_blocks
from sketchlearn.decoders.noise import PROBES
from sketchlearn.decoders.state import State

MANY = 800
"""Parameters beyond which one frequency each must do, nothing is repaired, and noise is not searched."""
SPLIT = 8.0  # standard deviations up to which chance explains it
_RARE = 5.0  # standard deviations that chance does not reach in a single number, among all components and searches


def least_limit(d: int) -> float:
    """Largest score that chance leaves in a box of ordinary size: it is a maximum over places in d dimensions."""
    return math.sqrt(28.0 + 2.0 * d)


def missing_limit(tangent: Tangent, noise: F32, box: tuple[Array, Array], rng: np.random.Generator) -> float:
    """Largest score that chance leaves in this box.

    The score is a smooth Gaussian field.  In a box that is many of its wavelengths wide (public bounds, far rows) its
    maximum is higher than in one around the data: then it is searched in noise alone, and the limit lies so many
    standard deviations above the mean of what is found that a maximum (Gumbel's law) is there once in a thousand times.
    Of many parameters such searches take more than all else: then it is the limit for the whole field, found or not.
    """
    problem = tangent.problem
    least = least_limit(problem.w.shape[1])
    highest = _highest(problem, box)
    if highest <= least:
        return least
    if tangent.parameters > MANY:
        return highest
    left, deviation = tangent.left, 1.0 / math.sqrt(problem.n)
    try:
        heights = np.empty(12)
        for i in range(len(heights)):
            tangent.left = tangent.off(deviation * rng.standard_normal((len(left), 1)))[:, 0]
            heights[i] = search_missing(tangent, noise, box, rng)[0]
    finally:
        tangent.left = left
    return max(least, float(heights.mean() + _RARE * heights.std(ddof=1)))


def _highest(problem: Whitened, box: tuple[Array, Array]) -> float:
    """Height that a Gaussian field with the spectrum of the score has in the box once in a thousand times.

    By the expected Euler characteristic of what is above u (Adler and Taylor, Random Fields and Geometry, 2007), with
    powers of u for Hermite polynomials: ``prod(1 + t_i u / sqrt(2 pi)) exp(-u^2 / 2) / (u sqrt(2 pi))``, t_i the sides
    of the box in units of the field's own length.
    """
    damping = (problem.w**2).sum(1) * problem.state.width**2
    spectrum = np.exp(damping.min() - damping) / problem.variances  # up to a factor, which would underflow
    sides = (box[1] - box[0]) * np.sqrt(spectrum @ problem.w**2 / spectrum.sum())
    u, root = 4.0, math.sqrt(2.0 * math.pi)
    for _ in range(20):
        u = math.sqrt(max(2.0 * (float(np.log1p(sides * u / root).sum()) - math.log(1e-3 * u * root)), 1.0))
    return u


# -- a component that is missing ---------------------------------------------------------------


def score(tangent: Tangent, points: Array, noise: F32) -> tuple[Array, Array]:
    """Score of a component at each point, and the standard error of its weight.

    The noise in the direction of each is that of the drawn rows, and no less than what the metric says: below it the
    ridge counts more than the rows, and nothing is known about the tails.
    """
    problem = tangent.problem
    w, state = problem.w, problem.state
    phases = (w @ points.T).astype(np.float32)  # only the direction of the test depends on them
    shape = state.family.rounded([state.width**2], w.shape[1])
    envelope = np.exp(state.family.damping(shape, problem.operator)).astype(np.float32).T
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
    tangent: Tangent,
    noise: F32,
    box: tuple[Array, Array],
    rng: np.random.Generator,
    count: int = 180,
    climbers: int = 32,
) -> tuple[float, Array, float, Array, Array]:
    """Largest score, its place, standard error of the weight there; and places all over, with theirs."""
    state = tangent.problem.state
    d = state.means.shape[1]
    low, high = box
    places = _places(state, low, high, count, rng)
    scores, errors = score(tangent, places, noise)
    climbed = np.clip(_climb(tangent, places[rng.permutation(len(places))[:climbers]], box), low, high)
    more, more_errors = score(tangent, climbed, noise)
    points, scores, errors_all = np.vstack([places, climbed]), np.append(scores, more), np.append(errors, more_errors)
    best = np.argsort(-scores)[:4]
    x, tx, ex = points[best].copy(), scores[best].copy(), errors_all[best].copy()
    step = np.ones(len(x))
    for _ in range(10):
        if tx.max() < 0.6 * least_limit(d):  # chance: no need to know its exact height
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
    c = 2 s^4 / a of the component's own sample covariance and e the rest of the noise.  H has the eigenvalues of
    ``sqrt(o_i) K_ij sqrt(o_j)`` with the products ``K_ij = (w_i·w_j)^2 - |w_i|^2 |w_j|^2 / d``, whose powers have the
    traces that random signs measure.  A change of the trace is tested alone.
    """
    problem = tangent.problem
    w, state = problem.w, problem.state
    m, (k, d) = len(w), state.means.shape
    weighted = problem.atoms(state) * state.weights
    left = problem.white_adjoint(tangent.left)
    pull = -0.5 * (left[:m, None] * weighted.real + left[m:, None] * weighted.imag)
    r2 = (w * w).sum(1)
    power = weighted.real**2 + weighted.imag**2
    strength = 0.25 * power * (2.0 / problem.variances)[:, None]  # o_j, (m, k)
    # what the fit has used up of it: on average over directions, the share of the parameters in the numbers
    used = 1.0 - float(np.isfinite(tangent.scale).sum()) / (2.0 * m)
    sampling = 2.0 * state.widths**4 / np.maximum(state.weights, 1e-12)
    rest = other_noise(problem)
    scores, information = np.zeros(k), np.zeros(k)
    if d > 1:
        kernel = w @ w.T
        for at in row_blocks(m, m):
            kernel[at] = kernel[at] ** 2 - np.outer(r2[at], r2) / d
        probes = np.random.default_rng(0).choice([-1.0, 1.0], (m, PROBES))
        freedom, e = d * (d + 1) // 2 - 1, 1.0
        powers: list[float] = []
        for l in range(k):
            if l == 0 or not state.family.shared:  # (components of one width differ by the squares of their weights)
                o = used * strength[:, l] / state.weights[l] ** 2
                root = np.sqrt(o)[:, None]
                once = root * (kernel @ (root * probes))
                twice = root * (kernel @ (root * once))
                parts = once * once, once * twice, twice * twice
                powers = [float(o @ np.diag(kernel)), *(float(part.sum()) / PROBES for part in parts)]
                e = float((rest[:, l] * o) @ np.diag(kernel)) / max(powers[0], 1e-300)
            first, second, third, fourth = (max(x, 0.0) * state.weights[l] ** (2 * i + 2) for i, x in enumerate(powers))
            c = sampling[l]
            matrix = (w * pull[:, l : l + 1]).T @ w
            matrix -= np.trace(matrix) / d * np.eye(d)
            mean = c * second + e * first
            variance = 2.0 * (c * c * fourth + 2.0 * c * e * third + e * e * second)
            scores[l] = (problem.n * float((matrix**2).sum()) - mean) / math.sqrt(max(variance, 1e-300))
            information[l] = 1.0 / (c + e * freedom / max(first, 1e-300))
    if state.family.shared and k > 1:
        g = tangent.off(problem.white(real(-0.5 * weighted * (r2 / math.sqrt(d))[:, None])))
        along = (g * g).sum(0)
        share = np.einsum("jl,jl->l", rest, (g * g)[:m] + (g * g)[m:]) / np.maximum(along, 1e-300)
        noise = along**2 * sampling + along * share
        trace = np.abs(tangent.left @ g) * np.sqrt(problem.n / np.maximum(noise, 1e-300))
        scores = np.maximum(scores, SPLIT / _RARE * trace)
        if d == 1:
            information = along**2 / np.maximum(noise, 1e-300)
    freedom = max(d * (d + 1) // 2, 1)
    closest = np.array([_closest(each, problem.n, freedom) for each in information]) / state.widths
    return scores, closest


def other_noise(problem: Whitened) -> Array:
    """Share of each frequency's whitened noise that is not the quadratic noise of a component itself, (m, k)."""
    state = problem.state
    damping = state.family.damping(state.shapes, problem.operator)
    q = np.broadcast_to(-2.0 * damping, (state.k, len(problem.w))).T
    total = problem.variances
    own = 0.5 * q * q * np.exp(-q) * state.weights
    return np.maximum((total - 2.0 * problem.ridge)[:, None] - own, 0.0) / total[:, None]


def _closest(information: float, n: float, freedom: int) -> float:
    """Distance of an equal pair that is noticed in 95 %: at +-x/2 the covariance grows by x^2/4."""
    need = SPLIT
    for _ in range(20):
        need = SPLIT * math.sqrt(2.0 * freedom) + 1.64 * math.sqrt(2.0 * freedom + 4.0 * need)
    return 2.0 * math.sqrt(math.sqrt(need) / math.sqrt(max(information, 1e-300) * n))
