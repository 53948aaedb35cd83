"""Keriven (2017), Figure 5.6: starts of k-means and of CL-OMPR; what the published references are worth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus

import sketchlearn as sl
from experiments.drawing import colours
from experiments.published import designed_map, pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    best_cost,
    box_cost,
    column,
    known,
    lloyd,
    mean_cost,
    median,
    number,
    shown,
    table,
    timed,
    verdict,
)
from experiments.spectral_data import digits_embedding
from sketchlearn.designs.scale import keriven, separation

K = 10
LLOYD = ("Lloyd, box", "Lloyd, rows", "Lloyd, k-means++", "scikit-learn ×3")
GREEDY = ("CL-OMPR, box", "CL-OMPR, rows", "CL-OMPR, k-means++")
INITS = {"box": "uniform", "rows": "sample", "k-means++": "k++"}
DATA = ("clusters", "digits, spectral")


@lru_cache(maxsize=4)
def _data(name: str, n: int, seed: int) -> tuple[Any, float]:
    if name == "clusters":
        rng = np.random.default_rng([2, seed])
        data = sl.datasets.clusters(n, K, 10, separation=1.5, weights="dirichlet", seed=rng)
        return data.rows, best_cost(data.rows, K, data.centers)
    rows, _ = digits_embedding()
    return rows, best_cost(rows, K)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    rows, best = _data(setting["data"], setting["n"], seed)
    rng = np.random.default_rng([22, seed])
    sketch = None
    for method in methods:
        if method == "default":
            s = pass_over(rows, designed_map(rows, K, 1000, seed))
            found, seconds = timed(sl.decode, s, K, random_state=seed)
            cost = mean_cost(rows, found.centers)
        elif method in GREEDY:
            if sketch is None:
                scale = keriven(rows[:5000], K, seed) if setting["data"] == "clusters" else separation(rows, K, seed)
                sketch = pass_over(rows, published_map(10, 1000, scale, seed))
            options = {"init": INITS[method.split(", ")[1]], "sample": rows[:2000], "starts": 1}
            found, seconds = timed(sl.decode, sketch, K, decoder="clompr", random_state=seed, **options)
            cost = mean_cost(rows, found.centers)
        elif method == "scikit-learn ×3":
            found, seconds = timed(KMeans(K, n_init=3, random_state=seed).fit, rows)
            cost = found.inertia_ / len(rows)
        elif method == "Lloyd, box":
            cost, seconds = timed(box_cost, rows, K, seed)
        else:
            plain = rows[rng.choice(len(rows), K, replace=False)]
            start = (
                plain if method == "Lloyd, rows" else kmeans_plusplus(rows, K, random_state=seed, n_local_trials=1)[0]
            )
            found, seconds = timed(lloyd, rows, start)
            cost = mean_cost(rows, found)
        yield method, {"rse": cost / best, "seconds": seconds}


def _ratio(rows: list[Row], data: str, names: tuple[str, str]) -> float:
    one, other = (median(column(rows, "rse", data=data, method=n)) for n in names)
    return one / other


def judge(rows: list[Row]) -> Finding:
    data = DATA[1]
    lloyd_ratio = _ratio(rows, data, (LLOYD[0], LLOYD[2]))
    greedy_ratio = _ratio(rows, data, (GREEDY[0], GREEDY[2]))
    code = verdict(lloyd_ratio > 1.1, greedy_ratio < 1.1) if known(lloyd_ratio, greedy_ratio) else "not run"
    text = (
        f"median cost from box starts over that from k-means++ starts: Lloyd {number(lloyd_ratio)}, "
        f"CL-OMPR {number(greedy_ratio)}"
    )
    own = "; ".join(f"{d}: {shown(column(rows, 'rse', data=d, method='default'))}" for d in DATA)
    return Finding(code, text, own)


def learned(rows: list[Row]) -> list[str]:
    names = (*LLOYD, *GREEDY, "default")
    lines = []
    for name in names:
        cells = []
        for data in DATA:
            values = column(rows, "rse", data=data, method=name)
            worst = f", worst {number(max(values))}" if values else ""
            cells.append(shown(values) + worst)
        lines.append((name, *cells))
    return [f"What a reference is worth: cost over the best known one.\n\n{table(('method', *DATA), lines)}"]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 2)
    names = (*LLOYD, *GREEDY, "default")
    shades = colours(names)
    for axis, data in zip(axes, DATA, strict=True):
        values = [column(rows, "rse", data=data, method=n) for n in names]
        parts = axis.boxplot(values, orientation="horizontal", patch_artist=True, widths=0.6)
        for patch, name in zip(parts["boxes"], names, strict=True):
            patch.set(facecolor=shades[name], alpha=0.5)
        axis.set_yticks(range(1, len(names) + 1), names, fontsize=7)
        axis.set(title=data, xlabel="cost over the best known", xscale="log")
        axis.xaxis.set_minor_formatter(lambda v, _: f"{v:g}")
        axis.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.tick_params(axis="x", which="both", labelsize=7)
    figure.tight_layout()


EXPERIMENT = Experiment(
    name="initialisation",
    title="Starts, and what the published references are worth",
    rank=2,
    about=(
        "Ten clusters in ten dimensions (separation 1.5, unequal weights) and ten spectral features of scikit-learn's "
        "digits, a substitute for those of MNIST. Sketches have 1000 features."
    ),
    cells=lambda full: [
        Cell({"data": "clusters", "n": 200_000 if full else 20_000}, 50 if full else 20),
        Cell({"data": "digits, spectral", "n": 1797}, 50 if full else 20),
    ],
    methods=lambda setting: (*LLOYD, *GREEDY, "default"),
    measure=measure,
    claims=(
        Claim(
            "Keriven 2017, Figure 5.6, p. 76",
            "k-means++ starts help Lloyd's algorithm much on real data; CL-OMPR does not care",
            judge,
        ),
    ),
    draw=draw,
    learned=learned,
    assumed={
        "real data": "digits (1797 rows) instead of MNIST; scale of CL-OMPR by the separation of k-means' centres",
        "rows": "20 000 instead of 200 000 in the quick version",
    },
    size=(10.0, 3.8),
)
