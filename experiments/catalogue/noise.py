"""Chatalic (2020), Figure 9.1: noise on the sketch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

import sketchlearn as sl
from experiments.drawing import cost_axis, legend, lines
from experiments.published import centers_of, chatalic_scale, designed_map, pass_over, published_map, with_noise
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import attempt, best_cost, column, lost, mean_cost, median, number, pick, shown, table, verdict
from sketchlearn.datasets import separated_variance

K = D = 10
SIZES = (1, 2, 4, 10)
LEVELS = (1e-4, 1e-3, 1e-2, 1e-1)
METHODS = ("CL-OMP", "CL-OMPR", "CL-OMPR ×20", "default", "default, not told")


@lru_cache(maxsize=4)
def _data(seed: int) -> tuple[Any, float]:
    data = sl.datasets.clusters(10_000, K, D, seed=np.random.default_rng([10, seed]))
    return data, best_cost(data.rows, K, data.centers)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    data, best = _data(seed)
    size = int(setting["size"] * K * D)
    scale = chatalic_scale(K, D, separated_variance(K, D))
    plain = pass_over(data.rows, published_map(D, size, scale, seed))
    own = pass_over(data.rows, designed_map(data.rows, K, size, seed))
    for method in methods:
        ours = method.startswith("default")
        sketch = own if ours else plain
        variance = setting["nsr"] * float(np.mean(np.abs(sketch.mean) ** 2))
        noisy = with_noise(sketch, variance, seed, told=method == "default")
        centers, seconds = attempt(centers_of, noisy, K, "default" if ours else method, seed)
        rse = np.inf if centers is None else mean_cost(data.rows, centers) / best
        yield method, {"rse": rse, "noise": variance**0.5, "seconds": seconds}


def judge(rows: list[Row]) -> Finding:
    """Cells below the line and cells a decade beyond it, of the published decoder and of the default."""
    good = {}
    for method in ("CL-OMP", "default"):
        below, above = [], []
        for size in (4, 10):
            for level in LEVELS:
                middle = median(column(rows, "rse", size=size, nsr=level, method=method))
                if level <= 1e-3 * size:
                    below.append(middle < 1.1)
                elif level > 1e-2 * size:
                    above.append(middle > 1.2)
        good[method] = below, above
    if not rows:
        return Finding("not run", "not run")
    text = [
        f"median cost below 1.1 in {sum(below)} of {len(below)} cells under the line, above 1.2 in {sum(above)} of "
        f"{len(above)} far beyond"
        for below, above in good.values()
    ]
    return Finding(verdict(*good["CL-OMP"][0], *good["CL-OMP"][1]), text[0], text[1])


def judge_small(rows: list[Row]) -> Finding:
    at = {m: median(column(rows, "rse", size=m, nsr=1e-4, method="CL-OMP")) for m in (1, 2)}
    if not rows:
        return Finding("not run", "not run")
    text = ", ".join(f"{m}kd {shown(column(rows, 'rse', size=m, nsr=1e-4, method='CL-OMP'), 2)}" for m in (1, 2))
    return Finding(verdict(at[1] > 1.2, at[2] < 1.2), f"cost at the least noise: {text}")


def learned(rows: list[Row]) -> list[str]:
    head = ("features", "noise over signal", *METHODS)
    lines_ = [
        (f"{size}kd", f"{level:g}", *(_cost(rows, size, level, m) for m in METHODS))
        for size in SIZES
        for level in LEVELS
    ]
    return [f"Cost over the best known; the default knows the variance of the noise:\n\n{table(head, lines_)}"]


def losses(rows: list[Row]) -> str:
    found = lost(rows, "rse", METHODS[:3], "size", "nsr")
    if not found:
        return ""
    where = [f"{c['size']}kd at {c['nsr']:g} ({number(c['theirs'], 2)}, default {number(c['ours'], 2)})" for c in found]
    names = ", ".join(sorted({c["rival"] for c in found}))
    text = "; ".join(dict.fromkeys(where))
    return f"**Noise on sketches that are too small.** {names}: lower median costs with {text}."


def _cost(rows: list[Row], size: float, level: float, method: str) -> str:
    values = column(rows, "rse", size=size, nsr=level, method=method)
    return shown(values, 2) if values else "–"


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 3, sharey=True)
    for axis, size in zip(axes, (2, 4, 10), strict=True):
        lines(axis, pick(rows, size=size), "nsr", "rse")
        axis.axvline(1e-3 * size, color="0.5", ls=":", lw=1)
        axis.set(xscale="log", title=f"{size}kd (dotted: published limit)", xlabel="noise over signal")
    axes[0].set_ylabel("cost over the best known")
    cost_axis(axes[0])
    legend(figure, axes[2], 5)


EXPERIMENT = Experiment(
    name="nsr",
    title="Noise on the sketch",
    rank=10,
    about=(
        "Ten balanced clusters in ten dimensions, separation 2.5, ten thousand rows; normal noise whose power is a "
        "given share of the sketch's own. The default's map has less power than the published one, so equal ratios "
        "are less noise for it."
    ),
    cells=lambda full: [Cell({"size": m, "nsr": level}, 50 if full else 10) for m in SIZES for level in LEVELS],
    methods=lambda setting: METHODS if setting["size"] == 10 else METHODS[:4],
    measure=measure,
    claims=(
        Claim(
            "Chatalic 2020, Figure 9.1, p. 170",
            "CL-OMP succeeds if the ratio of noise to signal is at most 0.001 m / kd",
            judge,
        ),
        Claim("Chatalic 2020, Figure 9.1, p. 170", "it fails below 2kd and succeeds from there", judge_small),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={"success": "a median cost below 1.1 under the line, above 1.2 beyond ten times the line"},
    size=(11.0, 4.0),
)
