"""One noisy sketch with a proven guarantee; everything learned from it afterwards is free."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import sketchlearn
from sketchlearn.arrays import Ints
from sketchlearn.exceptions import PUBLIC, InputError, Option, warn
from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import noise as noises
from sketchlearn.privacy.amplification import check_sample, choose_for_sample, spent_on_sample
from sketchlearn.privacy.composition import Spent
from sketchlearn.privacy.ledger import Ledger, same_name
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism, draw
from sketchlearn.privacy.sensitivity import Bounds, row_bounds
from sketchlearn.sketches.record import PrivacyRecord, together
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketches.weights import WEIGHT_BITS, repeated

OTHER_DATA = "other data: "  # of a map: followed by their name
_WEAK = 20.0  # epsilon above which nobody calls a release private
_KEY = secrets.token_bytes(32)
_released: dict[bytes, list[tuple[float, float]]] = {}


class RepeatedReleaseWarning(UserWarning):
    """A sketch was released again: the guarantees add up.

    Examples
    --------
    >>> from sketchlearn.privacy import RepeatedReleaseWarning
    >>> issubclass(RepeatedReleaseWarning, UserWarning)
    True
    """


class WeakGuaranteeWarning(UserWarning):
    """A guarantee that protects little: delta above one over the number of rows, or epsilon above 20.

    Examples
    --------
    >>> from sketchlearn.privacy import WeakGuaranteeWarning
    >>> issubclass(WeakGuaranteeWarning, UserWarning)
    True
    """


def privatize(
    sketch: Sketch,
    epsilon: float,
    delta: float = 0.0,
    *,
    relation: str = "add-remove",
    records_per_user: int | None = None,
    rows: int | None = None,
    public_map: bool = False,
    pilot: PrivacyRecord | None = None,
    mechanism: str = "auto",
    noise: float = 0.0,
    sample: float | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Sketch:
    """A noisy copy of a sketch that may be published. It is differentially private, whatever is done with it later.

    Parameters
    ----------
    sketch : Sketch
        Exact sums; all rows with weight 1.
    epsilon, delta : float
        The guarantee: whoever sees the result can hardly tell whether a given person took part. ``delta=0`` means pure
        epsilon, with Laplace noise. With ``delta > 0``, which should be well below 1 over the number of people, the
        noise is Gaussian and much smaller for many features.
    relation : {"add-remove", "replace-one"}
        How neighbouring datasets differ. With ``"add-remove"``, the rows of one person are there or not, and the number
        of rows is private too. With ``"replace-one"``, they are replaced by others, and the number of rows is public.
    records_per_user : int, optional
        The largest number of rows that one person may have. By default it is the limit of the pass (``sl.sketch(...,
        user=..., max_rows_per_user=...)``), or 1 if there was none. In that case it can't be checked here, so make sure
        of it before sketching.
    rows : int, optional
        A public number of rows, for ``"replace-one"``. It is needed if the number of rows depends on their contents (a
        condition, one of several groups, weights, skipped rows), because the exact number would be a leak.
    public_map : bool
        You confirm that the map was chosen without these rows: by ``design(bounds=...)`` with public bounds, from other
        data, or from constants. This is kept in the record. Not needed with `pilot`.
    pilot : PrivacyRecord, optional
        The record of :func:`sketchlearn.privacy.private_design`, which chose the map from the data. What it spent is
        added.
    mechanism : {"auto", "laplace", "gaussian"}
        The mechanism; by default the one with the least noise.
    noise : float
        A public number for the variance of known noise in the averages (:meth:`sketchlearn.Sketch.with_noise`). The
        exact variance of a sum of sketches depends on exact numbers of rows and is not published.
    sample : float, optional
        The share of the rows that the pass used (``sl.sketch(..., sample=...)``). Nobody knows which rows were used, so
        less noise is needed for the same guarantee. This doesn't make the result better; see
        :mod:`sketchlearn.privacy.amplification`.
    ledger : Ledger, optional
        The ledger in which the release is recorded *before* any noise is drawn. It refuses releases that exceed the
        budget.
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
    users = check_sketch(sketch, relation, records_per_user, rows, noise)
    origin = map_origin(sketch.features, public_map, pilot, relation, users)
    bounds = row_bounds(sketch.features)
    more: dict[str, Any] = {}
    if sample is None:
        chosen = choose_mechanism(bounds, sketch.features.size, epsilon, delta, relation, users, mechanism)
        spent = chosen.spent
    else:
        check_sample(sketch, sample, relation, users)
        chosen, more = choose_for_sample(bounds, sketch.features.size, epsilon, delta, float(sample), mechanism)
        spent = spent_on_sample(chosen, more)
        if _key_of(sketch) in _released:
            raise ValueError(
                "a sample can be released only once: a second release of the same rows would need new coin flips"
            )
    check_ledger(ledger, dataset)
    noises.ready()
    what = f"sketch of {sketch.features.size} {sketch.features.kind} features, {chosen.name}"
    charged = charge(ledger, dataset, [(what, spent)], relation, users, pilot)
    if charged is None or sample is not None:
        _remember(sketch, chosen)
    sums, count = draw(sketch.sums, sketch.weight if rows is None else rows, bounds, chosen)
    if charged:
        more["charged"] = charged
    if rows is not None:
        more["rows"] = "declared public by the releaser"
    if sketch.origin.rows_per_user is not None:
        more["user"] = f"rows chosen by column {sketch.origin.user!r} in the pass"
    made = released(sketch.features, sums, count, chosen, bounds, relation, users, origin, more, pilot)
    warn_if_weak(epsilon, delta, made.count / (sample or 1.0))
    return made.with_noise(noise) if noise else made


