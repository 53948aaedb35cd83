"""Chatalic (2020), Figures 4.4, 4.8, 4.10 and 4.11: the kernel scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

import sketchlearn as sl
from experiments.drawing import cost_axis, legend, lines
from experiments.published import centers_of, designed_map, pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import attempt, best_cost, column, known, mean_cost, median, number, pick, shown, table, verdict
from sketchlearn.designs.scale import RULES

K = D = 10
VARIANCE, ROWS = 10.0, 10_000
FACTORS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16)
"""Squared kernel scale over the squared smallest distance of two centres."""
GOOD = 1.1


def cells(full: bool) -> list[Cell]:
    sets = 50 if full else 10
    maps = [("gaussian", 4), ("adapted", 4), ("gaussian", 2), ("gaussian", 10)]
    out = [
        Cell({"panel": "scale", "radial": radial, "size": size, "factor": f, "k": K}, sets)
        for radial, size in maps
        for f in FACTORS
    ]
    out += [
        Cell({"panel": "scale", "radial": "gaussian", "size": 4, "factor": f, "k": k}, sets)
        for k in (5, 20)
        for f in FACTORS
    ]
    return [*out, Cell({"panel": "rules", "size": 4, "k": K}, sets)]


def methods(setting: Setting) -> tuple[str, ...]:
    if setting["panel"] == "rules":
        return (*(f"rule {name}" for name in RULES), "default")
    return ("CL-OMPR", "CL-OMPR ×20") if (setting["size"], setting["k"]) == (4, K) else ("CL-OMPR",)


@lru_cache(maxsize=8)
def _data(k: int, seed: int) -> tuple[Any, float, float]:
    rng = np.random.default_rng([3, k, seed])
    data = sl.datasets.clusters(ROWS, k, D, variance=VARIANCE, seed=rng)
    return data, float(pdist(data.centers).min()), best_cost(data.rows, k, data.centers)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    k = setting["k"]
    data, apart, best = _data(k, seed)
    size = int(setting["size"] * k * D)
    for method in methods:
        values: Values = {}
        if method == "default":
            sketch, decoder = pass_over(data.rows, designed_map(data.rows, k, size, seed)), method
        else:
            if setting["panel"] == "rules":
                scale, radial, decoder = (
                    RULES[method.removeprefix("rule ")](data.rows[:2000], k, seed),
                    "gaussian",
                    "CL-OMPR",
                )
                values["factor_found"] = (scale / apart) ** 2
            else:
                scale, radial, decoder = math.sqrt(setting["factor"]) * apart, setting["radial"], method
            sketch = pass_over(data.rows, published_map(D, size, scale, seed, radial=radial))
        centers, seconds = attempt(centers_of, sketch, k, decoder, seed)
        values["rse"] = np.inf if centers is None else mean_cost(data.rows, centers) / best
        yield method, {**values, "seconds": seconds}


def _curve(rows: list[Row], method: str = "CL-OMPR", **setting: Any) -> dict[float, float]:
    return {f: median(column(rows, "rse", panel="scale", method=method, factor=f, **setting)) for f in FACTORS}


def _window(curve: dict[float, float]) -> list[float]:
    return [f for f, value in curve.items() if value < GOOD]


def judge_place(rows: list[Row]) -> Finding:
    curves = {k: _curve(rows, radial="gaussian", size=4, k=k) for k in (5, 10, 20)}
    if not known(*(v for c in curves.values() for v in c.values())):
        return Finding("not run", "not run")
    places = {k: min(c, key=lambda f, c=c: c[f]) for k, c in curves.items()}
    code = verdict(*(0.5 <= f <= 2 for f in places.values()))
    text = ", ".join(f"{number(f, 2)} for k = {k}" for k, f in places.items())
    own = shown(column(rows, "rse", panel="rules", method="default"), 4)
    return Finding(code, f"best squared scale over squared separation: {text}", f"no scale to choose: {own} at 4kd")


def judge_width(rows: list[Row]) -> Finding:
    windows = {m: _window(_curve(rows, radial="gaussian", size=m, k=K)) for m in (2, 4, 10)}
    if not pick(rows, panel="scale", size=10):
        return Finding("not run", "not run")
    code = verdict(len(windows[10]) >= len(windows[4]) >= len(windows[2]), len(windows[10]) > len(windows[2]))
    text = "; ".join(f"{m}kd: {', '.join(f'{f:g}' for f in w) or 'nowhere'}" for m, w in windows.items())
    return Finding(code, f"factors with a median cost below 1.1, {text}")


def judge_adapted(rows: list[Row]) -> Finding:
    wide = {law: _curve(rows, radial=law, size=4, k=K) for law in ("gaussian", "adapted")}
    if not known(*(v for c in wide.values() for v in c.values())):
        return Finding("not run", "not run")
    left = {law: wide[law][1 / 4] for law in wide}
    best = {law: min(c.values()) for law, c in wide.items()}
    code = verdict(left["adapted"] < left["gaussian"])
    text = (
        f"at a quarter: Gaussian {number(left['gaussian'])}, adapted {number(left['adapted'])}; at the best factor: "
        f"Gaussian {number(best['gaussian'])}, adapted {number(best['adapted'])}"
    )
    return Finding(code, text)


def judge_theory(rows: list[Row]) -> Finding:
    some = pick(rows, panel="rules", method="rule theory")
    if not some:
        return Finding("not run", "not run")
    return Finding(
        verdict(median(column(some, "rse")) > GOOD),
        f"its squared scale is {number(median(column(some, 'factor_found')))} of the squared separation, cost "
        f"{shown(column(some, 'rse'), 2)}",
    )


def learned(rows: list[Row]) -> list[str]:
    costs = [
        (f"{law}, {size}kd", *(shown(column(rows, "rse", **cell, factor=f)) for f in FACTORS))
        for law, size in (("gaussian", 2), ("gaussian", 4), ("gaussian", 10), ("adapted", 4))
        for cell in [{"panel": "scale", "method": "CL-OMPR", "k": K, "radial": law, "size": size}]
    ]
    head = ("law, features", *(f"{f:g}" for f in FACTORS))
    rules = []
    for name in RULES:
        some = pick(rows, panel="rules", method=f"rule {name}")
        rules.append((name, number(median(column(some, "factor_found")), 3), shown(column(some, "rse"))))
    rules.append(("default: none", "–", shown(column(rows, "rse", panel="rules", method="default"), 4)))
    return [
        f"Cost of CL-OMPR over the best known, by squared scale over squared separation:\n\n{table(head, costs)}",
        "Rules for the scale from rows, Gaussian law:\n\n"
        + table(("rule", "squared scale over squared separation", "cost of CL-OMPR at 4kd"), rules),
    ]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 3)
    some = pick(rows, panel="scale", k=K, size=4)
    named = [{**r, "line": f"{r['radial']}, {r['method']}"} for r in some]
    lines(axes[0], named, "factor", "rse", by="line")
    own = median(column(rows, "rse", panel="rules", method="default"))
    axes[0].axhline(own, color="#111111", lw=2, label="default: no scale")
    sizes = [
        {**r, "line": f"{r['size']}kd"} for r in pick(rows, panel="scale", k=K, radial="gaussian", method="CL-OMPR")
    ]
    lines(axes[1], sizes, "factor", "rse", by="line")
    ks = [
        {**r, "line": f"k = {r['k']}"} for r in pick(rows, panel="scale", size=4, radial="gaussian", method="CL-OMPR")
    ]
    lines(axes[2], ks, "factor", "rse", by="line")
    for axis, title in zip(axes, ("4kd, k = 10", "Gaussian, by size", "Gaussian, 4kd, by k"), strict=True):
        axis.set(xscale="log", title=title, xlabel="squared scale / squared separation")
        cost_axis(axis)
    for axis in axes[1:]:
        axis.legend(fontsize=7)
    axes[0].set_ylabel("cost over the best known")
    legend(figure, axes[0], 5)


EXPERIMENT = Experiment(
    name="kernel-scale",
    title="The kernel scale",
    rank=3,
    about=(
        "Balanced clusters in ten dimensions, centres of variance 10, ten thousand rows. The squared scale of the "
        "kernel is varied in units of the squared smallest distance of two true centres."
    ),
    cells=cells,
    methods=methods,
    measure=measure,
    claims=(
        Claim(
            "Chatalic 2020, Figures 4.6 and 4.8, p. 83 f.",
            "the best squared scale is the squared separation",
            judge_place,
        ),
        Claim("Chatalic 2020, Figure 4.4, p. 81", "the window of good scales widens with the sketch", judge_width),
        Claim(
            "Chatalic 2020, Figures 4.10 and 4.11, p. 86",
            "adapted radii have a wider window, mostly below",
            judge_adapted,
        ),
        Claim("Chatalic 2020, Figure 4.8, p. 84", "the scale of the guarantees does not fit", judge_theory),
    ),
    draw=draw,
    learned=learned,
    assumed={"k, d, n of Figure 4.4": "10, 10 and 10 000", "fits": "within a factor of two"},
    size=(11.0, 4.0),
)
