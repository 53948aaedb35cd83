"""What a release promises: the record that travels with a private sketch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class PrivacyRecord:
    """Mechanism, guarantee and noise of a released sketch.

    Attributes
    ----------
    mechanism : str
        How the noise was drawn.
    epsilon, delta : float
        The guarantee.
    relation : str
        Which datasets are neighbours: ``"add-remove"`` or ``"replace-one"``.
    records_per_user : int
        How many rows one person may have.
    sums_variance : float
        Variance of the noise of each sum, in units of the grid, squared.
    weight_variance : float
        Variance of the noise of the number of rows.
    library : str
        Version that made the release.
    details : mapping
        Whatever else is worth keeping: sensitivities, the split of the budget, composition.

    Examples
    --------
    >>> from sketchlearn.sketches.record import PrivacyRecord
    >>> record = PrivacyRecord("discrete-gaussian", 1.0, 1e-6, "add-remove", 1, 400.0, 25.0, "0.1.0")
    >>> PrivacyRecord.from_json(record.to_json()) == record
    True
    """

    mechanism: str
    epsilon: float
    delta: float
    relation: str
    records_per_user: int
    sums_variance: float
    weight_variance: float
    library: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def merged(cls, records: Sequence[PrivacyRecord]) -> PrivacyRecord:
        """The record of a sum of releases of different rows: noise adds up, the weakest guarantee holds for each."""
        first = records[0]
        if len(records) == 1:
            return first
        relations = {record.relation for record in records}
        if len(relations) > 1:
            raise ValueError(f"can't merge releases that protect different things: {', '.join(sorted(relations))}")
        return replace(
            first,
            mechanism=", ".join(dict.fromkeys(record.mechanism for record in records)),
            epsilon=max(record.epsilon for record in records),
            delta=max(record.delta for record in records),
            records_per_user=min(record.records_per_user for record in records),
            sums_variance=sum(record.sums_variance for record in records),
            weight_variance=sum(record.weight_variance for record in records),
            details={"merged": [record.to_json() for record in records]},
        )

    def to_json(self) -> dict[str, Any]:
        """As values of JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, value: Any) -> PrivacyRecord:
        """Inverse of :meth:`to_json`; ValueError if it is no record."""
        names = {f.name for f in fields(cls)}
        if not isinstance(value, dict) or set(value) != names:
            raise ValueError(f"fields of a privacy record: {sorted(names)}")
        for name in ("epsilon", "delta", "sums_variance", "weight_variance"):
            number = value[name]
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
                raise ValueError(f"{name} of a privacy record must be a number, not negative, got {number!r}")
        for name in ("mechanism", "relation", "library"):
            if not isinstance(value[name], str):
                raise ValueError(f"{name} of a privacy record must be text, got {value[name]!r}")
        users = value["records_per_user"]
        if isinstance(users, bool) or not isinstance(users, int) or users < 1 or not isinstance(value["details"], dict):
            raise ValueError("not a privacy record")
        return cls(**value)
