"""Cost of k-means against the bytes that are kept, beside what people would use instead of a sketch."""

from __future__ import annotations

from collections import Counter
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
    mean_cost,
    median,
    number,
    pick,
    shown,
    table,
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


def _judged(rows: list[Row]) -> dict[tuple[str, int], list[str]] | None:
    """Rivals with a lower cost in each cell of the claim; None if some were not run."""
    found = {(kind, budget): _better(rows, kind, budget) for budget in JUDGED for kind in KINDS}
    return None if any(names is None for names in found.values()) else {at: names or [] for at, names in found.items()}


def _counts(found: dict[tuple[str, int], list[str]]) -> str:
    each = Counter(name for names in found.values() for name in names)
    return ", ".join(f"{name} in {count} of {len(found)}" for name, count in each.most_common()) or "none"


def judge(rows: list[Row]) -> Finding:
    found = _judged(rows)
    if found is None:
        return Finding("not run", "not run")
    cells_ = {(kind, b): pick(rows, kind=kind, bytes=b, method="default") for kind, b in found}
    worst = max(median(column(some, "rse")) for some in cells_.values())
    return Finding(
        verdict(*(not names for names in found.values())),
        f"rivals with a lower cost: {_counts(found)} cells",
        f"median cost at most {number(worst, 5)} times the best known in all {len(found)} cells",
    )


def losses(rows: list[Row]) -> str:
    found = _judged(rows)
    if not found or not any(found.values()):
        return ""
    ratio = max(
        median(column(some, "rse", method="default")) / median(column(some, "rse", method=rival))
        for (kind, b), names in found.items()
        for some in [pick(rows, kind=kind, bytes=b)]
        for rival in names
    )
    few = [median(column(rows, "rse", kind=kind, bytes=BUDGETS[0], method="default")) for kind in KINDS]
    return (
        f"**Cost for the bytes kept.** With 8 and 32 kB, rivals have a lower cost of k-means than a sketch: "
        f"{_counts(found)} cells (four kinds of data, two sizes). The sketch's median cost is at most "
        f"{number(100 * (ratio - 1), 2)} % higher. With 2 kB a sketch is worthless: "
        f"its median cost is {number(min(few), 1)} to {number(max(few), 0)} times the best known."
    )


def learned(rows: list[Row]) -> list[str]:
    lines_ = []
    for kind in KINDS:
        for budget in sorted({row["bytes"] for row in rows}):
            some = pick(rows, kind=kind, bytes=budget)
            rivals_ = [f"{m} ({median(column(some, 'rse', method=m)):.5f})" for m in _better(rows, kind, budget) or []]
            ours = pick(some, method="default")
            flags = column(ours, "flagged")
            lines_.append(
                (
                    kind,
                    f"{budget / 1000:g} kB",
                    f"{median(column(ours, 'features')):.0f}",
                    f"{median(column(ours, 'rse')):.5f}",
                    f"{sum(flags)} of {len(flags)}",
                    ", ".join(rivals_) or "none",
                )
            )
    few = median(column(rows, "features", bytes=BUDGETS[0], method="default")) / (K * D)
    first = (
        f"**Where the sketch loses.** With two kilobytes it has {number(few, 2)} features for each coordinate of the "
        "centres. That is too few: the answer is worthless, and it is flagged as unreliable. Keep BIRCH's features or "
        "random rows instead. The last column names rivals with a lower cost. Costs are medians. A flag at a good "
        "cost is a false alarm: the model is of round clusters, and some of these are not.\n\n"
    )
    parts = [first + table(("data", "bytes", "features", "sketch", "flagged as unreliable", "better"), lines_)]
    names = ("default", *RIVALS)
    for budget in JUDGED:
        costs = [
            (kind, *(shown(column(rows, "rse", kind=kind, bytes=budget, method=n), 4) for n in names)) for kind in KINDS
        ]
        head = ("data", *(LABELS.get(n, n) for n in names))
        parts.append(f"Cost over the best known at {budget // 1000} kB:\n\n" + table(head, costs))
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
    losses=losses,
    assumed={
        "BIRCH": "the nearest entry is searched among all entries, and the global phase is k-means on their means",
        "coreset trees": "sensitivity sampling at every node",
    },
    size=(12.0, 3.8),
)
