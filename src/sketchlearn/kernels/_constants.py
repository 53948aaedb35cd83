"""Numbers shared by all kernels and tiers; all tiers give the same bits.

Phases are computed in *half-turns*: ``t = w·x / pi``, so that range reduction is
``r = t - rint(t)`` (exact) and the sign of both sine and cosine is the parity of ``rint(t)``.
The polynomials are Remez fits on ``u = r**2`` in [0, 1/4] of ``cos(pi r)`` and ``sin(pi r)/r``;
maximal errors before rounding: 4.7e-8 and 1.4e-8 (float32), 7.5e-13 and 5.4e-11 (float64).
"""

from typing import Final

GRID_BITS: Final = 22
"""One unit of the fixed-point grid is 2**-22."""
ENTRY_BOUND: Final = 2**GRID_BITS + 1
"""No rounded cosine or sine exceeds this many grid units in absolute value."""

PRODUCT_BITS: Final = 15
"""Rows on a grid are rounded to multiples of 2**-15 of the radius before their columns are multiplied."""

COS32: Final = (
    0.9999999534667744,
    -4.934792858676926,
    4.058411914195354,
    -1.3318801614784563,
    0.21969679912293444,
)
SIN32: Final = (
    3.1415926401840513,
    -5.167710090333068,
    2.5500776597467376,
    -0.5982921595859755,
    0.07765940846519566,
)
COS64: Final = (
    0.9999999999992518,
    -4.934802200250963,
    4.0587121075894,
    -1.3352623161482942,
    0.2353254434275638,
    -0.025776340745140378,
    0.0018400218592575736,
)
SIN64: Final = (
    3.1415926535364473,
    -5.167712764656008,
    2.5501633199542537,
    -0.599252209106185,
    0.08205045339107862,
    -0.0070284689479131164,
)

# Adding 3.0 to c in [-1, 1] lands in [2, 4], where float32 has spacing 2**-22: the bits of the sum
# minus the bits of 3.0 are rint(c * 2**22).  1.5 * 2**30 does the same in float64.
ROUND32: Final = 3.0
ROUND64: Final = 1.5 * 2.0**30
# Adding 1.5 * 2**(p-1) puts rint(t) in the low bits of the significand: its parity is bit 0.
PARITY32: Final = 12582912.0
PARITY64: Final = 6755399441055744.0

FLUSH_ROWS: Final = 240
"""Rows between two flushes of the int32 sums: 240 * 2**22 < 2**30."""
BLOCK_ROWS: Final = 4096
"""Rows that are staged together, at most: enough to hide the cost of a call."""
BLOCK_BYTES: Final = 256 * 1024
"""Staged rows of one block stay inside the second-level cache."""

FAR_PHASE: Final = 32.0
"""Rows whose rms phase (radians) is above this are computed in float64."""
MAX_PHASE: Final = 2.0**30
"""Rows whose rms phase is above this have no meaningful phase even in float64: invalid."""

MIX: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Multipliers of the hash of a row: those of SplitMix64 (Steele, Lea & Flood 2014)."""
