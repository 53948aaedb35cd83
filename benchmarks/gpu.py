"""What a GPU gives: the bytes of the CPU, features per second beside those of PyTorch, and where the limits are.

    python benchmarks/gpu.py                        # everything, some minutes
    python benchmarks/gpu.py rates host             # some of: cases rates host files rows
    python benchmarks/gpu.py cases --cases cases.json   # sums of gpu_cases.py write, perhaps of another machine

Rates of kernels are of rows that are on the device, from CUDA events: medians, with the least and the largest in
brackets.  Peers are timed in the same run, in turns.
"""

import argparse
import json
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import cupy
import gpu_cases
import numpy as np

import sketchlearn as sl
from sketchlearn.kernels.cuda.device import CudaLane, devices
from sketchlearn.kernels.cuda.kinds import device_summer
from sketchlearn.kernels.cuda.summer import CudaSummer

SHAPES = [(10, 1024, 2**22), (64, 2048, 2**21), (512, 8192, 2**18)]


def features(d, m):
    return sl.FourierFeatures.draw(dim=d, size=m, scale=np.sqrt(d), seed=0)


def spread(values, unit=""):
    return f"{np.median(values):.4g}{unit} [{min(values):.4g}, {max(values):.4g}]"


# -- 1: the same bytes -----------------------------------------------------------------------


def on_gpu(array):
    return cupy.asarray(array) if array.flags.c_contiguous else cupy.array(array, order="K")


def _check(job):
    path, seeds = job
    return [gpu_cases.check(path, device_summer, seeds, rows_as) for rows_as in (lambda X: X, on_gpu)]


