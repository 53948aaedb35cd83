"""Keriven (2017), Figure 5.7, and the survey's Figure 6: time and memory against the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl
from experiments import rivals
from experiments.drawing import legend, lines
from experiments.published import pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    better,
    box_cost,
    by_seed,
    column,
    known,
    lloyd,
    mean_cost,
    median,
    number,
    pick,
    shown,
    spaced,
    table,
    timed,
    verdict,
)
from sketchlearn.designs.scale import keriven

K = D = 10
SIZE = 1000
SUBSAMPLE = 10_000
METHODS = (
    "k-means",
    "k-means, one box start",
    "MiniBatchKMeans",
    "k-means on 10 000 rows",
    "CL-OMPR",
    "default",
)


def cells(full: bool) -> list[Cell]:
    rows = (10**4, 10**5, 10**6, 10**7) if full else (10**4, 10**5, 10**6)
    return [Cell({"n": n}, 10) for n in rows]


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    rng = np.random.default_rng([4, setting["n"], seed])
    data = sl.datasets.clusters(setting["n"], K, D, separation=1.5, weights="dirichlet", seed=rng)
    rows = data.rows.astype(np.float32)
    best = mean_cost(data.rows, lloyd(rows, data.centers.astype(np.float32)))
    held = float(rows.nbytes)
    for method in methods:
        if method == "k-means":
            model, seconds = timed(KMeans(K, n_init=1, random_state=seed).fit, rows)
            values = {"rse": model.inertia_ / len(rows) / best, "bytes": held}
        elif method == "k-means, one box start":
            cost, seconds = timed(box_cost, rows, K, seed)
            values = {"rse": cost / best, "bytes": held}
        elif method == "MiniBatchKMeans":
            centers, seconds = timed(rivals.mini_batches, rows, K, 1024, seed)
            values = {"rse": mean_cost(data.rows, centers) / best, "bytes": 4.0 * 1024 * D}
        elif method == "k-means on 10 000 rows":
            some = rows[rng.choice(len(rows), min(SUBSAMPLE, len(rows)), replace=False)]
            model, seconds = timed(KMeans(K, n_init=3, random_state=seed).fit, some)
            values = {"rse": mean_cost(data.rows, model.cluster_centers_) / best, "bytes": float(some.nbytes)}
        else:
            if method == "default":
                phi = sl.design(rows[:1000], n_components=K, size=SIZE, seed=seed)
                decoder: dict[str, Any] = {}
            else:
                phi = published_map(D, SIZE, keriven(data.rows[:5000], K, seed), seed)
                decoder = {"decoder": "clompr", "starts": 1}
            pass_over(rows[:1000], phi)  # compiled, and frequencies drawn
            sketch, reading = timed(pass_over, rows, phi, workers=1)
            found, seconds = timed(sl.decode, sketch, K, random_state=seed, **decoder)
            kept = len(sketch.to_bytes()) + phi.frequencies.size * 4.0
            values = {"rse": mean_cost(data.rows, found.centers) / best, "bytes": kept, "pass_seconds": reading}
        yield method, {**values, "seconds": seconds}


def _totals(rows: list[Row]) -> list[Row]:
    return [{**r, "total": r["seconds"] + r.get("pass_seconds", 0.0)} for r in rows]


def _largest(rows: list[Row]) -> int:
    return max(row["n"] for row in rows)


def judge_parity(rows: list[Row]) -> Finding:
    sizes = sorted({row["n"] for row in rows})
    ratios = {}
    for n in sizes:
        box, greedy = (median(column(rows, "rse", n=n, method=m)) for m in ("k-means, one box start", "CL-OMPR"))
        ratios[n] = greedy / box
    code = verdict(*(r <= 1.02 for r in ratios.values())) if known(*ratios.values()) else "not run"
    text = ", ".join(f"{number(r)} for n = {spaced(n)}" for n, r in ratios.items())
    worst = max(median(column(rows, "rse", n=n, method="default")) for n in sizes)
    return Finding(
        code,
        f"median cost of CL-OMPR over that of one box start: {text}",
        f"median cost over the best known at most {number(worst, 4)}",
    )


def judge_memory(rows: list[Row]) -> Finding:
    n = _largest(rows)
    ratio = median(column(rows, "bytes", n=n, method="k-means")) / median(column(rows, "bytes", n=n, method="CL-OMPR"))
    growth = ratio / n * 10**7
    return Finding(
        verdict(growth >= 1000) if known(ratio) else "not run",
        f"{spaced(round(growth))} times less at 10⁷, from {spaced(round(ratio))} times at n = {spaced(n)}",
    )


def judge_speed(rows: list[Row]) -> Finding:
    n = _largest(rows)
    slow = median(column(rows, "seconds", n=n, method="k-means"))
    parts = {m: median(column(rows, "seconds", n=n, method=m)) for m in ("CL-OMPR", "default")}
    reading = median(column(rows, "pass_seconds", n=n, method="default"))
    if not known(slow, *parts.values(), reading):
        return Finding("not run", "not run")
    share = slow / parts["CL-OMPR"]
    code = "reproduced" if share >= 30 else "partly" if share * 10**7 / n >= 30 else "not"
    return Finding(
        code,
        f"n = {spaced(n)}: decoding {number(share, 2)} times as fast as one run of k-means, with the pass "
        f"{number(slow / (parts['CL-OMPR'] + reading), 2)} times",
        f"decoding {number(slow / parts['default'], 2)} times, with the pass "
        f"{number(slow / (parts['default'] + reading), 2)} times",
    )


def losses(rows: list[Row]) -> str:
    n, rival = _largest(rows), "k-means on 10 000 rows"
    some = _totals(pick(rows, n=n))
    theirs, ours = by_seed(pick(some, method=rival), "total"), by_seed(pick(some, method="default"), "total")
    if not better(theirs, ours):
        return ""
    seconds = [median(list(v.values())) for v in (theirs, ours)]
    costs = [number(median(column(some, "rse", method=m)), 4) for m in (rival, "default")]
    return (
        f"**Seconds.** On {spaced(n)} rows, k-means on 10 000 of them takes {number(seconds[0])} s, pass and "
        f"decoding take {number(seconds[1])} s. Median costs over the best known are {costs[0]} and {costs[1]}."
    )


def learned(rows: list[Row]) -> list[str]:
    n = _largest(rows)
    lines_ = [
        (
            m,
            shown(column(rows, "seconds", n=n, method=m), 2),
            shown(column(rows, "pass_seconds", n=n, method=m), 2) if m in ("CL-OMPR", "default") else "–",
            number(median(column(rows, "bytes", n=n, method=m)) / 1000, 1),
            shown(column(rows, "rse", n=n, method=m), 4),
        )
        for m in METHODS
    ]
    head = ("method", "seconds without the pass", "seconds of the pass", "kB kept", "cost over the best known")
    return [f"With {spaced(n)} rows:\n\n{table(head, lines_)}"]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 3)
    lines(axes[0], _totals(rows), "n", "total")
    lines(axes[1], rows, "n", "bytes")
    lines(axes[2], rows, "n", "rse")
    axes[0].set_ylabel("CPU seconds, pass included")
    axes[1].set_ylabel("bytes kept")
    axes[2].set_ylabel("cost over the best known")
    for axis in axes:
        axis.set(xscale="log", yscale="log", xlabel="rows")
    legend(figure, axes[0], 3)


EXPERIMENT = Experiment(
    name="large-n",
    title="Many rows: seconds and bytes",
    rank=4,
    about=(
        "Ten clusters in ten dimensions (separation 1.5, unequal weights), float32, one thread, 1000 features. The "
        "pass over the rows is measured and counted; publications leave it out."
    ),
    cells=cells,
    methods=lambda s: METHODS,
    measure=measure,
    claims=(
        Claim("Keriven 2017, Figure 5.7, p. 77", "parity with k-means at m = 1000 for every n", judge_parity),
        Claim("Keriven 2017, Figure 5.7; survey, Figure 6", "ten thousand times less memory at n = 10⁷", judge_memory),
        Claim(
            "Keriven 2017, Figure 5.7; survey, Figure 6",
            "30 (survey) or 100 (thesis) times as fast at n = 10⁷, without the pass",
            judge_speed,
        ),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={
        "largest n": "10⁶ in the quick version",
        "memory": "a thousand times less at 10⁷ is enough",
        "speed": "partly if linear growth in n would give 30 at 10⁷",
    },
    size=(11.0, 4.2),
)
