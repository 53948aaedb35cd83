"""One noisy sketch with a proven guarantee; everything learned from it afterwards is free."""

from __future__ import annotations

import hashlib
import math
import secrets
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import sketchlearn
from sketchlearn.privacy import noise
from sketchlearn.privacy.calibration import gaussian_noise, laplace_scale
from sketchlearn.privacy.sensitivity import RELATIONS, Bounds, Reach, reach, row_bounds
from sketchlearn.privacy.split import count_multiplier, share_of_count
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch

if TYPE_CHECKING:
    from sketchlearn.privacy.ledger import Ledger

MECHANISMS = ("auto", "laplace", "gaussian")
_LIMIT = 2**62
_KEY = secrets.token_bytes(32)
_released: dict[bytes, list[tuple[float, float]]] = {}


class RepeatedReleaseWarning(UserWarning):
    """The same sketch was released before: the guarantees add up.

    Examples
    --------
    >>> from sketchlearn.privacy import RepeatedReleaseWarning
    >>> issubclass(RepeatedReleaseWarning, UserWarning)
    True
    """


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
) -> Mechanism:
    """The least noise that gives the guarantee for a map with these bounds.

    Examples
    --------
    >>> from sketchlearn.privacy.release import choose_mechanism
    >>> from sketchlearn.privacy.sensitivity import phase_bounds
    >>> choose_mechanism(phase_bounds(100), 100, 1.0).name
    'circular-discrete-laplace'
    >>> choose_mechanism(phase_bounds(100), 100, 1.0, 1e-6).name
    'discrete-gaussian'
    """
    _check_request(epsilon, delta, relation, records_per_user, mechanism)
    epsilon, delta, records_per_user = float(epsilon), float(delta), int(records_per_user)
    moved = reach(bounds, relation, records_per_user)
    entries = sum(length for length, _ in bounds.multipliers)
    options = []
    if mechanism != "gaussian":
        options += _pure(moved, entries, size, epsilon, relation, records_per_user)
    if mechanism == "gaussian" or (mechanism == "auto" and delta > 0.0):
        options.append(_gaussian(moved, entries, epsilon, delta, relation, records_per_user))
    return min(options, key=lambda option: option.variance)


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
        details = {"sensitivity": length, "norm": "sum of lengths of pairs" if factor == 3.0 else "l1"}
        if share:
            details["epsilon_count"] = float(whole * share)
        count = laplace_scale(whole * share, records_per_user) if share else None
        scale = laplace_scale(whole * (1 - share), length)
        options.append(Mechanism(name, scale, count, 0, epsilon, 0.0, 0.5 * epsilon**2, details))
    return options


