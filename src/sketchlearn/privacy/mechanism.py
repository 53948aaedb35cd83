"""Which noise a guarantee asks for, decided without looking at data, and how it is added to the sums of a sketch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.privacy import noise
from sketchlearn.privacy.calibration import gaussian_noise, laplace_scale
from sketchlearn.privacy.composition import Spent
from sketchlearn.privacy.sensitivity import RELATIONS, Bounds, Reach, reach
from sketchlearn.privacy.split import count_multiplier, share_of_count

MECHANISMS = ("auto", "laplace", "gaussian")
_LIMIT = 2**62


@dataclass(frozen=True)
class Mechanism:
    """Noise of a release, decided before any number of the sketch is looked at.

    Attributes
    ----------
    name : str
        ``"discrete-laplace"``, ``"circular-discrete-laplace"`` or ``"discrete-gaussian"``.
    scale : float
        Of the noise of each sum times its multiplier, in units of the grid.
    count_scale : float or None
        Scale of the discrete Laplace noise of the number of rows; None if it has none of its own.
    count_multiplier : int
        What the number of rows is multiplied by in a Gaussian release; 0 if it is public.
    epsilon, delta, rho : float
        What the release guarantees.
    details : dict
        How it was found.
    """

    name: str
    scale: float
    count_scale: float | None
    count_multiplier: int
    epsilon: float
    delta: float
    rho: float
    details: dict[str, Any]

    @property
    def spent(self) -> Spent:
        """What a release spends, with all that is known for composing it."""
        margin = self.details.get("margin", math.inf)  # of Gaussian noise alone
        return Spent(self.epsilon, self.delta, self.rho, margin=margin if margin < math.inf else None)

    @property
    def variance(self) -> float:
        """Variance of the noise of each sum times its multiplier."""
        return {"discrete-laplace": 2.0, "circular-discrete-laplace": 3.0, "discrete-gaussian": 1.0}[
            self.name
        ] * self.scale**2

    @property
    def count_variance(self) -> float:
        """Variance of the noise of the number of rows."""
        if self.count_scale is not None:
            p = math.exp(-1.0 / self.count_scale)
            return 2.0 * p / (1.0 - p) ** 2
        return self.scale**2 / self.count_multiplier**2 + 1.0 / 12.0 if self.count_multiplier else 0.0


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
    if mechanism == "gaussian" or (mechanism == "auto" and delta > 0.0):
        options.append(_gaussian(moved, entries, epsilon, delta, relation, records_per_user, copies))
    best = min(options, key=lambda option: option.variance)
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


def stacked(sums: npt.NDArray[np.int64], rows: int, bounds: Bounds, chosen: Mechanism) -> npt.NDArray[np.int64]:
    """The vector that gets noise: sums times their multipliers, and last the number of rows times its own."""
    times = bounds.multiplier_array()
    limit = _LIMIT // times
    values = np.clip(sums.ravel(), -limit, limit) * times  # clipping moves no two datasets apart
    return np.append(values, np.int64(min(rows * chosen.count_multiplier, _LIMIT)))


def rescaled(
    noisy: npt.NDArray[np.int64], shape: tuple[int, ...], bounds: Bounds, chosen: Mechanism
) -> tuple[npt.NDArray[np.int64], int]:
    """Noisy sums and the noisy number of rows in their own units; 0 rows if they were not part of the vector."""
    rows = int(_divided(int(noisy[-1]), chosen.count_multiplier)) if chosen.count_multiplier else 0
    return _divided(noisy[:-1], bounds.multiplier_array()).reshape(shape), rows


def draw(
    sums: npt.NDArray[np.int64], rows: int, bounds: Bounds, chosen: Mechanism
) -> tuple[npt.NDArray[np.int64], int]:
    """Noisy sums and a noisy number of rows: where noise meets data."""
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
