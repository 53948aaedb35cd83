"""Small helpers for pictures: one colour a method, lines with bands over data sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.registry import Row
from experiments.rulers import interval, pick, wilson

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b", "#bcbd22", "#17becf")
DEFAULT = "#111111"


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour a method; the library's default is black everywhere."""
    others = [name for name in names if name != "default"]
    return {"default": DEFAULT, **{name: COLOURS[i % len(COLOURS)] for i, name in enumerate(others)}}


def order(rows: list[Row], name: str) -> list[Any]:
    """Values of a field in the order of their first row; numbers sorted."""
    values = list(dict.fromkeys(row[name] for row in rows if name in row))
    return sorted(values) if all(isinstance(v, int | float) for v in values) else values


def lines(
    axis: Any, rows: list[Row], x: str, y: str, *, by: str = "method", label: Any = str, rates: float = 0
) -> None:
    """A line a method: median and 90 % interval over data sets, or the share of rows below `rates`."""
    names = order(rows, by)
    shades = colours([str(n) for n in names])
    for name in names:
        mine = pick(rows, **{by: name})
        points = []
        for at in order(mine, x):
            values = [row[y] for row in pick(mine, **{x: at}) if y in row]
            if not values:
                continue
            points.append((at, *(wilson(sum(v < rates for v in values), len(values)) if rates else interval(values))))
        if not points:
            continue
        grid, middle, low, high = (np.array(part, float) for part in zip(*points, strict=True))
        finite = np.isfinite(middle)
        heavy = name == "default"
        axis.plot(
            grid[finite],
            middle[finite],
            "o-",
            color=shades[str(name)],
            label=label(name),
            lw=2.2 if heavy else 1.2,
            ms=3,
        )
        top = np.where(np.isfinite(high), high, middle)
        axis.fill_between(grid[finite], low[finite], top[finite], color=shades[str(name)], alpha=0.15, lw=0)


def ticks(axis: Any, values: Sequence[float], labels: Sequence[str] | None = None) -> None:
    """A logarithmic axis with its ticks at the measured values."""
    axis.set_xscale("log")
    axis.set_xticks(list(values), list(labels) if labels else [f"{v:g}" for v in values])
    axis.minorticks_off()


def cost_axis(axis: Any) -> None:
    """A logarithmic axis of costs over the best known one, with ticks at plain numbers."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    at = [v for v in (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100) if low <= v <= high]
    if high > 5:  # small steps would lie on each other
        at = [v for v in at if v not in (1.1, 1.2)]
    axis.set_yticks(at, [f"{v:g}" for v in at])
    axis.minorticks_off()


def legend(figure: Any, axis: Any, columns: int = 4) -> None:
    """One legend below all panels."""
    handles, labels = axis.get_legend_handles_labels()
    rows = math.ceil(len(labels) / columns)
    figure.legend(handles, labels, loc="lower center", ncol=columns, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.02 + 0.055 * rows * 3.6 / figure.get_figheight(), 1, 1))
