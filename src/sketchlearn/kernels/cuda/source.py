"""The CUDA source of a plan's kernels: the files beside this one, preceded by the numbers of the plan.

Which kernel sums depends on the number of columns.  Up to :data:`SMALL_DIM` a thread holds whole frequencies in
registers; beyond, blocks of rows and frequencies meet in register tiles, as in a product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._constants import MIX
from sketchlearn.kernels.cuda import structured

TILE: Final = 128
"""Rows that are staged together; the kernels know it as SL_TILE."""
SMALL_DIM: Final = 16
"""Largest number of columns whose frequencies are kept in registers."""
SMALL_ROWS: Final = 4
"""Rows that a thread takes at a time then."""
FILES: Final = (
    "arithmetic.cuh", "staging.cuh", "small.cuh", "tiled.cuh", "far.cuh", "products.cuh", "hadamard.cuh", "rows.cuh",
    "entries.cuh",
)  # fmt: skip
ENTRIES: Final = (
    "stage_float", "stage_double", "sum_plain", "sum_weighted", "far_float", "far_double", "whiten_float",
    "whiten_double", "box_float", "box_double", "pick_float", "pick_double",
)  # fmt: skip
FAR_THREADS, FAR_EACH = 128, 4
EACH_LOG, FAR_EACH_LOG = 5, 4
"""Binary logarithms of how many of the numbers of a structured block a thread holds, near and far."""
MOST_LOG: Final = 12
"""Largest binary logarithm of the length of a structured block: beyond, its numbers don't fit into shared memory."""
STAGE_CHUNK, STAGE_BLOCKS = 32, 8
"""Columns of long rows that are staged at a time, and blocks that do so on a multiprocessor."""
FLUSH_ROWS: Final = 480
"""Rows whose integers are added modulo 2**32: their true sum is less than 2**31 in absolute value."""
WHITEN_ROWS: Final = 16
"""Rows that a block whitens at a time."""
PRODUCT_SIDE: Final = 64
"""Side of the squares of products that a block takes."""


