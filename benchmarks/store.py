"""The store against the figures it must reach.

``python benchmarks/store.py size`` builds a year of hourly cells of 50 groups (438 000 cells, m = 500) and times
queries; ``ingest`` compares an ingest with the plain grouped pass; ``alarms`` simulates quiet years of daily checks;
``shift`` looks for a shift of 0.1 standard deviations in one of ten columns; ``clusters`` follows ten clusters over a
hundred days; ``score`` compares scores with true costs; ``bags`` classifies groups.
"""

import argparse
import inspect
import os
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

import sketchlearn as sl

HOUR = np.timedelta64(3_600_000_000, "us")
YEAR = np.datetime64("2024-01-01", "us")
GROUPS, SIZE, DIM = 50, 500, 10


def hourly(days, rows_per_cell, seed=0):
    rng = np.random.default_rng(seed)
    cells = days * 24 * GROUPS
    hour = np.repeat(np.arange(days * 24), GROUPS * rows_per_cell)
    group = np.tile(np.repeat(np.arange(GROUPS), rows_per_cell), days * 24)
    columns = {f"x{j}": rng.normal(size=cells * rows_per_cell).astype(np.float32) for j in range(DIM)}
    return pa.table({**columns, "ts": YEAR + hour * HOUR, "shop": group})


def features():
    drawn = sl.FourierFeatures.draw(dim=DIM, size=SIZE, scale=2.0, seed=0)
    return drawn.with_columns([f"x{j}" for j in range(DIM)])


def ingest(days=6, rows_per_cell=300):
    """CPU and wall seconds of an ingest beside a grouped pass over as many groups."""
    phi, table = features(), hourly(days, rows_per_cell)
    hours = (table["ts"].to_numpy() - YEAR) // HOUR
    label = hours.astype(np.int64) * GROUPS + table["shop"].to_numpy()
    grouped = table.drop_columns(["ts", "shop"]).append_column("label", pa.array(label))
    sl.sketch(grouped.slice(0, 20_000), phi, group_by="label", progress=False)  # compile
    ratios = []
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.process_time()
        sl.sketch(grouped, phi, group_by="label", progress=False)
        plain = time.perf_counter() - wall, time.process_time() - cpu
        with tempfile.TemporaryDirectory() as folder:
            store = sl.Store(Path(folder) / "s.duckdb")
            # a store that is in use: the dataset and its groups are there
            store.ingest(hourly(1, 2), phi, time="ts", every="1h", group_by="shop", source="before", progress=False)
            wall, cpu = time.perf_counter(), time.process_time()
            found = store.ingest(table, phi, time="ts", every="1h", group_by="shop", source="x", progress=False)
            own = time.perf_counter() - wall, time.process_time() - cpu
        ratios.append(plain[1] / own[1])
        print(f"{found.cells} cells, {found.rows} rows: grouped pass {plain[0]:.2f} s ({plain[1]:.2f} s CPU), "
              f"ingest {own[0]:.2f} s ({own[1]:.2f} s CPU): rate {plain[1] / own[1]:.2f} of the pass (CPU), "
              f"{plain[0] / own[0]:.2f} (wall)")  # fmt: skip
    print(f"median rate of the ingest over the grouped pass: {np.median(ratios):.2f} (floor 0.7)")


def size(days=365, rows_per_cell=100):
    """Bytes of a year and seconds of queries; days after the first repeat its sums in another order."""
    phi, table = features(), hourly(1, rows_per_cell)
    with tempfile.TemporaryDirectory() as folder:
        store = sl.Store(Path(folder) / "s.duckdb")
        store.ingest(table, phi, time="ts", every="1h", group_by="shop", source="day 0", progress=False)
        dataset = store.dataset()
        with store.backend.session() as session:
            cells = list(session.cells("dataset = ?", [dataset.id]))
        assert len(cells) == 1
        from sketchlearn.store.packing import pack, unpack

        first = unpack(cells[0].sums, 2 * SIZE)
        begun, cpu = time.perf_counter(), time.process_time()
        for block in range(0, days - 1, 7):
            with store.backend.session(write=True) as session:
                for day in range(block + 1, min(block + 8, days)):
                    ahead = day * 24 * 3_600_000_000
                    moved = cells[0].placed(
                        start=cells[0].start + ahead, stop=cells[0].stop + ahead,
                        source=np.full(len(cells[0]), day), sums=pack(np.roll(first, day, axis=1)),
                    )  # fmt: skip
                    session.append(dataset.id, moved)
        print(f"written in {time.perf_counter() - begun:.0f} s ({time.process_time() - cpu:.0f} s CPU)")
        count = days * 24 * GROUPS
        sums = count * 2 * SIZE * 8
        print(f"{count} cells: {store.backend.size() / 1e6:.0f} MB, {store.backend.size() / sums:.3f} of the sums' "
              f"{sums / 1e6:.0f} MB as int64 (floor 1.3)")  # fmt: skip
        for since, until in (("2024-01-01", "2024-02-01"), ("2024-06-01", "2024-07-01"), ("2024-11-01", "2024-12-01")):
            if days < 340 and since > "2024-02":
                continue
            for _ in range(2):
                begun, cpu = time.perf_counter(), time.process_time()
                found = store.query(since=since, until=until).sketch()
                print(f"{since} to {until}: {found.count} rows merged in {time.perf_counter() - begun:.2f} s "
                      f"({time.process_time() - cpu:.2f} s CPU; floor 1 s)")  # fmt: skip
        begun, cpu = time.perf_counter(), time.process_time()
        store.query(where={"shop": 7}).timeline("1d")
        print(
            f"a year of days of one group: {time.perf_counter() - begun:.2f} s ({time.process_time() - cpu:.2f} s CPU)"
        )


