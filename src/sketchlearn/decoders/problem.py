"""A sketch made ready for decoding: centred, scaled, weighted, in float32.

Units are those of the data's own standard deviation, so that no decoder has a scale to tune.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import isotonic_regression

from sketchlearn.arrays import AnyArray, Array, Flags, Index
from sketchlearn.decoders import budget, device, noise
from sketchlearn.decoders.families import SHARED, SPHERICAL, Family
from sketchlearn.decoders.metric import View
from sketchlearn.decoders.state import State
from sketchlearn.features.operator import F32, Operator
from sketchlearn.kernels import tiers
from sketchlearn.kernels.cuda.atoms import ResidentAtoms
from sketchlearn.models.mixture import Mixture

_TILE = 2**17  # numbers of a tile, which should stay in the cache
_WHOLE = 2**20  # numbers of an array that is made in one piece: beyond, tiles take a third of the time
_EACH = 8  # frequencies per atom for the weights, at least: the descent that follows corrects errors of one in six
_LOW = 0.5  # frequencies below see the data as one blob


@dataclass(frozen=True, eq=False)
class Problem:
    """Data of a decoding problem in normalised units: ``A x = scale * y + center``, with A the metric.

    Attributes
    ----------
    operator : Operator
        Frequencies times `scale`, in float32.
    z : ndarray (2, m) float32
        Real and imaginary parts of the centred sketch.
    u : ndarray (m,) float32
        Weights of the frequencies, summing to 1.
    n : float
        Number of rows behind the sketch, in noise.
    added : ndarray (m,)
        Variance of each entry beyond that of sampling rows (:mod:`sketchlearn.decoders.noise`).
    center, scale : ndarray (d,), float
        Where the data is and how wide.
    box : tuple of ndarray
        Coordinate-wise bounds of the data, normalised.
    broad : ndarray (m,)
        Which frequencies span all scales.
    metric : ndarray (d, d) or None
        The matrix A; None for the identity.
    spread : float
        Standard deviation of the data in these units.
    view : View or None
        The sketch in double precision, for the certificate.
    on_device : bool
        Whether components of one width are computed on a graphics processor, if they are many.
    """

    operator: Operator
    z: F32
    u: F32
    n: float
    added: Array
    center: Array
    scale: float
    box: tuple[Array, Array]
    broad: Flags
    metric: Array | None = None
    spread: float = 1.0
    view: View | None = None
    on_device: bool = False
    _buffers: dict[tuple[int, int], tuple[F32, F32, F32, F32]] = field(default_factory=dict, init=False, repr=False)
    _pieces: dict[int, list[Tile]] = field(default_factory=dict, init=False, repr=False)
    _samples: dict[int, Problem] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_sketch(cls, sketch: noise.Averages, metric: Array | None = None) -> Problem:
        """Normalise a sketch in a metric; ValueError if it holds nothing that could be decoded."""
        return cls.from_view(View.of(sketch, metric), metric)

    @classmethod
    def from_view(cls, view: View, metric: Array | None = None, at: tuple[Array, float] | None = None) -> Problem:
        """Normalise a sketch that is seen in a metric, by a given centre and width or by its own."""
        check_information(view)
        center, scale = location_and_scale(view) if at is None else at
        z = view.mean * np.exp(-1j * view.operator.forward(center[None])[0])
        operator = view.operator.scaled(scale).astype(np.float32)
        u = noise.first_weights(np.abs(z) ** 2, view.n, view.added) / view.importance**2
        return cls(
            operator=operator,
            z=np.stack([z.real, z.imag]).astype(np.float32),
            u=_balanced(u / u.sum(), np.sqrt(operator.squared_norms)).astype(np.float32),
            n=view.n,
            added=view.added,
            center=center,
            scale=scale,
            box=((view.lower - center) / scale, (view.upper - center) / scale),
            broad=view.broad,
            metric=metric,
            view=view,
            on_device=device.asked(),
        )

    @property
    def size(self) -> int:
        """Number of frequencies."""
        return self.operator.shape[0]

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.operator.shape[1]

    @cached_property
    def energy(self) -> float:
        """Weighted squared norm of the sketch."""
        return float(self.u @ (self.z[0] ** 2 + self.z[1] ** 2))

    @cached_property
    def radii(self) -> Array:
        """Norms of the normalised frequencies."""
        return np.sqrt(self.operator.squared_norms.astype(np.float64))

    @property
    def telling(self) -> float:
        """Share of the frequencies that are not too low to tell clusters apart."""
        return float(np.mean(self.radii >= _LOW))

    @property
    def drowned(self) -> bool:
        """Whether most of the noise was added to the sketch."""
        return noise.drowned(self.n, self.added)

    @property
    def power(self) -> Array:
        """``|z|^2``, (m,)."""
        return np.asarray(self.z[0] ** 2 + self.z[1] ** 2, np.float64)

    def effective_radius(self, k: int) -> float:
        """Largest radius at which ``|z|^2`` still stands above ``exp(-2)/k``: beyond it clusters are resolved."""
        order = np.argsort(self.radii)
        power = (self.power - self.added)[order]
        if self.n > 1:
            power = (self.n * power - 1) / (self.n - 1)
        smooth = isotonic_regression(power, increasing=False).x
        above = np.flatnonzero(smooth >= np.exp(-2.0) / k)
        return float(self.radii[order][above[-1] if len(above) else 0])

    # -- other views of the data -----------------------------------------------------------------

    def subset(self, index: Index) -> Problem:
        """The problem restricted to some frequencies."""
        u = self.u[index]
        return replace(
            self,
            operator=self.operator.rows(index),
            z=np.ascontiguousarray(self.z[:, index]),
            u=u / u.sum(),
            added=self.added[index],
            broad=self.broad[index],
        )

    def reweighted(self, u: AnyArray) -> Problem:
        """The problem with other weights of the frequencies."""
        return replace(self, u=(u / u.sum()).astype(np.float32))

    def rescaled(self, factor: float) -> Problem:
        """The problem in units that are `factor` times larger."""
        return replace(
            self,
            operator=self.operator.scaled(factor),
            scale=self.scale * factor,
            spread=self.spread / factor,
            box=(self.box[0] / factor, self.box[1] / factor),
        )

    def with_total(self, u: Array, weight: float) -> Problem:
        """The problem with one more equation, "the weights sum to 1" (frequency 0), and these weights of all."""
        weights = np.append(u, weight)
        return replace(
            self,
            operator=self.operator.rows(np.append(np.arange(self.size), -1)),
            z=np.concatenate([self.z, np.array([[1.0], [0.0]], np.float32)], 1),
            u=(weights / float(weights.sum())).astype(np.float32),
            added=np.append(self.added, 0.0),
            broad=np.append(self.broad, True),
        )

    # -- units -----------------------------------------------------------------------------------

    def normalised(self, points: npt.ArrayLike) -> Array:
        """Points in the units of the rows as points of this problem."""
        x = np.asarray(points, np.float64)
        return np.asarray(((x if self.metric is None else x @ self.metric.T) - self.center) / self.scale)

    def points(self, normalised: Array) -> Array:
        """Points of this problem in the units of the rows."""
        y = normalised * self.scale + self.center
        return y if self.metric is None else np.asarray(y @ np.linalg.inv(self.metric).T)

    def mixture(self, normalised: Mixture) -> Mixture:
        """A mixture of this problem in the units of the rows."""
        moved = normalised.scaled(self.scale, self.center)
        return moved if self.metric is None else _mapped(moved, np.asarray(np.linalg.inv(self.metric), np.float64))

    def inverse(self, mixture: Mixture) -> Mixture:
        """A mixture in the units of the rows as one of this problem."""
        if self.metric is not None:
            mixture = _mapped(mixture, self.metric)
        return mixture.scaled(1.0 / self.scale, -self.center / self.scale)

    # -- the model -----------------------------------------------------------------------------

    def large(self, k: int) -> bool:
        """Whether k atoms at all frequencies are too many numbers for a cache; a device has other limits."""
        return k * self.size > _WHOLE and not self.on_device

    def sampled(self, k: int) -> Problem:
        """A random part of the frequencies that tells the weights of k atoms, where the problem is large.

        Each is as likely as the others and keeps its weight, so sums over the part are in proportion to those over all,
        whatever the weights.  To draw them by their weights gains nothing: of 2048 of 20 000 frequencies, errors of 200
        weights were .00013 both ways for a multi-scale map, and .00018 instead of .00017 for a weighted one.
        """
        count = _EACH << (k - 1).bit_length()
        if not self.large(k) or count >= self.size:
            return self
        if count not in self._samples:
            self._samples[count] = self.subset(self.operator.sample(count, np.random.default_rng(count)))
        return self._samples[count]

    def _space(self, k: int, count: int) -> tuple[F32, F32, F32, F32]:
        """Buffers for k atoms at so many frequencies."""
        if (k, count) not in self._buffers:
            self._buffers[k, count] = _buffers(k, count)
        return self._buffers[k, count]

    def _charge(self, products: int, numbers: int = 0) -> None:
        """Count the work of so many atoms, and of their shapes' numbers."""
        budget.charge(self.size * (products * atom_work(self.operator.work) + numbers))

    def _elsewhere(self, k: int, products: int) -> ResidentAtoms | None:
        """The problem on a device, if k atoms of one width are computed there; their work is counted then."""
        if not self.on_device or k * self.size < device.WORTH:
            return None
        budget.charge(self.size * products * atom_work(self.dim) / device.SPEED)  # frequencies are a matrix there
        return self._resident

    @cached_property
    def _resident(self) -> ResidentAtoms:
        return device.resident(self.operator, self.z, self.u)

    def damping(self, state: State) -> F32:
        """Logarithms of the envelopes, (k, m) or (1, m)."""
        return np.asarray(state.family.damping(state.shapes, self.operator), np.float32)

    def atoms(self, state: State) -> tuple[F32, F32, F32]:
        """Atoms (cosine and sine parts, (k, m)) and the weighted model (2, m); buffers that the next call reuses."""
        self._charge(state.k, state.shapes.size)
        return self._atoms(state, self.operator)

    def _atoms(self, state: State, operator: Operator) -> tuple[F32, F32, F32]:
        """:meth:`atoms` at some of the frequencies."""
        phases = operator.forward(state.means)
        cosine, sine, model, _ = self._space(len(phases), operator.shape[0])
        damping = np.asarray(state.family.damping(state.shapes, operator), np.float32)
        self._loops.atoms(phases, damping, np.asarray(state.weights, np.float32), cosine, sine, model)
        return cosine, sine, model

    def residual(self, state: State) -> F32:
        """Sketch minus model, (2, m)."""
        if not state.k:
            return self.z
        if state.family is SHARED and (there := self._elsewhere(state.k, state.k)):
            return np.asarray(self.z - there.model(state.means, float(state.shapes[0]), state.weights))
        self._charge(state.k, state.shapes.size)
        out = np.empty_like(self.z)
        for tile in self._parts(state.k):
            np.subtract(tile.z, self._atoms(state, tile.operator)[2], out=out[:, tile.at])
        return out

    def misfit(self, state: State) -> float:
        """Weighted squared residual."""
        r = self.residual(state)
        return float(self.u @ (r[0] ** 2 + r[1] ** 2))

    def slopes(self, family: Family, weights: Array, means: Array, shapes: Array) -> tuple[float, Array, Array, Array]:
        """Misfit of a mixture, and its gradient in weights, means and shapes."""
        k = len(means)
        if family is SPHERICAL and (there := self._elsewhere(k, 2 * k)):
            value, by_weight, by_mean, by_shape = there.slopes(means, shapes, weights)
            return value, -2.0 * by_weight, -2.0 * weights[:, None] * by_mean, -2.0 * weights * by_shape
        self._charge(2 * k, 2 * shapes.size)
        means32, weights32 = means.astype(np.float32), weights.astype(np.float32)
        by_weight, by_mean, by_shape = np.zeros(k), np.zeros(means.shape), np.zeros(shapes.shape)
        value = 0.0
        for tile in self._tiles(k, shapes.size // max(len(shapes) * self.dim, 1)):
            damping, pull = family.tiled(shapes, tile.operator)
            cosine, sine, model, along = self._space(k, len(tile.u))
            self._loops.atoms(
                tile.operator.forward(means32), np.asarray(damping, np.float32), weights32, cosine, sine, model
            )
            residual = np.subtract(tile.z, model, out=model)
            weighted = tile.u * residual
            value += float(np.vdot(weighted, residual))
            self._loops.products(cosine, sine, weighted, along)
            by_weight += along
            by_mean += tile.operator.adjoint(sine)
            by_shape += pull((weights32 @ cosine)[None] if family.shared else cosine)
        by_mean *= -2.0 * weights[:, None]
        by_shape *= -2.0 if family.shared else -2.0 * weights.reshape(-1, *[1] * (shapes.ndim - 1))
        return value, -2.0 * by_weight, by_mean, by_shape

    def bends(self, state: State) -> Array:
        """Slope of the misfit in a covariance of each component of one width, for weights of 1, (k, d, d)."""
        k, d = state.k, state.dim
        if there := self._elsewhere(k, k * d):
            return there.bends(state.means, float(state.shapes[0]), state.weights)
        self._charge(k, k * d * (d + 1) // 2)
        out = np.zeros((k, d, d))
        for tile in self._parts(k):
            cosine, sine, model = self._atoms(state, tile.operator)
            weighted = np.multiply(tile.u, tile.z - model)
            self._loops.products(cosine, sine, weighted, np.empty(k, np.float32))
            out += tile.operator.quadratic_adjoint(cosine, "full")
        return out

    def _parts(self, k: int) -> list[Tile]:
        """The problem in pieces for k atoms of one shape: in one where all of them fit."""
        return self._cut(1 << (_TILE // k).bit_length() if self.large(k) else self.size)

    def _tiles(self, k: int, rank: int) -> list[Tile]:
        """The problem in pieces whose atoms stay in the cache."""
        return self._cut(max(256, 1 << (_TILE // (k * (rank + 2))).bit_length()))

    def _cut(self, size: int) -> list[Tile]:
        """Pieces of so many frequencies, made once: their products of coordinates are kept."""
        if size not in self._pieces:
            self._pieces[size] = [
                Tile(at, operator, np.ascontiguousarray(self.z[:, at]), self.u[at])
                for at, operator in self.operator.pieces(size)
            ]
        return self._pieces[size]

    def shared_width(self, means: Any, variance: float, weights: Any) -> tuple[float, float, AnyArray, AnyArray]:
        """Misfit of components of one width, its slope in the variance, and what the gradient is made of.

        That is products of atoms and weighted residual (k,), -1/2 of the slope in the weights, and their pull on the
        means (k, d), -1/2 of the slope in these for weights of 1.
        """
        if there := self._elsewhere(len(means), 2 * len(means)):
            return there.shared_width(means, variance, weights)
        k = len(means)
        self._charge(2 * k)
        tiles, weights = self._parts(k), np.asarray(weights, np.float32)
        made = []
        for tile in tiles:
            phases = tile.operator.forward(means)
            cosine, _, weighted, along = self._space(k, len(tile.u))
            squares = tile.operator.squared_norms
            envelope = np.exp(np.float32(-0.5 * variance) * squares)
            value, spread = self._loops.shared(
                phases, envelope, squares, tile.z, tile.u, weights, cosine, weighted, along
            )
            made.append((value, spread, along if len(tiles) == 1 else along.copy(), tile.operator.adjoint(phases)))
        return made[0] if len(made) == 1 else tuple(map(sum, zip(*made, strict=True)))  # type: ignore[arg-type, return-value]

    def correlation(self, points: Any, target: F32) -> tuple[F32, F32]:
        """Re<exp(i w·x), target> for some points, (k,), and its gradient, (k, d)."""
        if there := self._elsewhere(len(points), 2 * len(points)):
            return there.correlation(points, target)
        self._charge(2 * len(points))
        along, pull = np.zeros(len(points), np.float32), np.zeros(np.shape(points), np.float32)
        for tile in self._parts(len(points)):
            phases = tile.operator.forward(points)
            part = np.empty(len(phases), np.float32)
            here = np.ascontiguousarray(target[:, tile.at])
            self._loops.correlate(phases, here, np.empty(len(tile.u), np.float32), part)
            along += part
            pull += tile.operator.adjoint(phases)
        return along, pull

    @cached_property
    def _loops(self) -> Any:
        return tiers.loops("atoms")

    def gram(self, state: State, target: F32 | None = None) -> tuple[Array, Array]:
        """Weighted Gram matrix of the atoms of a state and their correlations with `target` (the sketch)."""
        k = state.k
        if state.family is SHARED and (there := self._elsewhere(k, k)):
            return there.gram(state.means, float(state.shapes[0]), self.z if target is None else target)
        self._charge(k, state.shapes.size)
        gram, along = np.zeros((k, k), np.float32), np.zeros(k, np.float32)
        # (larger pieces than elsewhere: each adds a whole matrix)
        for tile in self._cut(1 << (_WHOLE // k).bit_length() if self.large(k) else self.size):
            cosine, sine, _ = self._atoms(state, tile.operator)
            root = np.sqrt(tile.u)
            y = (tile.z if target is None else target[:, tile.at]) * root
            c, s = cosine * root, sine * root
            gram += c @ c.T + s @ s.T
            along += c @ y[0] + s @ y[1]
        return gram.astype(np.float64), along.astype(np.float64)

    def floor(self, state: State, k: int | None = None) -> tuple[float, float]:
        """Expected misfit of the right model with k components, and its relative standard deviation."""
        left = self.left(state)
        parameters = state.family.parameters(state.k if k is None else k, self.dim)
        return noise.noise_floor(self, left, parameters)

    def explains(self, state: State, k: int | None = None) -> bool:
        """Whether the misfit of a state is what noise leaves of the right model with k components."""
        floor, deviation = self.floor(state, k)
        return state.value < floor * (1.0 + noise.DEVIATIONS * deviation)

    def left(self, state: State) -> Array:
        """Variance of a row at each frequency that no change of the parameters explains, (m,)."""
        v = state.family.left(state.shapes, self.operator)
        return np.asarray(v[0] if len(v) == 1 else state.simplex @ v)


@dataclass(frozen=True, eq=False)
class Tile:
    """Some of the frequencies, and the sketch there."""

    at: slice
    operator: Operator
    z: F32
    u: F32


def atom_work(product: float) -> float:
    """Multiply-adds, as they are counted, of an atom at one frequency, from those of the product in its phase.

    In the time of a sine and a cosine a core makes six; large products are three times as fast as what is counted.
    """
    return 0.3 * product + 6.0


def _mapped(mixture: Mixture, matrix: Array) -> Mixture:
    """The mixture of ``A x``, whose covariances keep their form if A is diagonal."""
    diagonal = np.diag(matrix)
    return mixture.stretched(diagonal) if (matrix == np.diag(diagonal)).all() else mixture.mapped(matrix)


def _buffers(k: int, m: int) -> tuple[F32, F32, F32, F32]:
    a, b, c, d = (np.empty(shape, np.float32) for shape in ((k, m), (k, m), (2, m), (k,)))
    return a, b, c, d


def check_information(view: View) -> None:
    """Refuse sketches in which nothing stands above the noise."""
    power = np.abs(view.mean) ** 2 / noise.empty_variance(view.n, view.added)  # of pure noise: exponential with mean 1
    if view.n >= 100 and power.max() < np.log(len(power)) + 5.0:
        raise ValueError(
            f"the sketch holds no information: all {len(power)} averages are at the level of the "
            + (
                "additive noise of the release: it takes more rows, a larger epsilon or fewer features"
                if noise.drowned(view.n, view.added)
                else "sampling noise; the scale of its feature map is too small for this data"
            )
        )


def _balanced(u: Array, radii: AnyArray) -> Array:
    """Weights of the frequencies, of which those that are too low to tell clusters apart have 0.3 at most.

    A map for wide bounds has mostly such, and what they see drowns the rest in every correlation.
    """
    low = radii < _LOW
    share = float(u[low].sum())
    return np.where(low, u * (0.3 / share), u * (0.7 / (1.0 - share))) if 0.3 < share < 1.0 else u


def _least_squares(matrix: Array, values: Array) -> Array:
    """Least squares, of few columns by singular values, of many by the normal equations: ten times faster."""
    if matrix.shape[1] >= 200:
        gram = matrix.T @ matrix
        gram[np.diag_indices_from(gram)] += 1e-12 * float(np.trace(gram)) / len(gram)
        try:
            return np.asarray(cho_solve(cho_factor(gram, overwrite_a=True), matrix.T @ values))
        except np.linalg.LinAlgError:  # fewer directions than columns
            pass
    return np.asarray(np.linalg.lstsq(matrix, values, rcond=None)[0])


def _width_in_noise(power: Array, added: Array, norms: AnyArray, spread: float) -> float:
    """The width whose Gaussian has these squared moduli, of most likelihood.

    No logarithms: in noise of the size of the averages some moduli exceed 1, and those that stand above it are biased.
    """
    widths = np.geomspace(1e-3, 4.0, 400) * spread
    model = np.exp(-np.outer(widths**2, norms**2))
    variance = 2.0 * model * added + added**2 + 1e-12
    badness = ((power - added - model) ** 2 / variance + np.log(variance)).sum(1)
    return float(widths[badness.argmin()])


def location_and_scale(view: View) -> tuple[Array, float]:
    """Mean of the data and root mean square of its columns' standard deviations, from the sketch alone.

    At low frequencies the characteristic function is that of a Gaussian, exp(i w·mean - w'Cov w/2): its
    phase is linear in the mean, its modulus gives the variance.
    """
    mean, lower, upper, center = view.mean, view.lower, view.upper, view.place
    d = view.operator.shape[1]
    norms = np.sqrt(view.operator.squared_norms)
    # (constant data has no spread of its own: take what the frequencies can't tell from zero)
    spread = max(float(np.sqrt(np.mean((upper - lower) ** 2) / 12.0)), 1e-3 / float(norms.max()))
    modulus = np.clip(np.abs(mean), 1e-12, 1.0 - 1e-12)
    visible = modulus > 4.0 * np.sqrt(noise.empty_variance(view.n, view.added))
    order = np.argsort(norms)
    fewest = min(max(2 * d + 2, 20), len(order))
    count = fewest
    scale = spread
    for _ in range(6):
        # the lowest frequencies only: further out clusters show, and the Gaussian approximation fails
        low = order[:count]
        seen = low[visible[low]]
        if noise.drowned(view.n, view.added):
            scale = _width_in_noise(np.abs(mean[low]) ** 2, view.added[low], norms[low], spread)
        elif len(seen) < 2:
            break
        else:
            exponent = -2.0 * np.log(modulus[seen])
            scale = float(np.sqrt(max(np.sum(exponent * norms[seen] ** 2) / np.sum(norms[seen] ** 4), 0.0))) or spread
        new = max(int(np.searchsorted(norms[order], 1.0 / scale)), fewest)
        if new == count:
            break
        count = min(new, max(2 * count, fewest))
    low = order[:count]
    w = view.operator.rows(low).frequencies()
    for _ in range(4):
        phase = np.angle(mean[low] * np.exp(-1j * (w @ center)))
        root = modulus[low] * (np.abs(phase) < 2.0)  # not wrapped, and above the noise
        if (root > 0).sum() < d:
            break
        step = _least_squares(root[:, None] * w, root * phase)
        center = np.clip(center + step, lower, upper)
    return center, float(np.clip(scale, 1e-6 * spread, 4.0 * spread))
