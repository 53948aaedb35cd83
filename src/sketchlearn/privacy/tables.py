"""Private tables: one noisy sketch per group, and which groups there are.

A row is in one group, so all groups together are one long vector that one person moves no further than the sums of one
group: every group gets the noise of a single release, and the whole table has the guarantee of one (parallel
composition).  That holds whatever groups the rows of one person are in: lengths of vectors in different groups add up
at most as they do in one.

Which groups there are is data too.  Either the list is public: then a group without rows is released as well, and rows
of other groups are left out.  Or groups are released whose noisy number of rows is large (partition selection: Korolova
et al. 2009; Desfontaines, Voss, Gipson and Mandayam 2022).  A group that has rows of one person alone must then stay
unseen but with a small probability, which is a part of delta.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sketchlearn.privacy import noise
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism, draw
from sketchlearn.privacy.release import charge, check_ledger, check_sketch, map_origin, released, warn_if_weak
from sketchlearn.privacy.sensitivity import row_bounds
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch

_MOST_GROUPS = 2**20  # for the margin of discrete noise where the number of groups is not public


def privatize_table(
    table: SketchTable,
    epsilon: float,
    delta: float = 0.0,
    *,
    groups: Sequence[Any] | None = None,
    records_per_user: int | None = None,
    public_map: bool = False,
    pilot: PrivacyRecord | None = None,
    mechanism: str = "auto",
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> SketchTable:
    """A noisy copy of a table of sketches. The whole table has the guarantee of a single release.

    Neighbours are tables with and without the rows of one person ("add-remove").  All groups of the result are one
    release: their union and whatever is learned from them have the same guarantee.

    Parameters
    ----------
    table : SketchTable
        Exact sketches, from ``sl.sketch(..., group_by=...)``.
    epsilon, delta : float
        The guarantee. Without `groups`, delta must be positive; half of it is spent on the list of groups.
    groups : sequence of labels, optional
        A public list of the groups. Groups without rows are released too, as pure noise. Rows of other groups are left
        out.
    records_per_user : int, optional
        The largest number of rows that one person may have, in all groups together.
    public_map, pilot, mechanism, ledger, dataset
        As in :func:`sketchlearn.privatize`.

    Returns
    -------
    SketchTable

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import privatize_table
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(9000, 2))
    >>> phi = sl.design(bounds=([-1, -1], [1, 1]), n_components=2, size=50)
    >>> table = sl.sketch(X, phi, group_by=["a"] * 5000 + ["b"] * 3999 + ["c"])
    >>> private = privatize_table(table, epsilon=1.0, delta=1e-6, public_map=True)
    >>> private.groups, private.union().privacy.epsilon
    (['a', 'b'], 1.0)
    """
    if not isinstance(table, SketchTable):
        raise TypeError(f"privatize_table takes a table of sketches, got {type(table).__name__}")
    most = _rows_per_user(table) if records_per_user is None else records_per_user
    for s in table.values():
        check_sketch(s, "add-remove", most)
    features = table.features
    origin = map_origin(features, public_map, pilot, "add-remove", most)
    chosen_by = "given as a public list" if groups is not None else "chosen by their noisy numbers of rows"
    selecting = 0.0
    if groups is None:
        if not delta > 0.0:
            raise ValueError(
                "the list of groups is a fact about the data: give a public list with groups=, or delta > 0"
            )
        selecting = delta / 2.0
    names = list(table) if groups is None else list(dict.fromkeys(groups))
    if not names:
        raise ValueError("groups is empty: name at least one")
    copies = _MOST_GROUPS if groups is None else len(names)
    bounds = row_bounds(features)
    chosen = choose_mechanism(
        bounds, features.size, epsilon, delta - selecting, "add-remove", most, mechanism, copies
    )  # fmt: skip
    check_ledger(ledger, dataset)
    noise.ready()
    whole = replace(chosen.spent, delta=chosen.delta + selecting)
    if selecting:  # the chance that a group shows is not part of a Gaussian law
        whole = replace(whole, rho=None, margin=None)
    what = f"table of sketches of {features.size} {features.kind} features, {chosen.name}"
    charged = charge(ledger, dataset, [(what, whole)], "add-remove", most, pilot)
    more: dict[str, Any] = {"release": secrets.token_hex(16), "groups": chosen_by}
    more["composition"] = "parallel, over groups"
    if charged:
        more["charged"] = charged
    least = threshold(chosen, most, selecting) if selecting else None
    if least is not None:
        more["threshold"] = least
    paid = replace(chosen, delta=chosen.delta + selecting)
    found = {}
    for label in names:
        exact = table[label] if label in table else Sketch.empty(features)
        sums, rows = draw(exact.sums, exact.weight, bounds, chosen)
        if least is None or rows >= least:
            found[label] = released(features, sums, rows, paid, bounds, "add-remove", most, origin, more, pilot)
    if not found:
        raise ValueError(
            f"no group has enough rows to be shown: {least:,} are needed at epsilon={epsilon:g}, delta={delta:g}. The "
            "budget for this step is spent; a public list of groups needs no such number"
        )
    warn_if_weak(epsilon, delta, max(s.count for s in found.values()))
    return SketchTable(found)


def _rows_per_user(table: SketchTable) -> int:
    """How many rows one person has in all groups together, by what the passes saw to."""
    bounded = [s.origin.rows_per_user is not None for s in table.values()]
    if not any(bounded):
        return 1
    if table.rows_per_user is None:
        raise ValueError(
            "the rows of each user were bounded in some groups only, or by different columns: say records_per_user, "
            "the largest number of rows that one person has in all groups together"
        )
    return table.rows_per_user


def threshold(chosen: Mechanism, records_per_user: int, delta: float) -> int:
    """The noisy number of rows from which a group is shown.

    Groups of one person's rows alone have at most `records_per_user` rows, and there are at most as many of them.  Each
    is shown with a probability of at most delta over that number.

    Examples
    --------
    >>> from sketchlearn.privacy.mechanism import choose_mechanism
    >>> from sketchlearn.privacy.sensitivity import phase_bounds
    >>> from sketchlearn.privacy.tables import threshold
    >>> 20 < threshold(choose_mechanism(phase_bounds(10), 10, 1.0, 1e-6), 1, 1e-6) < 120
    True
    """
    far = chosen.count_tail(delta / records_per_user)
    return math.ceil(records_per_user + far * (1.0 + 1e-9)) + 1
