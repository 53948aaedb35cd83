"""What a release promises: the record that travels with a private sketch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from sketchlearn.arrays import Array


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

    def variances_of_sums(self) -> float | Array:
        """Variance of the noise of each sum: one number, or one per entry if they differ."""
        runs = self.details.get("variances")
        if runs is None:
            return self.sums_variance
        return np.repeat([float(v) for _, v in runs], [int(n) for n, _ in runs])

    @property
    def largest_variance(self) -> float:
        """Largest variance of the noise of a sum."""
        runs = self.details.get("variances")
        return self.sums_variance if runs is None else max((float(v) for _, v in runs), default=0.0)

    def covers(self, sums: int) -> bool:
        """Whether it tells the noise of so many sums."""
        runs = self.details.get("variances")
        return runs is None or sum(int(n) for n, _ in runs) == sums

    def explain(self) -> str:
        """What was released and what is guaranteed, in words for people who are neither engineers nor statisticians.

        Examples
        --------
        >>> from sketchlearn.sketches.record import PrivacyRecord
        >>> print(PrivacyRecord("discrete-gaussian", 1.0, 1e-6, "add-remove", 1, 400.0, 25.0, "0.1.0").explain())
        Random noise was added to these totals before they were released (discrete-gaussian noise, sketchlearn 0.1.0).
        The promise: whether or not the data of any one person (up to 1 row) is included, every possible outcome of the
        release stays about as likely: at most 2.72 times as likely (epsilon = 1), except with a probability of
        0.000001 (delta).  This holds whatever else somebody knows, and whatever is computed from the release later.
        The number of rows is protected too: it is known only up to about 5.
        It rests on what the software can't check: that nobody has more than 1 row, that the feature map was chosen
        without looking at the data (unknown), and that the exact totals are kept secret or deleted.
        """
        return "\n".join(textwrap.fill(line, 111, break_on_hyphens=False) for line in self.sentences())

    def sentences(self) -> list[str]:
        """The paragraphs of :meth:`explain`.

        Examples
        --------
        >>> from sketchlearn.sketches.record import PrivacyRecord
        >>> said = PrivacyRecord("discrete-laplace", 0.5, 0.0, "replace-one", 1, 400.0, 0.0, "0.1.0").sentences()
        >>> said[2]
        'The number of rows is public: the promise is about what is in them.'
        """
        rows = "1 row" if self.records_per_user == 1 else f"{self.records_per_user} rows"
        if self.relation == "add-remove":
            change = f"whether or not the data of any one person (up to {rows}) is included"
            count = (
                "The number of rows is protected too: it is known only up to about "
                f"{max(1, round(math.sqrt(self.weight_variance))):,}."
            )
        else:
            change = f"whatever the data of any one person (up to {rows}) is replaced by"
            count = "The number of rows is public: the promise is about what is in them."
        ratio = math.exp(min(self.epsilon, 700.0))
        factor = f"{ratio:.3g}" if ratio < 1e6 else f"{ratio:.0e}"
        chance = np.format_float_positional(self.delta, trim="-")
        except_for = f", except with a probability of {chance} (delta)" if self.delta else ", always"
        origin = str(self.details.get("map", "unknown"))
        noise = str(self.details.get("noise", ""))
        made = (
            "Random noise was added to these totals before they were released "
            f"({self.mechanism} noise, sketchlearn {self.library})."
        )
        if self.details.get("model") == "local":
            made = (
                "Every device sent one randomised answer about its row, and nothing else ever left it "
                f"({self.mechanism}, sketchlearn {self.library})."
            )
        promise = (
            f"The promise: {change}, every possible outcome of the release stays about as likely: at most {factor} "
            f"times as likely (epsilon = {self.epsilon:g}){except_for}.  This holds whatever else somebody knows, and "
            "whatever is computed from the release later."
        )
        chosen = f"that the feature map was chosen without looking at the data ({origin})"
        pilot = self.details.get("pilot")
        if isinstance(pilot, dict) and isinstance(pilot.get("epsilon"), float):
            chosen = f"that the feature map was {origin} alone (epsilon = {pilot['epsilon']:g}, included above)"
        premises = (
            f"It rests on what the software can't check: {self._people(rows)}{chosen}, and that the exact totals are "
            "kept secret or deleted."
        )
        lines = [made, promise, count, premises]
        if "NOT PRIVATE" in noise:
            lines.insert(0, f"WARNING: the noise was {noise}: nothing that follows is guaranteed.")
        return lines

    def _people(self, rows: str) -> str:
        """What has to be true of people, as the beginning of a list."""
        said = "" if "user" in self.details else f"that nobody has more than {rows}, "
        if "replacement" in self.details:
            said += "that what a person's rows are replaced by is in the same part, "
        if "rows" in self.details:
            said += "that the number of rows is public knowledge, "
        return said

    @classmethod
    def added(cls, records: Sequence[PrivacyRecord]) -> PrivacyRecord:
        """The record of a sum of releases, of whatever people: noise and guarantees add up."""
        if len(records) == 1:
            return records[0]
        return replace(
            records[0],
            mechanism=" + ".join(dict.fromkeys(record.mechanism for record in records)),
            epsilon=math.fsum(record.epsilon for record in records),
            delta=math.fsum(record.delta for record in records),
            records_per_user=min(record.records_per_user for record in records),
            sums_variance=math.fsum(record.sums_variance for record in records),
            weight_variance=math.fsum(record.weight_variance for record in records),
            details={
                "composition": "sequential",
                "parts": len(records),
                **{name: together(record.details.get(name) for record in records) for name in ("noise", "map")},
                **added_variances(records),
            },
        )

    @classmethod
    def joint(cls, records: Sequence[PrivacyRecord]) -> PrivacyRecord:
        """The record of a sum of sketches released together: the noise adds up, and there is one guarantee."""
        if len(records) == 1:
            return records[0]
        return replace(
            records[0],
            sums_variance=math.fsum(record.sums_variance for record in records),
            weight_variance=math.fsum(record.weight_variance for record in records),
            details={**records[0].details, "parts": len(records), **added_variances(records)},
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
        _check_runs(value["details"].get("variances"))
        return cls(**value)


def _check_runs(runs: Any) -> None:
    """Refuse a field ``"variances"`` that isn't a list of (how many sums, variance of their noise)."""
    if runs is None:
        return
    for run in runs if isinstance(runs, list) else [None]:
        count, variance = run if isinstance(run, list) and len(run) == 2 else (0, 0.0)
        number = type(variance) in (int, float) and 0 <= variance < math.inf
        if type(count) is not int or not 0 < count < 2**40 or not number:
            raise ValueError(f"variances of a privacy record: pairs of a number of sums and a variance, got {run!r}")


def together(values: Iterable[Any]) -> str:
    """What several records say about one thing."""
    return "; ".join(dict.fromkeys(str(value) for value in values if value is not None))


def added_variances(records: Sequence[PrivacyRecord]) -> dict[str, Any]:
    """The field ``"variances"`` of the record of a sum, if its parts have one."""
    if not all("variances" in record.details for record in records):
        return {}
    runs = zip(*(record.details["variances"] for record in records), strict=True)
    return {"variances": [[run[0][0], math.fsum(v for _, v in run)] for run in runs]}