def warn_if_weak(epsilon: float, delta: float, rows: float) -> None:
    """Say so if a guarantee protects little; `rows` is the number that is released."""
    words = []
    if delta > 1.0 / max(rows, 1.0):
        words.append(
            f"delta={delta:.3g} is above 1 / {rows:,.0f} rows: publishing a few whole rows would satisfy it; take it "
            "far below"
        )
    if epsilon > _WEAK:
        words.append(f"epsilon={epsilon:.3g}: outcomes may be {math.exp(min(epsilon, 700.0)):.0e} times as likely")
    if words:
        warn("; ".join(words), WeakGuaranteeWarning)


def check_ledger(ledger: Ledger | None, dataset: str | None) -> None:
    """Refuse a ledger without the name of the data, and a name without a ledger."""
    if (ledger is None) != (dataset is None):
        raise ValueError("ledger= and dataset= go together: where to write, and the name of the data")


def charge(
    ledger: Ledger | None,
    dataset: str | None,
    spendings: Sequence[tuple[str, Spent]],
    relation: str,
    records_per_user: int,
    pilot: PrivacyRecord | None = None,
) -> list[str] | None:
    """Write spendings down before any noise is drawn, and a pilot that was not; what to remember of the ledger."""
    if ledger is None or dataset is None:
        return None
    lines = list(spendings)
    if pilot is not None and pilot.details.get("charged") != [ledger.identity, same_name(dataset)]:
        rho, margin = pilot.details.get("rho"), pilot.details.get("margin")
        lines.insert(0, ("the pilot that chose the map", Spent(pilot.epsilon, pilot.delta, rho, margin=margin)))
    # on disk before any noise is drawn: no crash can leave a release that is not in the ledger
    ledger.spend_all(dataset, lines, relation, records_per_user)
    return [ledger.identity, same_name(dataset)]


def released(
    features: FeatureMap,
    sums: Ints,
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
    variances = [list(run) for run in chosen.variances(bounds)]
    details: dict[str, Any] = {
        **chosen.details,
        "scale": chosen.scale,
        "rho": chosen.rho,
        "bound": bounds.proof,
        "map": origin,
        "noise": together([noises.generator(), *([] if pilot is None else [pilot.details.get("noise")])]),
        **(more or {}),
    }
    if len(variances) > 1:
        details["variances"] = variances
    epsilon, delta = chosen.epsilon, chosen.delta
    if pilot is not None:
        details["pilot"] = {"epsilon": pilot.epsilon, "delta": pilot.delta}
        rho = pilot.details.get("rho")
        details["rho"] = None if rho is None or details["rho"] is None else details["rho"] + rho
        details.pop("margin", None)  # of two releases together it is not that of one
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


def check_sketch(
    sketch: Sketch,
    relation: str,
    records_per_user: int | None = None,
    rows: int | None = None,
    noise: float = 0.0,
) -> int:
    """Refuse sketches whose sums the bounds don't cover; how many rows one person may have."""
    if not isinstance(sketch, Sketch):
        hint = "; for a table use sketchlearn.privacy.privatize_table" if isinstance(sketch, SketchTable) else ""
        raise TypeError(f"privatize takes a sketch, got {type(sketch).__name__}{hint}")
    if sketch.privacy is not None:
        raise ValueError("the sketch is already private: it needs no more noise, and learning from it costs nothing")
    origin = sketch.origin
    if origin.own_map:
        raise ValueError(
            "the map of the sketch was chosen by looking at these very rows (sketchlearn sketch without "
            "--features), so it can't be public. Sketch them again with a map from public bounds, or run "
            "'sketchlearn privatize' (or sketchlearn.privacy.privatize_rows) on the rows, which makes a private map"
        )
    if sketch.weight_bits or sketch.squared_weights != repeated(sketch.weight, 0) or origin.fractional:
        raise ValueError(
            "the rows have fractional weights: the contribution of a row is then not bounded by that of a row of "
            "weight 1. Sketch without sample_weight, or repeat rows and set records_per_user"
        )
    users = (origin.rows_per_user or 1) if records_per_user is None else records_per_user
    heaviest = origin.largest >> WEIGHT_BITS
    if heaviest > users:
        raise ValueError(
            f"a row of weight {heaviest} counts as that many rows of one person, but records_per_user is {users}: "
            f"sketch without weights, or set records_per_user={heaviest}"
        )
    if origin.rows_per_user is not None and users < origin.rows_per_user:
        raise ValueError(
            f"the pass used up to {origin.rows_per_user} rows of one user, but records_per_user is {users}: make the "
            f"pass with max_rows_per_user={users}"
        )
    if sketch.noise and not noise:
        raise ValueError(
            "the sketch has known noise in its averages. In a sum of sketches its size depends on exact numbers of "
            "rows, so it can't be published: give a public number with noise=, or use with_noise after the release"
        )
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1):
        raise ValueError(f"rows must be a positive integer, got {rows!r}")
    if rows is not None and relation != "replace-one":
        raise ValueError("rows= is a public number of rows, for relation='replace-one'; here it is noised")
    # of no rows, too: whether any are left after others were taken out is in the data
    if relation == "replace-one" and rows is None and (sketch.skipped or origin.by_content or not sketch.weight):
        raise ValueError(
            "how many rows there are depends on what is in them (a condition or a query, one group of several, "
            "weights, or rows that were skipped), so their number is not public: use relation='add-remove', "
            "under which it is noised, or declare it with rows=, a number that you know from elsewhere"
        )
    return users


