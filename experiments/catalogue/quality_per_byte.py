"""Cost of k-means against the bytes that are kept, beside what people would use instead of a sketch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

import sketchlearn as sl
from experiments import rivals
from experiments.drawing import legend, lines, order
from experiments.published import designed_map, pass_over
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    attempt,
    best_cost,
    better,
    by_seed,
    column,
    known,
    mean_cost,
    median,
    number,
    pick,
    shown,
    timed,
    verdict,
)

K, D, ROWS = 10, 10, 20_000
BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
KINDS = {
    "round clusters": lambda rng: sl.datasets.clusters(ROWS, K, D, seed=rng),
    "a cluster of 0.1 %": lambda rng: sl.datasets.rare_clusters(ROWS, K, D, share=1e-3, seed=rng),
    "oblong clusters": lambda rng: sl.datasets.oblong_clusters(ROWS, K, D, variance=10.0, seed=rng),
    "heavy tails": lambda rng: sl.datasets.heavy_tails(ROWS, K, D, degrees=3.0, variance=10.0, seed=rng),
}
RIVALS = ("random rows", "lightweight coreset", "coreset tree", "small coreset tree", "BIRCH", "MiniBatchKMeans")
LABELS = {"default": "sketch"}
JUDGED = (8_000, 32_000)


@lru_cache(maxsize=8)
def _data(kind: str, seed: int) -> tuple[Any, float]:
    data = KINDS[kind](np.random.default_rng([15, list(KINDS).index(kind), seed]))
    return data.rows, best_cost(data.rows, K, data.centers)


def sketch_within(rows: Any, budget: int, seed: int) -> sl.Sketch:
    """The largest sketch whose file is no longer than a budget of bytes; frequencies are a seed in its header."""
    few, many = (len(pass_over(rows[:10], designed_map(rows, K, m, seed)).to_bytes()) for m in (20, 120))
    each = (many - few) / 100
    size = int(20 + (budget - few) / each)
    while True:
        sketch = pass_over(rows, designed_map(rows, K, size, seed))
        if len(sketch.to_bytes()) <= budget:
            return sketch
        size -= 1


def methods(setting: Setting) -> tuple[str, ...]:
    return tuple(m for m in (*RIVALS, "default") if m != "small coreset tree" or setting["bytes"] >= 8_000)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    rows, best = _data(setting["kind"], seed)
    budget = setting["bytes"]
    weighted = rivals.rows_within(budget, D)
    for method in methods:
        kept = budget
        if method == "default":
            sketch, first = timed(sketch_within, rows, budget, seed)
            found, second = attempt(sl.decode, sketch, K, random_state=seed)
            cost = np.inf if found is None else mean_cost(rows, found.centers)
            flagged = found is None or not found.reliable
            values = {"rse": cost / best, "seconds": first + second, "flagged": flagged}
            yield method, {**values, "kept": len(sketch.to_bytes()), "features": sketch.features.size}
            continue
        if method == "random rows":
            core, first = timed(rivals.uniform_sample, rows, rivals.rows_within(budget, D, weighted=False), seed)
        elif method == "lightweight coreset":
            core, first = timed(rivals.lightweight_coreset, rows, weighted, seed)
        elif method == "coreset tree":
            (core, held), first = timed(rivals.coreset_tree, rows, weighted, K, seed)
            kept = held * rivals.NUMBER * (D + 1)
        elif method == "small coreset tree":
            core, first = timed(rivals.small_coreset_tree, rows, weighted, K, seed)
        elif method == "BIRCH":
            core, first = timed(rivals.birch, rows, rivals.features_within(budget, D), seed)
        else:
            batch = rivals.rows_within(budget, D, weighted=False)
            centers, seconds = timed(rivals.mini_batches, rows, K, batch, seed)
            yield method, {"rse": mean_cost(rows, centers) / best, "seconds": seconds, "kept": budget}
            continue
        centers, second = timed(rivals.solve, core, K, seed)
        yield method, {"rse": mean_cost(rows, centers) / best, "seconds": first + second, "kept": kept}


def _better(rows: list[Row], kind: str, budget: int) -> list[str] | None:
    """Rivals with a lower cost than the sketch; None if some were not run."""
    some = pick(rows, kind=kind, bytes=budget)
    ours = by_seed(pick(some, method="default"), "rse")
    found = []
    for rival in methods({"bytes": budget})[:-1]:
        lower = better(by_seed(pick(some, method=rival), "rse"), ours)
        if lower is None:
            return None
        found += [rival] if lower else []
    return found


def judge(rows: list[Row]) -> Finding:
    text, own, wins = [], [], []
    for budget in JUDGED:
        for kind in KINDS:
            some = pick(rows, kind=kind, bytes=budget)
            found = _better(rows, kind, budget)
            middles = {m: median(column(some, "rse", method=m)) for m in RIVALS}
            if found is None or not known(*middles.values()):
                return Finding("not run", "not run")
            best = min(middles, key=lambda m, at=middles: at[m])
            where = f"{kind}, {budget // 1000} kB"
            text.append(f"{where}: {best} {shown(column(some, 'rse', method=best), 5)}")
            own.append(f"{where}: {shown(column(some, 'rse', method='default'), 5)}")
            wins.append(not found)
    return Finding(verdict(*wins), "best rival, " + "; ".join(text), "; ".join(own))


def learned(rows: list[Row]) -> list[str]:
    table = ["| data | bytes | features | sketch | flagged as unreliable | better |", "|---|---|---|---|---|---|"]
    for kind in KINDS:
        for budget in sorted({row["bytes"] for row in rows}):
            some = pick(rows, kind=kind, bytes=budget)
            rivals_ = [f"{m} ({median(column(some, 'rse', method=m)):.5f})" for m in _better(rows, kind, budget) or []]
            ours = pick(some, method="default")
            flags = column(ours, "flagged")
            table.append(
                f"| {kind} | {budget / 1000:g} kB | {median(column(ours, 'features')):.0f} "
                f"| {median(column(ours, 'rse')):.5f} | {sum(flags)} of {len(flags)} | {', '.join(rivals_) or 'none'} |"
            )
    few = median(column(rows, "features", bytes=BUDGETS[0], method="default")) / (K * D)
    first = (
        f"**Where the sketch loses.** With two kilobytes it has {number(few, 2)} features for each coordinate of the "
        "centres. That is too few: the answer is worthless, and it is flagged as unreliable. Keep random rows "
        "instead. Above that, the last column names rivals whose cost is lower (the 90 % interval of the median "
        "difference over data sets excludes zero). Costs are medians. A flag at a good cost is a false alarm: "
        "the model is of round clusters, and some of these are not.\n\n"
    )
    parts = [first + "\n".join(table)]
    names = ("default", *RIVALS)
    for budget in JUDGED:
        lines_ = ["| data | " + " | ".join(LABELS.get(n, n) for n in names) + " |", "|---" * (len(names) + 1) + "|"]
        for kind in KINDS:
            some = pick(rows, kind=kind, bytes=budget)
            lines_.append(f"| {kind} | " + " | ".join(shown(column(some, "rse", method=n)) for n in names) + " |")
        parts.append(f"Cost over the best known at {budget // 1000} kB:\n\n" + "\n".join(lines_))
    return parts


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, len(KINDS), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        some = [{**r, "excess": max(r["rse"] - 1, 1e-5)} for r in pick(rows, kind=kind)]
        lines(
            axis,
            sorted(some, key=lambda r: r["method"] != "default"),
            "bytes",
            "excess",
            label=lambda n: LABELS.get(n, n),
        )
        axis.set(title=kind, xlabel="kB kept", xscale="log", yscale="log")
        sizes = order(some, "bytes")
        axis.set_xticks(sizes, [f"{b / 1000:g}" for b in sizes])
        axis.minorticks_off()
    axes[0].set_ylabel("cost over the best known, minus 1")
    legend(figure, axes[0], 6)


EXPERIMENT = Experiment(
    name="quality-per-byte",
    title="Quality per byte",
    rank=0,
    about=(
        "Ten clusters in ten columns, 20 000 rows, one pass. A sketch keeps its whole file. Random rows and coresets "
        "keep float32 rows (and a weight). The coreset tree (merge and reduce) ends with the budget, and holds several "
        "times as much while the stream runs; the small one shares the budget among its levels. BIRCH keeps counts, "
        "means and spreads. MiniBatchKMeans keeps its centres and one batch, and must know k beforehand. Rivals are "
        "solved by ten runs of k-means on what they kept."
    ),
    cells=lambda full: [
        Cell({"kind": kind, "bytes": b}, 30 if full else 10)
        for kind in KINDS
        for b in (BUDGETS if full else BUDGETS[::2])
    ],
    methods=methods,
    measure=measure,
    claims=(
        Claim(
            "no publication; Keriven 2017, section 5.5, compares with coresets",
            "no rival of the same number of bytes has a lower cost than a sketch (8 and 32 kB, four kinds of data)",
            judge,
        ),
    ),
    draw=draw,
    learned=learned,
    assumed={
        "BIRCH": "the nearest entry is searched among all entries, and the global phase is k-means on their means",
        "coreset trees": "sensitivity sampling at every node",
    },
    size=(12.0, 3.8),
)
