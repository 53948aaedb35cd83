"""An attack on every way to release: what worst neighbours reveal, measured, beside what is claimed.

Two datasets that differ by one person are released many times with the library's own noise.  The attack knows the law
of the noise: it orders outcomes by their likelihood ratio on one half of the releases and counts on the other half.
Clopper-Pearson bounds of both probabilities give a lower bound of epsilon; none may exceed what is claimed.

    python benchmarks/privacy_audit.py [releases]     30 000 of each neighbour by default: `make audit`
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import stats

import sketchlearn as sl
from sketchlearn.features import SplitFeatures
from sketchlearn.local import HEADER, Encoder
from sketchlearn.privacy import noise, selection
from sketchlearn.privacy.amplification import choose_for_sample
from sketchlearn.privacy.continual import ContinualRelease
from sketchlearn.privacy.federated import Round
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism
from sketchlearn.privacy.sensitivity import row_bounds
from sketchlearn.sources.users import chosen as chosen_rows
from sketchlearn.sources.users import of_array, row_hashes

CONFIDENCE = 1e-6
Outcomes = np.ndarray


class Case(NamedTuple):
    """Two neighbours: many releases of each, and the score that tells the first from the second."""

    name: str
    epsilon: float
    delta: float
    ours: Outcomes
    theirs: Outcomes
    score: Callable[[Outcomes], np.ndarray]


def lower_bound(ours: np.ndarray, theirs: np.ndarray, delta: float) -> float:
    """The largest epsilon that the scores of two neighbours prove."""
    half, best = len(ours) // 2, 0.0
    for share in (0.9, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01):
        limit = np.quantile(ours[:half], 1 - share)
        n = len(ours) - half
        k, j = int((ours[half:] >= limit).sum()), int((theirs[half:] >= limit).sum())
        low = stats.beta.ppf(CONFIDENCE, k, n - k + 1) if k else 0.0
        high = stats.beta.ppf(1 - CONFIDENCE, j + 1, n - j) if j < n else 1.0
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


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


def ratio(chosen: Mechanism, here: np.ndarray, there: np.ndarray, entries: int) -> Callable[[Outcomes], np.ndarray]:
    """Log likelihood ratio of an outcome, up to a constant."""

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
    pairs = chosen.name == "circular-discrete-laplace"
    a, b = (drawn(values, count, chosen, times, pairs) for values, count in (first, second))
    entries = len(first[0])
    centres = []
    for values, count in (first, second):
        last = [count * (chosen.count_multiplier or 1)] if a.shape[1] > entries else []
        if chosen.name == "discrete-gaussian" and not chosen.count_multiplier:
            last = [0]
        centres.append(np.append(values, last).astype(float))
    return Case(name, epsilon, delta, a, b, ratio(chosen, centres[0], centres[1], entries))


def worst(phi: sl.features.base.FeatureMap, radius: float, rows: int = 20_001) -> tuple[np.ndarray, np.ndarray]:
    """The row with the longest features, and the one that is farthest from it."""
    if phi.dim == 1:
        grid = np.linspace(-radius, radius, rows)[:, None]
    else:
        grid = np.random.default_rng(0).normal(size=(rows, phi.dim))
        grid *= radius / np.linalg.norm(grid, axis=1, keepdims=True)
    sample = grid[np.random.default_rng(1).choice(len(grid), 2000, replace=False)]
    units = np.array([sl.sketch(row[None], phi).sums.ravel() for row in sample], float)
    times = row_bounds(phi).multiplier_array()
    units *= times
    first = int(np.argmax(np.abs(units).sum(1)))
    second = int(np.argmax(np.abs(units - units[first]).sum(1)))
    return sample[first], sample[second]


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
    yield "random squares", sl.QuadraticFeatures.draw(dim=2, size=3, variant="sphere", radius=1.0), 1.0


def sketches(times: int) -> Iterator[Case]:
    """One sketch of every kind of map, both relations, with and without delta, one row or several a person."""
    for kind, phi, radius in maps():
        bounds = row_bounds(phi)
        high, low = worst(phi, radius)
        for relation, delta, records in (
            ("add-remove", 0.0, 1), ("add-remove", 1e-2, 1), ("replace-one", 0.0, 1), ("replace-one", 1e-2, 1),
        ):  # fmt: skip
            mechanism = "gaussian" if delta else "laplace"
            chosen = choose_mechanism(bounds, phi.size, 1.0, delta, relation, records, mechanism)
            both = []
            for extra in (high, None if relation == "add-remove" else low):
                s = sl.Sketch.empty(phi) if extra is None else sl.sketch(np.tile(extra, (records, 1)), phi)
                both.append((s.sums.ravel() * bounds.multiplier_array(), s.weight))
            yield vector_case(f"{kind}, {relation}, {chosen.name}", 1.0, delta, chosen, both[0], both[1], times)


def tables(times: int) -> Iterator[Case]:
    """Three rows of one person in one group or in three of a table."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    row, _ = worst(phi, 3000.0)
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
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    row, _ = worst(phi, 3000.0)
    rows = np.tile(row, (50, 1))
    users = of_array(np.zeros(50, int), 50)
    assert len(chosen_rows(users, row_hashes(rows, users), 2)) == 2
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
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    row, _ = worst(phi, 3000.0)
    own = sl.sketch(row[None], phi).sums.ravel()
    stream = ContinualRelease(phi, 1.0, 1e-2, periods=8, mechanism="gaussian", public_map=True)
    chosen = stream._chosen
    values = np.concatenate([np.append(own, chosen.count_multiplier)] * stream.levels)
    nothing = np.zeros(len(values) - 1, np.int64)
    yield vector_case("tree of eight days", 1.0, 1e-2, chosen, (values[:-1], 1), (nothing, 0), times)


