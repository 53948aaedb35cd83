"""Keriven (2017), Figure 5.9, and Chatalic (2020), Figure 6.4: spectral clustering of digits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import sketchlearn as sl
from experiments.drawing import cost_axis, legend, lines
from experiments.published import KMEANS, designed_map, pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    attempt,
    better,
    by_seed,
    column,
    known,
    lloyd,
    mean_cost,
    median,
    number,
    pick,
    shown,
    table,
    verdict,
)
from experiments.spectral_data import digits_embedding
from sketchlearn.designs.scale import separation

K = D = 10
SIZE = 1000
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
PLAIN = ("Lloyd, box ×1", "Lloyd, box ×5", "k-means, best", "default")
SKETCHED = ("CL-OMPR", "CL-OMPR ×5", "CL-AMP")


@lru_cache(maxsize=1)
def _reference() -> tuple[Any, Any, float, float]:
    rows, labels = digits_embedding()
    best = KMeans(K, n_init=50, random_state=0).fit(rows).inertia_ / len(rows)
    return rows, labels, float(best), separation(rows, K)


def _boxes(rows: Any, runs: int, seed: int) -> Any:
    rng = np.random.default_rng([7, seed])
    starts = [rng.uniform(rows.min(0), rows.max(0), (K, D)) for _ in range(runs)]
    return min((lloyd(rows, start) for start in starts), key=lambda c: mean_cost(rows, c))


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    rows, labels, best, apart = _reference()
    sketch = None
    for method in methods:
        if method.startswith("Lloyd"):
            centers, seconds = attempt(_boxes, rows, int(method[-1]), seed)
        elif method == "k-means, best":
            model, seconds = attempt(KMeans(K, n_init=10, random_state=seed).fit, rows)
            centers = model.cluster_centers_
        elif method == "default":
            s = pass_over(rows, designed_map(rows, K, SIZE, seed))
            found, seconds = attempt(sl.decode, s, K, random_state=seed)
            centers = None if found is None else found.centers
        else:
            if sketch is None:
                sketch = pass_over(rows, published_map(D, SIZE, setting["factor"] * apart, seed))
            name, runs = method.removesuffix(" ×5"), 5 if method.endswith("×5") else 1
            decoder, options = KMEANS[name]
            if name == "CL-OMPR":
                options = {**options, "replicates": runs}
            found, seconds = attempt(sl.decode, sketch, K, decoder=decoder, random_state=seed, **options)
            centers = None if found is None else found.centers
        values: Values = {"rse": np.inf, "ari": 0.0, "seconds": seconds}
        if centers is not None:
            owner = cdist(rows, centers).argmin(1)
            values |= {"rse": mean_cost(rows, centers) / best, "ari": adjusted_rand_score(labels, owner)}
        yield method, values


def methods(setting: Setting) -> tuple[str, ...]:
    return PLAIN if setting["factor"] == 0 else SKETCHED


def _best(rows: list[Row], method: str) -> list[Row]:
    by = {f: pick(rows, factor=f, method=method) for f in FACTORS}
    return min(by.values(), key=lambda some: median(column(some, "rse")) if some else np.inf)


def judge_better(rows: list[Row]) -> Finding:
    greedy, box = _best(rows, "CL-OMPR"), pick(rows, method="Lloyd, box ×1")
    if not greedy or not box:
        return Finding("not run", "not run")
    spread = [np.std(column(some, "rse")) for some in (greedy, box)]
    code = verdict(
        better(by_seed(greedy, "rse"), by_seed(box, "rse")),
        better(by_seed(greedy, "ari", -1.0), by_seed(box, "ari", -1.0)),
        spread[0] < spread[1],
    )
    own = pick(rows, method="default")
    best = pick(rows, method="k-means, best")
    return Finding(
        code,
        f"median cost and ARI: CL-OMPR {_both(greedy)}; Lloyd from one box start {_both(box)}",
        f"{_both(own)}; ten runs of k-means {_both(best)}",
    )


def judge_replicates(rows: list[Row]) -> Finding:
    one, five = (median(column(_best(rows, m), "rse")) for m in ("CL-OMPR", "CL-OMPR ×5"))
    lloyds = [median(column(rows, "rse", method=f"Lloyd, box ×{i}")) for i in (1, 5)]
    code = verdict(abs(five / one - 1) < 0.02, lloyds[1] < 0.98 * lloyds[0]) if known(one, five, *lloyds) else "not run"
    return Finding(
        code,
        f"median cost of one and of five: CL-OMPR {number(one)}, {number(five)}; Lloyd {number(lloyds[0])}, "
        f"{number(lloyds[1])}",
    )


def judge_messages(rows: list[Row]) -> Finding:
    amp, greedy = _best(rows, "CL-AMP"), _best(rows, "CL-OMPR")
    if not amp or not greedy:
        return Finding("not run", "not run")
    code = verdict(
        better(by_seed(amp, "rse"), by_seed(greedy, "rse")),
        better(by_seed(amp, "ari", -1.0), by_seed(greedy, "ari", -1.0)),
    )
    text = "; ".join(f"{name} {_both(some)}" for name, some in (("CL-AMP", amp), ("CL-OMPR", greedy)))
    return Finding(code, f"median cost and ARI, each at its best scale: {text}", _both(pick(rows, method="default")))


def _both(rows: list[Row]) -> str:
    return f"{number(median(column(rows, 'rse')))}, {number(median(column(rows, 'ari')), 2)}"


def losses(rows: list[Row]) -> str:
    own = pick(rows, method="default")
    best = {m: _best(rows, m) for m in ("CL-OMPR", "CL-AMP")}
    higher = [m for m, some in best.items() if better(by_seed(some, "ari", -1.0), by_seed(own, "ari", -1.0))]
    if not higher:
        return ""
    text = ", ".join(f"{m} {_both(best[m])}" for m in higher)
    return (
        "**Labels of digits.** On spectral features, others have a higher ARI at a higher cost. Cost and ARI at "
        f"their best scales: {text}; default {_both(own)}."
    )


def learned(rows: list[Row]) -> list[str]:
    cases = [(m, pick(rows, method=m), "–") for m in PLAIN]
    cases += [(m, pick(rows, method=m, factor=f), f"{f:g}") for m in SKETCHED for f in FACTORS]
    lines_ = [(m, f, shown(column(some, "rse")), shown(column(some, "ari"), 2)) for m, some, f in cases]
    return [table(("method", "scale over separation", "cost over the best known", "ARI"), lines_)]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 2)
    some = [r for r in rows if r["factor"]]
    for axis, name in zip(axes, ("rse", "ari"), strict=True):
        lines(axis, some, "factor", name)
        for method, style in (("k-means, best", "--"), ("Lloyd, box ×1", ":"), ("default", "-")):
            axis.axhline(median(column(rows, name, method=method)), color="#111111", ls=style, lw=1.2, label=method)
        axis.set(xscale="log", xlabel="scale over separation")
    axes[0].set_ylabel("cost over the best known")
    cost_axis(axes[0])
    axes[1].set_ylabel("adjusted Rand index")
    legend(figure, axes[0], 6)


EXPERIMENT = Experiment(
    name="spectral",
    title="Spectral clustering of digits",
    rank=7,
    about=(
        "Ten spectral features of scikit-learn's 1797 digits, a substitute for MNIST; sketches of 10kd features; "
        "several draws of the frequencies. The lowest cost does not have the best labels here."
    ),
    cells=lambda full: [Cell({"factor": f}, 100 if full else 10) for f in (0.0, *FACTORS)],
    methods=methods,
    measure=measure,
    claims=(
        Claim(
            "Keriven 2017, Figure 5.9, p. 79",
            "CL-OMPR has lower cost, better labels and less spread than Lloyd's algorithm",
            judge_better,
        ),
        Claim("Keriven 2017, Figure 5.9, p. 79", "five replicates help Lloyd's algorithm only", judge_replicates),
        Claim(
            "Chatalic 2020, Figure 6.4, p. 133",
            "CL-AMP: lower cost at its best scale, much better labels",
            judge_messages,
        ),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={
        "data": "digits instead of 70 000 MNIST images; rows are not normalised",
        "better": "the 90 % interval of the median difference over draws excludes zero, for much better as well",
        "graph": "ten nearest neighbours, symmetrised",
    },
    size=(9.0, 4.0),
)
