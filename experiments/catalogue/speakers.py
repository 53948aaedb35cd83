"""Keriven (2017), Figure 5.15 and Tables 5.2 and 5.3: speaker verification, with synthetic speakers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from experiments.drawing import legend, lines
from experiments.published import pass_over, published_map
from experiments.registry import Cell, Claim, Experiment, Finding, Row, Setting, Values
from experiments.rulers import (
    Array,
    attempt,
    better,
    by_seed,
    column,
    known,
    median,
    number,
    pick,
    shown,
    table,
    timed,
    verdict,
)
from sketchlearn.designs.scale import keriven

D, SPEAKERS, CLAIMED, TESTS = 8, 60, 20, 3
BACKGROUND_ROWS, TRAIN_ROWS, TEST_ROWS = 400, 400, 50
SIZES = (50, 100, 300, 1000, 3000)
SPREAD = 0.12  # of speakers' means, in widths: the equal error rate of EM is then about that of speech, 30 %
RELEVANCE = 16.0  # rows that weigh as much as the background in adaptation (Reynolds, Quatieri and Dunn 2000)


@lru_cache(maxsize=2)
def _world(k: int, seed: int) -> tuple[Array, Any, list[Array], list[tuple[int, Array]]]:
    """Background rows and who spoke them, rows of claimed speakers, and tests."""
    rng = np.random.default_rng([16, k, seed])
    everybody = sl.datasets.speakers(SPEAKERS + CLAIMED, k, D, speaker_spread=SPREAD, seed=rng)
    rows = [everybody.session(s, BACKGROUND_ROWS, rng) for s in range(SPEAKERS)]
    train = [everybody.session(SPEAKERS + i, TRAIN_ROWS, rng) for i in range(CLAIMED)]
    tests = [(i, everybody.session(SPEAKERS + i, TEST_ROWS, rng)) for i in range(CLAIMED) for _ in range(TESTS)]
    return np.concatenate(rows), np.repeat(np.arange(SPEAKERS), BACKGROUND_ROWS), train, tests


def _adapted(rows: Array, background: sl.Mixture) -> sl.Mixture:
    """Means moved towards the rows of a speaker, as far as there are rows for them."""
    logs = background.log_densities(rows)
    shares = np.exp(logs - np.logaddexp.reduce(logs, 1)[:, None])
    counts = shares.sum(0)
    weight = (counts / (counts + RELEVANCE))[:, None]
    means = weight * (shares.T @ rows / np.maximum(counts, 1e-12)[:, None]) + (1 - weight) * background.means
    return sl.Mixture(background.weights, means, background.covariances)


def error_rate(background: sl.Mixture, train: list[Array], tests: list[tuple[int, Array]]) -> float:
    """Equal error rate of likelihood ratios of adapted models, from rows."""
    models = [_adapted(rows, background) for rows in train]
    scores: dict[bool, list[float]] = {True: [], False: []}
    for who, rows in tests:
        base = background.log_density(rows).mean()
        for claimed, model in enumerate(models):
            scores[who == claimed].append(float(model.log_density(rows).mean() - base))
    return float(sl.detection_errors(scores[True], scores[False]).equal_error_rate)


def measure(setting: Setting, seed: int, methods: tuple[str, ...]) -> Iterator[tuple[str, Values]]:
    k, size = setting["k"], setting["size"]
    rows, who, train, tests = _world(k, seed)
    for method in methods:
        if method == "EM":
            model, seconds = timed(GaussianMixture(k, covariance_type="diag", n_init=2, random_state=seed).fit, rows)
            background: Any = sl.Mixture(model.weights_, model.means_, model.covariances_)
        elif method == "sketches only":
            verifier = sl.CompressiveVerifier(k, sketch_size=size, random_state=seed)
            found, seconds = attempt(verifier.fit, rows, who)
            if found is None:
                yield method, {"eer": 0.5, "seconds": seconds}
                continue
            for i, x in enumerate(train):
                verifier.enroll(i, x)
            errors = verifier.evaluate([(i, x, i == true) for true, x in tests for i in range(CLAIMED)])
            yield method, {"eer": errors.equal_error_rate, "seconds": seconds}
            continue
        else:
            options: dict[str, Any] = {"task": "gmm", "covariance_type": "diag", "random_state": seed}
            if method == "default":
                phi: Any = sl.design(
                    rows[::12], n_components=k, task="gmm", covariance_type="diag", size=size, seed=seed
                )
            else:
                phi = published_map(D, size, keriven(rows[::5], k, seed), seed)
                options |= {"decoder": "splitting", "starts": 1, "candidates": 1}
            solution, seconds = attempt(sl.decode, pass_over(rows, phi), k, **options)
            background = None if solution is None else solution.mixture
        rate = 0.5 if background is None else error_rate(background, train, tests)
        yield method, {"eer": rate, "seconds": seconds}


def methods(setting: Setting) -> tuple[str, ...]:
    return ("EM",) if setting["size"] == 0 else ("splitting", "default", "sketches only")


def judge(rows: list[Row]) -> Finding:
    text, own, good = [], [], []
    for k in sorted({r["k"] for r in rows}):
        em = median(column(rows, "eer", k=k, method="EM"))
        first, last = (median(column(rows, "eer", k=k, method="splitting", size=m)) for m in (SIZES[0], SIZES[-1]))
        if not known(em, first, last):
            return Finding("not run", "not run")
        good += [last < em + 0.02, first > last + 0.02]
        at_first, at_last, of_em = (f"{number(100 * rate, 1)} %" for rate in (first, last, em))
        text.append(f"{at_first} at m = {SIZES[0]}, {at_last} at {SIZES[-1]}, EM {of_em}")
        own.append(f"{number(100 * median(column(rows, 'eer', k=k, method='default', size=SIZES[-1])), 1)} %")
    if not good:
        return Finding("not run", "not run")
    ks = sorted({r["k"] for r in rows})
    both = "; ".join(f"k = {k}: {words}" for k, words in zip(ks, text, strict=True))
    return Finding(verdict(*good), both, f"{' and '.join(own)} at m = {SIZES[-1]}")


def losses(rows: list[Row]) -> str:
    found = []
    for k in sorted({r["k"] for r in rows}):
        em = by_seed(pick(rows, k=k, method="EM"), "eer")
        for m in SIZES:
            if better(em, by_seed(pick(rows, k=k, size=m, method="default"), "eer")):
                rates = [
                    100 * median(column(rows, "eer", k=k, method=x, size=s)) for x, s in (("EM", 0), ("default", m))
                ]
                found.append(f"{number(rates[0], 1)} % against {number(rates[1], 1)} % for k = {k}, m = {m}")
    return f"**Verification.** EM on all rows has the lower equal error rate: {'; '.join(found)}." if found else ""


def learned(rows: list[Row]) -> list[str]:
    lines_ = []
    for k in sorted({r["k"] for r in rows}):
        lines_.append((str(k), "EM", _rates(rows, k, "EM", 0), *("" for _ in SIZES[1:])))
        lines_ += [
            (str(k), m, *(_rates(rows, k, m, x) for x in SIZES)) for m in ("splitting", "default", "sketches only")
        ]
    head = ("k", "background from", *(f"m = {m}" for m in SIZES))
    return [f"Equal error rate in per cent; EM has no sketch:\n\n{table(head, lines_)}"]


def _rates(rows: list[Row], k: int, method: str, size: int) -> str:
    return shown([100 * v for v in column(rows, "eer", k=k, method=method, size=size)], 1)


def draw(rows: list[Row], figure: Any) -> None:
    ks = sorted({r["k"] for r in rows})
    axes = np.atleast_1d(figure.subplots(1, len(ks), sharey=True))
    for axis, k in zip(axes, ks, strict=True):
        some = [{**r, "percent": 100 * r["eer"]} for r in pick(rows, k=k)]
        lines(axis, [r for r in some if r["size"]], "size", "percent")
        em = median(column(some, "percent", method="EM"))
        axis.axhline(em, color="#7f7f7f", ls="--", lw=1.2, label="EM on the rows")
        axis.set(xscale="log", xlabel="m", title=f"k = {k}")
    axes[0].set_ylabel("equal error rate, %")
    legend(figure, axes[0], 4)


EXPERIMENT = Experiment(
    name="speakers",
    title="Speaker verification, with synthetic speakers",
    rank=16,
    about=(
        "A *substitute*: the published corpora are not free. Sixty speakers in the background, twenty claimed ones, "
        "tests of fifty rows in eight dimensions. The background mixture comes from EM on the rows or from a sketch; "
        "adaptation and tests use rows, as published, or sketches alone."
    ),
    cells=lambda full: [Cell({"k": k, "size": m}, 20 if full else 10) for k in (8, 16) for m in (0, *SIZES)],
    methods=methods,
    measure=measure,
    claims=(
        Claim(
            "Keriven 2017, Figure 5.15, p. 87 (substitute)",
            "the error falls with the size of the sketch and is close to that of EM at m = 3000",
            judge,
        ),
    ),
    draw=draw,
    learned=learned,
    losses=losses,
    own=lambda setting, method: method in ("default", "sketches only"),
    assumed={"data": "synthetic speakers instead of NIST 2005", "close": "within 2 points of a per cent"},
    size=(9.0, 4.0),
)