def score(seed=0):
    """Scores of 50 sets of centres beside their true costs, on real data sets."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_sample_image, load_wine
    from sklearn.decomposition import PCA

    from sketchlearn.comparison.score import Averager, _nearest
    from sketchlearn.decoders.description import describe

    def standardised(X):
        return (X - X.mean(0)) / X.std(0)

    data = {
        "digits, 10 components": (PCA(10, random_state=0).fit_transform(load_digits().data), 10),
        "breast cancer, 10 columns": (standardised(load_breast_cancer().data[:, :10]), 5),
        "diabetes": (standardised(load_diabetes().data), 5),
        "iris": (standardised(load_iris().data), 3),
        "wine": (standardised(load_wine().data), 3),
        "breast cancer, worst": (standardised(np.log1p(load_breast_cancer().data[:, 20:])), 4),
        "pixels of a picture": (load_sample_image("flower.jpg").reshape(-1, 3)[::7].astype(float), 8),
    }
    for name, (X, k) in data.items():
        rng = np.random.default_rng(seed)
        sketch = sl.sketch(X, sl.design(X, n_components=k, seed=seed), progress=False)
        averager = Averager(sketch, describe(sketch))
        found, true = [], []
        for i in range(50):  # rows, improved by up to three steps of Lloyd, and shaken
            centers = X[rng.choice(len(X), k, replace=False)]
            for _ in range(i % 4):
                nearest = ((X[:, None] - centers) ** 2).sum(2).argmin(1)
                centers = np.stack(
                    [X[nearest == j].mean(0) if (nearest == j).any() else c for j, c in enumerate(centers)]
                )
            centers = centers + rng.normal(size=centers.shape) * X.std(0) * 0.2 * (i % 5) / 5
            found.append(averager(lambda Y, c=centers: _nearest(Y, c)))
            true.append(_nearest(X, centers).mean())
        value, error = np.array(found).T
        true = np.array(true)
        print(f"{name}: correlation {np.corrcoef(value, true)[0, 1]:.4f} (floor .99), 90 % intervals cover "
              f"{np.mean(np.abs(value - true) < 1.645 * error):.0%}, mean error {np.mean(value / true - 1):+.1%}, "
              f"standard error {np.mean(error / true):.1%}")  # fmt: skip


def shift(runs=20, rows=100_000, days=7, seed=0):
    """A shift of 0.1 standard deviations in one of ten columns: is it found the same day, and named?"""
    phi = sl.FourierFeatures.draw(dim=DIM, size=300, scale=4.0, seed=seed).with_columns([f"x{j}" for j in range(DIM)])
    found = named = quiet = 0
    for run in range(seed, seed + runs):
        rng = np.random.default_rng(run)
        mix = rng.normal(size=(3, DIM))
        store = sl.Store(":memory:")
        for day in range(days):
            X = rng.normal(size=(rows, DIM)) + mix[rng.integers(0, 3, rows)]
            if day == days - 1:
                X[:, run % DIM] += 0.1 * X[:, run % DIM].std()
            store.add(sl.sketch(X, phi, progress=False), time=np.datetime64("2024-05-01") + day, every="1d")
        today, before = store.query().check(), store.query().check(at="2024-05-06")
        found += today.differs
        named += bool(today.columns) and today.columns[0].column == f"x{run % DIM}"
        quiet += not before.differs
    print(
        f"found {found} of {runs}, the column named first in {named} (floor 19 of 20); the day before quiet in {quiet}"
    )


def alarms(years=1000, rows=100, batch=25, seed=0):
    """Daily checks of quiet years: how often is there any alarm?  The noise is learned once in `batch` years."""
    from sketchlearn.comparison.two_sample import compared, sampling_noise
    from sketchlearn.store.periods import Period
    from sketchlearn.store.watch import level_of

    phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.5, seed=seed)
    alpha, false, smallest = 0.1, 0, []
    level = level_of(Period.of("1d"), alpha, Period.of("1y"))
    for start in range(seed, seed + years, batch):
        rng = np.random.default_rng(start)
        noise = None
        for _ in range(batch):
            X = rng.normal(size=(rows * 393, 2)) + rng.choice([-2.0, 2.0], size=(rows * 393, 1))
            table = sl.sketch(X, phi, group_by=np.arange(len(X)) // rows, progress=False, workers=1)
            days = [table[i] for i in range(393)]
            if noise is None:
                noise = sampling_noise(sl.merge(days[:29]))
            reference = sl.merge(days[:28])
            p_values = []
            for day in range(28, 393):
                p_values.append(compared(reference, days[day], noise).p_value)
                reference = reference + days[day] - days[day - 28]
            smallest.append(min(p_values))
            false += smallest[-1] < level
    share, error = false / years, np.sqrt(alpha * (1 - alpha) / years)
    print(f"{years} quiet years of 365 checks at level {level:.3g}: {share:.1%} with any alarm (promised: at most "
          f"{alpha:.0%}; standard error {error:.1%})")  # fmt: skip


def clusters(days=100, k=10, rows=20_000, seed=0):
    """Ten clusters that drift slowly, one birth and one death."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k + 1, 5)) * 12
    speed = rng.normal(size=(k + 1, 5)) * 0.1
    phi = sl.FourierFeatures.draw(dim=5, size=600, scale=3.0, seed=0)
    sketches, true = {}, []
    for day in range(days):
        alive = [j for j in range(k + 1) if (j != k or day >= 40) and (j != 3 or day < 70)]
        at = centers + day * speed
        X = at[rng.choice(alive, rows)] + rng.normal(size=(rows, 5))
        sketches[str(day)] = sl.sketch(X, phi, progress=False)
        true.append((alive, at))
    from sketchlearn.store.identities import follow

    cpu = time.process_time()
    found = follow(sketches, None)
    kept = pairs = 0
    names: list[dict[int, int]] = []
    for day, c in enumerate(found):
        alive, at = true[day]
        nearest = ((at[alive][:, None] - c.centers) ** 2).sum(2).argmin(1)
        names.append({j: c.identities[i] for j, i in zip(alive, nearest.tolist(), strict=True)})
    for before, after in pairwise(names):
        for j in before.keys() & after.keys():
            pairs += 1
            kept += before[j] == after[j]
    born = [int(c.period) for c in found if c.born]
    died = [int(c.period) for c in found if c.died]
    print(f"identities kept in {kept / pairs:.2%} of {pairs} pairs (floor 99 %); births on days {born} (true 40), "
          f"deaths on days {died} (true 70); {time.process_time() - cpu:.0f} s CPU")  # fmt: skip


