"""Releases of a sample of the rows: which guarantee of the sample is one of all rows.

Each row is in the sample with probability b, by secret and independent coins.  A release of the sample that is
(e, d)-private for neighbours that differ by one row is (log(1 + b (exp(e) - 1)), b d)-private for all rows (Balle,
Barthe and Gaboardi, "Privacy amplification by subsampling", 2018, theorem 8, which is tight).  The whole privacy
profile of Gaussian noise is known, so asking for delta / b at the larger epsilon loses nothing.

It does not help.  Noise for the larger epsilon falls with b, and so does the number of rows: relative to the averages
it is the same for small epsilon, larger for large epsilon, and the averages have the error of a sample on top (Chatalic
2020, section 9.3, has the same for features).  What is gained is time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sketchlearn.privacy.composition import Spent
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism
from sketchlearn.privacy.sensitivity import Bounds
from sketchlearn.sketches.value import Sketch


def of_sample(epsilon: float, delta: float, share: float) -> tuple[float, float]:
    """The guarantee that the release of a sample needs for one of all rows.

    Examples
    --------
    >>> from sketchlearn.privacy.amplification import of_sample
    >>> inner = of_sample(1.0, 1e-6, 0.1)
    >>> round(inner[0], 3), round(inner[1], 8)
    (2.9, 1e-05)
    """
    inner = math.log1p(math.expm1(epsilon) / share)
    # rounded down, so that the guarantee holds in spite of the last bits
    return inner * (1.0 - 1e-12), delta / share


def check_sample(sketch: Sketch, sample: float, relation: str, records_per_user: int) -> None:
    """Refuse a sketch that is no such sample."""
    share = sketch.origin.sampled
    if share != float(sample):
        made = "was not sampled" if share is None else f"is a sample of {share:g} of the rows"
        raise ValueError(
            f"sample={sample!r}, and the sketch {made}: make it by sl.sketch(..., sample={sample!r}). Sums of sampled "
            "and other sketches are no sample"
        )
    if relation != "add-remove" or records_per_user != 1:
        raise ValueError(
            "sampling of rows strengthens the guarantee only with relation='add-remove' and one row per person"
        )


def choose_for_sample(
    bounds: Bounds, size: int, epsilon: float, delta: float, share: float, mechanism: str
) -> tuple[Mechanism, dict[str, Any]]:
    """The noise for a sample, as a mechanism with the guarantee of all rows, and what the record says of it."""
    inner, wider = of_sample(epsilon, delta, share)
    if not wider < 1.0:
        raise ValueError(f"delta={delta:g} is too large for a sample of {share:g} of the rows")
    chosen = choose_mechanism(bounds, size, inner, wider, "add-remove", 1, mechanism)
    details = {k: v for k, v in chosen.details.items() if k != "margin"}  # of the sample, not of all rows
    pure = chosen.delta == 0.0
    rho = 0.5 * epsilon**2 if pure else None
    said = {"rho": rho, "sample": {"share": share, "epsilon": inner, "delta": chosen.delta}}
    return replace(chosen, epsilon=float(epsilon), delta=0.0 if pure else float(delta), details=details), said


def spent_on_sample(chosen: Mechanism, said: dict[str, Any]) -> Spent:
    """What such a release spends; sampled Gaussian noise is no Gaussian noise any more."""
    return Spent(chosen.epsilon, chosen.delta, said["rho"])
