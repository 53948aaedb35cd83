"""The store against the figures it must reach.

``python benchmarks/store.py size`` builds a year of hourly cells of 50 groups (438 000 cells, m = 500) and times
queries; ``ingest`` compares an ingest with the plain grouped pass; ``alarms`` simulates quiet years of daily checks;
``shift`` looks for a shift of 0.1 standard deviations in one of ten columns; ``clusters`` follows ten clusters over a
hundred days; ``score`` compares scores with true costs.
"""

import argparse
import os
import tempfile
import time
import warnings
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
            cells = [c for c in session.cells("dataset = ?", [dataset.id])]
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
        print(f"a year of days of one group: {time.perf_counter() - begun:.2f} s ({time.process_time() - cpu:.2f} s CPU)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[name for name, value in globals().items() if callable(value) and name in TASKS])
    chosen = parser.parse_args().what
    warnings.simplefilter("ignore")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    globals()[chosen]()


TASKS = ("ingest", "size", "alarms", "shift", "clusters", "score")

if __name__ == "__main__":
    main()
