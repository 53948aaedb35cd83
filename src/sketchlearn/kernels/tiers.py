"""Which loops run here, chosen in one place for all kernels.

Two tiers of the passes over rows give the same bits: ``"vector"`` (explicit vectors) and ``"plain"`` (plain loops, for
processors that LLVM has no such vectors for), both compiled by numba.  The first that works is taken;
``SKETCHLEARN_KERNEL`` forces one.  All other loops have one version.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from types import ModuleType

TIERS = ("vector", "plain")
_log = logging.getLogger("sketchlearn")
_lock = threading.RLock()
_active: str | None = None


def forced() -> str | None:
    """The tier that the environment asks for, if it asks for one."""
    name = os.environ.get("SKETCHLEARN_KERNEL") or None
    if name is not None and name not in TIERS:
        raise ValueError(f"SKETCHLEARN_KERNEL={name!r}: choose one of {', '.join(TIERS)}")
    return name


def active_kernel() -> str:
    """Name of the tier in use: ``"vector"`` or ``"plain"``.

    Examples
    --------
    >>> from sketchlearn.kernels import active_kernel
    >>> active_kernel() in ("vector", "plain")
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
        return name
    what = f"kernel {asked!r}" if asked else "the compiled loops"
    raise RuntimeError(f"{what} can't be built on this platform: {problem}") from problem


def module(family: str = "") -> ModuleType:
    """The loops of the tier in use: of the Fourier pass, or of another family (``"quadratic"``)."""
    return module_of(family, active_kernel())


def module_of(family: str, name: str) -> ModuleType:
    """The loops of one tier."""
    return importlib.import_module(f"sketchlearn.kernels._{family}{'_' if family else ''}{name}")


def loops(family: str) -> ModuleType:
    """The compiled loops of a family that has one version."""
    return importlib.import_module(f"sketchlearn.kernels._{family}_compiled")
