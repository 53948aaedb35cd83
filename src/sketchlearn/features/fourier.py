"""Random Fourier features: ``exp(+i w·x)`` for random frequencies w = radius x direction / scale.

Precision.  Phases are accumulated in half-turns by fused multiply-adds in the order of the
coordinates.  A row whose rms phase over the frequencies, ``sqrt(sum_k rms_k^2 (x_k - c_k)^2)``, is at
most 32 radians is computed in float32, any other in float64; the choice depends on the row alone.  The
error of one feature is then at most about

- ``2**-24 * (d + 1) * |w|·|x - c|`` (float32; typically ``sqrt(d)`` times smaller than that bound, since
  roundings cancel, and in the mean over n rows another ``sqrt(n)`` smaller),
- ``2**-53 * (d + 1) * |w|·|x - c|`` (float64),

plus 1.8e-7 for polynomial and grid.  Data far from the origin is centred by the recipe constant
``center``, which costs nothing and keeps the fast path.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.accepts import SEED
from sketchlearn.features import dense, low, portable, structured
from sketchlearn.features.base import register
from sketchlearn.features.operator import COPIED_ENTRIES, DenseOperator, Operator
from sketchlearn.features.phases import PhaseMap
from sketchlearn.features.radial import LAWS, RadialLaw, probabilities
from sketchlearn.features.reading import check_per_row
from sketchlearn.features.recipe_arrays import decode_array, encode_array
from sketchlearn.kernels import Plan

_DIRECTIONS = ("orthogonal", "iid")
_RADII = ("stratified", "iid")
_LATER: dict[str, Any] = {"structure": "dense", "quantized": False, "features_per_row": None, "octaves": 0}


@register
@dataclass(frozen=True, eq=False, repr=False)
class FourierFeatures(PhaseMap):
    """Random Fourier features of a recipe; see :meth:`sketchlearn.FourierFeatures.draw` and :func:`sketchlearn.design`.

    Attributes
    ----------
    dim, size : int
        Columns of the data and number of (complex) features.
    scale : float
        Kernel scale: ``E|w|^2 = dim / scale^2`` for every radial law.
    radial : RadialLaw
        Law of the radii.
    directions, radii : str
        ``"orthogonal"`` or ``"iid"``; ``"stratified"`` or ``"iid"``.
    seed : int
        Seed of the draw.
    center : ndarray (dim,) or None
        A constant that is subtracted from the rows before the phases are computed. Results don't depend on it.
    whitening : ndarray (dim, dim) or None
        Linear map applied to the rows before the features.
    spread : ndarray (dim,) or None
        Units of the columns in which distances are meant, of a map made by :meth:`standardized`.
    structure : str
        ``"dense"``, or which structured blocks (see :mod:`sketchlearn.features.structured`).
    quantized : bool
        Whether only the signs of cosine and sine are used (see :mod:`sketchlearn.features.reading`).
    features_per_row : int or None
        How many of the features each row contributes; None for all.
    octaves : int
        How far the last ``2 dim octaves`` frequencies go below the law (see :mod:`sketchlearn.features.low`).

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=10, size=1000, scale=1.5, seed=0)
    >>> phi.dim, phi.size, phi.frequencies.shape
    (10, 1000, (1000, 10))
    >>> phi
    FourierFeatures(dim=10, size=1000, scale=1.5, radial=adapted, seed=0)
    """

    kind: ClassVar[str] = "fourier"
    dim: int
    size: int
    scale: float
    radial: RadialLaw
    directions: str
    radii: str
    seed: int
    center: npt.NDArray[np.float64] | None = None
    whitening: npt.NDArray[np.float64] | None = None
    spread: npt.NDArray[np.float64] | None = None
    structure: str = "dense"
    quantized: bool = False
    features_per_row: int | None = None
    octaves: int = 0

    @classmethod
    def draw(
        cls,
        dim: int,
        size: int,
        scale: float | npt.ArrayLike = 1.0,
        radial: str | RadialLaw = "adapted",
        seed: int = 0,
        *,
        directions: str = "orthogonal",
        radii: str = "stratified",
        center: npt.ArrayLike | None = None,
        whitening: npt.ArrayLike | None = None,
        structure: str = "dense",
        quantized: bool = False,
        features_per_row: int | None = None,
        octaves: int = 0,
    ) -> FourierFeatures:
        """A map with explicit parameters.

        Parameters
        ----------
        dim, size : int
            Columns of the data, number of features.
        scale : float or array (dim,)
            Kernel scale, in the units of the data (after `whitening`); or one per column, which becomes a `whitening`.
        radial : str or RadialLaw
            ``"gaussian"``, ``"folded"``, ``"adapted"``, ``"weighted"``, ``"multiscale"``, ``"laplace"``, ``"matern"``,
            ``"cauchy"``, or a law with its own parameters.
        seed : int
            The same seed and parameters give the same frequencies on any machine.
        directions : {"orthogonal", "iid"}
            Stacked random orthogonal blocks, or independent directions.
        radii : {"stratified", "iid"}
            One radius per quantile stratum in random order, or independent radii.
        center : array (dim,), optional
            Roughly the centre of the data. It keeps computations fast (float32) for data far from the origin.
        whitening : array (dim, dim), optional
            Matrix A: the features become ``exp(i w·(A x))``; `frequencies` are those of x itself.
        structure : {"dense", "hadamard", "gr2", "fastfood", "auto"}
            Frequencies drawn one by one, or blocks of Walsh-Hadamard transforms: ``d log d`` operations per row instead
            of ``d**2``, with directions of their own.  ``"auto"`` takes ``"hadamard"`` where it is faster.
        quantized : bool
            Keep only the signs of cosine and sine, at phases with a random dither: two bits per feature.
        features_per_row : int, optional
            Each row contributes to this many features only: a group that a hash of the row chooses. With structured
            features, it is a multiple of the length of a block.
        octaves : int
            Octaves below the radial law that have frequencies, for far rows; of dense, plain features only.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=4, scale=1.0, radial="gaussian", seed=1)
        >>> phi([[0.0, 0.0]])
        array([[1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j]])
        """
        if isinstance(radial, str):
            if radial not in LAWS:
                raise ValueError(f"radial={radial!r}: choose one of {', '.join(LAWS)}")
            radial = LAWS[radial]()
        centre = None if center is None else dense.finite(center, ((dim,),), "center")
        width, whitening = dense.one_scale(scale, dim, whitening)
        matrix = None if whitening is None else dense.finite(whitening, ((dim, dim),), "whitening")
        if centre is not None:
            # exact in float32, so that float32 and float64 rows are centred alike
            with np.errstate(over="ignore"):
                centre = dense.finite(centre.astype(np.float32), ((dim,),), "center in float32")
        phi = cls(dim, size, width, radial, directions, radii, seed, centre, matrix, octaves=octaves)._validated()
        return phi.redrawn(structure=structure, quantized=quantized, features_per_row=features_per_row)

    def redrawn(
        self, structure: str = "dense", quantized: bool = False, features_per_row: int | None = None
    ) -> FourierFeatures:
        """A map of the same law, scale and seed with another structure, of one bit, or with fewer features per row.

        Those have noise at every frequency, so they have none of the low ones that show far rows (`octaves`).

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=100, size=1000, scale=1.0, seed=0)
        >>> phi.redrawn(structure="auto").structure
        'hadamard'
        """
        chosen = structured.choose(structure, self.dim, self.size, self.whitening)
        drawn: dict[str, Any] = {"structure": chosen, "quantized": quantized, "features_per_row": features_per_row}
        octaves = self.octaves if (chosen, quantized, features_per_row) == ("dense", False, None) else 0
        return self.replace(**drawn, octaves=octaves, _expected=None, _embedded=None)._validated()

    def _validated(self) -> Self:
        for name in ("dim", "size", "seed", "octaves"):
            object.__setattr__(self, name, dense.whole(getattr(self, name), name))
        if self.dim < 1 or self.size < 1:
            raise ValueError(f"dim and size must be positive, got dim={self.dim}, size={self.size}")
        SEED.check("seed", self.seed)
        object.__setattr__(self, "scale", dense.positive(self.scale, "scale"))
        for name, known in (("directions", _DIRECTIONS), ("radii", _RADII)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(known)}")
        if self.spread is not None:
            dense.check_units(self.spread)
        for array in (self.center, self.whitening, self.spread):
            if array is not None:
                array.flags.writeable = False
        if structured.choose(self.structure, self.dim, self.size, self.whitening) != self.structure:
            raise ValueError(f"structure={self.structure!r} is not a structure of a map")
        if not isinstance(self.quantized, bool):
            raise ValueError(f"quantized must be True or False, got {self.quantized!r}")
        if self.features_per_row is not None:
            block = 1 if self.structure == "dense" else structured.padded(self.dim)
            object.__setattr__(self, "features_per_row", check_per_row(self.features_per_row, self.size, block))
        plain = (self.structure, self.quantized, self.features_per_row) == ("dense", False, None)
        low.check(self.octaves, self.n_ordinary, plain and self.radial.many_scales)
        return self

    # -- recipe ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        given: dict[str, Any] = {} if self.spread is None else {"spread": encode_array(self.spread)}
        # fields that came later are written only where they say something: old recipes keep their text
        given |= {name: getattr(self, name) for name, usual in _LATER.items() if getattr(self, name) != usual}
        return {
            "dim": self.dim,
            "size": self.size,
            "scale": self.scale,
            "radial": self.radial.to_recipe(),
            "directions": self.directions,
            "radii": self.radii,
            "seed": self.seed,
            "center": encode_array(self.center),
            "whitening": encode_array(self.whitening),
            **given,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> FourierFeatures:
        expected = {"dim", "size", "scale", "radial", "directions", "radii", "seed", "center", "whitening"}
        if set(parameters) - {"spread", *_LATER} != expected:
            raise ValueError(f"fields of a fourier recipe: {sorted(expected)}, got {sorted(parameters)}")
        p = dict(parameters)
        p["spread"] = decode_array(p.get("spread"), ((p["dim"],),), "spread")
        p["radial"] = RadialLaw.from_recipe(p["radial"])
        p["center"] = decode_array(p["center"], ((p["dim"],),), "center")
        p["whitening"] = decode_array(p["whitening"], ((p["dim"], p["dim"]),), "whitening")
        return cls(**p)._validated()

    # -- numbers -----------------------------------------------------------------------------

    @property
    def half_turns(self) -> npt.NDArray[np.float32]:
        """Frequencies in half-turns (radians / pi) per unit, (size, dim) float32: the drawn numbers, if dense."""
        if self.structure == "dense":
            return self.random_array()[:, : self.dim]
        return (self.frequencies / math.pi).astype(np.float32)

    def draw_array(self) -> npt.NDArray[Any]:
        with np.errstate(all="ignore"):
            drawn = self._drawn()
        if drawn is None:
            problem = "gives frequencies beyond float32, or so small that it takes them for 0"
            raise ValueError(f"scale={self.scale} {problem}")
        return drawn

    def _drawn(self) -> npt.NDArray[Any] | None:
        radius = self._radius() * (math.sqrt(self._law_dim / self.radial.second_moment(self._law_dim)) / self.scale)
        if self.structure != "dense":
            blocks = structured.Blocks.draw(
                self.structure, self.dim, self.seed, radius * structured.unit_of(self.scale)
            )
            whole = [blocks.to_array(), *([self._draw_dither().view(np.int8)] if self.quantized else [])]
            return np.concatenate(whole) if dense.in_range(blocks.radius) else None
        drawn, start = np.empty((self.size, self.dim), np.float32), 0
        ordinary = dense.unit_directions(self.directions, self.dim, self.n_ordinary, self.seed)
        for part in itertools.chain(ordinary, low.directions(self.dim, self.octaves, self.seed)):
            w = part * (radius[start : start + len(part)] / math.pi)[:, None]
            drawn[start : start + len(w)] = w if self.whitening is None else dense.product(w, self.whitening)
            start += len(w)
        if not dense.in_range(drawn):
            return None  # float32 can't hold the frequencies
        return np.column_stack([drawn, self._draw_dither()]) if self.quantized else drawn

    def with_random_array(self, array: npt.NDArray[Any]) -> FourierFeatures:
        phi = super().with_random_array(array)
        for part in () if self.structure == "dense" else (phi._blocks.radius, phi.dither):
            dense.finite(0.0 if part is None else part, ((), phi._blocks.radius.shape), "an embedded array")
        return phi

    def _draw_dither(self) -> npt.NDArray[np.float32]:
        return (portable.Bits(self.seed, 8).uniforms(self.size) * 2.0).astype("<f4")

    @property
    def random_shape(self) -> tuple[int, ...]:
        if self.structure == "dense":
            return self.size, self.dim + self.quantized
        return (structured.Blocks.bytes_of(self.structure, self.dim, self.size) + 4 * self.size * self.quantized,)

    @property
    def random_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.structure == "dense" else np.int8)

    @cached_property
    def _blocks(self) -> structured.Blocks:
        return structured.Blocks.from_array(self.random_array(), self.structure, self.dim, self.size)

    @cached_property
    def _stretch(self) -> npt.NDArray[np.float32]:
        """What centred columns are multiplied by before structured transforms."""
        axes = np.ones(self.dim) if self.whitening is None else np.diag(self.whitening)
        return (axes / structured.unit_of(self.scale)).astype(np.float32)

    @property
    def _law_dim(self) -> int:
        """Dimension in which radii are drawn."""
        return self.dim if self.structure == "dense" else structured.padded(self.dim)

    @cached_property
    def dither(self) -> npt.NDArray[np.float32] | None:
        """What is added to the phases of quantised features, in half-turns, (size,); None for others."""
        if not self.quantized:
            return None
        drawn = self.random_array()
        return drawn[:, -1] if self.structure == "dense" else drawn[-4 * self.size :].view("<f4").astype(np.float32)

    def _radius(self) -> npt.NDArray[np.float64]:
        radius = self.radial.quantile(self._probabilities(), self._law_dim)
        return low.with_radii(radius, self.radial, self.dim, self.octaves, self.seed)

    @property
    def n_ordinary(self) -> int:
        return self.size - low.count(self.dim, self.octaves)

    @property
    def broad(self) -> npt.NDArray[np.bool_]:
        """Which frequencies come from the part of the radial law that spans all scales, (size,)."""
        return np.append(self.radial.broad(self._probabilities()), np.zeros(self.size - self.n_ordinary, bool))

    def _probabilities(self) -> npt.NDArray[np.float64]:
        return probabilities(self.n_ordinary, self.seed, stratified=self.radii == "stratified")

    @cached_property
    def frequencies(self) -> npt.NDArray[np.float64]:
        """Frequencies in radians per unit of the data, (size, dim)."""
        if self.structure == "dense":
            w = self.half_turns.astype(np.float64) * math.pi
        else:
            w = self.operator(dtype=np.float64).frequencies()
        w.flags.writeable = False
        return w

    @cached_property
    def norms(self) -> npt.NDArray[np.float64]:
        """Euclidean norms of the frequencies, (size,)."""
        if self.structure == "dense" and self.size * self.dim <= COPIED_ENTRIES:
            return np.sqrt((self.frequencies**2).sum(1))
        return np.sqrt(self.operator(dtype=np.float64).squared_norms)

    def operator(self, scale: float = 1.0, dtype: npt.DTypeLike = np.float32) -> Operator:
        """Products with the frequencies times `scale`, forward and adjoint: all that decoders use of the map.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
        >>> phi.operator().forward([[0.0, 1.0]]).shape
        (1, 8)
        """
        if self.structure == "dense":
            return DenseOperator.of_half_turns(self.half_turns, scale, dtype)
        return structured.StructuredOperator(self._blocks, self._stretch.astype(np.float64), scale, dtype)

    @property
    def designed_width(self) -> float | None:
        """Standard deviation of the (whitened) rows that a map of many scales was designed for."""
        if not self.radial.many_scales:
            return None
        return self.scale * math.sqrt(self.radial.second_moment(self._law_dim) / self._law_dim)

    @property
    def importance_weights(self) -> npt.NDArray[np.float64]:
        """Weights of the weighted law (1 for the others): divide features and atoms by them to decode."""
        if self.structure != "dense":
            return self.radial.importance(self._radius(), self._law_dim)
        factor = self.scale * math.sqrt(self.radial.second_moment(self.dim) / self.dim)
        norms = self.norms if self.whitening is None else self._radius() / factor
        return self.radial.importance(norms * factor, self.dim)

    def standardized(self, offset: npt.ArrayLike, spread: npt.ArrayLike) -> FourierFeatures:
        """The map for raw rows that this map is for standardised ones: ``x -> phi((x - offset) / spread)``.

        Offset and spread of each column become part of the recipe (`center`, `whitening` and `spread`), so the data
        is never copied.  Models are learned in the standardised metric (distances of k-means count each column in
        units of its spread) and come back in the original units.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 1000.0] + [5.0, 0.0]
        >>> phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
        >>> raw = phi.standardized(X.mean(0), X.std(0))
        >>> a, b = sl.sketch(X, raw).mean, sl.sketch((X - X.mean(0)) / X.std(0), phi).mean
        >>> bool(np.allclose(abs(a), abs(b), atol=1e-4))
        True
        """
        shift, width = dense.finite(offset, ((self.dim,),), "offset"), dense.finite(spread, ((self.dim,),), "spread")
        inner = np.zeros(self.dim) if self.center is None else self.center
        matrix = np.eye(self.dim) if self.whitening is None else self.whitening
        center = (shift + width * inner).astype(np.float32).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # a spread of zero is refused below
            scaled = matrix / width
        whole = width if self.spread is None else width * self.spread
        return self.replace(center=center, whitening=scaled, spread=whole, _expected=None, _embedded=None)._validated()

    # -- features ----------------------------------------------------------------------------

    def __call__(self, X: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """``exp(i w·x)`` for a few rows, (n, size), in float64 and not rounded to the grid.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=3, size=50, scale=1.0, seed=0)
        >>> X = np.arange(12.0).reshape(4, 3)
        >>> bool(np.allclose(phi(X).mean(0), sl.sketch(X, phi).mean, atol=1e-6))
        True
        """
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        if not self.quantized and self.features_per_row is None and self.structure == "dense":
            return np.exp(1j * (rows @ self.frequencies.T))
        return self._of_phases(self.operator(dtype=np.float64).forward(rows - self._center), rows)

    # -- sums --------------------------------------------------------------------------------

    @property
    def kept(self) -> int:
        return self.size if self.features_per_row is None else self.features_per_row

    @property
    def row_cost(self) -> float:
        if self.structure == "dense":
            return self.kept * (self.dim + 10.0)
        return self.kept * (3.0 * math.log2(self._law_dim) + 10.0)

    @property
    def _center(self) -> npt.NDArray[np.float64]:
        return np.zeros(self.dim) if self.center is None else np.ascontiguousarray(self.center)

    def plan(self) -> Plan:
        """Half-turns, centre, and per column the rms frequency in radians, which decides on precision and validity."""
        arrays: dict[str, npt.NDArray[Any]] = {"center": self._center}
        numbers: dict[str, Any] = {}
        if self.structure == "dense":
            kind = "fourier" if self.dither is None else "signs"
            columns = (self.half_turns[:, i].astype(np.float64) * math.pi for i in range(self.dim))
            squares = np.array([float(portable.total(w * w)) for w in columns])
            arrays |= {"half_turns": self.half_turns, "rms": np.sqrt(squares / self.size)}
        else:
            kind, blocks = "hadamard", self._blocks
            numbers["p"] = blocks.p
            rms = math.sqrt(float(portable.total(blocks.lengths**2)) / (self.size * blocks.p))
            arrays |= {"rms": np.abs(self._stretch).astype(np.float64) * rms, "stretch": self._stretch}
            arrays |= {name: getattr(blocks, name) for name in ("signs", "normals", "permutation", "radius")}
        if self.dither is not None:
            arrays["dither"] = self.dither
        if self.features_per_row is not None:
            numbers |= {"base": kind, "per_row": self.features_per_row, "seed": self.seed}
            kind = "subsampled"
        return Plan(kind, self.dim, self.sums_shape, self.sums_dtype, arrays, numbers)

    @cached_property
    def _rotation(self) -> npt.NDArray[np.complex128] | None:
        """Turns averages of centred features into averages of ``exp(i w·x)``."""
        if self.center is None:
            return None
        if self.structure == "dense" and self.size * self.dim <= COPIED_ENTRIES:
            return np.exp(1j * (self.frequencies @ self.center))
        return np.exp(1j * self.operator(dtype=np.float64).forward(self.center[None])[0])

    def describe(self) -> str:
        extra = "" if self.structure == "dense" else f", {self.structure} blocks"
        extra += ", one bit" if self.quantized else ""
        extra += "" if self.features_per_row is None else f", {self.features_per_row} per row"
        extra += f", {self.octaves} octaves for far rows" if self.octaves else ""
        return f"Fourier, {self.radial.name} radii, scale {self.scale:.6g}, seed {self.seed}{extra}"

    def __repr__(self) -> str:
        extra = "".join(
            f", {name}={value}"
            for name, value, default in (
                ("directions", self.directions, "orthogonal"),
                ("radii", self.radii, "stratified"),
                *((name, getattr(self, name), usual) for name, usual in _LATER.items()),
            )
            if value != default
        )
        extra += "".join(f", {name}=..." for name in ("center", "whitening") if getattr(self, name) is not None)
        known = f"dim={self.dim}, size={self.size}, scale={self.scale:.6g}, radial={self.radial.name}, seed={self.seed}"
        return f"FourierFeatures({known}{extra})"
