"""Names of earlier versions for :mod:`sketchlearn.decoders.families`; they will go with the next one."""

from __future__ import annotations

import warnings
from typing import Any

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

    warnings.warn(
        f"sketchlearn.atoms.{name} is now sketchlearn.decoders.families.{_NOW[name]}", FutureWarning, stacklevel=2
    )
    return getattr(families, _NOW[name])
