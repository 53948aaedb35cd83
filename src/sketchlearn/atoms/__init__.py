"""Names of earlier versions for :mod:`sketchlearn.decoders.families`; they will go with the next one."""

from __future__ import annotations

from typing import Any

from sketchlearn.exceptions import warn

_NOW = {
    "KnownGaussian": "Known",
    "EllipticStable": "Stable",
    "sample_stable": "sample_stable",
    "stable_log_density": "stable_log_density",
}


def __getattr__(name: str) -> Any:
    if name not in _NOW:
        raise AttributeError(name)
    from sketchlearn.decoders import families

    warn(f"sketchlearn.atoms.{name} is now sketchlearn.decoders.families.{_NOW[name]}", FutureWarning)
    return getattr(families, _NOW[name])
