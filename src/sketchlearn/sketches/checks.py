"""What sketches must have in common, and how large their sums may be."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from sketchlearn.arrays import AnyArray
from sketchlearn.exceptions import IncompatibleSketchError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.record import PrivacyRecord

if TYPE_CHECKING:
    from sketchlearn.sketches.value import Sketch

_LIMIT = 2**63 - 1
_SIGMAS = 64.0  # standard deviations that no noise exceeds: of Laplace's law, the widest in use, one in 10**39 does


def check_range(features: FeatureMap, weight: int) -> None:
    """Refuse total weights whose sums might not fit int64."""
    if features.entry_bound is not None and weight * features.entry_bound > _LIMIT:
        raise OverflowError(
            f"a total weight of {weight} units is beyond what exact 64-bit sums can hold "
            f"({_LIMIT // features.entry_bound}); use smaller or whole-number weights"
        )


def implausible(
    features: FeatureMap, sums: AnyArray, weight: int, bits: int, noise: float, privacy: PrivacyRecord | None
) -> str | None:
    """Why no rows of this total weight can have these sums, under the noise that is said to be in them; or None.

    Noise may do what rows can't, but no more than it is said to, and no more than the sums can hold.
    """
    if not np.isfinite(sums).all():
        return "some are not finite"
    if not noise and privacy is None:
        return features.impossible(sums, weight)
    bound = features.entry_bound
    if bound is None:
        return None
    deviation, rows = noise_in_sums(features, weight, noise), float(weight)
    if privacy is not None:
        if not privacy.covers(sums.size):
            return "the privacy record tells the noise of another number of sums"
        deviation = float(np.hypot(deviation, 2.0**bits * np.sqrt(privacy.largest_variance)))
        rows += _SIGMAS * 2.0**bits * float(np.sqrt(privacy.weight_variance))
    most = bound * rows + _SIGMAS * deviation
    if not most <= _LIMIT:
        return "the noise that is said to be in them is more than 64-bit integers hold"
    if sums.size and max(int(sums.max()), -int(sums.min())) > most:
        return "they are larger than the features and the noise that is said to be in them allow"
    return None


def noise_in_sums(features: FeatureMap, weight: int, noise: float) -> float:
    """Standard deviation, in units of the sums, of known noise in the mean (its variance is `noise`)."""
    bound = features.entry_bound
    if not noise or not weight or bound is None:
        return 0.0
    # both in proportion to the largest that rows can have: a map knows what its sums mean, we need not
    full = np.full(features.sums_shape, bound, features.sums_dtype)
    largest = float(np.abs(features.mean_from_sums(full, 1.0)).max(initial=0.0))
    return float(np.sqrt(noise)) / largest * bound * weight if largest > 0 else 0.0


def check_noise(features: FeatureMap, weight: int, noise: float) -> None:
    """Refuse known noise that the sums could not hold."""
    if not noise < np.inf or _SIGMAS * noise_in_sums(features, weight, noise) > _LIMIT:
        raise OverflowError(f"noise of variance {noise:.3g} in the mean is more than 64-bit sums can hold")


def check_same_features(a: Sketch, b: Sketch) -> None:
    for each in (a, b):
        if not hasattr(each, "features"):
            how = (
                "load it with sl.load(path)"
                if isinstance(each, str | PathLike)
                else "make one with sl.sketch(rows, features)"
            )
            raise TypeError(f"expected a sketch, got {type(each).__name__}; {how}")
    if a.features is b.features:
        return
    if a.features != b.features:
        raise IncompatibleSketchError(
            f"the sketches have different feature maps ({a.features.difference(b.features)}): use one map for "
            "both, designed once"
        )
    if a.features.fingerprint != b.features.fingerprint:
        raise IncompatibleSketchError(
            "the sketches have the same recipe but were made with different frequencies "
            f"(fingerprints {a.features.fingerprint} and {b.features.fingerprint})"
        )


def in_words(count: int | float) -> str:
    """A number of rows for people."""
    return f"{count:,}" if isinstance(count, int) else f"{count:,.6g}"


def at_bits(s: Sketch, bits: int) -> tuple[AnyArray, int]:
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
            "can't merge private sketches with exact ones: the sum would not protect the exact rows; release the "
            "exact sketch first, or compare the two"
        )
    if len(known) > 1:
        raise ValueError(
            "the guarantee of a sum of private sketches depends on whether one person can be in two of them, and the "
            "sketches don't show this: say it with sketchlearn.privacy.combine(sketches, users='disjoint' or 'same')"
        )
    return known[0]
