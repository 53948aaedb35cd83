"""Changes of columns as two sketches tell them, beside the true ones: 200 pairs of real and made-up tables.

    python benchmarks/drift.py                   # 200 pairs, maps designed for monitoring
    python benchmarks/drift.py --task kmeans     # maps designed for clustering

Each pair is two samples of one population, of which the second is changed: shifted, stretched, reweighted by class,
or cut along a column.  The true change of a column is that of the sample means, in standard deviations of the first
sample, and of the sample standard deviations.  A row of the table is one kind of data:

    shifts   columns whose mean changed by more than 0.1 sd, significantly (4 standard errors)
    sign     share of the others with the right sign
    size     share within 15 % of the true size or within two error bars
    unsure   share where the sketch says that it can't tell, or the error bar (two standard errors) holds zero
    false    share of the columns without a change that are called changed at p < 0.01 / columns

and the same for standard deviations that changed by more than a tenth.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

import sketchlearn as sl
from sketchlearn.comparison import moved_columns

Array = npt.NDArray[np.float64]
Maker = Callable[[np.random.Generator], Array]


def populations(rng: np.random.Generator) -> dict[str, Array]:
    """Rows of all kinds, about ten thousand each for made-up ones."""
    from sklearn import datasets

    n = 20_000
    out = {name: getattr(datasets, f"load_{name}")().data for name in ("iris", "wine", "breast_cancer", "diabetes")}
    digits = datasets.load_digits().data
    out["digits"] = digits[:, digits.std(0) > 1.0][:, :20]
    for name in ("china", "flower"):
        image = datasets.load_sample_image(f"{name}.jpg")[::4, ::4].astype(np.float64)
        across = np.concatenate([image[:-1, :-1], image[1:, :-1], image[:-1, 1:]], axis=2)
        out[name] = across.reshape(-1, 9)
    corr = rng.normal(size=(6, 6))
    out["normal, correlated"] = rng.normal(size=(n, 6)) @ corr
    centres = 4.0 * rng.normal(size=(10, 8))
    out["ten clusters"] = centres[rng.integers(10, size=n)] + rng.normal(size=(n, 8))
    out["counts"] = rng.poisson([0.5, 2.0, 5.0, 20.0], size=(n, 4)).astype(np.float64)
    out["uniform"] = rng.random((n, 5)) * [1.0, 10.0, 100.0, 1.0, 1.0]
    out["skewed (gamma 2)"] = rng.gamma(2.0, size=(n, 5)) * [1.0, 3.0, 1.0, 50.0, 1.0]
    out["log-normal (0.5)"] = np.exp(0.5 * rng.normal(size=(n, 4)))
    out["log-normal (1.0)"] = np.exp(rng.normal(size=(n, 4))) * [1.0, 100.0, 1.0, 1.0]
    out["Student t5"] = rng.standard_t(5, size=(n, 5))
    out["30 columns"] = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 30)) + 0.5 * rng.normal(size=(n, 30))
    flags = (rng.random((n, 4)) < [0.05, 0.3, 0.5, 0.9]).astype(np.float64)
    out["flags and numbers"] = np.column_stack([flags, rng.normal(size=(n, 3))])
    return out


def changed(rows: Array, kind: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two samples of a population, the second one changed."""
    size = min(len(rows) // 2, int(rng.choice([2000, 5000, 10_000])))
    order = rng.permutation(len(rows))
    a, b = rows[order[:size]].copy(), rows[order[size : 2 * size]].copy()
    deviation = rows.std(0)
    d = rows.shape[1]
    some = rng.random(d) < max(1.5 / d, 0.2)
    if kind == "shift":
        b += some * rng.choice([-1, 1], d) * rng.choice([0.2, 0.5, 1.0, 3.0], d) * deviation
    elif kind == "stretch":
        middle = rows.mean(0)
        b = np.where(some, middle + (b - middle) * rng.choice([0.5, 1.4, 2.0], d), b)
        b += some * rng.choice([-0.3, 0.0, 0.3], d) * deviation
    elif kind == "reweight":
        column = rows[order[size : 2 * size], rng.integers(d)]
        ranks = np.argsort(np.argsort(column)) / len(column)
        b = b[rng.choice(len(b), len(b), p=(0.2 + ranks) / (0.2 + ranks).sum())]
    return a, b


def pairs(count: int, seed: int) -> Iterator[tuple[str, str, Array, Array]]:
    """Pairs of tables, through all populations and changes in turn."""
    rng = np.random.default_rng(seed)
    data = populations(rng)
    kinds = ("shift", "stretch", "reweight")
    for i in range(count):
        name = list(data)[i % len(data)]
        kind = kinds[(i // len(data)) % len(kinds)]
        yield name, kind, *changed(data[name], kind, rng)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--standardize", action="store_true", help="columns in units of their spread")
    parser.add_argument("--task", default="monitoring", help="what the map is designed for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print every miss")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    begin = time.process_time()
    for i, (name, kind, before, after) in enumerate(pairs(given.pairs, given.seed)):
        names = [f"x{j}" for j in range(before.shape[1])]
        phi = sl.design(before[:1000], n_components=10, task=given.task, standardize=given.standardize, seed=i)
        phi = phi.with_columns(names)
        found = {c.column: c for c in moved_columns(sl.sketch(before, phi), sl.sketch(after, phi))}
        unit, n = before.std(0), len(before)
        shifts = (after.mean(0) - before.mean(0)) / unit
        spreads = after.std(0) / unit - 1.0
        sure = np.sqrt((1.0 + (1.0 + spreads) ** 2) / n)
        kurtosis = ((before - before.mean(0)) ** 4).mean(0) / unit**4
        loose = np.sqrt(np.maximum(kurtosis - 1.0, 0.1) / (2 * n))
        total = counts[name]
        total["pairs"] += 1
        for j, column in enumerate(names):
            c = found[column]
            for what, true, size, error, tells, noise in (
                ("shift", shifts[j], c.shift, c.shift_error, c.tells_shift, sure[j]),
                ("spread", spreads[j], c.spread, c.spread_error, c.tells_spread, loose[j]),
            ):
                if abs(true) < 0.1 or abs(true) < 4 * noise:
                    continue
                total[what] += 1
                if not tells or abs(size) < 2 * error:  # it doesn't claim a change
                    total[f"{what} unsure"] += 1
                    continue
                good = abs(size - true) <= max(0.15 * abs(true), 2 * error)
                total[f"{what} sign"] += np.sign(size) == np.sign(true)
                total[f"{what} size"] += good
                if given.verbose and not (good and np.sign(size) == np.sign(true)):
                    print(f"{name}, {kind}, {column}: {what} {true:+.3f}, told {size:+.3f} ± {error:.3f}")
            if abs(shifts[j]) < 2 * sure[j] and abs(spreads[j]) < 2 * loose[j]:
                total["quiet"] += 1
                total["false"] += c.p_value < 0.01 / len(names)
                if given.verbose and c.p_value < 0.01 / len(names):
                    print(f"{name}, {kind}, {column}: false alarm, p-value {c.p_value:.2g}: {c}")
    columns = f"{'sign':>6} {'size':>6} {'unsure':>6}"
    head = f"{'data':<20} {'pairs':>5} | {'shifts':>6} {columns} | {'spreads':>7} {columns} | {'false':>6}"
    print(head)
    whole: dict[str, float] = defaultdict(float)
    for name, row in counts.items():
        for key, value in row.items():
            whole[key] += value
        print(_line(name, row))
    print(_line("all", whole))
    print(f"{time.process_time() - begin:.0f} s of CPU")


def _line(name: str, row: dict[str, float]) -> str:
    def share(what: str, among: float) -> str:
        return f"{row[what] / among:>6.1%}" if among else f"{'-':>6}"

    cells = []
    for what in ("shift", "spread"):
        told = row[what] - row[f"{what} unsure"]
        width = 6 if what == "shift" else 7
        shares = [share(f"{what} sign", told), share(f"{what} size", told), share(f"{what} unsure", row[what])]
        cells.append(f"{row[what]:>{width}.0f} {' '.join(shares)}")
    return f"{name:<20} {row['pairs']:>5.0f} | {cells[0]} | {cells[1]} | {share('false', row['quiet'])}"


if __name__ == "__main__":
    main()