def federations(times: int) -> Iterator[Case]:
    """The total of three holders, of which two add the noise that was agreed on."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    agreed = Round.agreed(phi, 1.0, 1e-2, holders=["a", "b", "c"], honest=2)
    row, _ = worst(phi, 3000.0)
    own = np.append(sl.sketch(row[None], phi).sums.ravel(), agreed.mechanism.count_multiplier)
    part = agreed.mechanism.scale / math.sqrt(2)
    a, b = (
        noise.add_gaussian(np.tile(v, (times, 1)), part) + noise.add_gaussian(np.zeros((times, 3), np.int64), part)
        for v in (own, 0 * own)
    )
    score = ratio(agreed.mechanism, own.astype(float), 0.0 * own, 2)
    yield Case("secure aggregation, two honest holders", 1.0, 1e-2, a, b, score)


def answers(times: int) -> Iterator[Case]:
    """Single answers of a device about two rows that differ in all bits."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0, quantized=True)
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        device = Encoder(phi, epsilon)
        both = []
        bits = [device._bits(np.array([[x]]), np.zeros(1, int)).ravel().tolist() for x in np.linspace(0, 20, 2001)]
        other = next(x for x, b in zip(np.linspace(0, 20, 2001), bits, strict=True) if b == [1 - v for v in bits[0]])
        for x in (0.0, other):
            said = np.frombuffer(device.encode(np.full((times, 1), x))[HEADER.size :], [("q", "<u4"), ("a", "u1")])
            both.append((said["q"].astype(int) * device.alternatives + said["a"])[:, None])
        counts = [np.bincount(v[: times // 2, 0], minlength=16) + 1.0 for v in both]
        table = np.log(counts[0] / counts[1])
        name = f"local answers, epsilon {epsilon:g}"
        yield Case(name, epsilon, 0.0, both[0], both[1], lambda out, t=table: t[out[:, 0]])


def tabled(name: str, epsilon: float, delta: float, ours: np.ndarray, theirs: np.ndarray) -> Case:
    """Outcomes that are small whole numbers: the likelihood ratio is counted on the first half."""
    half, most = len(ours) // 2, int(max(ours.max(), theirs.max())) + 1
    counts = [np.bincount(v[:half], minlength=most) + 1.0 for v in (ours, theirs)]
    table = np.log(counts[0] / counts[1])
    return Case(name, epsilon, delta, ours[:, None], theirs[:, None], lambda out: table[out[:, 0]])


def choices(times: int) -> Iterator[Case]:
    """One bin among twenty whose scores move as far as they can, and a median that three rows move."""
    reach = selection.sensitivity(20, "add-remove", 1)
    worst_scores = [np.zeros(20, np.int64), np.append(np.int64(reach), np.full(19, -reach))]
    here = np.array([4, 0, 0, 0, 4], np.int64)
    medians = [selection.scores(counts, 0, 500) for counts in (here, here + np.array([0, 0, 0, 0, 3]))]
    three = selection.sensitivity(500, "add-remove", 3)
    for name, scored, moved in (("worst scores", worst_scores, reach), ("median, 3 rows a person", medians, three)):
        for concentrated in (False, True):
            both = [
                np.array([selection.noisy_max(values, moved, 1.0, concentrated) for _ in range(times)])
                for values in scored
            ]
            law = "Gumbel" if concentrated else "permute and flip"
            yield tabled(f"choice of a bin, {name}, {law}", 1.0, 0.0, both[1], both[0])


def labels(times: int) -> Iterator[Case]:
    """A label that one person alone has, and one that many have."""
    for epsilon, delta, before in ((1.0, 1e-2, 0), (1.0, 1e-2, 4), (0.5, 1e-3, 10)):
        both = []
        for rows in (before, before + 1):
            counts = {"a": rows} if rows else {}
            shown = (selection.frequent(counts, epsilon, delta, "add-remove", 1)[0] for _ in range(times))
            both.append(np.array([min(40, found.get("a", 0)) for found in shown]))
        yield tabled(f"label of {before + 1} rows, delta {delta:g}, shown or not", epsilon, delta, both[1], both[0])


def samples(times: int) -> Iterator[Case]:
    """One row in a sample by a coin, under the noise that a sample needs."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    row, _ = worst(phi, 3000.0)
    for share in (0.5, 0.1):
        for delta in (0.0, 1e-2 * share):
            mechanism = "gaussian" if delta else "laplace"
            chosen, said = choose_for_sample(bounds, 1, 1.0, delta, share, mechanism)
            s = sl.sketch(row[None], phi)
            own, nothing = (s.sums.ravel(), s.weight), (np.zeros(2, np.int64), 0)
            inner = vector_case("", 1.0, delta, chosen, own, nothing, times)
            coins = np.random.default_rng(0).random(times) < share
            again = vector_case("", 1.0, delta, chosen, nothing, nothing, times)
            mixed = np.where(coins[:, None], inner.ours, again.ours)

            def score(out: Outcomes, share: float = share, inner: Case = inner) -> np.ndarray:
                return np.log1p(share * np.expm1(np.minimum(inner.score(out), 500.0)))

            name = f"sample of {share:g}, {chosen.name}, epsilon {said['sample']['epsilon']:.2f} inside"
            yield Case(name, 1.0, delta, mixed, inner.theirs, score)


def audit(times: int) -> int:
    """Print a line for each mechanism; the number that reveal more than they claim."""
    wrong = number = 0
    print(f"{times:,} releases of each neighbour; epsilon claimed and measured (a lower bound)")
    for family in (sketches, tables, user_bounds, trees, federations, answers, choices, labels, samples):
        for case in family(times):
            ours, theirs = case.score(case.ours), case.score(case.theirs)
            found = max(lower_bound(ours, theirs, case.delta), lower_bound(-theirs, -ours, case.delta))
            number, wrong = number + 1, wrong + (found > case.epsilon)
            mark = "" if found <= case.epsilon else "   MORE THAN CLAIMED"
            print(f"{case.name:<62} {case.epsilon:5.2f} {found:6.3f}{mark}", flush=True)
    print(f"{number} mechanisms, {wrong} reveal more than they claim")
    return wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(audit(int(sys.argv[1]) if len(sys.argv) > 1 else 30_000) > 0)
