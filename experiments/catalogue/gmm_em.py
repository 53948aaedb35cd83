"""Keriven (2017), Figures 5.11 and 5.12: Gaussian mixtures against EM."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from experiments.drawing import legend, lines
from experiments.published import pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    attempt,
    column,
    known,
    log_symmetric_kl,
    lost,
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

D, FACTOR = 10, 15
SKETCHED = {
    "CL-OMPR": ("clompr", {"starts": 1, "candidates": 1}),
    "splitting": ("splitting", {"starts": 1, "candidates": 1}),
}


def cells(full: bool) -> list[Cell]:
    if full:
        sets = {5: {10**3: 10, 10**4: 10, 10**5: 10, 10**6: 2}, 20: {10**3: 2, 10**4: 2, 10**5: 10}}
        return [Cell({"k": k, "n": n}, count) for k, counts in sets.items() for n, count in counts.items()]
    return [Cell({"k": 5, "n": n}, 10) for n in (10**4, 10**5)] + [Cell({"k": 20, "n": 10**5}, 10)]


def methods(setting: Setting) -> tuple[str, ...]:
    many = setting["k"] > 5 and setting["n"] > 10**4
    return tuple(m for m in ("EM ×1", "EM ×10", *SKETCHED, "default") if not (many and m == "EM ×10"))


def _em(rows: Any, k: int, runs: int, seed: int) -> sl.Mixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(
            k, covariance_type="diag", n_init=runs, max_iter=100, init_params="random_from_data", random_state=seed
        ).fit(rows)
    return sl.Mixture(model.weights_, model.means_, model.covariances_)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    k, n = setting["k"], setting["n"]
    data = sl.datasets.gaussian_mixture(n, k, D, seed=np.random.default_rng([5, k, n, seed]))
    size = FACTOR * k * D
    sketch = None
    for method in methods:
        reading = 0.0
        if method.startswith("EM"):
            found, seconds = timed(_em, data.rows, k, int(method[4:]), seed)
        else:
            options: dict[str, Any] = {"task": "gmm", "covariance_type": "diag", "random_state": seed}
            if method == "default":
                phi = sl.design(
                    data.rows[:2000], n_components=k, task="gmm", covariance_type="diag", size=size, seed=seed
                )
                mine, reading = timed(pass_over, data.rows, phi)
            else:
                if sketch is None:
                    sketch = pass_over(data.rows, published_map(D, size, keriven(data.rows[:5000], k, seed), seed))
                mine = sketch
                options |= {"decoder": SKETCHED[method][0], **SKETCHED[method][1]}
            solution, seconds = attempt(sl.decode, mine, k, **options)
            found = None if solution is None else solution.mixture
        value = math.inf if found is None else log_symmetric_kl(data.mixture, found, seed)
        yield method, {"log_kl": value, "seconds": seconds, "pass_seconds": reading}


def judge_few(rows: list[Row]) -> Finding:
    some = pick(rows, k=5, n=10**5)
    at = {m: median(column(some, "log_kl", method=m)) for m in ("EM ×10", "CL-OMPR")}
    if not known(*at.values()):
        return Finding("not run", "not run")
    line = math.log((5 * (2 * D + 1) - 1) / 10**5)
    text = ", ".join(f"{m} {shown(column(some, 'log_kl', method=m), 2)}" for m in at)
    return Finding(
        verdict(at["CL-OMPR"] < at["EM ×10"] + 1.0),
        f"log KL: {text} (an efficient estimate: about {number(line, 2)})",
        shown(column(some, "log_kl", method="default"), 2),
    )


def judge_many(rows: list[Row]) -> Finding:
    some = pick(rows, k=20, n=10**5)
    at = {m: median(column(some, "log_kl", method=m)) for m in ("EM ×1", "CL-OMPR", "splitting")}
    if not known(*at.values()):
        return Finding("not run", "not run")
    text = ", ".join(f"{m} {number(v, 2)}" for m, v in at.items())
    own = median(column(some, "seconds", method="default")) + median(column(some, "pass_seconds", method="default"))
    return Finding(
        verdict(at["CL-OMPR"] <= at["splitting"] - 0.5, at["CL-OMPR"] < at["EM ×1"]),
        f"log KL: {text}",
        f"{shown(column(some, 'log_kl', method='default'), 2)} in {number(own, 2)} s with the pass",
    )


def losses(rows: list[Row]) -> str:
    found = lost(rows, "log_kl", ("EM ×1", "EM ×10", *SKETCHED), "k", "n")
    if not found:
        return ""
    text = "; ".join(
        f"{c['rival']}, k = {c['k']}, {spaced(c['n'])} rows ({number(c['theirs'], 2)}, default {number(c['ours'], 2)})"
        for c in found
    )
    return f"**Divergence of mixtures.** Median log KL where another method is better: {text}."


def learned(rows: list[Row]) -> list[str]:
    lines_ = []
    for k, n in sorted({(r["k"], r["n"]) for r in rows}):
        for m in ("EM ×1", "EM ×10", *SKETCHED, "default"):
            some = pick(rows, k=k, n=n, method=m)
            if some:
                seconds = [shown(column(some, name), 2) for name in ("seconds", "pass_seconds")]
                lines_.append((str(k), spaced(n), m, shown(column(some, "log_kl"), 2), *seconds, str(len(some))))
    head = ("k", "rows", "method", "log KL", "seconds", "seconds of the pass", "data sets")
    return [f"Logarithm of the symmetrised divergence (log KL) and CPU seconds:\n\n{table(head, lines_)}"]


def draw(rows: list[Row], figure: Any) -> None:
    axes = figure.subplots(1, 3)
    for axis, k in zip(axes, (5, 20), strict=False):
        some = pick(rows, k=k)
        lines(axis, some, "n", "log_kl")
        ns = sorted({r["n"] for r in some})
        axis.plot(ns, [math.log((k * (2 * D + 1) - 1) / n) for n in ns], "k:", lw=1)
        axis.set(xscale="log", title=f"k = {k} (dotted: parameters / rows)", xlabel="rows", ylabel="log symmetrised KL")
    lines(axes[2], [{**r, "total": r["seconds"] + r["pass_seconds"]} for r in pick(rows, k=5)], "n", "total")
    axes[2].set(xscale="log", yscale="log", title="k = 5", xlabel="rows", ylabel="CPU seconds")
    legend(figure, axes[0], 5)


EXPERIMENT = Experiment(
    name="gmm-em",
    title="Gaussian mixtures against EM",
    rank=5,
    about=(
        "Random mixtures in ten dimensions with diagonal covariances; sketches of 15kd features, adapted radius at the "
        "learned scale for the published decoders. EM starts from random rows and runs for at most 100 iterations."
    ),
    cells=cells,
    methods=methods,
    measure=measure,
    claims=(
        Claim(
            "Keriven 2017, Figure 5.11, p. 83",
            "for k = 5 and 10⁵ rows CL-OMPR is on par with ten runs of EM",
            judge_few,
        ),
        Claim(
            "Keriven 2017, Figure 5.11, p. 83",
            "for k = 20 and 10⁵ rows CL-OMPR is the best of the sketched methods, and better than one run of EM",
            judge_many,
        ),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    assumed={"on par": "within 1 of the natural logarithm", "k = 20": "ten runs of EM are left out from 10⁵ rows on"},
    size=(11.0, 4.0),
)