@dataclass(frozen=True)
class Shape:
    """How the kernels of a plan are cut.

    `dim`: columns of the rows. `terms`: cosines and sines, how many are negative, squares of projections (also on
    structured directions), or their second, third and fourth powers. `threads`, `blocks`: threads of a block of the
    summing kernel, and blocks that a multiprocessor should hold at least. `columns`: frequencies that a block takes.
    `padded`: columns of a staged row. `depth`: coordinates of a panel (tiled). `defines`: the rest, for the source.
    """

    kernel: str
    dim: int
    terms: str
    threads: int
    blocks: int
    columns: int
    padded: int
    depth: int = 0
    defines: tuple[tuple[str, Any], ...] = ()

    @property
    def panels(self) -> bool:
        """Whether staged rows are coordinate by coordinate."""
        return self.kernel in ("tiled", "products")

    @property
    def clipped(self) -> bool:
        """Whether rows are clipped to a ball."""
        return self.terms in ("Squares", "Rounded", "Powers")

    @property
    def far_threads(self) -> int:
        """Threads of a block of the kernel for far rows."""
        return max(FAR_THREADS, self.columns >> FAR_EACH_LOG) if self.kernel == "hadamard" else FAR_THREADS

    @property
    def far_columns(self) -> int:
        """Frequencies that such a block takes."""
        return self.columns if self.kernel == "hadamard" else FAR_THREADS * FAR_EACH

    def processed(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Staged rows that the summing kernel takes of tiles with so many rows, zeros included."""
        return -(-rows // SMALL_ROWS) * SMALL_ROWS if self.kernel == "small" else np.full_like(rows, TILE)

    @property
    def weighted(self) -> Shape:
        """The shape for rows with weights, whose sums need twice the registers; the staged rows are the same."""
        if self.kernel == "small":
            return small(self.dim, self.terms, each=4, blocks=3)
        if self.kernel == "tiled":
            return tiled(self.dim, self.terms, self.columns, 8, 8, self.depth, 3, 1)
        return replace(self, blocks=2) if self.kernel == "hadamard" else self

    def arrange(self, frequencies: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Frequencies (m, d) as the kernel reads them: as they are, or in panels, coordinate by coordinate."""
        m, d = frequencies.shape
        if not self.panels:
            return np.ascontiguousarray(frequencies, np.float32)
        blocks = -(-m // self.columns)
        out = np.zeros((blocks * self.columns, self.padded), np.float32)
        out[:m, :d] = frequencies
        return np.ascontiguousarray(out.reshape(blocks, self.columns, self.padded).transpose(0, 2, 1))


def small(dim: int, terms: str = "Turns", each: int = 8, threads: int = 128, blocks: int = 2) -> Shape:
    """Whole frequencies in registers: `each` of them a thread."""
    width = -(-dim // 4) * 4
    defines = {"SL_SMALL": 1, "SL_EACH": each}
    return Shape("small", dim, terms, threads, blocks, threads * each, width, defines=tuple(defines.items()))


def tiled(
    dim: int, terms: str = "Turns", columns: int = 128, tm: int = 16, tn: int = 8, depth: int = 8, stages: int = 3,
    blocks: int = 2,
) -> Shape:  # fmt: skip
    """Register tiles of tm x tn, panels of `depth` coordinates, `stages` of them in shared memory."""
    threads = TILE // tm * (columns // tn)
    padded = -(-dim // depth) * depth
    defines = {
        "SL_TILED": 1, "SL_COLUMNS": columns, "SL_TM": tm, "SL_TN": tn, "SL_DEPTH": depth, "SL_STAGES": stages,
    }  # fmt: skip
    return Shape("tiled", dim, terms, threads, blocks, columns, padded, depth, tuple(defines.items()))


def products(dim: int) -> Shape:
    """Products of any two columns."""
    return Shape("products", dim, "Squares", 256, 1, PRODUCT_SIDE, dim, 8)


def rows(dim: int) -> Shape:
    """Nothing but what is done to rows themselves."""
    return Shape("rows", dim, "Turns", TILE, 1, 1, dim)


def hadamard(dim: int, terms: str, log: int, transforms: int, permuted: bool) -> Shape:
    """Blocks of 2**log structured frequencies."""
    (steps, size), (far_steps, far_size) = (structured.shared_memory(log, each) for each in (EACH_LOG, FAR_EACH_LOG))
    defines: dict[str, Any] = {
        "SL_ROOM": size, "SL_ROOM_STEPS": ", ".join(map(str, steps or [0])),
        "SL_FAR_ROOM": far_size, "SL_FAR_ROOM_STEPS": ", ".join(map(str, far_steps or [0])),
        "SL_HADAMARD": 1, "SL_LOG": log, "SL_EACH_LOG": EACH_LOG, "SL_FAR_EACH_LOG": FAR_EACH_LOG,
        "SL_TRANSFORMS": transforms, "SL_PERMUTED": int(permuted),
    }  # fmt: skip
    return Shape("hadamard", dim, terms, TILE, 4, 1 << log, -(-dim // 4) * 4, defines=tuple(defines.items()))


def shape_of(dim: int, size: int, terms: str) -> Shape:
    """The kernel that is fastest for rows of `dim` columns and `size` frequencies."""
    if dim <= SMALL_DIM:
        return small(dim, terms)
    if size < 1024 and -(-size // 64) % 2:  # of blocks of 128 frequencies the last would be half empty
        return tiled(dim, terms, columns=64, tm=8, blocks=4)
    return tiled(dim, terms)


@cache
def _text() -> str:
    folder = resources.files(__package__)
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in FILES)


def source(shape: Shape, entry: str) -> str:
    """Everything a compiler needs for one kernel of this shape."""
    numbers = {
        "SL_ENTRY": ENTRIES.index(entry) + 1,
        **_constants(),
        "SL_TILE": TILE,
        "SL_DIM": shape.dim,
        "SL_PADDED": shape.padded,
        "SL_CLIPPED": int(shape.clipped),
        "SL_ROWS": SMALL_ROWS,
        "SL_SECOND": int(shape.terms == "Signs"),
        "SL_PANELS": int(shape.panels),
        "SL_TERMS": shape.terms,
        "SL_CHUNK": STAGE_CHUNK,
        "SL_STAGE_BLOCKS": 8 if shape.dim <= SMALL_DIM else STAGE_BLOCKS,  # beyond, shared memory is the limit
        "SL_THREADS": shape.threads,
        "SL_BLOCKS": shape.blocks,
        "SL_FAR_THREADS": shape.far_threads,
        "SL_FAR_EACH": FAR_EACH,
        **dict(shape.defines),
    }
    return "".join(f"#define {name} {value}\n" for name, value in numbers.items()) + _text()


def _constants() -> dict[str, Any]:
    """The numbers of ``_constants`` as literals that lose no bit."""

    def single(x: float) -> str:
        return f"{float(np.float32(x)).hex()}f"

    def double(x: float) -> str:
        return float(x).hex()

    def bits(x: np.generic) -> str:
        return f"0x{x.tobytes()[::-1].hex()}u" + ("ll" if x.itemsize == 8 else "")

    polynomials = {
        f"SL_{name}{size}_{i}": literal(c)
        for name, size, literal in (("COS", 32, single), ("SIN", 32, single), ("COS", 64, double), ("SIN", 64, double))
        for i, c in enumerate(getattr(K, f"{name}{size}"))
    }
    return polynomials | {
        "SL_PARITY32": single(K.PARITY32),
        "SL_PARITY64": double(K.PARITY64),
        "SL_ROUND32": single(K.ROUND32),
        "SL_ROUND64": double(K.ROUND64),
        "SL_ZERO32": bits(np.float32(K.ROUND32)),
        "SL_ZERO64": bits(np.float64(K.ROUND64)),
        "SL_ZERO_SQUARE": bits(np.float32(2.0)),
        "SL_MAX2": double(K.MAX_PHASE**2),
        "SL_FAR2": double(K.FAR_PHASE**2),
        "SL_UNITS": single(2.0**K.GRID_BITS),
        "SL_FLUSH_ROWS": FLUSH_ROWS,
        **{f"SL_MIX_{i + 1}": bits(np.uint64(c)) for i, c in enumerate(MIX)},
    }


def options() -> tuple[str, ...]:
    """Compiler options: nothing is fused, flushed or approximated that the source doesn't ask for."""
    return ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
