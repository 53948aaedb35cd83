"""Axes to draw on, and the colours of the house."""

from __future__ import annotations

from typing import Any

from sketchlearn.optional import optional
from sketchlearn.words import one_line

COLORS = ("#2a6fbb", "#d1615d", "#3f9b6b", "#b07aa1", "#e49444", "#5fa2ce", "#8a6d3b", "#d684bd", "#6b7a3a", "#57606c")
INK, FAINT, GOOD, BAD = "#30363d", "#9aa4af", "#3f9b6b", "#d1615d"


def axes(ax: Any, size: tuple[float, float] = (6.4, 4.8)) -> Any:
    """The given axes, or new ones of a new figure."""
    pyplot = optional("matplotlib.pyplot", "plots", "a picture")
    if ax is None:
        ax = pyplot.subplots(figsize=size, layout="constrained")[1]
    return ax


def tidy(ax: Any) -> Any:
    """No frame above and at the right, a faint grid below everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#e6e9ec", linewidth=0.7)
    ax.set_axisbelow(True)
    return ax


def color(index: int) -> str:
    """Colour of a component."""
    return COLORS[index % len(COLORS)]


def caption(text: object) -> str:
    """Text of others for a picture: on one line, and dollars are dollars, not the begin of a formula."""
    return one_line(text).replace("$", r"\$")
