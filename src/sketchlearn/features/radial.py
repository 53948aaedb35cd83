"""Radial laws: how long the random frequencies are.

A law gives the radius R of a frequency before scaling.  The map multiplies by
``sqrt(d / E[R^2]) / scale``, so that for every law ``E|w|^2 = d / scale^2``: the scale is the standard
deviation of the Gaussian kernel with the same mean squared frequency.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import Array, Flags
from sketchlearn.features import portable
from sketchlearn.features.portable import TabulatedLaw


@dataclass(frozen=True)
class RadialLaw(ABC):
    """Base of the radial laws; subclasses are frozen dataclasses whose fields are the law's parameters."""

    name: ClassVar[str]
    many_scales: ClassVar[bool] = False
    """Whether radii are in units of 1 / (standard deviation of the data) and span many scales."""

    @abstractmethod
    def quantile(self, u: Array, dim: int) -> Array:
        """Radius at each probability in (0, 1)."""

    @abstractmethod
    def second_moment(self, dim: int) -> float:
        """E[R^2]; `dim` for a law whose kernel has a length scale of its own, which `scale` is then."""

    def importance(self, radius: Array, dim: int) -> Array:
        """Weight w of a frequency in the weighted kernel (features are to be divided by it)."""
        return np.ones_like(radius)

    def broad(self, u: Array) -> Flags:
        """Which probabilities belong to the part of the law that spans all scales (all, unless it is mixed)."""
        return np.ones(u.shape, bool)

    def to_recipe(self) -> dict[str, Any]:
        """JSON-able description."""
        return {"law": self.name, **{f.name: getattr(self, f.name) for f in fields(self)}}

    @staticmethod
    def from_recipe(recipe: dict[str, Any]) -> RadialLaw:
        """Inverse of :meth:`to_recipe`; ValueError if it is not one."""
        if not isinstance(recipe, dict) or recipe.get("law") not in LAWS:
            raise ValueError(f"unknown radial law {recipe!r} (one of your own: register_law makes it known)")
        cls = LAWS[recipe["law"]]
        parameters = {k: v for k, v in recipe.items() if k != "law"}
        if set(parameters) != {f.name for f in fields(cls)}:
            raise ValueError(f"radial law {cls.name!r} has the wrong parameters: {sorted(parameters)}")
        for key, value in parameters.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"radial law {cls.name!r}: {key} must be a finite number, got {value!r}")
        return cls(**{k: float(v) for k, v in parameters.items()})


@dataclass(frozen=True)
class GaussianLaw(RadialLaw):
    """Chi law: with uniform directions the frequencies are normal and the kernel is Gaussian."""

    name: ClassVar[str] = "gaussian"

    def quantile(self, u: Array, dim: int) -> Array:
        return _chi(dim).quantile(u)

    def second_moment(self, dim: int) -> float:
        return float(dim)


@dataclass(frozen=True)
class FoldedLaw(RadialLaw):
    """``|N(0, 1)|`` (Keriven et al. 2017): many low frequencies; superseded by the adapted radius."""

    name: ClassVar[str] = "folded"

    def quantile(self, u: Array, dim: int) -> Array:
        return portable.normal_quantile(0.5 + 0.5 * u)

    def second_moment(self, dim: int) -> float:
        return 1.0


@dataclass(frozen=True)
class AdaptedLaw(RadialLaw):
    """Adapted radius (Keriven et al. 2017), density proportional to sqrt(R^2 + R^4/4) exp(-R^2/2)."""

    name: ClassVar[str] = "adapted"

    def quantile(self, u: Array, dim: int) -> Array:
        return _adapted().quantile(u)

    def second_moment(self, dim: int) -> float:
        return _adapted().second_moment


@dataclass(frozen=True)
class WeightedLaw(RadialLaw):
    """Law of the weighted features of Gribonval et al. (2020): density w(R)^2 times chi, w = 1 + R^2/d.

    The weights are the decoder's business: the sketch holds the plain features, ``importance`` tells
    what to divide them by to get (up to 4 + 2/d) the Gaussian kernel.
    """

    name: ClassVar[str] = "weighted"

    def quantile(self, u: Array, dim: int) -> Array:
        return _weighted(dim).quantile(u)

    def second_moment(self, dim: int) -> float:
        return _weighted(dim).second_moment

    def importance(self, radius: Array, dim: int) -> Array:
        return 1.0 + radius * radius / dim


