"""The survey's section 6.2, and Chatalic (2020), Figure 9.4: one-bit features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

import sketchlearn as sl
from experiments.drawing import cost_axis, legend, lines, ticks
from experiments.published import centers_of, chatalic_scale, designed_map, pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    SUCCESS,
    attempt,
    best_cost,
    column,
    known,
    mean_cost,
    median,
    number,
    shown,
    table,
    verdict,
)
from sketchlearn.datasets import separated_variance

K = D = 10
SIZES = (1, 1.5, 2, 3, 4, 5, 6.5, 8, 10, 12.5)
METHODS = ("CL-OMPR", "CL-OMPR, one-bit", "default", "default, one-bit")


@lru_cache(maxsize=4)
def _data(seed: int) -> tuple[Any, float]:
    data = sl.datasets.clusters(20_000, K, D, seed=np.random.default_rng([13, seed]))
    return data, best_cost(data.rows, K, data.centers)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    data, best = _data(seed)
    size = int(setting["size"] * K * D)
    for method in methods:
        bits = method.endswith("one-bit")
        if method.startswith("default"):
            phi, decoder = designed_map(data.rows, K, size, seed, quantized=bits), "default"
        else:
            scale = chatalic_scale(K, D, separated_variance(K, D))
            phi, decoder = published_map(D, size, scale, seed, quantized=bits), "CL-OMPR"
        centers, seconds = attempt(centers_of, pass_over(data.rows, phi), K, decoder, seed)
        rse = np.inf if centers is None else mean_cost(data.rows, centers) / best
        yield method, {"rse": rse, "seconds": seconds}


def half(rows: list[Row], method: str, limit: float) -> float:
    """The size at which half of the data sets succeed, between sizes by the logarithm; NaN if there is none."""
    rates = [(m, np.mean([v < limit for v in column(rows, "rse", method=method, size=m)] or [np.nan])) for m in SIZES]
    for (low, before), (high, after) in pairwise(rates):
        if before < 0.5 <= after:
            share = (0.5 - before) / (after - before)
            return math.exp((1 - share) * math.log(low) + share * math.log(high))
    return math.nan


def judge_shift(rows: list[Row]) -> Finding:
    at = {m: half(rows, m, 1.1) for m in METHODS}
    theirs, own = at["CL-OMPR, one-bit"] / at["CL-OMPR"], at["default, one-bit"] / at["default"]
    text = (
        f"half of the data sets have a cost below 1.1 at {number(at['CL-OMPR'], 2)}kd, with one-bit features at "
        f"{number(at['CL-OMPR, one-bit'], 2)}kd"
    )
    code = verdict(1.1 <= theirs <= 1.4) if known(theirs) else ("not" if rows else "not run")
    if known(own):
        mine = f"a factor of {number(own, 2)}"
    else:
        first = (
            next((x for x in SIZES if median(column(rows, "rse", method=m, size=x)) < 1.1), math.nan)
            for m in ("default", "default, one-bit")
        )
        mine = "median below 1.1 from {:g}kd on, with one-bit features from {:g}kd".format(*first)
    return Finding(code, f"{text}: a factor of {number(theirs, 2)}", mine)


def judge_large(rows: list[Row]) -> Finding:
    at = {(m, size): median(column(rows, "rse", method=m, size=size)) for m in METHODS for size in (4, 10)}
    if not known(*at.values()):
        return Finding("not run", "not run")
    apart = {size: at["CL-OMPR, one-bit", size] - at["CL-OMPR", size] for size in (4, 10)}
    own = {size: at["default, one-bit", size] - at["default", size] for size in (4, 10)}
    return Finding(
        verdict(apart[4] > 0.01, abs(apart[10]) < 0.01),
        f"median cost higher by {number(apart[4])} at 4kd, by {number(apart[10])} at 10kd",
        f"by {number(own[4], 4)} and {number(own[10], 4)}",
    )


def learned(rows: list[Row]) -> list[str]:
    head = ("method", *(f"{m:g}kd" for m in SIZES))
    costs = [(m, *(shown(column(rows, "rse", method=m, size=x)) for x in SIZES)) for m in METHODS]
    rates = [
        (m, *(f"{sum(v < SUCCESS for v in values)} of {len(values)}" for values in of_sizes))
        for m in METHODS
        for of_sizes in [[column(rows, "rse", method=m, size=x) for x in SIZES]]
    ]
    return [
        f"Cost over the best known:\n\n{table(head, costs)}",
        f"Success (cost below 1.05):\n\n{table(head, rates)}",
    ]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 2)
    lines(axes[0], rows, "size", "rse")
    axes[0].set_ylabel("cost over the best known")
    cost_axis(axes[0])
    lines(axes[1], rows, "size", "rse", rates=1.1)
    axes[1].set_ylabel("share below 1.1")
    for axis in axes:
        axis.set_xlabel("m / kd")
        ticks(axis, SIZES)
    legend(figure, axes[0], 4)


EXPERIMENT = Experiment(
    name="one-bit",
    title="One-bit features",
    rank=13,
    about="Ten balanced clusters in ten dimensions, separation 2.5, 20 000 rows; cosine and sine, or their signs only.",
    cells=lambda full: [Cell({"size": m}, 50 if full else 10) for m in SIZES],
    methods=lambda setting: METHODS,
    measure=measure,
    claims=(
        Claim("survey, section 6.2", "about 25 % more features are needed if they have one bit", judge_shift),
        Claim(
            "Chatalic 2020, Figure 9.4, p. 178", "one-bit features are worse at 4kd, no different at 10kd", judge_large
        ),
    ),
    draw=draw,
    learned=learned,
    assumed={"success": "a cost below 1.1 of the best known one, for CL-OMPR seldom reaches 1.05"},
    size=(9.0, 4.0),
)