def cases(path, processes=8):
    """Kernels are compiled for every number of columns: in several processes, or it takes minutes."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "cases.json"
            gpu_cases.write(path, 200)
        seeds = sorted(map(int, json.loads(Path(path).read_text())))
        with get_context("spawn").Pool(processes) as pool:
            found = pool.map(_check, [(path, seeds[i::processes]) for i in range(processes)], chunksize=1)
    for i, where in enumerate(("rows of the host", "rows on the device")):
        wrong = [case for part in found for case in part[i][0]]
        other = [case for part in found for case in part[i][1]]
        print(f"{len(seeds)} cases, {where}: {len(wrong)} differ {wrong}, {len(other)} inputs can't be made {other}")
    print(f"  ({time.perf_counter() - start:.0f} s)")


# -- 2: kernels and their peers --------------------------------------------------------------


class Clock:
    """CUDA events around the kernels of a call."""

    def __enter__(self):
        self.launch, self.events = CudaLane.launch, []

        def launch(lane, kernel, grid, threads, arguments):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(lane.stream)
            self.launch(lane, kernel, grid, threads, arguments)
            end.record(lane.stream)
            self.events.append((kernel.name, begin, end))

        CudaLane.launch = launch
        return self

    def __exit__(self, *_):
        CudaLane.launch = self.launch
        elapsed = cupy.cuda.get_elapsed_time
        self.total = elapsed(self.events[0][1], self.events[-1][2]) / 1e3
        self.each = {}
        for name, begin, end in self.events:
            self.each[name] = self.each.get(name, 0.0) + elapsed(begin, end)


def event_time(function, stream):
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    function()
    end.record(stream)
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3


def torch_peers(X, W, n, m):
    """PyTorch with whole phases in memory, some rows at a time, and compiled."""
    try:
        import torch
    except ImportError:
        return {}
    rows, frequencies = torch.from_dlpack(X), torch.from_numpy(W).cuda().T.contiguous()

    def sums(part):
        phase = part @ frequencies
        return torch.cos(phase).sum(0), torch.sin(phase).sum(0)

    compiled = torch.compile(sums)
    step = min(n, 2**28 // m)

    def in_steps(function):
        return lambda: [function(rows[i : i + step]) for i in range(0, n, step)]

    return {
        "torch cos+sin": in_steps(sums),
        "torch.compile": in_steps(compiled),
        "float32 product alone (cuBLAS)": in_steps(lambda part: part @ frequencies),
    }


def rates(repeats):
    device = devices()[0]
    clock = Clock()
    for d, m, n in SHAPES:
        phi = features(d, m)
        X = cupy.random.RandomState(0).standard_normal((n, d), dtype=cupy.float32)
        start = time.perf_counter()
        summer = CudaSummer(phi.plan(), [device])
        summer.sum_rows(X[:1000])
        first = time.perf_counter() - start
        peers = torch_peers(X, phi.frequencies.astype(np.float32), n, m)
        for peer in peers.values():
            event_time(peer, cupy.cuda.Stream.null)
        for _ in range(3):
            summer.sum_rows(X)
        ours, kernels, others = [], {}, {name: [] for name in peers}
        for _ in range(repeats):
            with clock:
                summer.sum_rows(X)
            ours.append(n * m / clock.total / 1e9)
            for name, t in clock.each.items():
                kernels.setdefault(name, []).append(t)
            for name, peer in peers.items():
                others[name].append(n * m / event_time(peer, cupy.cuda.Stream.null) / 1e9)
        print(f"d={d} m={m} n={n}: {spread(ours)} Gfeature/s (first call {first:.1f} s)")
        print("   ms: " + ", ".join(f"{name} {np.median(t):.3f}" for name, t in kernels.items()))
        for name, rate in others.items():
            print(f"   {name}: {spread(rate)}; ratio {np.median(ours) / np.median(rate):.2f}")
        large = cupy.concatenate([X] * 8)
        sl.sketch(large, phi)
        whole = []
        for _ in range(repeats):
            start = time.perf_counter()
            sl.sketch(large, phi)
            whole.append(len(large) * m / (time.perf_counter() - start) / 1e9)
        print(f"   sl.sketch of {len(large)} rows, by the clock: {spread(whole)}", flush=True)
        del X, large, peers


def more_rates(repeats):
    """What weights, float64, far rows and other maps cost."""
    device = devices()[0]
    clock = Clock()
    n, rng = 2**21, np.random.default_rng(0)
    X = cupy.random.RandomState(0).standard_normal((n, 10), dtype=cupy.float32)
    phi = features(10, 1024)
    for what, rows, weights, map_ in (
        ("float64 rows", X.astype(cupy.float64), None, phi),
        ("columns first in memory", cupy.asfortranarray(X), None, phi),
        ("weights", X, rng.integers(1, 100, n), phi),
        ("all rows far (float64 arithmetic)", X * 1e4, None, phi),
        ("squares with a radius", X, None, sl.QuadraticFeatures.draw(10, 1024, 0, radius=5.0)),
        ("products with a radius", X, None, sl.QuadraticFeatures.draw(10, None, 0, variant="exact", radius=5.0)),
        ("1 bit", X, None, phi.redrawn(quantized=True)),
        ("128 features per row", X, None, phi.redrawn(features_per_row=128)),
        ("quartic", X, None, sl.QuarticFeatures.draw(dim=10, size=1024)),
    ):
        summer, found = device_summer(map_.plan(), [device]), []
        for _ in range(2 + repeats):
            with clock:
                summer.sum_rows(rows, weights)
            found.append(n * map_.size / clock.total / 1e9)
        print(f"d=10 m={map_.size}, {what}: {spread(found[2:])} Gfeature/s", flush=True)
    for d, m in ((64, 2048), (512, 8192), (2048, 8192)):
        rows = cupy.random.RandomState(0).standard_normal((2**19 if d < 2048 else 2**17, d), dtype=cupy.float32)
        for structure in ("hadamard", "gr2", "fastfood"):
            map_ = sl.FourierFeatures.draw(dim=d, size=m, scale=np.sqrt(d), seed=0, structure=structure)
            summer, found, kernels = device_summer(map_.plan(), [device]), [], {}
            for i in range(2 + repeats):
                with clock:
                    summer.sum_rows(rows)
                found.append(len(rows) * m / clock.total / 1e9)
                if i > 1:
                    for name, t in clock.each.items():
                        kernels.setdefault(name, []).append(t)
            parts = ", ".join(f"{name} {np.median(t):.3f}" for name, t in kernels.items())
            print(f"d={d} m={m}, {structure}: {spread(found[2:])} Gfeature/s (ms: {parts})", flush=True)
    for d, variant, size in ((64, "gaussian", 2048), (512, "exact", None)):
        map_ = sl.QuadraticFeatures.draw(d, size, 0, variant=variant)
        rows = cupy.random.RandomState(0).standard_normal((2**19, d), dtype=cupy.float32)
        sl.sketch(rows, map_)
        found = []
        for _ in range(repeats):
            start = time.perf_counter()
            sl.sketch(rows, map_)
            found.append(len(rows) * map_.size / (time.perf_counter() - start) / 1e9)
        print(f"d={d} m={map_.size}, {variant} without a radius, by the clock: {spread(found)} Gfeature/s", flush=True)


# -- 3: from the host and from files ---------------------------------------------------------


def bandwidth():
    """Bytes per second from pinned memory."""
    size = 2**28
    pinned, there = cupy.cuda.alloc_pinned_memory(size), cupy.empty(size, cupy.uint8)
    stream = cupy.cuda.Stream(non_blocking=True)

    def copy():
        cupy.cuda.runtime.memcpyAsync(there.data.ptr, pinned.ptr, size, 1, stream.ptr)

    return [size / event_time(copy, stream) / 1e9 for _ in range(8)][1:]


def host(repeats):
    d, m, n = 10, 1000, 2**28
    phi, device = features(d, m), devices()[0]
    clock, summer = Clock(), CudaSummer(phi.plan(), [device])
    there = cupy.random.RandomState(0).standard_normal((2**22, d), dtype=cupy.float32)
    kernel = []
    for _ in range(repeats + 2):
        with clock:
            summer.sum_rows(there)
        kernel.append(len(there) * m / clock.total / 1e9)
    copy = bandwidth()
    limit = min(np.median(kernel[2:]), np.median(copy) * m / (4 * d))
    print(f"d={d} m={m}: kernels {spread(kernel[2:])} Gfeature/s; copies from pinned memory {spread(copy)} GB/s")
    print(f"   the smaller of both: {limit:.4g} Gfeature/s")
    X = np.empty((n, d), np.float32)
    X.reshape(-1, 2**20, d)[:] = np.random.default_rng(0).standard_normal((2**20, d), dtype=np.float32)
    memory = cupy.cuda.alloc_pinned_memory(X.nbytes // 8)
    pinned = np.frombuffer(memory, np.float32, X.size // 8).reshape(-1, d)
    pinned[:] = X[: len(pinned)]
    for what, rows, workers in (
        ("rows in ordinary memory", X, None),
        *((f"... {w} workers", X, w) for w in (1, 4, 8, 16)),
        ("rows in pinned memory", pinned, None),
        ("float64 rows", X[: n // 8].astype(np.float64), None),
        ("columns first in memory", np.asfortranarray(X[: n // 8]), None),
    ):
        sl.sketch(rows[: 2**22], phi, engine="gpu", workers=workers)
        found = []
        for _ in range(repeats if workers is None else 2):
            start = time.perf_counter()
            sl.sketch(rows, phi, engine="gpu", workers=workers)
            found.append(len(rows) * m / (time.perf_counter() - start) / 1e9)
        rate = np.median(found)
        print(
            f"   {what}: {spread(found)} Gfeature/s = {rate * rows.itemsize * d / m:.1f} GB/s, "
            f"{100 * rate / limit:.0f} % of the limit",
            flush=True,
        )


def files(repeats):
    import pyarrow as pa
    import pyarrow.parquet as pq

    d, m, each = 10, 1000, 2**22
    phi = features(d, m)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(8):
            X = np.random.default_rng(number).standard_normal((each, d), dtype=np.float32)
            table = pa.table({f"x{k}": X[:, k] for k in range(d)})
            pq.write_table(table, f"{folder}/part-{number}.parquet")

        def read():
            return sum(len(batch.rows) for batch in sl.read(folder).stream(2**19))

        def timed(function):
            start = time.perf_counter()
            function()
            return 8 * each / (time.perf_counter() - start) / 1e6

        read()
        print(f"8 Parquet files of {each} rows x {d}, {os.cpu_count()} cores, million rows per second:")
        for what, function, times in (
            ("reading alone", read, repeats),
            ("GPU, m=1000", lambda: sl.sketch(folder, phi, engine="gpu"), repeats),
            ("threads, m=1000", lambda: sl.sketch(folder, phi, engine="threads"), 1),
        ):
            function()
            print(f"   {what}: {spread([timed(function) for _ in range(times)])}", flush=True)
        same = sl.sketch(folder, phi, engine="gpu").to_bytes() == sl.sketch(folder, phi, engine="threads").to_bytes()
        print(f"   bytes of both are equal: {same}")


# -- 4: a billion rows -----------------------------------------------------------------------


def rows(slices=10, each=10**8, batch=10**7):
    phi = features(10, 1000)

    def made(number):
        for i in range(each // batch):
            yield cupy.random.RandomState(1000 * number + i).standard_normal((batch, 10), dtype=cupy.float32)

    pool = cupy.get_default_memory_pool()
    sl.sketch(made(0), phi, engine="gpu")
    pool.free_all_blocks()
    start, used = time.perf_counter(), []
    total = sl.sketch(
        (part for number in range(slices) for part in made(number)), phi, engine="gpu",
        progress=lambda done, of: used.append(pool.total_bytes()),
    )  # fmt: skip
    wall = time.perf_counter() - start
    count = slices * each
    print(f"{count} rows x 10, m=1000, made on the device: {wall:.2f} s, {count * 1000 / wall / 1e9:.4g} Gfeature/s")
    part = len(used) // 4
    print(f"   device memory after a quarter of the pass {used[part] / 1e9:.2f} GB, at its end {used[-1] / 1e9:.2f} GB")
    start = time.perf_counter()
    parts = [sl.sketch((b.get() for b in made(number)), phi, engine="threads") for number in range(slices)]
    merged = sum(parts[1:], parts[0])
    print(
        f"   bytes equal to those of {slices} merged slices from the CPU: {merged.to_bytes() == total.to_bytes()}"
        f" ({time.perf_counter() - start:.0f} s)",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = ("cases", "rates", "more", "host", "files", "rows")
    parser.add_argument("what", nargs="*", default=known, help=f"some of {', '.join(known)}")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--cases", help="sums to compare with, from gpu_cases.py write; made here if not given")
    arguments = parser.parse_args()
    print(f"{devices()[0].name}, {len(devices())} device(s), CuPy {cupy.__version__}, {os.cpu_count()} cores")
    for what in arguments.what:
        if what == "cases":
            cases(arguments.cases)
        elif what == "rows":
            rows()
        else:
            {"rates": rates, "more": more_rates, "host": host, "files": files}[what](arguments.repeats)


if __name__ == "__main__":
    main()
