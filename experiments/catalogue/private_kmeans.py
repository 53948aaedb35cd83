"""Chatalic (2020), Figure 9.3: how large a private sketch of k-means should be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

import sketchlearn as sl
from experiments.drawing import cost_axis, legend, lines
from experiments.published import pass_over, private_centers_of, public_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    Array,
    attempt,
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

SIZES = (1, 2, 4, 10, 20)
EPSILONS = {
    10**4: (1.0, 0.3, 0.1),
    10**5: (1.0, 0.3, 0.1, 0.03, 0.01),
    10**6: (0.1, 0.03, 0.01, 0.003, 0.001),
}
DELTA = 1e-8
PUBLISHED = {10**4: 0.14, 10**5: 0.014, 10**6: 0.0014}
ENOUGH = 1.1
METHODS = ("CL-OMPR ×20", "default")


def cells(full: bool) -> list[Cell]:
    out = []
    for n in (10**4, 10**5, 10**6) if full else (10**4, 10**5):
        for delta in (0.0, DELTA) if full or n == 10**5 else (0.0,):
            for e in EPSILONS[n]:
                for m in SIZES if delta == 0.0 or full else (4, 10):
                    setting = {"panel": "size", "k": 4, "d": 8, "n": n, "delta": delta, "epsilon": e, "size": m}
                    out.append(Cell({**setting, "per_row": 0}, 50 if full else 10))
    return out


def methods(setting: Setting) -> tuple[str, ...]:
    return METHODS


@lru_cache(maxsize=2)
def _data(k: int, d: int, n: int, seed: int) -> tuple[Array, float]:
    data = sl.datasets.clusters(n, k, d, seed=np.random.default_rng([6, k, n, seed]))
    return data.rows, mean_cost(data.rows, lloyd(data.rows, data.centers))


@lru_cache(maxsize=20)
def _clean(k: int, d: int, n: int, seed: int, size: int, ours: bool) -> sl.Sketch:
    """One exact sketch serves all releases; both maps are chosen from constants, not from rows."""
    return pass_over(_data(k, d, n, seed)[0], public_map(k, d, size * k * d, seed, designed=ours))


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    k, d, n = setting["k"], setting["d"], setting["n"]
    rows, best = _data(k, d, n, seed)
    for method in methods:
        sketch = _clean(k, d, n, seed, setting["size"], method == "default")
        centers, seconds = attempt(private_centers_of, sketch, setting, method, seed)
        rse = np.inf if centers is None else mean_cost(rows, centers) / best
        yield method, {"rse": rse, "seconds": seconds}


def _at(rows: list[Row], method: str, **setting: Any) -> float:
    return median(column(rows, "rse", panel="size", method=method, **setting))


def _smallest(rows: list[Row], method: str, n: int, delta: float) -> float:
    """The smallest epsilon with a median cost below 1.1 at some size of the sketch."""
    costs = {e: [_at(rows, method, n=n, delta=delta, epsilon=e, size=m) for m in SIZES] for e in EPSILONS[n]}
    good = [e for e, of_sizes in costs.items() if any(cost < ENOUGH for cost in of_sizes)]
    return min(good, default=np.inf)


def judge_shape(rows: list[Row]) -> Finding:
    for method in METHODS:
        curve = [_at(rows, method, n=10**5, delta=0.0, epsilon=0.03, size=m) for m in SIZES]
        if not known(*curve):
            return Finding("not run", "not run")
        if method == "CL-OMPR ×20":
            inner = min(curve[1:-1]) < min(curve[0], curve[-1])
            text = _ends(curve)
    return Finding(verdict(inner), f"median cost at n = 10⁵, ε = 0.03: {text}", _ends(curve))


def _ends(curve: list[float]) -> str:
    """The least cost and those of the smallest and the largest sketch."""
    least = min(range(len(curve)), key=curve.__getitem__)
    return ", ".join(f"{number(curve[i], 2)} at {SIZES[i]}kd" for i in sorted({0, least, len(curve) - 1}))


def judge_least(rows: list[Row]) -> Finding:
    counts = sorted({r["n"] for r in pick(rows, panel="size")})
    found = {m: [_smallest(rows, m, n, 0.0) for n in counts] for m in METHODS}
    if not counts:
        return Finding("not run", "not run")
    near = [PUBLISHED[n] / 3 <= e <= 3 * PUBLISHED[n] for n, e in zip(counts, found["CL-OMPR ×20"], strict=True)]
    text = {
        m: ", ".join(f"{number(e, 2)} for n = {spaced(n)}" for n, e in zip(counts, v, strict=True))
        for m, v in found.items()
    }
    return Finding(
        verdict(*near),
        f"smallest ε tried with a median cost below 1.1: {text['CL-OMPR ×20']}",
        text["default"],
    )


def judge_delta(rows: list[Row]) -> Finding:
    pure, loose = (_smallest(rows, "CL-OMPR ×20", 10**5, delta) for delta in (0.0, DELTA))
    own = [_smallest(rows, "default", 10**5, delta) for delta in (0.0, DELTA)]
    if not rows:
        return Finding("not run", "not run")
    return Finding(
        verdict(loose * 3 <= pure),
        f"smallest ε for 10⁵ rows: {number(pure, 2)} if pure, {number(loose, 2)} with δ = 10⁻⁸",
        f"{number(own[0], 2)} and {number(own[1], 2)}",
    )


def losses(rows: list[Row]) -> str:
    found = lost(rows, "rse", METHODS[:1], "n", "delta", "epsilon", "size")
    if not found:
        return ""
    usable = [c for c in found if c["theirs"] < ENOUGH]
    text = f"{len(found)} of {len({(r['n'], r['delta'], r['epsilon'], r['size']) for r in rows})} cells"
    return f"**Private k-means.** CL-OMPR ×20 is better in {text}; in {len(usable)} of those its cost is below 1.1."


def learned(rows: list[Row]) -> list[str]:
    parts = []
    for n, delta in sorted({(r["n"], r["delta"]) for r in rows}):
        some = pick(rows, n=n, delta=delta)
        sizes = sorted({r["size"] for r in some})
        lines_ = [
            (f"{e:g}", m, *(shown(column(some, "rse", method=m, epsilon=e, size=x), 2) for x in sizes))
            for e in sorted({r["epsilon"] for r in some}, reverse=True)
            for m in METHODS
        ]
        head = ("ε", "method", *(f"{x}kd" for x in sizes))
        words = f"n = {spaced(n)}, {'δ = 10⁻⁸' if delta else 'pure ε'}"
        parts.append(f"Cost over the best known, {words}:\n\n{table(head, lines_)}")
    return parts


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 2)
    n = 10**5
    for axis, delta in zip(axes, (0.0, DELTA), strict=False):
        some = [
            {**r, "line": f"{r['method']}, ε = {r['epsilon']:g}", "shown": min(r["rse"], 20.0)}
            for r in pick(rows, panel="size", n=n, delta=delta)
            if r["epsilon"] in (1.0, 0.1, 0.03)
        ]
        lines(axis, some, "size", "shown", by="line")
        axis.set(xscale="log", xlabel="m / kd", title=f"k = 4, d = 8, n = 10⁵, δ = {delta:g}")
        cost_axis(axis)
    axes[0].set_ylabel("cost over the best known (at most 20)")
    legend(figure, axes[0], 3)


EXPERIMENT = Experiment(
    name="private-kmeans",
    title="Private k-means",
    rank=6,
    about=(
        "Balanced clusters of separation 2.5. Every map is chosen from public constants: the published one at the "
        "scale of equation 4.14, the default's from a box of four standard deviations, which CL-OMPR gets too. "
        "Sensitivities are the corrected ones, for one row more or less. One exact sketch of a data set serves all its "
        "releases."
    ),
    cells=cells,
    methods=methods,
    measure=measure,
    claims=(
        Claim("Chatalic 2020, Figure 9.3, p. 177", "with pure ε there is a best size of the sketch", judge_shape),
        Claim("Chatalic 2020, section 9.2.4", "ε of at least 0.14, 0.014, 0.0014 for 10⁴, 10⁵, 10⁶ rows", judge_least),
        Claim("Chatalic 2020, Figure 9.3, p. 177", "δ > 0 allows a much smaller ε", judge_delta),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={
        "separation and scale of Figure 9.3": "2.5, equation 4.14",
        "rows": "at most 10⁵ in the quick version; published up to 10⁶",
        "feasible": "within a factor of three of the published ε",
        "decoder": "CL-OMPR with twenty candidates per step",
    },
    size=(9.0, 4.6),
)