@dataclass(frozen=True)
class MultiscaleLaw(RadialLaw):
    """Log-uniform on [low, knee], then density of log R proportional to (R/knee)^-decay up to high.

    Made for decoding without a tuned scale: one sketch spans all scales from the whole data set to
    details `high / low` times finer.  Radii are in units of 1 / (standard deviation of the data).
    """

    low: float = 0.7
    knee: float = 3.0
    high: float = 64.0
    decay: float = 2.0
    name: ClassVar[str] = "multiscale"
    many_scales: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.low < self.knee < self.high or not self.decay > 0:
            raise ValueError(
                f"multiscale law needs 0 < low < knee < high and decay > 0, got low={self.low}, "
                f"knee={self.knee}, high={self.high}, decay={self.decay}"
            )

    def _masses(self) -> tuple[float, float]:
        flat = _scalar(portable.log, self.knee / self.low)
        ratio = _scalar(portable.log, self.high / self.knee)
        tail = (1.0 - _scalar(portable.exp, -self.decay * ratio)) / self.decay
        return flat, tail

    def quantile(self, u: Array, dim: int) -> Array:
        flat, tail = self._masses()
        v = u * (flat + tail)
        rising = self.low * portable.exp(np.minimum(v, flat))
        rest = 1.0 - self.decay * np.clip(v - flat, 0.0, tail)
        falling = self.knee * portable.exp(portable.log(rest) * (-1.0 / self.decay))
        return np.where(v < flat, rising, falling)

    def second_moment(self, dim: int) -> float:
        flat, tail = self._masses()
        inner = (self.knee * self.knee - self.low * self.low) / 2.0
        ratio = _scalar(portable.log, self.high / self.knee)
        power = 2.0 - self.decay
        outer = ratio if power == 0 else (_scalar(portable.exp, power * ratio) - 1.0) / power
        return (inner + self.knee * self.knee * outer) / (flat + tail)


@dataclass(frozen=True)
class MixedLaw(RadialLaw):
    """A share of multi-scale radii, the rest adapted radii stretched by `inner`.

    Made for mixtures of unknown widths: the multi-scale part finds the components, the adapted part,
    at the scale of one component, measures their covariances.  Radii are in units of 1 / (standard
    deviation of the data); `inner` is that deviation over the deviation within a component.
    """

    share: float = 0.5
    inner: float = 1.0
    low: float = 0.7
    knee: float = 3.0
    high: float = 64.0
    decay: float = 2.0
    name: ClassVar[str] = "mixed"
    many_scales: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or not self.inner > 0:
            raise ValueError(f"mixed law needs 0 < share < 1 and inner > 0, got share={self.share}, inner={self.inner}")
        self._multiscale()

    def _multiscale(self) -> MultiscaleLaw:
        return MultiscaleLaw(low=self.low, knee=self.knee, high=self.high, decay=self.decay)

    def broad(self, u: Array) -> Flags:
        return u < self.share

    def quantile(self, u: Array, dim: int) -> Array:
        # a mixture by parts: u below `share` indexes the first law, the rest the second
        wide = self._multiscale().quantile(np.minimum(u / self.share, 1.0), dim)
        rest = np.clip((u - self.share) / (1.0 - self.share), 0.0, 1.0)
        return np.where(self.broad(u), wide, _adapted().quantile(rest) * self.inner)

    def second_moment(self, dim: int) -> float:
        adapted = _adapted().second_moment * (self.inner * self.inner)
        return self.share * self._multiscale().second_moment(dim) + (1.0 - self.share) * adapted


LAWS: dict[str, type[RadialLaw]] = {
    law.name: law for law in (GaussianLaw, FoldedLaw, AdaptedLaw, WeightedLaw, MultiscaleLaw, MixedLaw)
}


def probabilities(count: int, seed: int, stratified: bool) -> Array:
    """Uniform numbers (count,) for the quantiles of a law: independent, or one in each stratum in random order."""
    u = portable.Bits(seed, 1).uniforms(count)
    if stratified:
        u = (portable.Bits(seed, 2).permutation(count).astype(np.float64) + u) / count
    return u


def _scalar(function: Any, x: float) -> float:
    return float(function(np.array([x]))[0])


def _chi_density(dim: int, radius: Array) -> Array:
    # scaled by the value at the mode so that nothing over- or underflows in high dimension
    mode = math.sqrt(dim - 1.0) if dim > 1 else 1.0
    safe = np.where(radius > 0, radius, 1.0)
    density = portable.exp((dim - 1) * portable.log(safe / mode) - 0.5 * (safe * safe - mode * mode))
    return np.where(radius > 0, density, 1.0 if dim == 1 else 0.0)


_tables: dict[tuple[str, int], TabulatedLaw] = {}


def _table(name: str, dim: int, density: Any, upper: float) -> TabulatedLaw:
    if (name, dim) not in _tables:
        _tables[name, dim] = TabulatedLaw(density, upper)
    return _tables[name, dim]


def _chi(dim: int) -> TabulatedLaw:
    return _table("gaussian", dim, lambda r: _chi_density(dim, r), math.sqrt(dim) + 9.0)


def _adapted() -> TabulatedLaw:
    def density(r: Array) -> Array:
        return np.sqrt(r * r + r * r * r * r * 0.25) * portable.exp(-0.5 * r * r)

    return _table("adapted", 0, density, 9.0)


def _weighted(dim: int) -> TabulatedLaw:
    def density(r: Array) -> Array:
        w = 1.0 + r * r / dim
        return w * w * _chi_density(dim, r)

    return _table("weighted", dim, density, math.sqrt(dim) + 10.0)
