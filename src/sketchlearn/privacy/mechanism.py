"""Which noise a guarantee asks for, decided without looking at data, and how it is added to the sums of a sketch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sketchlearn.arrays import Ints
from sketchlearn.privacy import matrices, noise
from sketchlearn.privacy.calibration import gaussian_noise, laplace_scale
from sketchlearn.privacy.composition import Spent
from sketchlearn.privacy.sensitivity import RELATIONS, Bounds, MatrixReach, Reach, reach
from sketchlearn.privacy.split import count_multiplier, share_of_count

MECHANISMS = ("auto", "laplace", "gaussian")
_LIMIT = 2**62


@dataclass(frozen=True)
class Mechanism:
    """Noise of a release, decided before any number of the sketch is looked at.

    `name`: ``"discrete-laplace"``, ``"circular-discrete-laplace"``, ``"matrix-laplace"`` or ``"discrete-gaussian"``.
    `scale`: of the noise of each sum times its multiplier, in units of the grid; of matrix noise of products.
    `count_scale`: scale of the discrete Laplace noise of the number of rows; None if it has none of its own.
    `count_multiplier`: what the number of rows is multiplied by where it is an entry of the vector or matrix; 0 if it
    is public. `epsilon`, `delta`, `rho`: what the release guarantees. `details`: how it was found. `matrix`: of matrix
    noise.
    """

    name: str
    scale: float
    count_scale: float | None
    count_multiplier: int
    epsilon: float
    delta: float
    rho: float
    details: dict[str, Any]
    matrix: MatrixReach | None = None

    @property
    def spent(self) -> Spent:
        """What a release spends, with all that is known for composing it."""
        margin = self.details.get("margin", math.inf)  # of Gaussian noise alone
        return Spent(self.epsilon, self.delta, self.rho, margin=margin if margin < math.inf else None)

    @property
    def variance(self) -> float:
        """Variance of the noise of each sum times its multiplier; of matrix noise that of products."""
        if self.matrix is not None:
            return matrices.variances(self.matrix.columns, self.scale)[1]
        return {"discrete-laplace": 2.0, "circular-discrete-laplace": 3.0, "discrete-gaussian": 1.0}[
            self.name
        ] * self.scale**2

    def variances(self, bounds: Bounds) -> list[tuple[int, float]]:
        """Variance of the noise of the sums, as runs of (length, variance)."""
        if self.matrix is None:
            return [
                (length, self.variance / times**2 + (1.0 / 12.0 if times > 1 else 0.0))
                for length, times in bounds.multipliers
            ]
        squares, products = matrices.variances(self.matrix.columns, self.scale)
        d = self.matrix.columns - 1
        runs = [run for i in range(d) for run in ((1, squares), (d - 1 - i, products)) if run[0]]
        return [*runs, (d, products / self.matrix.constant**2 + 1.0 / 12.0)]

    def energy(self, bounds: Bounds) -> float:
        """Expected squared length of the noise of the sums."""
        return math.fsum(length * variance for length, variance in self.variances(bounds))

    @property
    def count_variance(self) -> float:
        """Variance of the noise of the number of rows."""
        if self.count_scale is not None:
            p = math.exp(-1.0 / self.count_scale)
            return 2.0 * p / (1.0 - p) ** 2
        if not self.count_multiplier:
            return 0.0
        own = self.scale**2 if self.matrix is None else matrices.variances(self.matrix.columns, self.scale)[0]
        return own / self.count_multiplier**2 + 1.0 / 12.0

    def count_tail(self, chance: float) -> float:
        """What the noise of a private number of rows exceeds with a probability of at most `chance`.

        ``P(noise >= t) <= exp(-t**2 / 2 s**2)`` for discrete Gaussian noise of scale s, and ``exp(-t / b)`` for
        discrete Laplace noise.
        """
        needed = -math.log(chance)
        if self.count_scale is not None:
            return self.count_scale * needed
        if self.matrix is not None:
            return matrices.count_tail(self.matrix.columns, self.scale, chance) / self.count_multiplier + 0.5
        return self.scale / self.count_multiplier * math.sqrt(2.0 * needed) + 0.5  # rounded to whole rows


def choose_mechanism(
    bounds: Bounds,
    size: int,
    epsilon: float,
    delta: float = 0.0,
    relation: str = "add-remove",
    records_per_user: int = 1,
    mechanism: str = "auto",
    copies: int = 1,
) -> Mechanism:
    """The least noise that gives the guarantee for a map with these bounds, also for several sketches at once.

    Of `copies` sketches that one row is in one of, each gets this noise: whichever sketches the rows of a person are
    in, they move all sums together no further than those of one sketch.

    Examples
    --------
    >>> from sketchlearn.privacy.mechanism import choose_mechanism
    >>> from sketchlearn.privacy.sensitivity import phase_bounds
    >>> choose_mechanism(phase_bounds(100), 100, 1.0).name
    'circular-discrete-laplace'
    >>> choose_mechanism(phase_bounds(100), 100, 1.0, 1e-6).name
    'discrete-gaussian'
    """
    check_request(epsilon, delta, relation, records_per_user, mechanism)
    epsilon, delta, records_per_user = float(epsilon), float(delta), int(records_per_user)
    moved = reach(bounds, relation, records_per_user)
    entries = sum(length for length, _ in bounds.multipliers)
    options = []
    if mechanism != "gaussian":
        options += _pure(moved, entries, size, epsilon, relation, records_per_user)
        options += _of_matrices(bounds, epsilon, relation, records_per_user)
    if mechanism == "gaussian" or (mechanism == "auto" and delta > 0.0):
        options.append(_gaussian(moved, entries, epsilon, delta, relation, records_per_user, copies))
    best = min(options, key=lambda option: option.energy(bounds))
    if not max(best.scale, best.count_scale or 0.0) < noise.LARGEST_SCALE:  # before anything is charged
        raise OverflowError(
            f"noise of scale {best.scale:.3g} does not fit 64-bit sums: fewer features, or a larger epsilon"
        )
    return best


def _pure(
    moved: Reach, entries: int, size: int, epsilon: float, relation: str, records_per_user: int
) -> list[Mechanism]:
    """Laplace noise by coordinates and, for pairs, by their length."""
    ways = [("discrete-laplace", moved.l1, 2.0)]
    if moved.circular is not None:
        ways.append(("circular-discrete-laplace", moved.circular, 3.0))
    options = []
    for name, length, factor in ways:
        share = Fraction(0)
        if relation == "add-remove":
            energy = entries * factor * (length / epsilon) ** 2
            share = share_of_count(epsilon, size, energy, float(moved.l2_squared))
        whole = Fraction(epsilon)
        details: dict[str, Any] = {"sensitivity": length, "norm": "sum of lengths of pairs" if factor == 3.0 else "l1"}
        if share:
            details["epsilon_count"] = float(whole * share)
        count = laplace_scale(whole * share, records_per_user) if share else None
        scale = laplace_scale(whole * (1 - share), length)
        options.append(Mechanism(name, scale, count, 0, epsilon, 0.0, 0.5 * epsilon**2, details))
    return options


def _of_matrices(bounds: Bounds, epsilon: float, relation: str, records_per_user: int) -> list[Mechanism]:
    """Noise of a symmetric matrix, for all products of up to a few hundred columns."""
    matrix = bounds.matrix
    if matrix is None or not 2 < matrix.columns <= matrices.LARGEST:
        return []
    moved = matrix.moved(relation, records_per_user)
    scale = laplace_scale(2 * Fraction(epsilon), moved)
    if not scale * matrix.columns < matrices.LARGEST_SCALE:
        return []
    details = {"sensitivity": moved, "norm": "trace", "columns": matrix.columns, "constant": matrix.constant}
    times = matrix.constant**2 if relation == "add-remove" else 0
    return [Mechanism("matrix-laplace", scale, None, times, epsilon, 0.0, 0.5 * epsilon**2, details, matrix)]


def _gaussian(
    moved: Reach, entries: int, epsilon: float, delta: float, relation: str, records_per_user: int, copies: int = 1
) -> Mechanism:
    times = 0
    if relation == "add-remove":
        times = count_multiplier(moved.l2_squared // records_per_user**2, entries)
    squared = moved.l2_squared + (records_per_user * times) ** 2
    dimensions = copies * (entries + (times > 0))
    found = gaussian_noise(epsilon, delta, squared, dimensions)
    details = {
        "sensitivity_squared": squared,
        "norm": "l2",
        "dimensions": dimensions,
        "sigma_analytic": found.analytic,
        "sigma_concentrated": found.concentrated,
        "margin": found.margin,
    }
    if times:
        details["count_multiplier"] = times
    return Mechanism("discrete-gaussian", found.sigma, None, times, epsilon, delta, found.rho, details)


def stacked(sums: Ints, rows: int, bounds: Bounds, chosen: Mechanism) -> Ints:
    """The vector that gets noise: sums times their multipliers, and last the number of rows times its own."""
    times = bounds.multiplier_array()
    limit = _LIMIT // times
    values = np.clip(sums.ravel(), -limit, limit) * times  # clipping moves no two datasets apart
    return np.append(values, np.int64(min(rows * chosen.count_multiplier, _LIMIT)))


def rescaled(noisy: Ints, shape: tuple[int, ...], bounds: Bounds, chosen: Mechanism) -> tuple[Ints, int]:
    """Noisy sums and the noisy number of rows in their own units; 0 rows if they were not part of the vector."""
    rows = int(_divided(int(noisy[-1]), chosen.count_multiplier)) if chosen.count_multiplier else 0
    return _divided(noisy[:-1], bounds.multiplier_array()).reshape(shape), rows


def draw(sums: Ints, rows: int, bounds: Bounds, chosen: Mechanism) -> tuple[Ints, int]:
    """Noisy sums and a noisy number of rows: where noise meets data."""
    if chosen.matrix is not None:
        return _draw_matrix(sums, rows, chosen)
    values = stacked(sums, rows, bounds, chosen)
    if chosen.name == "discrete-gaussian":
        noisy = noise.add_gaussian(values, chosen.scale)
    elif chosen.name == "circular-discrete-laplace":
        noisy = np.append(noise.add_circular(values[:-1].reshape(2, -1), chosen.scale), np.int64(0))
    else:
        noisy = np.append(noise.add_laplace(values[:-1], chosen.scale), np.int64(0))
    released, count = rescaled(noisy, sums.shape, bounds, chosen)
    if chosen.count_scale is not None:
        count = int(noise.add_laplace(np.array([min(rows, _LIMIT)], np.int64), chosen.count_scale)[0])
    elif not chosen.count_multiplier:
        count = rows  # public
    return released, count


def _draw_matrix(sums: Ints, rows: int, chosen: Mechanism) -> tuple[Ints, int]:
    """Products, columns and number of rows with the noise of one matrix; a multiple of the constant stays one."""
    assert chosen.matrix is not None
    d, s = chosen.matrix.columns - 1, chosen.matrix.constant
    drawn = matrices.draw(1, d + 1, chosen.scale)[0]
    products = drawn[:d, :d][np.triu_indices(d)]
    added = np.concatenate([products, _divided(drawn[:d, d], s)])
    return noise.saturating_sum(sums, added), rows + int(
        _divided(int(drawn[d, d]), s * s)
    ) if chosen.count_multiplier else rows


def _divided(value: Any, by: Any) -> Any:
    """The quotient, rounded to the nearest whole number."""
    return (value // by) + (2 * (value % by) >= by)


def check_request(epsilon: float, delta: float, relation: str, records_per_user: int, mechanism: str) -> None:
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise ValueError(f"{name} must be a number, got {value!r}")
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}")
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
    if relation not in RELATIONS:
        raise ValueError(f"relation={relation!r}: choose one of {', '.join(RELATIONS)}")
    if isinstance(records_per_user, bool) or not isinstance(records_per_user, int | np.integer) or records_per_user < 1:
        raise ValueError(f"records_per_user must be a positive integer, got {records_per_user!r}")
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism={mechanism!r}: choose one of {', '.join(MECHANISMS)}")
    if mechanism == "gaussian" and delta == 0.0:
        raise ValueError("Gaussian noise needs delta > 0")
