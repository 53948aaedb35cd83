"""What sketches must have in common, and how large their sums may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from sketchlearn.exceptions import IncompatibleSketchError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.record import PrivacyRecord

if TYPE_CHECKING:
    from sketchlearn.sketches.value import Sketch

_LIMIT = 2**63 - 1


def check_range(features: FeatureMap, weight: int) -> None:
    """Refuse total weights whose sums might not fit int64."""
    if features.entry_bound is not None and weight * features.entry_bound > _LIMIT:
        raise OverflowError(
            f"a total weight of {weight} units is beyond what exact 64-bit sums can hold "
            f"({_LIMIT // features.entry_bound}); use smaller or whole-number weights"
        )


def check_same_features(a: Sketch, b: Sketch) -> None:
    if a.features is b.features:
        return
    if a.features != b.features:
        raise IncompatibleSketchError(f"the sketches have different feature maps: {a.features.difference(b.features)}")
    if a.features.fingerprint != b.features.fingerprint:
        raise IncompatibleSketchError(
            "the sketches have the same recipe but were made with different frequencies "
            f"(fingerprints {a.features.fingerprint} and {b.features.fingerprint})"
        )


def in_words(count: int | float) -> str:
    """A number of rows for people."""
    return f"{count:,}" if isinstance(count, int) else f"{count:,.6g}"


def at_bits(s: Sketch, bits: int) -> tuple[npt.NDArray[Any], int]:
    shift = bits - s.weight_bits
    if shift == 0:
        return s.sums, s.weight
    check_range(s.features, s.weight << shift)
    return s.features.shift_sums(s.sums, shift), s.weight << shift


def merged_record(records: list[PrivacyRecord | None], pool: bool) -> PrivacyRecord | None:
    known = [record for record in records if record is not None]
    if not known:
        return None
    release = known[0].details.get("release")
    if release is not None and all(r is not None and r.details.get("release") == release for r in records):
        return PrivacyRecord.joint(known)  # groups of one table, released together
    if pool:
        return PrivacyRecord.added(known)
    if len(known) < len(records):
        raise ValueError(
            "can't merge private sketches with exact ones: the sum would promise nothing about the exact rows; "
            "release the exact sketch first, or compare the two"
        )
    if len(known) > 1:
        raise ValueError(
            "what private sketches promise together depends on whether somebody is behind two of them, and nobody can "
            "tell from the sketches: say so with sketchlearn.privacy.combine(sketches, users='disjoint' or 'same')"
        )
    return known[0]
