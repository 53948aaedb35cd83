"""From a table nobody has described to a feature map, with a small budget: ranges, units and categories under privacy.

For each column of numbers the rows that have a value are counted, with noise, and two quantiles near its ends are
chosen among public bins (:mod:`sketchlearn.privacy.selection`), twice: the first time on a grid of all numbers, the
second between what the first has found.  For each column of labels those are taken that enough rows have.  Everything
else (centre, unit, what stands for a missing value, indicators) is made from these few released numbers.

The types of the columns are public.  Text without types (CSV, JSON lines) has none: its columns are numbers, but for
those that are said to be labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import sketchlearn
from sketchlearn.arrays import Array
from sketchlearn.designs import design as plain_design
from sketchlearn.engines.progress import Report
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.encoder import Category, Encoder, Number
from sketchlearn.privacy import noise
from sketchlearn.privacy.columns import Table
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.mechanism import check_request, choose_mechanism
from sketchlearn.privacy.pilot import Bounds, private_size, spread_map
from sketchlearn.privacy.ranges import Choices, Column, Part
from sketchlearn.privacy.release import charge, check_ledger, map_mark, privatize
from sketchlearn.privacy.sensitivity import phase_bounds
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketching import sketch

_USUAL = 20  # features per component and column
_LIKE = 1000  # features of a release whose cost is looked up before its map is known: it hardly depends on them
_RARE = 0.01  # smallest share of the rows with which an indicator counts


@dataclass(frozen=True)
class Preparation:
    """Ranges, units and labels of the columns of a table, bought with a budget; made by :func:`prepare`.

    Attributes
    ----------
    columns : tuple of Column
        What is known of each; columns of labels without a frequent one are no part of the map.
    encoder : Encoder or None
        How rows become numbers; None where columns have no names.
    parts : tuple of Part
        Each choice with its cost.
    record : PrivacyRecord
        The cost of all of them together.
    """

    columns: tuple[Column, ...]
    encoder: Encoder | None
    parts: tuple[Part, ...]
    record: PrivacyRecord

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Bounds of the encoded columns, half as wide again as what was found."""
        wide = [0.5 * (c.upper - c.lower) if not c.labels else 0.0 for c, _ in self._encoded()]
        lower = np.array([c.lower for c, _ in self._encoded()]) - wide
        return lower, np.array([c.upper for c, _ in self._encoded()]) + wide

    @property
    def rows(self) -> int:
        """About how many rows there are: the largest noisy number of values of a column."""
        return max(column.rows for column in self.columns)

    @property
    def units(self) -> tuple[Array, Array]:
        """Offset and spread of the encoded columns."""
        found = []
        for column, i in self._encoded():
            if not column.labels:
                found.append((column.offset, column.spread))
                continue
            share = column.shares[i] if i < len(column.shares) else 1.0 - sum(column.shares)
            share = min(max(share, _RARE), 1.0 - _RARE)
            found.append((share, math.sqrt(share * (1.0 - share))))
        offset, spread = np.array(found).T
        return offset, spread

    def _encoded(self) -> list[tuple[Column, int]]:
        """For each encoded column where it comes from, and which indicator it is."""
        return [(c, i) for c in self.columns if c.shown for i in range(len(c.values) + 1 if c.labels else 1)]

    def design(
        self, n_components: int = 20, *, task: str = "kmeans", size: int | None = None, seed: int = 0,
        standardize: bool = True,
    ) -> tuple[FeatureMap, PrivacyRecord]:  # fmt: skip
        """A map made of what was bought, and the record that :func:`sketchlearn.privatize` takes as ``pilot=``.

        Parameters
        ----------
        n_components, size, seed
            As in :func:`sketchlearn.design`.
        task : str
            "kmeans", or a task that can be designed from bounds.
        standardize : bool
            For k-means: every column counts in its own unit.

        Returns
        -------
        FeatureMap, PrivacyRecord
        """
        (lower, upper), (offset, spread) = self.bounds, self.units
        if task == "kmeans":
            d = len(offset)
            unit = spread if standardize else np.full(d, math.sqrt(float(np.mean(spread**2))))
            m = size or max(100, _USUAL * n_components * d)
            phi: FeatureMap = spread_map(np.zeros(d), 1.0, n_components, m, seed).standardized(offset, unit)
        else:
            phi = plain_design(bounds=(lower, upper), n_components=n_components, task=task, size=size, seed=seed)
        if self.encoder is not None:
            phi = phi.with_encoder(self.encoder)
        phi = phi.explained(f"{phi.size} features for ranges and units that were released with privacy")
        phi = phi.chosen_from("a private preparation")
        return phi, replace(self.record, details={**self.record.details, "chose": map_mark(phi)})

    def describe(self) -> str:
        """What was found and what each part cost, in lines for people."""
        lines = [column.describe() for column in self.columns]
        costs = [part.describe() for part in self.parts]
        return "\n".join([*lines, "what it cost:", *(f"  {line}" for line in costs), f"  {self.arithmetic}"])

    @property
    def arithmetic(self) -> str:
        """How the costs of the parts add up."""
        return str(self.record.details["arithmetic"])


