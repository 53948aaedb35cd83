"""Where decoders make their largest products: on the processor, or on a graphics processor if it is asked for.

Searches for components of one width spend nearly all of their time on atoms, components times frequencies, and these
never have to leave a device: only the coordinates of the components go there, and gradients come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.features.operator import F32, Operator
from sketchlearn.kernels import lloyd as here
from sketchlearn.kernels.cuda import lloyd as there
from sketchlearn.kernels.cuda.atoms import ResidentAtoms
from sketchlearn.kernels.cuda.device import devices, import_cupy

ENGINES = ("cpu", "gpu")
WORTH = 2**19
"""Atoms from which a device is worth its twenty launches, half a millisecond: a core computes as many in 1 ms."""
SPEED = 64.0
"""Cores that a device stands for in the budget of a decoding: an H200 is as fast as 97 with a thousand components."""

_ENGINE: ContextVar[str] = ContextVar("engine", default="cpu")


@contextmanager
def decoding_engine(engine: str) -> Iterator[None]:
    """Let decoders inside a ``with`` block use a graphics processor for searches with many components.

    Searches for components of one width and Lloyd's iterations run there, as in k-means with hundreds of clusters.
    Other steps stay on the processor.  The centres agree with those of the processor up to rounding in single
    precision.  The block counts for the thread that enters it, and for threads that decoders start.

    Parameters
    ----------
    engine : {"cpu", "gpu"}
        ``"gpu"`` needs CuPy and a CUDA device.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=2, seed=0))
    >>> with sl.decoding_engine("cpu"):  # "gpu" where there is one
    ...     model = sl.decode(s, 2, random_state=0)
    >>> abs(np.sort(model.centers[:, 0])).round()
    array([0., 9.])
    """
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r}: choose one of {', '.join(ENGINES)}")
    if engine == "gpu":
        devices()  # or an error that says what is missing
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


def asked() -> bool:
    """Whether decoders are to use a device."""
    return _ENGINE.get() == "gpu"


def lloyd(x: F32, weights: Array, centers: F32, steps: int, tolerance: float) -> tuple[npt.NDArray[np.int32], float]:
    """Lloyd's iterations, where they are quickest (:func:`sketchlearn.kernels.lloyd.lloyd`)."""
    if asked() and len(x) * len(centers) >= WORTH:
        return there.lloyd(import_cupy(), x, weights, centers, steps, tolerance)
    return here.lloyd(x, weights, centers, steps, tolerance)


def resident(operator: Operator, z: F32, u: F32) -> ResidentAtoms:
    """The numbers of a problem on the device."""
    return ResidentAtoms(import_cupy(), operator.as_matrix().frequencies(), z, u)