def _gaussian(
    moved: Reach, entries: int, epsilon: float, delta: float, relation: str, records_per_user: int
) -> Mechanism:
    times = 0
    if relation == "add-remove":
        times = count_multiplier(moved.l2_squared // records_per_user**2, entries)
    squared = moved.l2_squared + (records_per_user * times) ** 2
    dimensions = entries + (times > 0)
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


def privatize(
    sketch: Sketch,
    epsilon: float,
    delta: float = 0.0,
    *,
    relation: str = "add-remove",
    records_per_user: int = 1,
    public_map: bool = False,
    pilot: PrivacyRecord | None = None,
    mechanism: str = "auto",
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Sketch:
    """A noisy copy of a sketch that may be published: differentially private, whatever is done with it afterwards.

    Parameters
    ----------
    sketch : Sketch
        Exact sums; all rows with weight 1.
    epsilon, delta : float
        The guarantee: whoever sees the result can hardly tell whether any one person took part.  With ``delta=0``
        pure epsilon (Laplace noise); with ``delta > 0``, well below 1 over the number of people, Gaussian noise, which
        is much smaller for many features.
    relation : {"add-remove", "replace-one"}
        What one person changes: their rows are there or not (then the number of rows is private too), or they are
        replaced by others (then the number of rows is public).
    records_per_user : int
        The largest number of rows that one person may have.  Nobody can check it here: see to it before sketching.
    public_map : bool
        Your word that the map was chosen without these rows: by ``design(bounds=...)`` with bounds that are public,
        from other data, or by constants.  It is kept in the record.  Not needed with `pilot`.
    pilot : PrivacyRecord, optional
        What :func:`sketchlearn.privacy.private_design` spent on choosing the map from the data; it is added.
    mechanism : {"auto", "laplace", "gaussian"}
        The least noise by default.
    ledger : Ledger, optional
        Where the spending is written *before* any noise is drawn; refuses what exceeds the budget.
    dataset : str, optional
        Name of the data in the ledger.

    Returns
    -------
    Sketch
        With noisy sums and a noisy number of rows, no box, no number of skipped rows, and a record of the guarantee
        in ``privacy``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import privatize
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(10_000, 2))
    >>> phi = sl.design(bounds=([-1, -1], [1, 1]), n_components=3)
    >>> s = privatize(sl.sketch(X, phi), epsilon=1.0, delta=1e-6, public_map=True)
    >>> s.privacy.mechanism, s.privacy.epsilon, bool(abs(s.count - 10_000) < 1000)
    ('discrete-gaussian', 1.0, True)
    """
    _check_sketch(sketch, relation)
    origin = _origin(public_map, pilot, relation, records_per_user)
    bounds = row_bounds(sketch.features)
    chosen = choose_mechanism(bounds, sketch.features.size, epsilon, delta, relation, records_per_user, mechanism)
    record = _record(chosen, bounds, origin, pilot, relation, records_per_user)
    if ledger is not None:
        if dataset is None:
            raise ValueError("the ledger needs dataset=, the name of the data that is spent on")
        # on disk before any noise is drawn: no crash can leave a release that is not in the ledger
        ledger.spend(
            dataset, chosen.epsilon, chosen.delta, rho=chosen.rho, relation=relation, records_per_user=records_per_user,
            what=f"sketch of {sketch.features.size} {sketch.features.kind} features, {chosen.name}",
        )  # fmt: skip
    elif dataset is not None:
        raise ValueError("dataset= is for a ledger, and none was given")
    else:
        _remember(sketch, chosen)
    sums, weight = draw(sketch.sums, sketch.weight, bounds, chosen)
    return _noisy(sketch, sums, weight, record)


def draw(
    sums: npt.NDArray[np.int64], rows: int, bounds: Bounds, chosen: Mechanism
) -> tuple[npt.NDArray[np.int64], int]:
    """Noisy sums and a noisy number of rows: the only place where noise meets data."""
    times = bounds.multiplier_array()
    limit = _LIMIT // times
    values = np.clip(sums.ravel(), -limit, limit) * times  # clipping moves no two datasets apart
    if chosen.name == "discrete-gaussian":
        count = min(rows * chosen.count_multiplier, _LIMIT)
        noisy = noise.add_gaussian(np.append(values, np.int64(count)), chosen.scale)
        values, count = noisy[:-1], int(noisy[-1])
        # a public number of rows stays as it is; its noise is thrown away
        rows = _divided(count, chosen.count_multiplier) if chosen.count_multiplier else rows
    else:
        if chosen.name == "circular-discrete-laplace":
            values = noise.add_circular(values.reshape(2, -1), chosen.scale).ravel()
        else:
            values = noise.add_laplace(values, chosen.scale)
        if chosen.count_scale is not None:
            rows = int(noise.add_laplace(np.array([min(rows, _LIMIT)], np.int64), chosen.count_scale)[0])
    # an average needs at least one row; this and the division are done to what is public already
    return _divided(values, times).reshape(sums.shape), max(rows, 1)


def _divided(value: Any, by: Any) -> Any:
    """The quotient, rounded to the nearest whole number."""
    return (value // by) + (2 * (value % by) >= by)


def _noisy(sketch: Sketch, sums: npt.NDArray[np.int64], weight: int, record: PrivacyRecord) -> Sketch:
    nowhere = np.full(sketch.features.dim, np.inf)
    return Sketch(sketch.features, sums, weight, 0, nowhere, -nowhere, 0, privacy=record)


def _record(
    chosen: Mechanism, bounds: Bounds, origin: str, pilot: PrivacyRecord | None, relation: str, records_per_user: int
) -> PrivacyRecord:
    variances = [
        [length, chosen.variance / times**2 + (1.0 / 12.0 if times > 1 else 0.0)]
        for length, times in bounds.multipliers
    ]
    details: dict[str, Any] = {
        **chosen.details,
        "scale": chosen.scale,
        "rho": chosen.rho,
        "bound": bounds.proof,
        "map": origin,
        "noise": noise.generator(),
    }
    if len(variances) > 1:
        details["variances"] = variances
    epsilon, delta = chosen.epsilon, chosen.delta
    if pilot is not None:
        details["pilot"] = {"epsilon": pilot.epsilon, "delta": pilot.delta}
        details["rho"] += pilot.details.get("rho", math.inf)
        epsilon, delta = epsilon + pilot.epsilon, delta + pilot.delta
    return PrivacyRecord(
        mechanism=chosen.name,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        records_per_user=records_per_user,
        sums_variance=variances[0][1],
        weight_variance=chosen.count_variance,
        library=sketchlearn.__version__,
        details=details,
    )


# -- what is refused -------------------------------------------------------------------------


def _check_request(epsilon: float, delta: float, relation: str, records_per_user: int, mechanism: str) -> None:
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


def _check_sketch(sketch: Sketch, relation: str) -> None:
    if not isinstance(sketch, Sketch):
        raise TypeError(f"privatize takes a sketch, got {type(sketch).__name__}")
    if sketch.privacy is not None:
        raise ValueError(
            "the sketch is private already: more noise would not make it more so, and learning from it is free"
        )
    if sketch.weight_bits or not _unit_weights(sketch):
        raise ValueError(
            "the rows have fractional weights: one row's part in the sums is then not bounded by that of a row of "
            "weight 1. Sketch them without sample_weight, or repeat rows and say so by records_per_user"
        )
    if relation == "replace-one" and sketch.skipped:
        raise ValueError(
            "invalid rows were skipped, so the number of valid rows is not public: use relation='add-remove', under "
            "which it is noised"
        )


def _unit_weights(sketch: Sketch) -> bool:
    squares = getattr(sketch, "squared_weights", None)
    return squares is None or squares == sketch.weight << 32


def _origin(public_map: bool, pilot: PrivacyRecord | None, relation: str, records_per_user: int) -> str:
    if pilot is not None:
        if not isinstance(pilot, PrivacyRecord):
            raise TypeError(f"pilot must be the record of a private design, got {type(pilot).__name__}")
        if (pilot.relation, pilot.records_per_user) != (relation, records_per_user):
            raise ValueError(
                f"the map was chosen for {pilot.relation}, {pilot.records_per_user} records per user; the release asks "
                f"for {relation}, {records_per_user}"
            )
        return "chosen from the data by a private pilot"
    if not public_map:
        raise ValueError(
            "was the map chosen without looking at these rows? A centre or a scale from a sample of them would be "
            "published without noise. Design it with bounds=(lower, upper) that are public, from other data, or by "
            "sketchlearn.privacy.private_design; then say so with public_map=True"
        )
    return "declared public by the releaser"


def _remember(sketch: Sketch, chosen: Mechanism) -> None:
    """Say so if this process released the same sketch before (a ledger remembers for longer)."""
    key = hashlib.blake2b(sketch.sums.tobytes() + sketch.weight.to_bytes(16), key=_KEY).digest()
    before = _released.setdefault(key, [])
    before.append((chosen.epsilon, chosen.delta))
    if len(before) > 1:
        total = math.fsum(e for e, _ in before), math.fsum(d for _, d in before)
        warnings.warn(
            f"release number {len(before)} of the same sketch: together they guarantee epsilon={total[0]:.6g}, "
            f"delta={total[1]:.3g} only. A Ledger keeps count across processes and refuses what exceeds a budget",
            RepeatedReleaseWarning,
            stacklevel=3,
        )
