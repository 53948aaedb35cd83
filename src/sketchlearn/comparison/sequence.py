"""A sequence of sketches as distances with p-values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sketchlearn.comparison.two_sample import check_comparable, compared, sampling_noise
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sketches.value import pooled


@dataclass(frozen=True)
class Change:
    """One sketch of a sequence against its reference.

    Attributes
    ----------
    label, reference : str
        Its name, and the name of what it was compared with.
    observed : float
        Distance of the averages (MMD), sampling noise included.
    noise : float
        The distance that sampling noise alone would give, on average.
    distance : float
        The part of the distance that noise doesn't explain.
    p_value : float
        Of no difference.
    rows : int or float
        Rows behind the sketch.
    against : str
        The kind of reference: ``"first"``, ``"previous"`` or ``"rest"``.
    """

    label: str
    reference: str
    observed: float
    noise: float
    distance: float
    p_value: float
    rows: int | float
    against: str = "first"


def changes(
    sketches: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch] | Sequence[Change],
    *,
    labels: Sequence[str] | None = None,
    against: str = "first",
) -> list[Change]:
    """Compare each sketch of a sequence with the first one, the one before or all others.

    The sampling noise is learned once, from all sketches together.

    Parameters
    ----------
    sketches, labels, against
        As for :func:`sketchlearn.plots.drift`.

    Returns
    -------
    list of Change

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.comparison import changes
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
    >>> days = [sl.sketch(rng.normal(size=(500, 2)) + (day == 2), phi) for day in range(3)]
    >>> [bool(change.p_value < 1e-6) for change in changes(days)]
    [False, True]
    """
    if against not in ("first", "previous", "rest"):
        raise ValueError(f"against={against!r}: choose 'first', 'previous' or 'rest'")
    if isinstance(sketches, SketchTable):
        sketches = {key: sketches[key] for key in sorted(sketches.counts, key=_order)}
    if isinstance(sketches, Mapping):
        names, values = [str(key) for key in sketches], list(sketches.values())
    else:
        values = list(sketches)  # type: ignore[arg-type]
        if values and all(isinstance(v, Change) for v in values):
            if labels is not None:
                raise ValueError("these changes have labels already")
            return values  # type: ignore[return-value]
        names = [str(i) for i in range(len(values))]
    if labels is not None:
        names = [str(label) for label in labels]
    if len(names) != len(values):
        raise ValueError(f"there are {len(values)} sketches and {len(names)} labels")
    for value in values:
        if not isinstance(value, Sketch):
            raise TypeError(f"expected sketches, got {type(value).__name__}")
    if len(values) < 2:
        raise ValueError(f"a sequence needs at least two sketches, got {len(values)}")
    for value in values:
        check_comparable(values[0], value)
    total = pooled(values)
    noise = sampling_noise(total)  # of a row, whichever sketch it is in
    found = []
    for i in range(0 if against == "rest" else 1, len(values)):
        if against == "rest":
            # noise can't be taken out again: private sketches of the others are added up instead
            rest = total - values[i] if total.privacy is None else pooled(values[:i] + values[i + 1 :])
            other, name = rest, "all others"
        else:
            j = 0 if against == "first" else i - 1
            other, name = values[j], names[j]
        c = compared(other, values[i], noise)
        observed, by_noise = float(c.statistic) ** 0.5, float(c.expected) ** 0.5
        found.append(Change(names[i], name, observed, by_noise, c.distance, c.p_value, values[i].count, against))
    return found


def _order(key: Any) -> tuple[bool, str, Any]:
    """Keys of one type in their own order, others by type, a missing one last."""
    return (key is None, type(key).__name__, key)
