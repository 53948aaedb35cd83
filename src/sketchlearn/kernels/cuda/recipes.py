"""What the kernels need of a plan: how they are cut, tables, and what rows of zeros leave in the sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels import hadamard
from sketchlearn.kernels.cuda import source
from sketchlearn.kernels.cuda.source import Shape
from sketchlearn.kernels.fourier import signs as signs_of
from sketchlearn.kernels.plan import Plan

PARTS = {"Turns": 2, "Signs": 2, "Squares": 1, "Rounded": 1, "Powers": 3}
"""Sums per frequency."""
ZERO_BITS = {
    "Turns": int(np.float32(K.ROUND32).view(np.uint32)),
    "Signs": 0,
    "Squares": int(np.float32(2.0).view(np.uint32)),
    "Rounded": 0,
    "Powers": int(np.float32(3.0).view(np.uint32)),
}
"""What the bits of a feature are above its units."""
# what a row of zeros adds to the sum of cosines (and nothing to that of sines)
_UNIT = int((np.float32(K.COS32[0]) + np.float32(K.ROUND32)).view(np.int32)) - ZERO_BITS["Turns"]


@dataclass(frozen=True)
class Structured:
    """Structured frequencies as the processor knows them; see :mod:`sketchlearn.kernels.hadamard`."""

    stretch: npt.NDArray[np.float32]
    diagonals: npt.NDArray[np.float32]
    permutation: npt.NDArray[np.int32]
    radius: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """What the kernels need of a plan."""

    shape: Shape
    center: npt.NDArray[np.float64]
    size: int  # sums per part
    frequencies: npt.NDArray[np.float32] | None = None  # (m, d)
    structured: Structured | None = None
    factors: npt.NDArray[np.float64] | None = None  # per column: rms frequency
    scales: npt.NDArray[np.float32] | None = None  # per frequency: what its terms want beside the phase
    whitening: npt.NDArray[np.float64] | None = None  # what rows about the centre are multiplied by first
    inverse: float = 1.0  # of the radius
    step: float = 1.0  # units of the grid in one unit of a clipped row
    rounded: bool = False  # whether staged rows are rounded to the grid
    second: int = 0  # sign of the second half of the directions, 0 if there is none
    zero_row: npt.NDArray[np.int64] | None = None  # what a row of zeros adds, (parts, 1 or size)

    @property
    def parts(self) -> int:
        return PARTS[self.shape.terms]


def _phases(plan: Plan) -> tuple[str, npt.NDArray[np.float32] | None, npt.NDArray[np.int64]]:
    """Terms, dither and what a row of zeros adds, for phases with and without a dither."""
    dither = plan.arrays.get("dither")
    if dither is None:
        return "Turns", None, np.array([[_UNIT], [0]], np.int64)
    return "Signs", dither.astype(np.float32), signs_of(dither.astype(np.float32))


def fourier(plan: Plan) -> Recipe:
    """Cosines and sines, or how many are negative."""
    terms, dither, zero_row = _phases(plan)
    half_turns = plan.arrays["half_turns"]
    return Recipe(
        source.shape_of(plan.dim, len(half_turns), terms),
        plan.arrays["center"],
        len(half_turns),
        half_turns,
        factors=plan.arrays["rms"],
        scales=dither,
        zero_row=zero_row,
    )


def structured(plan: Plan) -> Recipe:
    """Cosines and sines of structured phases, or how many are negative."""
    terms, dither, zero_row = _phases(plan)
    blocks, shape = _blocks(plan, terms, plan.arrays["stretch"], plan.arrays["radius"])
    return Recipe(
        shape, plan.arrays["center"], len(blocks.radius), structured=blocks, factors=plan.arrays["rms"],
        scales=dither, zero_row=zero_row,
    )  # fmt: skip


def structured_squares(plan: Plan) -> Recipe:
    """Squares along structured directions of clipped rows."""
    blocks, shape = _blocks(plan, "Rounded", np.ones(plan.dim, np.float32), plan.arrays["factors"])
    inverse = 1.0 / float(plan.numbers["radius"])
    return Recipe(
        shape, plan.arrays["center"], len(blocks.radius), structured=blocks, inverse=inverse, step=2.0**K.GRID_BITS
    )


def _blocks(
    plan: Plan, terms: str, stretch: npt.NDArray[np.float32], radius: npt.NDArray[np.float32]
) -> tuple[Structured, Shape]:
    p, arrays = int(plan.numbers["p"]), plan.arrays
    diagonals = hadamard.diagonals(arrays["signs"], arrays["normals"], p)
    blocks = Structured(stretch, diagonals, arrays["permutation"], radius)
    permuted = bool(blocks.permutation.size)
    return blocks, source.hadamard(plan.dim, terms, p.bit_length() - 1, diagonals.shape[1], permuted)


def squares(plan: Plan) -> Recipe:
    """Squares of projections of clipped rows, on the grid."""
    radius, directions = float(plan.numbers["radius"]), plan.arrays["directions"]
    return Recipe(
        source.shape_of(plan.dim, len(directions), "Squares"),
        plan.arrays["center"],
        len(directions),
        directions.astype(np.float32),
        scales=(1.0 / plan.arrays["bounds"]).astype(np.float32),
        inverse=1.0 / radius,
        step=2.0**K.GRID_BITS,
        second=int(plan.numbers["second"]),
    )


def powers(plan: Plan) -> Recipe:
    """Powers of projections of whitened and clipped rows."""
    directions = plan.arrays["directions"]
    return Recipe(
        source.shape_of(plan.dim, len(directions), "Powers"),
        plan.arrays["center"],
        len(directions),
        directions.astype(np.float32),
        scales=(1.0 / plan.arrays["bounds"]).astype(np.float32),
        whitening=np.ascontiguousarray(plan.arrays["whitening"], np.float64),
        inverse=1.0 / float(plan.numbers["radius"]),
        step=2.0**K.GRID_BITS,
    )


def products(plan: Plan) -> Recipe:
    """Products of columns of clipped and rounded rows."""
    inverse, d = 1.0 / float(plan.numbers["radius"]), plan.dim
    return Recipe(
        source.products(d), plan.arrays["center"], d * (d + 1) // 2, inverse=inverse, step=2.0**K.PRODUCT_BITS,
        rounded=True,
    )  # fmt: skip


_RECIPES: dict[str, Callable[[Plan], Recipe]] = {
    "fourier": fourier,
    "signs": fourier,
    "hadamard": structured,
    "squares": squares,
    "structured squares": structured_squares,
    "products": products,
    "powers": powers,
}


def on_grid(plan: Plan) -> bool:
    """Whether the kernels make the sums of a plan: those on an integer grid, of the kinds that are known here."""
    fits = int(plan.numbers.get("p", 1)) <= 1 << source.MOST_LOG
    return plan.kind in _RECIPES and fits and np.issubdtype(plan.sums_dtype, np.integer)


def recipe_of(plan: Plan) -> Recipe:
    """The recipe of a plan for which there are kernels."""
    if not on_grid(plan):
        raise ValueError(f"there are no kernels for sums of the kind {plan.kind!r} ({plan.sums_dtype}) on a GPU")
    return _RECIPES[plan.kind](plan)