def prepare(
    data: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    columns: Sequence[str] | None = None,
    categories: Sequence[str] | Mapping[str, Sequence[str]] = (),
    bounds: Mapping[str, tuple[float, float]] | Bounds | None = None,
    most: int = 20,
    relation: str = "add-remove",
    records_per_user: int | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    **reading: Any,
) -> Preparation:
    """Find ranges, units and labels of the columns of a table, with a small privacy budget.

    This is everything that a feature map has to know about a table. With some ten thousand rows, a tenth of the budget
    of a release is enough.

    Parameters
    ----------
    data : file, frame, array, or anything else that can be read twice
        All rows. The types of the columns count as public.
    epsilon, delta, relation, ledger, dataset
        As in :func:`sketchlearn.privatize`, for the preparation alone.
    columns : sequence of str, optional
        Columns to prepare; by default all.
    categories : sequence of str, or mapping
        Columns of labels, besides columns of text, booleans and dates. A mapping gives public lists of their labels,
        which cost nothing. Without public lists, delta > 0 is needed.
    bounds : mapping of str to (lower, upper), or (lower, upper), optional
        Public bounds. A column with bounds is read once instead of twice.
    most : int
        The largest number of labels of a column that get an indicator column.
    records_per_user : int, optional
        As in :func:`sketchlearn.privatize`; by default `max_rows_per_user`, or 1.
    **reading
        `user` and `max_rows_per_user`, `where`, `format` and others of :func:`sketchlearn.read`.

    Returns
    -------
    Preparation

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import prepare
    >>> X = np.random.default_rng(0).normal([50, 2000], [1, 20], size=(100_000, 2))
    >>> found = prepare(X, epsilon=0.1, delta=1e-7)
    >>> phi, spent = found.design(n_components=3)
    >>> s = sl.privatize(sl.sketch(X, phi), epsilon=0.9, delta=9e-7, pilot=spent)
    >>> s.privacy.epsilon, bool(np.abs(found.units[0] - [50, 2000]).max() < 20)
    (1.0, True)
    """
    work = _work(data, epsilon, delta, columns, categories, bounds, most, relation, records_per_user, reading)
    check_ledger(ledger, dataset)
    return _bought(work, ledger, dataset)


def _work(
    data: Any, epsilon: float, delta: float, columns: Any, categories: Any, bounds: Any, most: int, relation: str,
    records_per_user: int | None, reading: Mapping[str, Any],
) -> Choices:  # fmt: skip
    """What is to be chosen, checked; no row has been counted."""
    bounded = reading.get("max_rows_per_user")
    people = (bounded or 1) if records_per_user is None else records_per_user
    check_request(epsilon, delta, relation, people, "auto")
    if bounded is not None and people < bounded:
        raise ValueError(f"the pass uses up to {bounded} rows of one user, but records_per_user is {people}")
    if reading.get("weight_column") is not None or reading.get("sample_weight") is not None:
        raise ValueError("preparation can't use weights: a weight counts as that many rows of one person")
    table = Table.of(data, columns, categories, bounds, reading)
    noise.ready()
    return Choices(table, float(epsilon), float(delta), relation, int(people), most)