def map_mark(features: FeatureMap) -> str:
    """What binds a pilot to the map that it chose: all of the recipe but names of columns."""
    recipe = {k: v for k, v in features.recipe().items() if k != "columns"}
    return hashlib.blake2b(json.dumps(recipe, sort_keys=True).encode(), digest_size=16).hexdigest()


def map_origin(
    features: FeatureMap, public_map: bool, pilot: PrivacyRecord | None, relation: str, records_per_user: int
) -> str:
    """Where the map comes from, in words; ValueError if nobody says that it may be published."""
    if pilot is not None:
        if not isinstance(pilot, PrivacyRecord):
            raise TypeError(f"pilot must be the record of a private design, got {type(pilot).__name__}")
        if pilot.details.get("chose") != map_mark(features):
            raise ValueError("the pilot is the record of something else: the map of this sketch does not come from it")
        if (pilot.relation, pilot.records_per_user) != (relation, records_per_user):
            raise ValueError(
                f"the map was chosen for {pilot.relation}, {pilot.records_per_user} records per user; the release asks "
                f"for {relation}, {records_per_user}"
            )
        return "chosen from the data by a private pilot"
    if public_map:
        return "declared public by the releaser"
    if features.provenance == "public bounds":
        return "chosen from bounds that were given as public"
    if features.provenance.startswith(OTHER_DATA):
        return f"chosen from {features.provenance}"
    known = f"it was chosen from {features.provenance}" if features.provenance else "nothing says how it was chosen"
    raise InputError(
        f"the feature map may have been chosen from these rows ({known}): then its centre and scale "
        "would be published without noise. Do one of three things: design the map from public ",
        PUBLIC,
        "; give the rows instead of the sketch (privatize_rows in Python), so that a part of the budget pays for the "
        "map; or, if you know that the map is public, confirm it with ",
        Option("public_map", True),
        " (sketches of a store, or of files of earlier versions, don't say where their map comes from; the command "
        "privatize reads it from the map file, given with --features)",
    )


def _key_of(sketch: Sketch) -> bytes:
    """What tells a sketch from others, in this process alone."""
    what = sketch.features.recipe_json().encode() + sketch.sums.tobytes() + sketch.weight.to_bytes(16)
    return hashlib.blake2b(what, key=_KEY).digest()


def _remember(sketch: Sketch, chosen: Mechanism) -> None:
    """Say so if this process released the same sketch before (a ledger remembers for longer)."""
    before = _released.setdefault(_key_of(sketch), [])
    before.append((chosen.epsilon, chosen.delta))
    if len(before) > 1:
        total = math.fsum(e for e, _ in before), math.fsum(d for _, d in before)
        warn(
            f"release number {len(before)} of the same sketch: together they guarantee epsilon={total[0]:.6g}, "
            f"delta={total[1]:.3g} only. A Ledger keeps count across processes and refuses what exceeds a budget",
            RepeatedReleaseWarning,
        )
