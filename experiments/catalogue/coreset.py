"""Keriven (2017), Figure 5.16: sketches against coresets of equal memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

import sketchlearn as sl
from experiments import rivals
from experiments.drawing import legend, lines
from experiments.published import designed_map, pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    Array,
    attempt,
    best_cost,
    better,
    by_seed,
    column,
    known,
    log_symmetric_kl,
    mean_cost,
    median,
    number,
    pick,
    shown,
    table,
    verdict,
)
from sketchlearn.designs.scale import keriven

K = D = 10
SIZES = (50, 100, 200, 500, 1000, 2000)
PANELS = (("kmeans", "excess", "k-means"), ("gmm", "log_kl", "mixtures"))
METHODS = ("uniform rows", "coreset", "CL-OMPR", "default")


@lru_cache(maxsize=2)
def _data(task: str, n: int, seed: int) -> tuple[Any, Array, float, float]:
    """Data with their truth, rows, the best known cost (k-means only) and the learned scale."""
    rng = np.random.default_rng([15, len(task), seed])
    if task == "kmeans":
        data: Any = sl.datasets.clusters(n, K, D, separation=1.5, weights="dirichlet", seed=rng)
        return data, data.rows, best_cost(data.rows, K, data.centers), keriven(data.rows[:5000], K, seed)
    data = sl.datasets.gaussian_mixture(n, K, D, seed=rng)
    return data, data.rows, 1.0, keriven(data.rows[:5000], K, seed)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    task, size = setting["task"], setting["size"]
    data, rows, best, scale = _data(task, setting["n"], seed)
    rng = np.random.default_rng([151, seed])
    for method in methods:
        if method in ("uniform rows", "coreset"):
            core = rivals.uniform_sample(rows, size, seed)
            if method == "coreset":
                core = rivals.sensitivity_coreset(rivals.Coreset(rows, np.ones(len(rows))), size, K, rng)
            if task == "kmeans":
                found, seconds = attempt(rivals.solve, core, K, seed)
            else:
                found, seconds = attempt(rivals.weighted_em, core, K, seed)
        else:
            options: dict[str, Any] = {"task": task, "random_state": seed}
            if task == "gmm":
                options["covariance_type"] = "diag"
            if method == "CL-OMPR":
                phi: Any = published_map(D, size, scale, seed)
                options |= {"decoder": "clompr", "starts": 1, **({"candidates": 1} if task == "gmm" else {})}
            elif task == "kmeans":
                phi = designed_map(rows, K, size, seed)
            else:
                phi = sl.design(rows[:2000], n_components=K, task="gmm", covariance_type="diag", size=size, seed=seed)
            solution, seconds = attempt(sl.decode, pass_over(rows, phi), K, **options)
            found = None if solution is None else solution.centers if task == "kmeans" else solution.mixture
        if task == "kmeans":
            yield (
                method,
                {"excess": math.inf if found is None else mean_cost(rows, found) / best - 1, "seconds": seconds},
            )
        else:
            mixture = sl.Mixture(*found) if isinstance(found, tuple) else found
            value = math.inf if mixture is None else log_symmetric_kl(data.mixture, mixture, seed)
            yield method, {"log_kl": value, "seconds": seconds}


def _curve(rows: list[Row], task: str, method: str, name: str) -> list[float]:
    return [median(column(rows, name, task=task, method=method, size=m)) for m in SIZES]


def judge(task: str, name: str, words: str) -> Any:
    """A judge of one panel: steady fall of the coreset, a jump of the sketch, which is then better."""

    def judged(rows: list[Row]) -> Finding:
        core, greedy, own = (_curve(rows, task, m, name) for m in ("coreset", "CL-OMPR", "default"))
        if not known(*core, *greedy, *own):
            return Finding("not run", "not run")
        steady = sum(b < a for a, b in pairwise(core)) >= len(SIZES) - 2
        text = "; ".join(
            f"m = {SIZES[i]}: coreset {number(core[i])}, CL-OMPR {number(greedy[i])}" for i in (0, len(SIZES) - 1)
        )
        mine = ", ".join(f"{number(own[i])} for m = {SIZES[i]}" for i in (0, len(SIZES) - 1))
        return Finding(verdict(steady, greedy[-1] < core[-1]), f"{words}, {text}", mine)

    return judged


def losses(rows: list[Row]) -> str:
    worse = [
        f"{words} with m = {', '.join(map(str, sizes))}"
        for task, name, words in PANELS
        for sizes in [
            [
                m
                for m in SIZES
                if better(*(by_seed(pick(rows, task=task, size=m, method=x), name) for x in ("coreset", "default")))
            ]
        ]
        if sizes
    ]
    return f"**Few numbers.** Coresets of equal memory are better for {'; '.join(worse)} (k = d = 10)." if worse else ""


def learned(rows: list[Row]) -> list[str]:
    head = ("method", *(f"m = {m}" for m in SIZES))
    return [
        f"{words[0].upper()}{words[1:]}, {task_words}:\n\n"
        + table(head, [(x, *(shown(column(rows, name, task=task, method=x, size=m)) for m in SIZES)) for x in METHODS])
        for (task, name, task_words), words in zip(PANELS, ("excess cost", "log KL"), strict=True)
    ]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 2)
    some = [{**r, "excess": max(r["excess"], 1e-5)} for r in pick(rows, task="kmeans")]
    lines(axes[0], some, "size", "excess")
    axes[0].set(yscale="log", title="k-means", ylabel="cost over the best known, minus 1")
    lines(axes[1], pick(rows, task="gmm"), "size", "log_kl")
    axes[1].set(title="Gaussian mixture", ylabel="log symmetrised KL")
    for axis in axes:
        axis.set(xscale="log", xlabel="m: rows of the coreset, features of the sketch")
    legend(figure, axes[0], 4)


EXPERIMENT = Experiment(
    name="coreset",
    title="Sketches and coresets",
    rank=15,
    about=(
        "k = d = 10. A coreset of m weighted rows takes as much memory as m features with their frequencies; here "
        "frequencies are a seed, so [quality per byte](#quality-per-byte) counts them differently."
    ),
    cells=lambda full: [
        Cell({"task": task, "n": 200_000 if full else 50_000, "size": m}, 30 if full else 10)
        for task in ("kmeans", "gmm")
        for m in SIZES
    ],
    methods=lambda setting: METHODS,
    measure=measure,
    claims=(
        Claim(
            "Keriven 2017, Figure 5.16, p. 88",
            "k-means: coresets improve steadily with m; sketches jump, and are then better",
            judge("kmeans", "excess", "excess cost"),
        ),
        Claim(
            "Keriven 2017, Figure 5.16, p. 88",
            "mixtures: coresets improve steadily with m; sketches jump, and are then better",
            judge("gmm", "log_kl", "log KL"),
        ),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={
        "coreset": "sensitivity sampling from k-means++ centres for both tasks; EM with weights, three starts",
        "rows": "50 000 instead of 200 000 in the quick version",
        "k-means data": "synthetic clusters; the published panel has spectral features of MNIST",
    },
    size=(9.0, 4.0),
)