def _bought(work: Choices, ledger: Ledger | None, dataset: str | None) -> Preparation:
    """All choices, after they were charged."""
    table, relation, people = work.table, work.relation, work.people
    what = f"preparation of {len(table.order)} columns"
    charged = charge(ledger, dataset, [(what, work.spent)], relation, people)
    found = [*work.of_numbers(), *work.of_labels()]
    order = {name: i for i, name in enumerate(table.order)}
    found.sort(key=lambda column: order[column.name])
    details: dict[str, Any] = {
        "noise": noise.generator(), "rho": work.spent.rho, "composition": work.spent.by,
        "arithmetic": work.arithmetic(), "parts": len(work.parts),
    }  # fmt: skip
    if charged is not None:
        details["charged"] = charged
    record = PrivacyRecord(
        mechanism="choice among public bins + discrete-laplace", epsilon=work.spent.epsilon, delta=work.spent.delta,
        relation=relation, records_per_user=people, sums_variance=0.0, weight_variance=0.0,
        library=sketchlearn.__version__, details=details,
    )  # fmt: skip
    shown = [c for c in found if c.shown]
    if not shown:
        raise ValueError("no column is left: no label is frequent enough to be shown at this epsilon and delta")
    rules = tuple(Category(c.name, c.values) if c.labels else Number(c.name, fill=c.offset) for c in shown)
    return Preparation(tuple(found), Encoder(rules) if table.named else None, tuple(work.parts), record)


def privatize_rows(
    data: Any,
    epsilon: float,
    delta: float = 0.0,
    *,
    n_components: int = 20,
    task: str = "kmeans",
    size: int | None = None,
    seed: int = 0,
    share: float = 0.1,
    standardize: bool = True,
    columns: Sequence[str] | None = None,
    categories: Sequence[str] | Mapping[str, Sequence[str]] = (),
    bounds: Mapping[str, tuple[float, float]] | Bounds | None = None,
    most: int = 20,
    relation: str = "add-remove",
    records_per_user: int | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    workers: int | None = None,
    progress: bool | Report | None = None,
    **reading: Any,
) -> tuple[Sketch, Preparation]:
    """From a table to a private sketch in one call: preparation, map, pass and release under one guarantee.

    Missing numbers are filled.  Rows that hold infinity are left out.

    Parameters
    ----------
    data, columns, categories, bounds, most, **reading
        As in :func:`prepare`.
    epsilon, delta, relation, records_per_user, ledger, dataset
        As in :func:`sketchlearn.privatize`, for everything together. If the budget in the ledger is too small, nothing
        is spent.
    n_components, task, size, seed, standardize
        As in :meth:`Preparation.design`; the number of features is chosen for the budget and the number of rows that
        the preparation has found.
    share : float
        The share of epsilon and delta for the preparation.
    workers, progress
        As in :func:`sketchlearn.sketch`.

    Returns
    -------
    Sketch, Preparation
        The release, whose record covers everything, and what the preparation found.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import privatize_rows
    >>> X = np.random.default_rng(0).normal([50, 2000], [1, 20], size=(100_000, 2))
    >>> s, found = privatize_rows(X, epsilon=1.0, delta=1e-6, n_components=3)
    >>> s.privacy.epsilon, bool(abs(s.count - 100_000) < 1000)
    (1.0, True)
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must be between 0 and 1, got {share!r}")
    check_ledger(ledger, dataset)
    first, rest = (share * epsilon, share * delta), ((1.0 - share) * epsilon, (1.0 - share) * delta)
    work = _work(data, *first, columns, categories, bounds, most, relation, records_per_user, reading)
    if ledger is not None and dataset is not None:
        like = choose_mechanism(phase_bounds(_LIKE), _LIKE, *rest, relation, work.people).spent
        ledger.check(dataset, [("preparation", work.spent), ("release", like)], relation, work.people)
    found = _bought(work, ledger, dataset)
    if size is None and task == "kmeans":
        size, _ = private_size(
            n_components, len(found.units[0]), *rest, rows=max(found.rows, 1), relation=relation,
            records_per_user=work.people,
        )  # fmt: skip
    phi, spent = found.design(n_components, task=task, size=size, seed=seed, standardize=standardize)
    # that a pass has stopped would tell of a row; under add-remove nobody learns how many were left out
    invalid = "skip" if relation == "add-remove" else "raise"
    exact = sketch(data, phi, workers=workers, progress=progress, on_invalid=invalid, **reading)
    made = privatize(
        exact, *rest, relation=relation, records_per_user=work.people, pilot=spent, ledger=ledger, dataset=dataset
    )  # fmt: skip
    return made, found
