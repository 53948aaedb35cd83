"""Far components: the few rows far from all others that carry much of the cost of k-means.

A group of one row in ten thousand, ninety widths away, makes half of the cost, and is a hundredth of the sampling noise
at ordinary frequencies.  A map for such rows has frequencies so low (:mod:`sketchlearn.features.low`) that the other
rows, the bulk, have almost no noise there.  The bulk is decoded as usual.  Then its noise at the low frequencies is
computed (all covariances, since low averages go together), and components at far places get non-negative weights by
least squares in that metric: first in each column alone, then in pairs and triples of those columns that have any, next
to wider copies of the bulk and the bulk itself.  What is left is refined.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize, nnls
from scipy.special import ndtr

from sketchlearn.arrays import Array, Complex, Flags, Index
from sketchlearn.decoders.certificate.whitened import real
from sketchlearn.decoders.families import DIAGONAL, FULL
from sketchlearn.decoders.metric import has_box
from sketchlearn.decoders.noise import Averages
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.operator import DenseOperator
from sketchlearn.models.mixture import Mixture

Place = tuple[tuple[int, float, float], ...]  # (column, place, width) for each column that is far

GRID = 2e-7  # error of an average that the arithmetic of the features leaves
CELL = 0.05  # relative error of each cell of the decoded bulk: it counts as noise
BULK = 0.2  # relative change of a weight of the bulk that costs one standard deviation
NEAR = 1.5  # radius, over one standard deviation of the bulk, below which ordinary frequencies are low ones too
FIRST = 2.0  # standard deviations of a column from which on places are far
RATIO, WIDTH = math.sqrt(2.0), 0.2  # of distances of neighbouring places, and of a place's width to its distance
TOGETHER, MOST = 3, 1000  # columns that may be far at once, and places that are tried at once
SHARE = 0.002  # of the spread, that a column's far places must carry to be tried together with others
COST = 0.02  # of the cost, below which far components change nothing that matters
ROWS = 0.02  # rows below which a component is none
BEYOND = 4.0  # standard deviations of a column from which on rows are counted as far: one normal row in 16 000
STEPS = 60  # L-BFGS iterations of the refinement


@dataclass(frozen=True, eq=False)
class Low:
    """All averages of a sketch in the units of a problem.

    Attributes
    ----------
    w, z : ndarray (m, d), (m,)
        Frequencies and averages.
    ordinary : int
        How many of them, the first, are ordinary frequencies.
    n : float
        Rows.
    box : tuple of ndarray
        Bounds of the rows.
    """

    w: Array
    z: Complex
    ordinary: int
    n: float
    box: tuple[Array, Array]

    @classmethod
    def of(cls, sketch: Averages, problem: Problem) -> Low | None:
        """Those of a sketch, if some are at low frequencies and the box of the rows is known."""
        features = characteristic(sketch.features)
        if features.n_ordinary == features.size or not has_box(sketch):
            return None
        operator = features.operator(scale=problem.scale, dtype=np.float64)
        if problem.metric is not None:
            operator = operator.transformed(problem.metric)
        w = np.asarray(operator.frequencies(), np.float64)
        z = sketch.mean * np.exp(-1j * (w @ problem.center) / problem.scale)
        return cls(w, z, features.n_ordinary, problem.n, problem.box)

    def tells(self, bulk: Mixture) -> bool:
        """Whether the lowest frequencies tell how far the farthest rows are: these turn by a circle at most."""
        lowest = float(np.sqrt((self.w**2).sum(1).min()))
        farthest = float(np.maximum(self.box[1] - bulk.mean, bulk.mean - self.box[0]).max())
        return lowest * farthest <= 2.0 * math.pi


def reach(box: tuple[Array, Array], bulk: Mixture) -> float:
    """Distance of the farthest bound of the rows from the bulk, in standard deviations of that column or of all."""
    spread = np.sqrt(np.maximum(np.diag(bulk.covariance), max(bulk.total_variance / bulk.dim, 1e-300)))
    return float((np.maximum(box[1] - bulk.mean, bulk.mean - box[0]) / spread).max())


@dataclass(frozen=True, eq=False)
class FarComponents:
    """Bulk and far components together, and what the far ones carry.

    Attributes
    ----------
    mixture : Mixture
        The bulk's components, then the far ones.
    far : int
        Number of far components.
    rows, cost : float
        Share of the rows that lie beyond four standard deviations of a column, and of the cost that all of these
        components make: some are wider copies of the bulk.
    column : int
        The column in which they lie farthest.
    search : _Search
        What found them.
    """

    mixture: Mixture
    far: int
    rows: float
    cost: float
    column: int
    search: _Search

    @property
    def beyond(self) -> Mixture:
        """The far components; their weights are shares of all rows."""
        mixture = self.mixture
        return Mixture(mixture.weights[-self.far :], mixture.means[-self.far :], mixture.covariances[-self.far :])

    def halves(self, rng: np.random.Generator) -> list[Mixture | None]:
        """Far components that are found with either half of the frequencies; None where a half finds none.

        Places count too: components that keep theirs agree about rows that are elsewhere.
        """
        search = self.search
        low, others = (_half(len(w), rng) for w in (search.w, search.others[0].frequencies()))
        parts = (low, others), (~low, ~others)
        found = [_found(partial(search.restricted, *part)) for part in parts]
        return [half.beyond if half is not None and half.far else None for half in found]


def far_components(low: Low, bulk: Mixture, centers: Array) -> FarComponents | None:
    """Far components next to a decoded bulk with these centres of its clusters; None if none matter.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.problem import Problem
    >>> from sketchlearn.decoders.steps.far import Low, far_components
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> X[:3] = [200.0, 0.0]
    >>> sketch = sl.sketch(X, sl.design(X, n_components=4))
    >>> low = Low.of(sketch, Problem.from_sketch(sketch))
    >>> bulk = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
    >>> found = far_components(low, bulk, bulk.means)
    >>> round(found.rows * 5000), found.column, bool(found.cost > 0.8)
    (3, 0, True)
    """
    found = _found(lambda: _Search(low, bulk, centers))
    return found if found is not None and found.cost >= COST else None


def _found(search: Callable[[], _Search]) -> FarComponents | None:
    try:
        return search().found()
    except (RuntimeError, np.linalg.LinAlgError):  # least squares did not converge: nothing is known of far rows
        return None


def _half(count: int, rng: np.random.Generator) -> Flags:
    return np.isin(np.arange(count), rng.permutation(count)[: count // 2])


class _Search:
    """The search, around the mean of the bulk."""

    def __init__(self, low: Low, bulk: Mixture, centers: Array) -> None:
        self.n, self.mean, self.d = low.n, bulk.mean, bulk.dim
        self.bulk = State(FULL, bulk.weights / bulk.weights.sum(), bulk.means - self.mean, bulk.full_covariances())
        self.centers = centers - self.mean
        self.lower, self.upper = low.box[0] - self.mean, low.box[1] - self.mean
        self.sd = np.sqrt(np.maximum(np.diag(bulk.covariance), 1e-9 * bulk.total_variance))
        self.spread = float((self.sd**2).sum())
        self.unit = math.sqrt(self.spread / self.d)
        owner = _nearest(self.bulk.means, self.centers)[1]
        self.cells = _merged(self.bulk, owner)
        apart = _nearest(self.cells.means, self.centers)[0] + np.trace(self.cells.shapes, axis1=1, axis2=2)
        self.bulk_cost = float(self.cells.weights @ apart)
        z = low.z * np.exp(-1j * (low.w @ self.mean))
        radius = np.linalg.norm(low.w, axis=1) * self.unit
        # not more ordinary frequencies than half as many as low ones: the metric is dense
        few = np.sort(radius[: low.ordinary])[min((len(radius) - low.ordinary) // 2, low.ordinary - 1)]
        chosen = radius < min(NEAR, few)
        chosen[low.ordinary :] = True
        self.w, self.y = low.w[chosen], real(z[chosen])
        self.operator = DenseOperator(self.w)
        self.noise = _within(self.w, self.cells, self.n)
        self.root = self._root(self.noise)
        self.others = self._others(low.w[~chosen], z[~chosen])

    def _root(self, noise: Array) -> Array:
        """Cholesky factor of the covariance; nothing is believed beyond what one row could have done."""
        ridge = max(1.0 / self.n, GRID) ** 2
        return np.asarray(cholesky(noise / self.n + ridge * np.eye(len(noise)), lower=True, check_finite=False))

    def _others(self, w: Array, z: Complex) -> tuple[DenseOperator, Array, Array]:
        """Ordinary frequencies, what is to be divided by their noise, and one over that noise.

        It is independent, and at least as large as the misfit of the bulk at such radii.
        """
        operator = DenseOperator(w)
        atoms = _atoms(self.bulk, operator)
        a = self.bulk.weights
        left, misfit = (1.0 - np.abs(atoms) ** 2) @ a / self.n, np.abs(z - atoms @ a) ** 2
        for part in np.array_split(np.asarray(np.argsort(operator.squared_norms)), max(len(w) // 20, 1)):
            if len(part):
                left[part] = np.maximum(left[part], misfit[part].mean())
        scale = np.sqrt(2.0 / np.maximum(np.concatenate([left, left]), 1e-300))
        return operator, real(z) * scale, scale

    # -- weights ---------------------------------------------------------------------------------

    def restricted(self, low: Flags, others: Flags) -> _Search:
        """The search with some of the frequencies."""
        out, both = copy(self), np.concatenate([low, low])
        out.w, out.y, out.noise = self.w[low], self.y[both], self.noise[np.ix_(both, both)]
        out.operator, out.root = DenseOperator(out.w), self._root(out.noise)
        operator, target, scale = self.others
        both = np.concatenate([others, others])
        out.others = DenseOperator(operator.frequencies()[others]), target[both], scale[both]
        return out

    def weighed(self, far: State) -> tuple[Array, State]:
        """Weights of the bulk and of far components: non-negative, of sum 1, the bulk's near what they were."""
        k, own = self.bulk.k, self.bulk.weights
        tight = 1.0 / (BULK * own + 1e-9)
        others, target, scale = self.others
        low, high = (
            np.hstack([real(_atoms(state, operator)) for state in (self.bulk, far)])
            for operator in (self.operator, others)
        )
        rows = [
            _solve(self.root, low),
            high * scale[:, None],
            np.full((1, k + far.k), self.n),
            np.eye(k, k + far.k) * tight[:, None],
        ]
        values = [_solve(self.root, self.y), target, np.array([self.n]), own * tight]
        x = _non_negative(np.vstack(rows), np.concatenate(values))
        return x[:k], far.with_weights(x[k:])

    # -- places ----------------------------------------------------------------------------------

    def at(self, places: list[Place]) -> State:
        """Components at some places, as wide as the bulk in other columns."""
        means, variances = np.zeros((len(places), self.d)), np.tile(self.sd**2, (len(places), 1))
        for i, place in enumerate(places):
            for j, x, width in place:
                means[i, j], variances[i, j] = x, width**2
        return State(DIAGONAL, np.zeros(len(places)), means, variances)

    def along(self, j: int) -> list[Place]:
        """Far places of a column: logarithmic, to both ends of the box."""
        out: list[Place] = []
        first = FIRST * max(self.sd[j], 0.3 * self.unit)
        for sign, end in ((1.0, float(self.upper[j])), (-1.0, -float(self.lower[j]))):
            x = first
            while x < end / 1.15:
                out.append(((j, sign * x, WIDTH * x),))
                x *= RATIO
            if end > first:
                out.append(((j, sign * end, 1e-3 * self.unit),))
        return out

    def columns(self) -> dict[int, list[Place]]:
        """Far places of single columns that carry enough of the spread, by the frequencies along each alone."""
        found: dict[int, list[Place]] = {}
        single = (self.w != 0).sum(1) == 1
        none = np.zeros(len(self.others[1]) // 2, bool)
        for j in range(self.d):
            places = self.along(j)
            if not places:
                continue
            part = single & (self.w[:, j] != 0)
            if not part.any():
                found[j] = places
                continue
            far = self.restricted(part, none).weighed(self.at(places))[1]
            carried = far.weights * far.means[:, j] ** 2
            kept = carried > 0.25 * SHARE * self.spread
            if carried[kept].sum() > SHARE * self.spread:
                found[j] = [place for place, keep in zip(places, kept, strict=True) if keep]
        return found

    def candidates(self) -> State:
        """Places of single columns, of several at once, at corners of the box, and wider copies of the bulk."""
        found = self.columns()
        places: list[Place] = []
        for size in range(1, TOGETHER + 1):
            sets = itertools.combinations(found.values(), size)
            more = [tuple(itertools.chain(*c)) for js in sets for c in itertools.product(*js)]
            if size > 1 and len(places) + len(more) > MOST:
                break
            places += more
        if 3 < 3 ** len(found) <= MOST:  # rows that touch the box in one column often touch it in others
            sides = [[(), *(((j, end[j], 0.1 * self.sd[j]),) for end in (self.lower, self.upper))] for j in found]
            places += [tuple(itertools.chain(*c)) for c in itertools.product(*sides) if any(c)]
        reach = float((np.maximum(self.upper, -self.lower) / self.sd).max()) / 3.0
        wider = 2.0 ** np.arange(1, math.ceil(math.log2(max(reach, 2.0))) + 1)
        return self.at(places).joined(np.zeros((len(wider), self.d)), wider[:, None] ** 2 * self.sd**2)

    # -- the fit ---------------------------------------------------------------------------------

    def found(self) -> FarComponents:
        """Weights of candidates, those that have any refined, and weights again."""
        own, far = self.weighed(self.candidates())
        far = self._some(far)
        if far.k and self.cost(far) >= 0.5 * COST:
            own, far = self.weighed(self.refined(own, far))
            far = self._some(far)
        cost = self.cost(far)
        carried = far.weights @ ((far.means**2 + far.shapes) / self.sd**2) if far.k else np.zeros(self.d)
        means, variances = _within_box(far.means, far.shapes, self.lower, self.upper)
        weights = np.append(own, far.weights)
        mixture = Mixture(
            weights / weights.sum(),
            np.vstack([self.bulk.means, means]) + self.mean,
            np.concatenate([self.bulk.shapes, variances[:, :, None] * np.eye(self.d)]),
        )
        sd = np.sqrt(far.shapes)
        beyond = ndtr((far.means - BEYOND * self.sd) / sd) + ndtr(-(far.means + BEYOND * self.sd) / sd)
        rows = float(far.weights @ beyond.max(1, initial=0.0) / weights.sum())
        return FarComponents(mixture, far.k, rows, cost, int(carried.argmax()), self)

    def _some(self, far: State) -> State:
        return far.select(far.weights * self.n > ROWS)

    def cost(self, far: State) -> float:
        """Share of the cost of the bulk's centres that far components make."""
        if not far.k:
            return 0.0
        extra = float(far.weights @ (_nearest(far.means, self.centers)[0] + far.shapes.sum(1)))
        return extra / (extra + self.bulk_cost)

    def refined(self, own: Array, far: State) -> State:
        """Descent on places, logarithms of widths and of weights of far components.

        Priors: Cauchy's law for each coordinate in units of the bulk (far in few columns, however far), a standard
        deviation of half a unit for logarithms of widths, and of one unit for those of weights.
        """
        t, d, m = far.k, self.d, len(self.w)
        rest = self.y - real(_atoms(self.bulk, self.operator)) @ own
        logs0 = 0.5 * np.log(far.shapes)
        unit = np.maximum(np.sqrt(far.shapes), 0.02 * np.abs(far.means) + 1e-3 * self.unit)

        def parts(x: Array) -> tuple[State, Array, Array]:
            moves, logs, grown = x[: t * d].reshape(t, d), x[t * d : 2 * t * d].reshape(t, d), x[2 * t * d :]
            shapes = np.exp(2.0 * (logs0 + logs))
            return State(DIAGONAL, far.weights * np.exp(grown), far.means + moves * unit, shapes), logs, grown

        def objective(x: Array) -> tuple[float, Array]:
            state, logs, grown = parts(x)
            atoms = _atoms(state, self.operator)
            white = _solve(self.root, rest - real(atoms) @ state.weights)
            g = np.asarray(solve_triangular(self.root, white, lower=True, trans=1, check_finite=False))
            pull = (g[:m] - 1j * g[m:])[:, None] * atoms
            apart, a = state.means / self.sd, state.weights[:, None]
            value = white @ white + 2.0 * np.log1p(apart**2).sum() + 4.0 * (logs**2).sum() + (grown**2).sum()
            by_mean = 2.0 * (pull.imag.T @ self.w) * a + 4.0 * apart / (1.0 + apart**2) / self.sd
            by_log = 2.0 * (pull.real.T @ self.w**2) * a * state.shapes + 8.0 * logs
            by_weight = -2.0 * pull.real.sum(0) * state.weights + 2.0 * grown
            return float(value), np.concatenate([(by_mean * unit).ravel(), by_log.ravel(), by_weight])

        low, high = np.minimum((self.lower - far.means) / unit, 0.0), np.maximum((self.upper - far.means) / unit, 0.0)
        bounds = [*zip(low.ravel(), high.ravel(), strict=True), *[(-1.5, 1.5)] * (t * d), *[(-4.0, 3.0)] * t]
        options: Any = {"maxiter": STEPS, "maxcor": 20}
        x = minimize(objective, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return parts(np.asarray(x))[0]


def _atoms(state: State, operator: DenseOperator) -> Complex:
    """Characteristic functions, (m, k)."""
    if not state.k:
        return np.zeros((operator.shape[0], 0), np.complex128)
    return np.asarray(state.family.values(state.means, state.shapes, operator).T, np.complex128)


def _solve(root: Array, values: Array) -> Array:
    return np.asarray(solve_triangular(root, values, lower=True, check_finite=False))


def _nearest(points: Array, centers: Array) -> tuple[Array, Index]:
    """Squared distances to the nearest centres, and which these are."""
    apart = ((points[:, None] - centers) ** 2).sum(2)
    return apart.min(1), apart.argmin(1)


def _merged(state: State, owner: Index) -> State:
    """One component of the same moments for each owner: enough to know the noise at low frequencies."""
    weights, means, shapes = [], [], []
    for l in np.unique(owner):
        a = state.weights * (owner == l)
        if a.sum() > 0:
            cell = Mixture(a / a.sum(), state.means, state.shapes)
            weights.append(a.sum())
            means.append(cell.mean)
            shapes.append(cell.covariance)
    return State(FULL, np.array(weights), np.array(means), np.array(shapes))


def _within(w: Array, cells: State, n: float) -> Array:
    """n times the covariance of cosines and sines, (2 m, 2 m), within cells, sampling noise and errors of the cells.

    A cell that is known up to a relative error e is as uncertain as a sample of 1 / e^2 of its rows.
    """
    m = len(w)
    direct, conjugate = np.zeros((m, m), np.complex128), np.zeros((m, m), np.complex128)
    for a, mean, matrix in zip(cells.weights, cells.means, cells.shapes, strict=True):
        cross = w @ matrix @ w.T
        half = 0.5 * (np.diag(cross)[:, None] + np.diag(cross))
        turn, damped = np.exp(1j * (w @ mean)), np.exp(-half)
        a = a * (1.0 + n * a * CELL**2)
        direct += a * (np.exp(cross - half) - damped) * np.outer(turn, turn.conj())
        conjugate += a * (np.exp(-cross - half) - damped) * np.outer(turn, turn)
    across = 0.5 * (conjugate.imag - direct.imag)
    return np.block([[0.5 * (direct.real + conjugate.real), across], [across.T, 0.5 * (direct.real - conjugate.real)]])


def _non_negative(matrix: Array, values: Array) -> Array:
    """Non-negative least squares with columns of length 1, by way of a triangular matrix."""
    scale = np.maximum(np.sqrt((matrix**2).sum(0)), 1e-300)
    matrix = matrix / scale
    if len(matrix) > 1.2 * matrix.shape[1] + 1:
        r: Any = np.linalg.qr(np.column_stack([matrix, values]), mode="r")
        matrix, values = r[:, :-1], r[:, -1]
    return np.asarray(nnls(matrix, values, maxiter=50 * matrix.shape[1])[0] / scale)


def _within_box(means: Array, variances: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Moments of normal variables that are moved to the box where they would leave it."""
    sd = np.sqrt(np.maximum(variances, 1e-300))
    a, b = (lower - means) / sd, (upper - means) / sd
    below, above = ndtr(a), ndtr(-b)
    at_a, at_b = (np.exp(-0.5 * np.minimum(c * c, 1e4)) / math.sqrt(2.0 * math.pi) for c in (a, b))
    inside = 1.0 - below - above
    first = a * below + b * above + at_a - at_b
    second = a * a * below + b * b * above + inside + a * at_a - b * at_b
    return np.clip(means + sd * first, lower, upper), np.maximum(second - first**2, 1e-12) * sd**2
