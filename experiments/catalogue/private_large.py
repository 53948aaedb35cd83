"""Chatalic (2020), Figure 9.4: private k-means of up to ten million rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.drawing import legend, lines, order
from experiments.gpu_large import PRIVATE_D, PRIVATE_K, PRIVATE_SETS, PRIVATE_SIZES, Job, private_centers, sketch_of
from experiments.private_rivals import private_lloyd
from experiments.published import far_of, private_centers_of
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    Array,
    attempt,
    better,
    by_seed,
    column,
    known,
    lloyd,
    lost,
    mean_cost,
    median,
    number,
    pick,
    shown,
    spaced,
    table,
    verdict,
)

K, D = PRIVATE_K, PRIVATE_D
EPSILONS = {10**6: (1.0, 0.1), 10**7: (1.0, 0.1, 0.01, 0.003, 0.001)}
MASKED = 4  # kd: the size at which one feature per row is tried
METHODS = ("CL-OMPR ×20", "default")
ENOUGH = 1.1
FRESH = 200_000
"""Rows that costs are measured on: fresh ones, so that a laptop can do it."""


def cells(full: bool) -> list[Cell]:
    n = 10**7 if full else 10**6
    shapes = [(m, 0) for m in (PRIVATE_SIZES if full else PRIVATE_SIZES[1:-1])] + [(MASKED, 1)]
    return [
        Cell({"k": K, "d": D, "n": n, "epsilon": e, "size": m, "per_row": p}, PRIVATE_SETS)
        for e in EPSILONS[n]
        for m, p in shapes
    ]


def methods(setting: Setting) -> tuple[str, ...]:
    return (*METHODS, "private Lloyd") if (setting["size"], setting["per_row"]) == (MASKED, 0) else METHODS


@lru_cache(maxsize=2)
def _fresh(k: int, d: int, seed: int) -> tuple[Array, float]:
    """Rows of the law that was sketched, and their best cost."""
    rng = np.random.default_rng([20, seed])
    centers = private_centers(k, d, seed)
    rows = centers[rng.integers(k, size=FRESH)] + rng.standard_normal((FRESH, d))
    return rows, mean_cost(rows, lloyd(rows, centers))


@lru_cache(maxsize=20)
def _sketch(*job: Any) -> tuple[Any, float]:
    return sketch_of(Job("private", *job))


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    k, d, n = setting["k"], setting["d"], setting["n"]
    rows, best = _fresh(k, d, seed)
    for method in methods:
        if method == "private Lloyd":
            # with the budget of as many more rows, its noise is the same for each row
            epsilon = setting["epsilon"] * n / len(rows)
            centers, seconds = attempt(private_lloyd, rows, k, epsilon, far_of(k, d), seed)
            reading = 0.0
        else:
            name = "default" if method == "default" else "published"
            sketch, reading = _sketch(k, d, n, seed, setting["size"] * k * d, name, setting["per_row"])
            centers, seconds = attempt(private_centers_of, sketch, setting, method, seed)
        rse = np.inf if centers is None else mean_cost(rows, centers) / best
        yield method, {"rse": rse, "seconds": seconds, "pass_seconds": reading}


def _curve(rows: list[Row], method: str, epsilon: float) -> dict[float, float]:
    some = pick(rows, method=method, epsilon=epsilon, per_row=0)
    return {m: median(column(some, "rse", size=m)) for m in order(some, "size")}


def judge_size(rows: list[Row]) -> Finding:
    if not rows:
        return Finding("not run", "not run")
    levels = sorted({r["epsilon"] for r in rows})
    best = {e: min(c, key=lambda m, c=c: c[m]) for e in levels if (c := _curve(rows, "CL-OMPR ×20", e))}
    if len(best) < len(levels):
        return Finding("not run", "not run")
    largest = max(_curve(rows, "CL-OMPR ×20", levels[-1]))
    code = verdict(best[levels[0]] <= 4, best[levels[-1]] == largest)
    own = {e: min(c, key=lambda m, c=c: c[m]) for e in levels if (c := _curve(rows, "default", e))}
    text = [", ".join(f"{at[e]:g}kd at ε = {e:g}" for e in (levels[0], levels[-1])) for at in (best, own)]
    return Finding(code, f"size with the lowest median cost: {text[0]}", text[1])


def judge_masks(rows: list[Row]) -> Finding:
    """At every ε at which all features of a row work."""
    some = pick(rows, size=MASKED)
    levels = sorted({r["epsilon"] for r in some})
    costs = {
        (m, e): [median(column(some, "rse", method=m, epsilon=e, per_row=p)) for p in (0, 1)]
        for m in METHODS
        for e in levels
    }
    if not levels or not known(*(v for pair in costs.values() for v in pair)):
        return Finding("not run", "not run")
    text, good = {}, {}
    for m in METHODS:
        pairs = {e: costs[m, e] for e in levels if costs[m, e][0] < ENOUGH}
        good[m] = [abs(one - every) < 0.02 for every, one in pairs.values()]
        free = ", ".join(f"{e:g}" for e, ok in zip(pairs, good[m], strict=True) if ok)
        text[m] = f"costs nothing at {sum(good[m])} of {len(pairs)} values of ε that work (ε = {free or '–'})"
    return Finding(verdict(*good[METHODS[0]]) if good[METHODS[0]] else "not", text[METHODS[0]], text["default"])


def judge_rival(rows: list[Row]) -> Finding:
    some = pick(rows, size=MASKED, per_row=0)
    levels = order(some, "epsilon")
    costs = [{m: column(some, "rse", method=m, epsilon=e) for m in ("private Lloyd", *METHODS)} for e in levels]
    if not levels or not known(*(median(v) for cost in costs for v in cost.values())):
        return Finding("not run", "not run")
    greedy, theirs = ([median(cost[m]) for cost in costs] for m in (METHODS[0], "private Lloyd"))
    lower = {
        method: [
            better(*(by_seed(pick(some, method=m, epsilon=e), "rse") for m in (method, "private Lloyd")))
            for e in levels
        ]
        for method in METHODS
    }
    i = levels.index(sorted(levels)[len(levels) // 2])
    return Finding(
        verdict(*lower[METHODS[0]]),
        f"worse at {sum(map(bool, lower[METHODS[0]]))} of {len(levels)} values of ε; at ε = {levels[i]:g} median cost "
        f"{number(theirs[i])}, CL-OMPR at 4kd {number(greedy[i])}",
        f"worse at {sum(map(bool, lower['default']))} of {len(levels)}; {number(median(costs[i]['default']))}",
    )


def losses(rows: list[Row]) -> str:
    found = lost(rows, "rse", ("CL-OMPR ×20", "private Lloyd"), "epsilon", "size", "per_row")
    if not found:
        return ""
    text = "; ".join(
        f"{c['size']}kd at ε = {c['epsilon']:g}: {c['rival']} {number(c['theirs'], 2)}, default {number(c['ours'], 2)}"
        for c in found
    )
    return f"**Private sketches that are too large for their ε.** Median costs where another method is better: {text}."


def learned(rows: list[Row]) -> list[str]:
    n = max(r["n"] for r in rows)
    some = pick(rows, n=n)
    shapes = sorted({(r["size"], r["per_row"]) for r in some})
    names = [f"{m}kd{', one feature per row' if p else ''}" for m, p in shapes]
    lines_ = [
        (f"{e:g}", m, *(shown(v) if (v := column(some, "rse", method=m, epsilon=e, size=x, per_row=p)) else "–"
                        for x, p in shapes))
        for e in order(some, "epsilon")
        for m in (*METHODS, "private Lloyd")
    ]  # fmt: skip
    text = f"Cost over the best known, {spaced(n)} rows (private Lloyd has no sketch; it is in the column of 4kd):"
    return [f"{text}\n\n{table(('ε', 'method', *names), lines_)}"]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 2, sharey=True)
    some = [{**r, "excess": max(r["rse"] - 1, 1e-5)} for r in rows]
    for axis, method in zip(axes, METHODS, strict=True):
        named = [{**r, "line": f"{r['size']}kd"} for r in pick(some, method=method, per_row=0)]
        named += [{**r, "line": "private Lloyd"} for r in pick(some, method="private Lloyd")]
        lines(axis, named, "epsilon", "excess", by="line")
        axis.set(xscale="log", yscale="log", xlabel="ε", title=method)
    axes[0].set_ylabel("cost over the best known, minus 1")
    legend(figure, axes[0], 5)


EXPERIMENT = Experiment(
    name="private-large",
    title="Private k-means of many rows",
    rank=17,
    about=(
        "Ten balanced clusters in ten dimensions, separation 2.5; pure ε, for one row more or less. Ten million rows "
        "in the full version, whose pass runs on a GPU (`experiments/gpu_large.py`); a million in the quick one. "
        "Every map is chosen from public constants, as in [private k-means](#private-k-means). Costs are those of "
        "200 000 fresh rows."
    ),
    cells=cells,
    methods=methods,
    measure=measure,
    claims=(
        Claim(
            "Chatalic 2020, Figure 9.4, p. 178",
            "sketches of 4kd or less are best for small ε, the largest (100kd) for large ε",
            judge_size,
        ),
        Claim(
            "Chatalic 2020, Figure 9.4, p. 178", "one feature for each row, instead of all, costs nothing", judge_masks
        ),
        Claim("Chatalic 2020, Figure 9.4, p. 178", "private Lloyd is worse at every ε", judge_rival),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={
        "costs nothing": "a change of the median cost below 0.02, where the cost is below 1.1 with all features",
        "ε": "the published range isn't given in words",
        "decoder": "CL-OMPR with twenty candidates per step",
        "private Lloyd": "200 000 rows, with ε larger by the ratio: the same noise for each row",
    },
    size=(9.0, 4.2),
)
