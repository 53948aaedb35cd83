"""An attack on every way to release: what worst neighbours reveal, measured, beside what is claimed.

Two datasets that differ by one person are released many times with the library's own noise.  The attack knows the law
of the noise: it orders outcomes by their likelihood ratio, chooses a threshold on one third of the releases and
counts on the others.  Clopper-Pearson bounds of both probabilities give a lower bound of epsilon (`measured`); none may
exceed what is claimed.  So many releases prove less than there is: `pair` is the epsilon of these neighbours by the
ratio itself, the largest that was seen or, with delta, the root of E (1 - exp(epsilon - ratio))+ = delta.  Where it is
near the claim, the neighbours are the worst and the bound is tight; else the bound is loose or a worse pair is unknown.

    python benchmarks/privacy_audit.py [releases] [--rows FILE] [--only WORD]

30 000 of each neighbour by default: `make audit`.  Cases that are in the file of rows, made by the same code, are not
run again: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

import sketchlearn as sl
from sketchlearn.features import HistogramFeatures, SplitFeatures
from sketchlearn.kernels.users import chosen as chosen_rows
from sketchlearn.kernels.users import row_hashes
from sketchlearn.local import HEADER, Encoder
from sketchlearn.privacy import matrices, noise, privatize, selection
from sketchlearn.privacy.amplification import choose_for_sample
from sketchlearn.privacy.continual import ContinualRelease
from sketchlearn.privacy.federated import Round
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism
from sketchlearn.privacy.ranges import Choices, _Grid
from sketchlearn.privacy.sensitivity import row_bounds
from sketchlearn.privacy.tables import threshold
from sketchlearn.sources.users import of_array

CONFIDENCE = 1e-6
SHARES = (0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
Outcomes = np.ndarray
Ratio = Callable[[Outcomes], np.ndarray]


class Drawn(NamedTuple):
    """Many releases of two neighbours, and what tells the first from the second.

    `ratio` gives each outcome the logarithm of its likelihood ratio.  Where the epsilon of the pair does not follow
    from the ratios of what was drawn, it is known by itself, or not at all (NaN).
    """

    ours: Outcomes
    theirs: Outcomes
    ratio: Ratio
    pair: float | None = None


class Case(NamedTuple):
    """Two neighbours, what is claimed, and how to draw their releases."""

    name: str
    epsilon: float
    delta: float
    draw: Callable[[], Drawn]


def lower_bound(ours: np.ndarray, theirs: np.ndarray, delta: float) -> float:
    """The epsilon that the scores of two neighbours prove, by the threshold that proves most on their first third."""
    third = len(ours) // 3

    def proved(limit: float, where: slice) -> float:
        n = len(ours[where])
        k, j = int((ours[where] >= limit).sum()), int((theirs[where] >= limit).sum())
        low = stats.beta.ppf(CONFIDENCE, k, n - k + 1) if k else 0.0
        high = stats.beta.ppf(1 - CONFIDENCE, j + 1, n - j) if j < n else 1.0
        return math.log((low - delta) / high) if low > delta else 0.0

    limits = np.quantile(ours[:third], 1 - np.array(SHARES)).tolist()
    return max(0.0, proved(max(limits, key=lambda limit: proved(limit, slice(third))), slice(third, None)))


def of_pair(ratios: np.ndarray, delta: float) -> float:
    """The epsilon of two neighbours, by log likelihood ratios of outcomes of the first."""
    if delta == 0.0:
        return float(ratios.max())

    def left(epsilon: float) -> float:
        return float(np.maximum(-np.expm1(epsilon - ratios), 0.0).mean()) - delta

    return root(left)


def of_shift(mu: float, delta: float) -> float:
    """The epsilon of two normal laws of variance 1 whose means are mu apart (discrete ones differ by 1e-9)."""
    return root(
        lambda e: float(stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)) - delta
    )


def root(left: Callable[[float], float]) -> float:
    """The epsilon from which what is left of delta is spent; 0 if delta is enough alone."""
    return float(optimize.brentq(left, 0.0, 50.0)) if left(0.0) > 0.0 else 0.0


def drawn(values: np.ndarray, count: int, chosen: Mechanism, times: int, pairs: bool) -> np.ndarray:
    """Many releases of one vector of sums times their multipliers, and of the number of rows."""
    if chosen.name == "discrete-gaussian":
        return noise.add_gaussian(np.tile(np.append(values, count * chosen.count_multiplier), (times, 1)), chosen.scale)
    if pairs:
        both = np.repeat(values.reshape(2, 1, -1), times, axis=1)
        sums = noise.add_circular(both.reshape(2, -1), chosen.scale).reshape(2, times, -1)
        sums = sums.transpose(1, 0, 2).reshape(times, -1)
    else:
        sums = noise.add_laplace(np.tile(values, (times, 1)), chosen.scale)
    if chosen.count_scale is None:
        return sums
    return np.hstack([sums, noise.add_laplace(np.full((times, 1), count, np.int64), chosen.count_scale)])


def ratio(chosen: Mechanism, here: np.ndarray, there: np.ndarray, entries: int) -> Ratio:
    """Log likelihood ratio of an outcome: shifts by whole numbers don't change the constant of the law."""

    def of(out: np.ndarray, centre: np.ndarray) -> np.ndarray:
        off = out.astype(float) - centre
        if chosen.name == "discrete-gaussian":
            return -(off**2).sum(1) / (2 * chosen.scale**2)
        sums, rest = off[:, :entries], off[:, entries:]
        if chosen.name == "circular-discrete-laplace":
            energy = np.hypot(sums[:, : entries // 2], sums[:, entries // 2 :]).sum(1) / chosen.scale
        else:
            energy = np.abs(sums).sum(1) / chosen.scale
        return -energy - (np.abs(rest).sum(1) / chosen.count_scale if rest.shape[1] else 0.0)

    return lambda out: of(out, here) - of(out, there)


def vector_case(
    name: str, epsilon: float, delta: float, chosen: Mechanism, first: tuple[np.ndarray, int],
    second: tuple[np.ndarray, int], times: int,
) -> Case:  # fmt: skip
    """A release of a vector: of one sketch, of a table, of the nodes of a tree."""
    entries = len(first[0])
    pair = None
    if chosen.name == "discrete-gaussian":
        moved = np.append(first[0] - second[0], (first[1] - second[1]) * chosen.count_multiplier)
        pair = of_shift(float(np.linalg.norm(moved.astype(float))) / chosen.scale, delta)

    def draw() -> Drawn:
        a, b = (drawn(*one, chosen, times, chosen.name == "circular-discrete-laplace") for one in (first, second))
        times_count = chosen.count_multiplier if chosen.name == "discrete-gaussian" else 1
        here, there = (np.append(v, n * times_count)[: a.shape[1]].astype(float) for v, n in (first, second))
        return Drawn(a, b, ratio(chosen, here, there, entries), pair)

    return Case(name, epsilon, delta, draw)


def matrix_case(name: str, chosen: Mechanism, phi: sl.features.base.FeatureMap, times: int) -> Case:
    """Products of columns with the noise of a matrix: with one row at the end of its ball, or two of them."""
    reach = chosen.matrix
    assert reach is not None
    d, s = phi.dim, reach.constant
    far = np.zeros((2, d))
    far[0, 0] = far[1, 0] = 1.0
    if chosen.count_multiplier == 0:  # orthogonal with the constant: as far apart as two rows can be
        far[1, :2] = -0.25, math.sqrt(1.0 - 0.0625)
    ends = [sl.sketch(row[None], phi).sums[phi.size :] for row in far]
    first, second = (np.outer(v, v) for v in (np.append(r, s) for r in ends))
    if chosen.count_multiplier:
        second = 0 * first

    def draw() -> Drawn:
        a, b = (matrices.draw(times, d + 1, chosen.scale) + m for m in (first, second))
        return Drawn(a, b, lambda out: matrix_ratio((out - first) / chosen.scale, (out - second) / chosen.scale), pair)

    # where the noise is positive, the ratio is exp(trace / (2 scale)) of what the row adds
    pair = float(np.trace(first)) / (2.0 * chosen.scale) if chosen.count_multiplier else math.nan
    return Case(name, 1.0, 0.0, draw)


def matrix_ratio(here: np.ndarray, there: np.ndarray, sets: int = 1000) -> np.ndarray:
    """Log ratio of the densities of matrix noise of unit scale at two matrices, about.

    The density is ``exp(tr W / 2) P(A / 2 >= W)`` for A = Z'Z with D + 1 normal rows, and even: of W and -W that is
    used whose trace is negative.  The probability is counted over the same random A for all matrices.
    """
    dim = here.shape[1]
    z = np.random.default_rng(0).normal(size=(sets, dim + 1, dim))
    random = np.swapaxes(z, 1, 2) @ z / 2.0

    def log_density(W: np.ndarray) -> np.ndarray:
        traces = -np.abs(np.trace(W, axis1=1, axis2=2))
        W = W * np.where(np.trace(W, axis1=1, axis2=2) > 0, -1.0, 1.0)[:, None, None]
        above = np.full(len(W), 0.5)
        for one in random:
            above += positive(one - W)
        return 0.5 * traces + np.log(above)

    return log_density(here) - log_density(there)


def positive(M: np.ndarray) -> np.ndarray:
    """Which symmetric matrices have no negative eigenvalue: all their pivots are positive."""
    rows = [[M[:, i, j] for j in range(M.shape[1])] for i in range(M.shape[1])]
    found = np.ones(len(M), bool)
    with np.errstate(all="ignore"):
        for k, pivot in enumerate(rows):
            found &= pivot[k] > 0
            for i in range(k + 1, len(rows)):
                share = rows[i][k] / pivot[k]
                rows[i] = [x - share * y for x, y in zip(rows[i], pivot, strict=True)]
    return found


def worst(
    phi: sl.features.base.FeatureMap, radius: float, mechanism: str = "", rows: int = 20_001
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The row with the longest features, and the two that are farthest from each other, in the norm of the noise."""
    if phi.dim == 1:
        grid = np.linspace(-radius, radius, rows)[:, None]
    else:
        grid = np.random.default_rng(0).normal(size=(rows, phi.dim))
        grid *= radius / np.linalg.norm(grid, axis=1, keepdims=True)
    sample = grid[np.random.default_rng(1).choice(len(grid), 4000, replace=False)]
    units = np.array([sl.sketch(row[None], phi).sums.ravel() for row in sample], float)
    units *= row_bounds(phi).multiplier_array()

    def lengths(moved: np.ndarray) -> np.ndarray:
        if mechanism == "circular-discrete-laplace":
            half = moved.shape[1] // 2
            return np.hypot(moved[:, :half], moved[:, half:]).sum(1)
        return (moved**2).sum(1) if mechanism == "discrete-gaussian" else np.abs(moved).sum(1)

    first = int(np.argmax(lengths(units)))
    best = (0.0, first, first)
    for start in [first, *range(0, len(units), 400)]:
        one = start
        for _ in range(4):  # the farthest row, and the farthest from that
            apart = lengths(units - units[one])
            other = int(np.argmax(apart))
            best = max(best, (float(apart[other]), one, other))
            one = other
    return sample[first], (sample[best[1]], sample[best[2]])


def maps() -> Iterator[tuple[str, sl.features.base.FeatureMap, float]]:
    """Kinds of maps, small, and how far their rows reach."""
    draw = sl.FourierFeatures.draw
    yield "Fourier", draw(dim=1, size=2, scale=1.0, seed=0), 3000.0
    yield "one-bit", draw(dim=1, size=2, scale=1.0, seed=0, quantized=True), 3000.0
    yield "subsampled", draw(dim=1, size=4, scale=1.0, seed=0, features_per_row=2), 3000.0
    halves = [draw(dim=1, size=1, scale=1.0, seed=s) for s in (0, 1)]
    yield "two groups of columns", SplitFeatures.of(halves[0], halves[1], [0]), 50.0
    yield "products of features", sl.EmbeddedFeatures.of(draw(dim=1, size=1, scale=1.0, seed=0)), 3000.0
    yield "products of columns", sl.QuadraticFeatures.draw(dim=2, radius=1.0), 1.0
    yield "products of three columns", sl.QuadraticFeatures.draw(dim=3, radius=1.0), 1.0
    yield "histograms of columns", HistogramFeatures.draw([-1.0, -1.0], [1.0, 1.0], cells=2), 1.0
    yield "random squares", sl.QuadraticFeatures.draw(dim=2, size=3, variant="sphere", radius=1.0), 1.0


def sketches(times: int) -> Iterator[Case]:
    """One sketch of every kind of map, both relations, with and without delta."""
    for kind, phi, radius in maps():
        bounds = row_bounds(phi)
        for relation, delta in itertools.product(("add-remove", "replace-one"), (0.0, 1e-2)):
            mechanism = "gaussian" if delta else "laplace"
            chosen = choose_mechanism(bounds, phi.size, 1.0, delta, relation, 1, mechanism)
            if chosen.matrix is not None:
                yield matrix_case(f"{kind}, {relation}, {chosen.name}", chosen, phi, times)
                continue
            name = f"{kind}, {relation}, {chosen.name}"

            def draw(phi=phi, radius=radius, chosen=chosen, bounds=bounds, relation=relation, delta=delta) -> Drawn:
                longest, farthest = worst(phi, radius, chosen.name)
                both = []
                for extra in (longest, None) if relation == "add-remove" else farthest:
                    s = sl.Sketch.empty(phi) if extra is None else sl.sketch(extra[None], phi)
                    both.append((s.sums.ravel() * bounds.multiplier_array(), s.weight))
                return vector_case("", 1.0, delta, chosen, both[0], both[1], times).draw()

            yield Case(name, 1.0, delta, draw)


@cache
def one_feature() -> tuple[sl.FourierFeatures, np.ndarray]:
    """A map of one frequency, and its worst row."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    return phi, worst(phi, 3000.0)[0]


def whole(times: int) -> Iterator[Case]:
    """From an exact sketch to a release, and two days of a stream, by the functions that users call."""
    phi, row = one_feature()
    bounds = row_bounds(phi)
    one, none = sl.sketch(row[None], phi), sl.Sketch.empty(phi)
    chosen = choose_mechanism(bounds, 1, 1.0)
    values = [(s.sums.ravel(), s.weight) for s in (one, none)]

    def draw() -> Drawn:
        found = []
        for s in (one, none):
            made = [privatize(s, 1.0, public_map=True) for _ in range(times)]
            found.append(np.array([np.append(m.sums.ravel(), m.weight) for m in made]))
        return Drawn(found[0], found[1], ratio(chosen, *(np.append(*v).astype(float) for v in values), 2))

    yield Case("privatize, " + chosen.name, 1.0, 0.0, draw)
    begun = ContinualRelease(phi, 1.0, 0.0, periods=2, public_map=True)

    def days() -> Drawn:
        found = []
        for s in (one, none):
            out = np.empty((times, 6), np.int64)
            for i in range(times):
                stream = ContinualRelease.resumed(phi, begun.state, [none] * begun.levels, {})
                stream.add(s)
                stream.add(none)
                nodes = stream.nodes[0, 1], stream.nodes[1, 1]
                out[i] = np.concatenate([np.append(node.sums.ravel(), node.weight) for node in nodes])
            found.append(out)
        of = ratio(begun._chosen, *(np.append(*v).astype(float) for v in values), 2)
        return Drawn(found[0], found[1], lambda out: of(out[:, :3]) + of(out[:, 3:]))

    yield Case("two days of a stream, " + begun._chosen.name, 1.0, 0.0, days)


def groups(times: int) -> Iterator[Case]:
    """A group of one person's rows alone in a table without a list of groups: it is shown, or not."""
    phi, _ = one_feature()
    for people in (1, 3):
        chosen = choose_mechanism(row_bounds(phi), 1, 1.0, 5e-3, "add-remove", people, "gaussian", 2**20)
        least = threshold(chosen, people, 5e-3) * chosen.count_multiplier

        def shown(which: int, chosen=chosen, least=least, people=people) -> np.ndarray:
            if which:
                return np.zeros(times, int)  # there is no such group
            there = np.full(times, people * chosen.count_multiplier, np.int64)
            return (noise.add_gaussian(there, chosen.scale) >= least).astype(int)

        p = float(stats.norm.sf((least - people * chosen.count_multiplier) / chosen.scale))
        law = np.array([1 - p, p]), np.array([1.0, 0.0])
        yield tabled(f"group of one person's {people} rows, shown or not", 1.0, 5e-3, shown, law)


def preparations(times: int) -> Iterator[Case]:
    """A column of 600 rows counted and both ends of its range chosen, as `prepare` does, with one row more."""
    rows = np.repeat(np.linspace(0.3, 0.6, 60), 10)
    both = [np.append(rows, 0.99), rows]
    table = SimpleNamespace(numbers=("x",), labels=(), public={}, bounds={"x": (0.0, 1.0)})
    work = Choices(table, 1.0, 1e-2, "add-remove", 1, 20)  # type: ignore[arg-type]
    scale = 1.0 / (0.25 * work.unit)

    def draw() -> Drawn:
        found, histograms = [], []
        for column in both:
            table.of_numbers = lambda column=column: iter([column[:, None]])
            grid = work._histograms({"x": _Grid(0.0, 1.0)})["x"]
            histograms.append(grid.counts)
            out = np.empty((times, 4), np.int64)
            for i in range(times):
                rank = work._ranks({"x": grid})["x"]
                ends = [
                    selection.noisy_max(
                        selection.scores(grid.counts, 0, wanted),
                        selection.sensitivity(wanted, "add-remove", 1), work.unit, work.concentrated,
                    ) for wanted in (rank, selection.OF - rank)
                ]  # fmt: skip
                out[i] = work._rows["x"], rank, *ends
            found.append(out)
        assert work.concentrated

        @cache
        def law(rank: int) -> np.ndarray:
            scored = [selection.scores(counts, 0, rank).astype(float) for counts in histograms]
            width = 2.0 * selection.sensitivity(rank, "add-remove", 1) / work.unit
            with np.errstate(divide="ignore"):
                here, there = (np.log(law_of_choice(s, width, True)) for s in scored)
            return np.asarray(here - there)

        def of(out: np.ndarray) -> np.ndarray:
            counted = (np.abs(out[:, 0] - len(rows)) - np.abs(out[:, 0] - len(rows) - 1)) / scale
            ends = [law(int(rank))[low] + law(selection.OF - int(rank))[high] for _, rank, low, high in out]
            return counted + np.array(ends)

        return Drawn(found[0], found[1], of)

    yield Case("preparation of a column", 1.0, 1e-2, draw)


def tables(times: int) -> Iterator[Case]:
    """Three rows of one person in one group or in three of a table."""
    phi, row = one_feature()
    bounds = row_bounds(phi)
    own = sl.sketch(row[None], phi).sums.ravel()
    for spread in (1, 3):
        chosen = choose_mechanism(bounds, 1, 1.0, 1e-2, "add-remove", 3, "gaussian", 3)
        blocks = [(3 // spread if i < spread else 0) for i in range(3)]
        values = np.concatenate([np.append(own * k, k * chosen.count_multiplier) for k in blocks])
        wide = vector_case(
            f"table, three rows in {spread} of 3 groups", 1.0, 1e-2, chosen, (values[:-1], blocks[-1]),
            (np.zeros(len(values) - 1, np.int64), 0), times,
        )  # fmt: skip
        yield wide


def user_bounds(times: int) -> Iterator[Case]:
    """A person with fifty rows, of which the pass takes two: the release is one of two rows."""
    phi, row = one_feature()
    bounds = row_bounds(phi)
    rows = np.tile(row, (50, 1))
    users = of_array(np.zeros(50, int), 50)
    assert chosen_rows(users, row_hashes(rows, users), 2).sum() == 2
    with_person = sl.sketch(rows, phi, user=np.zeros(50, int), max_rows_per_user=2)
    for delta in (0.0, 1e-2):
        chosen = choose_mechanism(bounds, 1, 1.0, delta, "add-remove", 2, "gaussian" if delta else "laplace")
        empty = np.zeros(2, np.int64)
        yield vector_case(
            f"user with 50 rows, 2 count, {chosen.name}", 1.0, delta, chosen,
            (with_person.sums.ravel(), with_person.weight), (empty, 0), times,
        )  # fmt: skip


def trees(times: int) -> Iterator[Case]:
    """One row in one node of each level of a tree over eight days: all nodes together."""
    phi, row = one_feature()
    own = sl.sketch(row[None], phi).sums.ravel()
    stream = ContinualRelease(phi, 1.0, 1e-2, periods=8, mechanism="gaussian", public_map=True)
    chosen = stream._chosen
    values = np.concatenate([np.append(own, chosen.count_multiplier)] * stream.levels)
    nothing = np.zeros(len(values) - 1, np.int64)
    yield vector_case("tree of eight days", 1.0, 1e-2, chosen, (values[:-1], 1), (nothing, 0), times)


def federations(times: int) -> Iterator[Case]:
    """The total of three holders, of which two add the noise that was agreed on."""
    phi, row = one_feature()
    agreed = Round.agreed(phi, 1.0, 1e-2, holders=["a", "b", "c"], honest=2)
    own = np.append(sl.sketch(row[None], phi).sums.ravel(), agreed.mechanism.count_multiplier)
    part = agreed.mechanism.scale / math.sqrt(2)

    def draw() -> Drawn:
        a, b = (
            noise.add_gaussian(np.tile(v, (times, 1)), part) + noise.add_gaussian(np.zeros((times, 3), np.int64), part)
            for v in (own, 0 * own)
        )
        pair = of_shift(float(np.linalg.norm(own.astype(float))) / agreed.mechanism.scale, 1e-2)
        return Drawn(a, b, ratio(agreed.mechanism, own.astype(float), 0.0 * own, 2), pair)

    yield Case("secure aggregation, two honest holders", 1.0, 1e-2, draw)


def tabled(
    name: str, epsilon: float, delta: float, one: Callable[[int], np.ndarray], laws: tuple[np.ndarray, np.ndarray]
) -> Case:
    """Outcomes that are small whole numbers with known laws; `one` draws those of neighbour 0 or 1."""
    with np.errstate(divide="ignore"):
        table = np.clip(np.log(laws[0]) - np.log(laws[1]), -50.0, 50.0)

    def left(e: float) -> float:
        return float(max(np.maximum(p - math.exp(e) * q, 0.0).sum() for p, q in (laws, laws[::-1]))) - delta

    pair = float(np.abs(table).max()) if not delta else root(left)
    return Case(name, epsilon, delta, lambda: Drawn(one(0), one(1), lambda out: table[out], pair))


def answers(times: int) -> Iterator[Case]:
    """Single answers of a device about two rows that differ in all bits."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0, quantized=True)
    grid = np.linspace(0, 20, 2001)
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        device = Encoder(phi, epsilon)
        n = device.alternatives
        bits = [device._bits(np.array([[x]]), np.zeros(1, int)).ravel().tolist() for x in grid]
        rows = (0.0, next(x for x, b in zip(grid, bits, strict=True) if b == [1 - v for v in bits[0]]))

        def said(which: int, rows=rows, device=device, n=n) -> np.ndarray:
            sent = device.encode(np.full((times, 1), rows[which]))[HEADER.size :]
            read = np.frombuffer(sent, [("q", "<u4"), ("a", "u1")])
            return read["q"].astype(int) * n + read["a"]

        laws = []
        for which in (0, 1):  # the true answer to each question is the most frequent one
            counts = np.bincount(said(which)).reshape(-1, n)
            law = np.where(np.arange(n) == counts.argmax(1)[:, None], math.exp(epsilon), 1.0)
            laws.append((law / law.sum()).ravel())
        yield tabled(f"local answers, epsilon {epsilon:g}", epsilon, 0.0, said, (laws[0], laws[1]))


def law_of_choice(scores: np.ndarray, scale: float, gumbel: bool) -> np.ndarray:
    """Probabilities of a noisy maximum: with Gumbel noise the exponential mechanism, else permute and flip."""
    near = np.exp((scores - scores.max()) / scale)
    if gumbel:
        return near / near.sum()
    u, w = np.polynomial.legendre.leggauss(len(scores) // 2 + 2)  # u: the share of the others that came before
    before = 1.0 - 0.5 * (u[:, None] + 1.0) * near
    others = [np.delete(before, i, axis=1).prod(1) @ w / 2.0 for i in range(len(scores))]
    return near * np.array(others)


def choices(times: int) -> Iterator[Case]:
    """One bin among twenty whose score moves against those of all others, and the worst that a person does to a median.

    Twenty empty bins are below the median and lose with rows above it, one gains; the median stays where it is.
    """
    reach = selection.sensitivity(20, "add-remove", 1)
    worst_scores = [np.append(np.int64(reach), np.full(19, -reach)), np.zeros(20, np.int64)]
    here = np.array([0] * 20 + [2, 98], np.int64)
    medians = [selection.scores(counts, 100, 500) for counts in (here + np.append(np.zeros(21, int), 3), here)]
    three = selection.sensitivity(500, "add-remove", 3)
    for name, scored, moved in (("worst scores", worst_scores, reach), ("median, 3 rows per person", medians, three)):
        for gumbel in (False, True):

            def chosen(which: int, scored=scored, moved=moved, gumbel=gumbel) -> np.ndarray:
                return np.array([selection.noisy_max(scored[which], moved, 1.0, gumbel) for _ in range(times)])

            laws = [law_of_choice(s.astype(float), 2.0 * moved, gumbel) for s in scored]
            law = "Gumbel" if gumbel else "permute and flip"
            yield tabled(f"choice of a bin, {name}, {law}", 1.0, 0.0, chosen, (laws[0], laws[1]))


def labels(times: int) -> Iterator[Case]:
    """A label that one person alone has, and one that many have; the number that is shown, 0 for none."""
    for epsilon, delta, before in ((1.0, 1e-2, 0), (1.0, 1e-2, 4), (0.5, 1e-3, 10)):
        least = selection.threshold(1.0 / epsilon, 1, delta)

        def shown(which: int, epsilon=epsilon, delta=delta, before=before) -> np.ndarray:
            rows = before + 1 - which  # of so many labels, each with noise of its own
            counts = dict.fromkeys(range(times), rows) if rows else {}
            found, _ = selection.frequent(counts, epsilon, delta, "add-remove", 1)
            return np.array([min(40, found.get(i, 0)) for i in range(times)])

        laws = []
        for rows in (before + 1, before):
            at = np.arange(41)
            law = np.where(at >= least, stats.dlaplace.pmf(at - rows, epsilon), 0.0)
            law[40] = stats.dlaplace.sf(39 - rows, epsilon)
            law[0] = stats.dlaplace.cdf(least - 1 - rows, epsilon)
            laws.append(law if rows else np.eye(41)[0])
        yield tabled(f"label of {before + 1} rows, delta {delta:g}", epsilon, delta, shown, (laws[0], laws[1]))


def samples(times: int) -> Iterator[Case]:
    """One row in a sample by a coin, under the noise that a sample needs."""
    phi, row = one_feature()
    bounds = row_bounds(phi)
    s = sl.sketch(row[None], phi)
    own, nothing = (s.sums.ravel(), s.weight), (np.zeros(2, np.int64), 0)
    for share in (0.5, 0.1):
        for delta in (0.0, 1e-2 * share):
            mechanism = "gaussian" if delta else "laplace"
            chosen, said = choose_for_sample(bounds, 1, 1.0, delta, share, mechanism)

            def draw(share=share, chosen=chosen, delta=delta) -> Drawn:
                ours, theirs, inner, _ = vector_case("", 1.0, 0.5, chosen, own, nothing, times).draw()
                again = vector_case("", 1.0, 0.5, chosen, own, nothing, times).draw().theirs
                coins = np.random.default_rng(0).random(times) < share
                mixed = np.where(coins[:, None], ours, again)
                return Drawn(mixed, theirs, lambda out: np.log1p(share * np.expm1(np.minimum(inner(out), 500.0))))

            name = f"sample of {share:g}, {chosen.name}, epsilon {said['sample']['epsilon']:.2f} inside"
            yield Case(name, 1.0, delta, draw)


def run(case: Case) -> tuple[float, float]:
    """What the releases of a case prove, and the epsilon of its pair."""
    ours, theirs, ratio_of, pair = case.draw()
    a, b = ratio_of(ours), ratio_of(theirs)
    found = max(lower_bound(a, b, case.delta), lower_bound(-b, -a, case.delta))
    if pair is None:
        pair = max(of_pair(a, case.delta), of_pair(-b, case.delta))
    return found, pair


def revision() -> str:
    """What tells the code that makes and attacks releases from other versions of it."""
    room = Path(noise.__file__).parent
    files = [Path(__file__), *sorted(room.glob("*.py")), room.parent / "local.py"]
    return hashlib.blake2b(b"".join(path.read_bytes() for path in files), digest_size=6).hexdigest()


def audit(times: int, rows: Path | None, only: str) -> int:
    """Print a line for each mechanism; the number that reveal more than they claim."""
    kept, code = {}, revision()
    if rows is not None and rows.exists():
        kept = {(r["name"], r["times"], r["code"]): r for r in map(json.loads, rows.read_text().splitlines())}
    wrong = number = 0
    print(f"{times:,} releases of each neighbour; epsilon claimed, measured (a lower bound), of the pair")
    families = (
        sketches, whole, tables, groups, user_bounds, trees, federations, answers, choices, labels, preparations,
        samples,
    )  # fmt: skip
    for family in families:
        for case in family(times):
            if only not in case.name:
                continue
            row = kept.get((case.name, times, code))
            if row is None:
                found, pair = run(case)
                row = {"name": case.name, "times": times, "code": code, "measured": found, "pair": pair}
                if rows is not None:
                    with rows.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            more = row["measured"] > case.epsilon
            number, wrong = number + 1, wrong + more
            mark = "   MORE THAN CLAIMED" if more else ""
            print(f"{case.name:<62} {case.epsilon:5.2f} {row['measured']:6.3f} {row['pair']:6.3f}{mark}", flush=True)
    print(f"{number} mechanisms, {wrong} reveal more than they claim")
    return wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="?", type=int, default=30_000)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sys.exit(audit(given.releases, given.rows, given.only) > 0)