def bags(train=100, test=200, seed=0):
    """Bags labelled by the sign of a correlation: accuracy by rows per bag, from sketches and from the rows."""
    from sklearn.svm import SVC

    phi = sl.FourierFeatures.draw(dim=2, size=200, scale=1.0, radial="gaussian", seed=0)

    def embedded(bags, others):
        """Squared distances of mean embeddings (Gaussian kernel of scale 1) on the rows, unbiased."""

        def kernel(a, b):
            return np.exp(-((a[:, None] - b) ** 2).sum(2) / 2)

        def own(a):
            return (kernel(a, a).sum() - len(a)) / (len(a) * (len(a) - 1))

        inner = np.array([[kernel(a, b).mean() for b in others] for a in bags])
        squares = np.array([own(a) for a in bags])[:, None] + np.array([own(b) for b in others]) - 2 * inner
        return np.maximum(squares, 0.0)

    for rows in (5, 10, 20, 50):
        rng = np.random.default_rng([seed, rows])
        labels = rng.integers(0, 2, train + test)
        root = [np.linalg.cholesky([[1.0, r], [r, 1.0]]) for r in (-0.5, 0.5)]
        data = [rng.normal(size=(rows, 2)) @ root[y].T for y in labels]
        sketches = [sl.sketch(X, phi, progress=False) for X in data]
        off = sl.distances(sketches[:train], squared=True)
        gamma = 1.0 / np.median(off[off > 0])
        first = sl.mean_kernel(sketches[:train], gamma=gamma)
        rest = sl.mean_kernel(sketches[train:], sketches[:train], gamma=gamma)
        ours = SVC(kernel="precomputed").fit(first, labels[:train]).score(rest, labels[train:])
        squares, new = embedded(data[:train], data[:train]), embedded(data[train:], data[:train])
        np.fill_diagonal(squares, 0.0)
        gamma = 1.0 / np.median(squares[squares > 0])
        model = SVC(kernel="precomputed").fit(np.exp(-gamma * squares), labels[:train])
        theirs = model.score(np.exp(-gamma * new), labels[train:])
        print(f"{rows} rows per bag: accuracy {ours:.3f} from sketches, {theirs:.3f} from mean embeddings of the rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", choices=[name for name, value in globals().items() if callable(value) and name in TASKS]
    )
    parser.add_argument("--seed", type=int, default=0, help="of the data and of maps")
    parser.add_argument("--runs", type=int, help="shifts or quiet years")
    parser.add_argument("--rows", type=int, help="rows per cell of an ingest, or per day of clusters")
    given = parser.parse_args()
    chosen = globals()[given.what]
    named = {
        "seed": given.seed,
        "runs": given.runs,
        "years": given.runs,
        "rows": given.rows,
        "rows_per_cell": given.rows,
    }
    takes = inspect.signature(chosen).parameters
    warnings.simplefilter("ignore")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    chosen(**{name: value for name, value in named.items() if name in takes and value is not None})


TASKS = ("ingest", "size", "alarms", "shift", "clusters", "score", "bags")

if __name__ == "__main__":
    main()
