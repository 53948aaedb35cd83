"""Misses against false alarms, in units in which normal scores are straight lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from sketchlearn.comparison import DetectionErrors
from sketchlearn.plots.axes import FAINT, axes, caption, color, tidy

_TICKS = np.array([0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6])


def detection(errors: DetectionErrors | dict[str, DetectionErrors], *, ax: Any = None) -> Any:
    """Detection-error curve: misses against false alarms for all thresholds.

    Both axes are normal quantiles of the shares: scores that are normal for true and for false claims give straight
    lines, the nearer to the lower left corner the better, and equal error rates lie on the diagonal.

    Parameters
    ----------
    errors : DetectionErrors, or dict of name to DetectionErrors
        From :func:`sketchlearn.detection_errors` or :meth:`sketchlearn.CompressiveVerifier.evaluate`.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> ax = sl.plots.detection(sl.detection_errors(rng.normal(2, 1, 500), rng.normal(0, 1, 5000)))
    >>> ax.get_xlabel()
    'false alarms'
    """
    curves = errors if isinstance(errors, dict) else {"": errors}
    ax = tidy(axes(ax))
    low, high = ndtri(_TICKS[0]), ndtri(_TICKS[-1])
    ax.plot([low, high], [low, high], color=FAINT, linewidth=1)
    for i, (name, found) in enumerate(curves.items()):
        inner = (found.misses > 0) & (found.misses < 1) & (found.false_alarms > 0) & (found.false_alarms < 1)
        rate = f"equal error rate {100 * found.equal_error_rate:.1f} %"
        label = f"{caption(name)}: {rate}" if name else rate
        ax.plot(ndtri(found.false_alarms[inner]), ndtri(found.misses[inner]), color=color(i), label=label)
        if 0 < found.equal_error_rate < 1:
            ax.plot(*[ndtri(found.equal_error_rate)] * 2, "o", color=color(i), markersize=5)
    for set_ticks, set_limits in ((ax.set_xticks, ax.set_xlim), (ax.set_yticks, ax.set_ylim)):
        set_ticks(ndtri(_TICKS), [f"{100 * share:g} %" for share in _TICKS])
        set_limits(low, high)
    ax.set_xlabel("false alarms")
    ax.set_ylabel("misses")
    ax.set_aspect("equal")
    ax.legend(frameon=False)
    return ax
