"""What a sketch knows, in words."""

from __future__ import annotations

import numpy as np

from sketchlearn.features.base import OWN_ROWS
from sketchlearn.sketches.checks import in_words
from sketchlearn.sketches.parts import Parts
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import one_line


def facts(sketch: Sketch) -> dict[str, str]:
    """Facts about the sketch, as pairs of label and text."""
    rows = "none (empty)" if sketch.weight == 0 else in_words(sketch.count)
    if sketch.skipped:
        rows += f" ({sketch.skipped} invalid rows skipped)"
    found = {
        "rows": rows,
        "columns": str(sketch.features.dim),
        "features": f"{sketch.features.size} ({sketch.features.describe()})",
        "size": f"{sketch.nbytes:,} bytes",
    }
    if sketch.features.reason:
        found["map"] = one_line(sketch.features.reason.partition(":")[0])
    if sketch.features.purpose:
        found["designed for"] = one_line(sketch.features.purpose)
    if sketch.features.provenance:
        whose = OWN_ROWS if sketch.origin.own_map else sketch.features.provenance
        found["chosen from"] = one_line(whose)
    if sketch.features.projection is not None:
        found["columns"] += f": {sketch.features.projection.describe()}"
    if sketch.weight and sketch.effective_count != sketch.count:
        found["rows"] += f", as good as {sketch.effective_count:,.6g} of equal weight"
    if sketch.weight:
        z = np.abs(sketch.mean)
        source = "of the averages" if sketch.privacy is None else "and noise of the release"
        source += ", and noise that is known of" if sketch.noise else ""
        found["noise level"] = f"{sketch.noise_level:.3g} per feature (sampling error {source})"
        found["signal"] = f"{np.mean(z > 3 * sketch.standard_errors):.0%} of the features stand above 3 standard errors"
    if sketch.privacy is not None:
        found["noise of the release"] = f"{sketch.nsr:.3g} of the energy of the averages"
    if sketch.has_box:
        found["box"] = ", ".join(
            f"[{a:.4g}, {b:.4g}]" for a, b in zip(sketch.lower[:4], sketch.upper[:4], strict=True)
        ) + (", ..." if sketch.features.dim > 4 else "")
    found["private"] = "no (exact sums)" if sketch.privacy is None else _promise(sketch.privacy)
    if sketch.parts is not None:
        found["parts"] = _record(sketch.parts)
    if sketch.extra:
        found["also in the file"] = ", ".join(map(one_line, sorted(sketch.extra)))
    return found


def _promise(record: PrivacyRecord) -> str:
    people = "" if record.records_per_user == 1 else f", up to {record.records_per_user} rows per person"
    return (
        f"yes: epsilon {record.epsilon:.4g}, delta {record.delta:.3g} ({record.relation}{people}), noise by "
        f"{record.mechanism} with standard deviation {record.sums_variance**0.5:.4g} grid units per sum and "
        f"{record.weight_variance**0.5:.4g} rows"
    )


def _record(parts: Parts) -> str:
    inside = sum(into > out for into, out in parts.times.values())
    outside = sum(out >= into for into, out in parts.times.values())
    text = f"{inside} known to be in" + (f", {outside} taken out" if outside else "")
    return text + (" (there were more than the record can hold)" if parts.forgotten else "")
