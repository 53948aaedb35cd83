"""One noisy sketch with a proven guarantee; everything learned from it afterwards is free."""

from __future__ import annotations

import hashlib
import math
import secrets
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import sketchlearn
from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import noise
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism, draw
from sketchlearn.privacy.sensitivity import Bounds, row_bounds
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketches.weights import repeated

if TYPE_CHECKING:
    from sketchlearn.privacy.ledger import Ledger

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
    check_sketch(sketch, relation)
    origin = _origin(public_map, pilot, relation, records_per_user)
    bounds = row_bounds(sketch.features)
    chosen = choose_mechanism(bounds, sketch.features.size, epsilon, delta, relation, records_per_user, mechanism)
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
    sums, rows = draw(sketch.sums, sketch.weight, bounds, chosen)
    made = released(sketch.features, sums, rows, chosen, bounds, relation, int(records_per_user), origin, pilot=pilot)
    return made.with_noise(sketch.noise) if sketch.noise else made


def released(
    features: FeatureMap,
    sums: npt.NDArray[np.int64],
    rows: int,
    chosen: Mechanism,
    bounds: Bounds,
    relation: str,
    records_per_user: int,
    origin: str,
    more: Mapping[str, Any] | None = None,
    pilot: PrivacyRecord | None = None,
) -> Sketch:
    """The private sketch of noisy sums, with its record; nothing else of the rows is in it."""
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
        **(more or {}),
    }
    if len(variances) > 1:
        details["variances"] = variances
    epsilon, delta = chosen.epsilon, chosen.delta
    if pilot is not None:
        details["pilot"] = {"epsilon": pilot.epsilon, "delta": pilot.delta}
        details["rho"] += pilot.details["rho"]
        epsilon, delta = epsilon + pilot.epsilon, delta + pilot.delta
    record = PrivacyRecord(
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
    nowhere = np.full(features.dim, np.inf)
    # an average needs at least one row; the noisy number is public, so this costs nothing
    return Sketch(features, sums, max(rows, 1), 0, -nowhere, nowhere, privacy=record)


# -- what is refused -------------------------------------------------------------------------


def check_sketch(sketch: Sketch, relation: str) -> None:
    """Refuse sketches whose sums the bounds don't cover."""
    if not isinstance(sketch, Sketch):
        raise TypeError(f"privatize takes a sketch, got {type(sketch).__name__}")
    if sketch.privacy is not None:
        raise ValueError(
            "the sketch is private already: more noise would not make it more so, and learning from it is free"
        )
    if sketch.weight_bits or sketch.squared_weights != repeated(sketch.weight, 0):
        raise ValueError(
            "the rows have fractional weights: one row's part in the sums is then not bounded by that of a row of "
            "weight 1. Sketch them without sample_weight, or repeat rows and say so by records_per_user"
        )
    if relation == "replace-one" and sketch.skipped:
        raise ValueError(
            "invalid rows were skipped, so the number of valid rows is not public: use relation='add-remove', under "
            "which it is noised"
        )


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
    what = sketch.features.recipe_json().encode() + sketch.sums.tobytes() + sketch.weight.to_bytes(16)
    key = hashlib.blake2b(what, key=_KEY).digest()
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
