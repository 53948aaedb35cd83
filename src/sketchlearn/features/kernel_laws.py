"""Radial laws of kernels with a name: Laplace, Matérn, Cauchy; and how to add one's own.

A shift-invariant kernel is the characteristic function of its frequencies (Bochner; Rahimi and Recht 2007), and a
kernel of the distance r alone has uniform directions: the law of the radius decides.  With ``radial="laplace"`` and
``scale=s`` the features approximate ``exp(-r / s)``, with ``"matern"`` Matérn's kernel of that length scale, and with
``"cauchy"`` the kernel ``1 / (1 + r**2 / (2 s**2))``, which is as curved at 0 as the Gaussian kernel of that scale.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features import portable
from sketchlearn.features.portable import TabulatedLaw
from sketchlearn.features.radial import LAWS, RadialLaw

_LEAST_SMOOTHNESS = 0.5
_PANELS = 4096  # of the tabulated radius: linear interpolation between them is right to about 1e-6
_NODES = np.arange(-36.0, 5.0, 0.0625)  # logarithms of the variance that Cauchy's frequencies mix over
_Law = TypeVar("_Law", bound=type[RadialLaw])


def register_law(cls: _Law) -> _Law:
    """Make a radial law known by its name, so that maps can be drawn with it and files of them read.

    A law is a frozen dataclass derived from :class:`RadialLaw`, with a `name` of its own, numbers as fields, and two
    methods: ``quantile(u, dim)``, the radius at each probability, and ``second_moment(dim)``.  Use additions,
    multiplications, divisions and square roots only, in a fixed order (:mod:`sketchlearn.features.portable` has a
    logarithm and an exponential of these): maps then have the same bits on any machine.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import sketchlearn as sl
    >>> from sketchlearn.features import RadialLaw, register_law
    >>> @register_law
    ... @dataclass(frozen=True)
    ... class ShellLaw(RadialLaw):
    ...     thickness: float = 0.1
    ...     name = "shell"
    ...
    ...     def quantile(self, u, dim):
    ...         return 1.0 + self.thickness * u
    ...
    ...     def second_moment(self, dim):
    ...         return 1.0 + self.thickness + self.thickness**2 / 3
    >>> phi = sl.FourierFeatures.draw(dim=3, size=8, scale=2.0, radial="shell")
    >>> sl.FeatureMap.from_recipe(phi.recipe()) == phi
    True
    """
    name = cls.__dict__.get("name")
    if not isinstance(cls, type) or not issubclass(cls, RadialLaw) or not dataclasses.is_dataclass(cls):
        raise TypeError(f"a radial law is a frozen dataclass derived from RadialLaw, got {cls!r}")
    if not isinstance(name, str) or not name:
        raise TypeError(f"{cls.__name__} needs a name of its own, a text")
    known = LAWS.get(name)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise ValueError(f"there is a radial law {name!r} already")
    LAWS[name] = cls
    return cls


@register_law
@dataclass(frozen=True)
class MaternLaw(RadialLaw):
    """Of Matérn's kernel: frequencies follow Student's law with ``2 smoothness`` degrees of freedom.

    The scale of a map is the length scale l: with smoothness 1/2 the kernel is ``exp(-r/l)``, with 3/2
    ``(1 + sqrt(3) r/l) exp(-sqrt(3) r/l)``.  Its squared frequencies may have no mean.
    """

    smoothness: float = 1.5
    name: ClassVar[str] = "matern"

    def __post_init__(self) -> None:
        if not self.smoothness >= _LEAST_SMOOTHNESS:
            raise ValueError(f"smoothness must be at least {_LEAST_SMOOTHNESS}, got {self.smoothness}")

    def quantile(self, u: Array, dim: int) -> Array:
        s = _student(dim, float(self.smoothness)).quantile(u)
        return math.sqrt(dim) * s / (1.0 - s)

    def second_moment(self, dim: int) -> float:
        """`dim`, so that scales are length scales; the mean of the squared radius may not exist."""
        return float(dim)


@register_law
@dataclass(frozen=True)
class LaplaceLaw(RadialLaw):
    """Of the kernel ``exp(-r / scale)``: frequencies follow Cauchy's law."""

    name: ClassVar[str] = "laplace"

    def quantile(self, u: Array, dim: int) -> Array:
        return MaternLaw(0.5).quantile(u, dim)

    def second_moment(self, dim: int) -> float:
        """`dim`, so that scales are length scales; the squared radius has no mean."""
        return float(dim)


@register_law
@dataclass(frozen=True)
class CauchyLaw(RadialLaw):
    """Of the kernel ``1 / (1 + r**2 / (2 scale**2))``: normal frequencies whose variance is exponential."""

    name: ClassVar[str] = "cauchy"

    def quantile(self, u: Array, dim: int) -> Array:
        radius, below = _cauchy(dim)
        place = np.clip(np.searchsorted(below, u, side="right") - 1, 0, len(below) - 2)
        wide = below[place + 1] - below[place]
        part = (u - below[place]) / np.where(wide > 0, wide, 1.0)
        return np.asarray(radius[place] + part * (radius[place + 1] - radius[place]))

    def second_moment(self, dim: int) -> float:
        return float(dim)


_tables: dict[tuple[int, float], TabulatedLaw] = {}
_mixed: dict[int, tuple[Array, Array]] = {}


def _student(dim: int, smoothness: float) -> TabulatedLaw:
    """Of s = r / (r + sqrt(dim)) for the radius r of Student's law, whose tail is too long for a table of its own."""
    if (dim, smoothness) not in _tables:
        power = smoothness + 0.5 * dim

        def logarithm(s: Array) -> Array:
            x = s / (1.0 - s)
            tail = portable.log(1.0 + x * x * (dim / (2.0 * smoothness)))
            return (dim - 1) * portable.log(x) - power * tail - 2.0 * portable.log(1.0 - s)

        highest = float(logarithm((np.arange(4096) + 0.5) / 4096).max())

        def density(s: Array) -> Array:
            inside = (s > 0.0) & (s < 1.0)
            return np.where(inside, portable.exp(logarithm(np.where(inside, s, 0.5)) - highest), 0.0)

        _tables[dim, smoothness] = TabulatedLaw(density, 1.0)
    return _tables[dim, smoothness]


def _cauchy(dim: int) -> tuple[Array, Array]:
    """Radii and the probabilities below: ``r**(d-1)`` times the integral of ``t**(-d/2) exp(-t - r**2/(2 t))``."""
    if dim not in _mixed:
        upper = 6.5 * (math.sqrt(dim) + 6.5)
        # squares of equal steps: more of them where radii of few dimensions are dense
        steps = np.arange(_PANELS + 1) / _PANELS
        radius = upper * steps * steps
        safe = np.where(radius > 0, radius, 1.0)
        logs = np.empty((len(_NODES), len(radius)))
        for i, y in enumerate(_NODES.tolist()):
            t = float(portable.exp(np.array([y]))[0])
            logs[i] = y * (1.0 - 0.5 * dim) - t - safe * safe * (0.5 / t) + (dim - 1) * portable.log(safe)
        highest = float(logs[:, 1:].max())
        density = np.zeros(len(radius))
        for line in logs:
            density = density + portable.exp(np.maximum(line - highest, -700.0))
        density[0] = 0.0 if dim > 1 else density[1]
        # the smallest radii of one dimension have a density like a logarithm: the first panel counts as flat
        mass = 0.5 * (density[1:] + density[:-1]) * (radius[1:] - radius[:-1])
        below = np.concatenate([[0.0], np.cumsum(mass)])
        _mixed[dim] = radius, below / below[-1]
    return _mixed[dim]
