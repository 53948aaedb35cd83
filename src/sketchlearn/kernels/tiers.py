"""Which loops run here, chosen in one place for all kernels.

Three tiers give the same bits: ``"vector"`` (explicit vectors, numba), ``"plain"`` (plain loops, numba) and
``"numpy"``.  The first that works is taken; ``SKETCHLEARN_KERNEL`` forces one.  The loops of the decoders have two
versions, compiled and NumPy: nothing of numba is loaded where ``"numpy"`` is forced.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from types import ModuleType

TIERS = ("vector", "plain", "numpy")
_log = logging.getLogger("sketchlearn")
_lock = threading.RLock()
_active: str | None = None
_numba: bool | None = None


def forced() -> str | None:
    """The tier that the environment asks for, if it asks for one."""
    name = os.environ.get("SKETCHLEARN_KERNEL") or None
    if name is not None and name not in TIERS:
        raise ValueError(f"SKETCHLEARN_KERNEL={name!r}: choose one of {', '.join(TIERS)}")
    return name


def active_kernel() -> str:
    """Name of the tier in use: ``"vector"``, ``"plain"`` or ``"numpy"``.

    Examples
    --------
    >>> from sketchlearn.kernels import active_kernel
    >>> active_kernel() in ("vector", "plain", "numpy")
    True
    """
    global _active
    if _active is not None:
        return _active
    with _lock:
        if _active is None:
            _active = _first_that_works()
        return _active


def _first_that_works() -> str:
    asked = forced()
    problem: Exception | None = None
    for name in (asked,) if asked else TIERS:
        try:
            importlib.import_module("sketchlearn.kernels.fourier").try_tier(module_of("", name))
        except Exception as error:  # whatever a foreign compiler throws: the next tier is as exact
            problem = error
            _log.info("kernel %r is not available here: %s", name, error)
            continue
        if name == "numpy" and not asked:
            _log.warning("numba is not usable here (%s): sketching runs on NumPy, exact but slow", problem)
        return name
    raise RuntimeError(f"kernel {asked!r} can't be built on this platform: {problem}")


def module(family: str = "") -> ModuleType:
    """The loops of the tier in use: of the Fourier pass, or of another family (``"quadratic"``)."""
    return module_of(family, active_kernel())


def module_of(family: str, name: str) -> ModuleType:
    """The loops of one tier."""
    return importlib.import_module(f"sketchlearn.kernels._{family}{'_' if family else ''}{name}")


def compiled() -> bool:
    """Whether loops that need no particular vectors are compiled here; doesn't compile anything to find out."""
    global _numba
    if forced() == "numpy" or _active == "numpy":
        return False
    if _numba is None:
        try:
            import numba  # noqa: F401

            _numba = True
        except ImportError:
            _numba = False
    return _numba


def loops(family: str) -> ModuleType:
    """The loops of a family that has two versions, compiled and NumPy."""
    return importlib.import_module(f"sketchlearn.kernels._{family}_{'compiled' if compiled() else 'numpy'}")
