"""How the rows behind a sketch were chosen and weighted: what a private release has to know about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sketchlearn.sketches.weights import WEIGHT_BITS

_RARE = ("own_map", "sampled")  # fields that are written only where they say something
ONE = 1 << WEIGHT_BITS
"""The weight of a row without a weight, in units of 2**-16."""


@dataclass(frozen=True)
class Origin:
    """How the rows behind a sketch were chosen and weighted.

    Says nothing about what is in the rows, so that sketches are equal whatever it holds.

    `largest`: the largest weight of a row, in units of 2**-16. `fractional`: some weights were not whole numbers, even
    if their sums are. `by_content`: how many rows there are depends on what is in them: a condition or a query, one
    group of several, rows that were skipped, or weights. `user`: the column that says whose row it is, where the pass
    bounded what one user adds. `rows_per_user`: the most rows of one user that the pass let in. `own_map`: the feature
    map was chosen by looking at these very rows: nobody can say that it is public. `sampled`: the probability with
    which the pass took each row, by secret coins.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> sl.sketch([[1.0], [2.0]], phi, sample_weight=[1, 5]).origin.largest / 2**16
    5.0
    """

    largest: int = ONE
    fractional: bool = False
    by_content: bool = False
    user: str | None = None
    rows_per_user: int | None = None
    own_map: bool = False
    sampled: float | None = None

    @classmethod
    def together(cls, origins: Sequence[Origin]) -> Origin:
        """Of the rows of several sketches; one user may be in all of them."""
        if not origins:
            return cls()
        users = {origin.user for origin in origins}
        bounds = [origin.rows_per_user for origin in origins]
        bounded = len(users) == 1 and None not in bounds
        return cls(
            largest=max(origin.largest for origin in origins),
            fractional=any(origin.fractional for origin in origins),
            by_content=any(origin.by_content for origin in origins),
            user=origins[0].user if bounded else None,
            rows_per_user=sum(b for b in bounds if b is not None) if bounded else None,
            own_map=any(origin.own_map for origin in origins),
            sampled=origins[0].sampled if len({origin.sampled for origin in origins}) == 1 else None,
        )

    def without(self, other: Origin) -> Origin:
        """Of the rows that are left when others are taken out."""
        return replace(
            self,
            by_content=self.by_content or other.by_content,
            own_map=self.own_map or other.own_map,
            sampled=None,  # which coins are left is not known
        )

    def to_json(self) -> dict[str, Any]:
        """As values of JSON; what is rare only where it is so."""
        return {name: value for name, value in asdict(self).items() if name not in _RARE or value}

    @classmethod
    def from_json(cls, value: Any) -> Origin:
        """Inverse of :meth:`to_json`; ValueError for anything else."""
        if not isinstance(value, dict) or {*value, *_RARE} != {f.name for f in fields(cls)}:
            raise ValueError("not a record of how rows were chosen")
        flags = (value["fractional"], value["by_content"], value.get("own_map", False))
        share = value.get("sampled")
        user, bound, largest = value["user"], value["rows_per_user"], value["largest"]
        right = (
            all(isinstance(flag, bool) for flag in flags)
            and type(largest) is int
            and largest >= 0
            and (user is None or isinstance(user, str))
            and (bound is None or (type(bound) is int and bound >= 1))
            and (share is None or (type(share) is float and 0.0 < share < 1.0))
        )
        if not right:
            raise ValueError("not a record of how rows were chosen")
        return cls(**value)


PLAIN = Origin()
"""All rows, with weight 1."""
