"""A sequence of sketches as distances with p-values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.comparison.columns import size_in_words
from sketchlearn.comparison.squares import SumOfSquares
from sketchlearn.comparison.two_sample import (
    SamplingNoise,
    check_comparable,
    chosen_entries,
    compared,
    sampling_noise,
)
from sketchlearn.exceptions import DataWarning, warn
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sketches.value import pooled

_FARTHEST = 100.0  # standard deviations
_SATURATED = 0.99  # of the distance that no shift exceeds


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
    reference_rows : int or float
        Rows behind the reference.
    effect : float
        The standardised effect: the shift, in standard deviations, that would move the rows as far. It doesn't grow
        with the number of rows or columns. For one normal column, 0.3 is a population stability index of 0.1 (a small
        change), and 0.5 is one of 0.25 (a large change). NaN if it is not known.
    law, scale
        What the squared distance follows without a difference, in units of `scale`, for :meth:`limit`.
    """

    label: str
    reference: str
    observed: float
    noise: float
    distance: float
    p_value: float
    rows: int | float
    against: str = "first"
    reference_rows: int | float = 0
    effect: float = float("nan")
    law: SumOfSquares | None = field(default=None, repr=False, compare=False)
    scale: float = field(default=0.0, repr=False)

    @property
    def size(self) -> str:
        """How large the change is, by :attr:`effect`: small (below 0.3), moderate, or large (above 0.5)."""
        return size_in_words(self.effect**2)  # (the stability index of a shift)

    def limit(self, alpha: float) -> float:
        """The distance beyond which the p-value is below `alpha`."""
        if self.law is None:
            return 0.0
        beyond = self.law.limit(alpha) * self.scale - self.noise**2
        return float(np.sqrt(max(beyond, 0.0)))

    def facts(self) -> dict[str, Any]:
        """What a person wants to see of it, by name; None for what is not known."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("law", "scale")}
        shown["size"] = self.size
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in shown.items()}


class Pair(NamedTuple):
    """Two sketches that were compared, and the noise of their rows."""

    change: Change
    reference: Sketch
    sketch: Sketch
    noise: SamplingNoise


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
    if not isinstance(sketches, Mapping | SketchTable):
        given = list(sketches)
        if given and all(isinstance(v, Change) for v in given):
            if labels is not None:
                raise ValueError("these changes have labels already")
            return given  # type: ignore[return-value]
        sketches = given  # type: ignore[assignment]
    return [pair.change for pair in compared_pairs(sketches, labels=labels, against=against)]  # type: ignore[arg-type]


def compared_pairs(
    sketches: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch],
    *,
    labels: Sequence[str] | None = None,
    against: str = "first",
) -> Iterator[Pair]:
    """What :func:`changes` returns, with the sketches; those with fewer than two rows are left out."""
    if against not in ("first", "previous", "rest"):
        raise ValueError(f"against={against!r}: choose 'first', 'previous' or 'rest'")
    if isinstance(sketches, SketchTable):
        sketches = {key: sketches[key] for key in sorted(sketches.counts, key=_order)}
    if isinstance(sketches, Mapping):
        names, values = [str(key) for key in sketches], list(sketches.values())
    else:
        values = list(sketches)
        names = [str(i) for i in range(len(values))]
    if labels is not None:
        names = [str(label) for label in labels]
    if len(names) != len(values):
        raise ValueError(f"there are {len(values)} sketches and {len(names)} labels")
    for value in values:
        if not isinstance(value, Sketch):
            raise TypeError(f"expected sketches, got {type(value).__name__}")
    names, values = _enough(names, values)
    for value in values:
        check_comparable(values[0], value)
    total = pooled(values)
    noise = sampling_noise(total)  # of a row, whichever sketch it is in
    yardstick = _Yardstick.of(total, noise)
    for i in range(0 if against == "rest" else 1, len(values)):
        if against == "rest":
            # noise can't be taken out again: private sketches of the others are added up instead
            rest = total - values[i] if total.privacy is None else pooled(values[:i] + values[i + 1 :])
            other, name = rest, "all others"
        else:
            j = 0 if against == "first" else i - 1
            other, name = values[j], names[j]
        c = compared(other, values[i], noise)
        law, factor = noise.of_difference(other, values[i])
        entries = len(noise.covariance) // 2
        change = Change(
            names[i], name, float(c.statistic) ** 0.5, float(c.expected) ** 0.5, c.distance, c.p_value,
            values[i].count, against, other.count, yardstick.shift_of(c.distance),
            law, factor / entries,
        )  # fmt: skip
        yield Pair(change, other, values[i], noise)


class _Yardstick(NamedTuple):
    """How far a shift of the rows moves a sketch.

    A shift by t standard deviations in a random direction (of a normal law) turns an average by a random angle of
    variance ``t^2 turns``: its mean squared distance is ``2 power (1 - exp(-t^2 turns / 2))``.
    """

    turns: Array
    power: Array

    @classmethod
    def of(cls, sketch: Sketch, noise: SamplingNoise) -> _Yardstick:
        features = characteristic(sketch.features)
        chosen = np.arange(features.size)[chosen_entries(features.size)]
        w = features.operator(dtype=np.float64).rows(chosen).forward(np.diag(noise.spread)).T
        power = np.abs(sketch.mean[chosen]) ** 2 - sketch.variances[chosen]
        return cls((w * w).mean(1), np.maximum(power, 0.0))

    def shift_of(self, distance: float) -> float:
        """The shift with this distance; infinite if there is none."""
        low, high = 0.0, _FARTHEST
        if 2.0 * self.power.mean() * _SATURATED <= distance**2:
            return math.inf
        for _ in range(50):
            middle = 0.5 * (low + high)
            far = float(np.mean(2.0 * self.power * -np.expm1(-0.5 * middle**2 * self.turns)))
            low, high = (middle, high) if far < distance**2 else (low, middle)
        return high


def _enough(names: list[str], values: list[Sketch]) -> tuple[list[str], list[Sketch]]:
    """The sketches that have rows enough to be compared; a few that have not are no reason to see nothing."""
    few = [name for name, value in zip(names, values, strict=True) if value.effective_count < 2]
    left = [(name, value) for name, value in zip(names, values, strict=True) if value.effective_count >= 2]
    if len(left) < 2:
        also = f", {len(few)} with fewer than two rows" if few else ""
        raise ValueError(f"a sequence needs at least two sketches, got {len(values)}{also}")
    if few:
        listed = ", ".join(few[:5]) + (", ..." if len(few) > 5 else "")
        warn(f"left out, with fewer than two rows: {listed}", DataWarning)
    return [name for name, _ in left], [value for _, value in left]


def _order(key: Any) -> tuple[bool, str, Any]:
    """Keys of one type in their own order, others by type, a missing one last."""
    return (key is None, type(key).__name__, key)
