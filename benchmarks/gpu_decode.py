"""Would decoding gain from a GPU?  The richer model of clusters that are not Gaussian, in fifty dimensions.

    python benchmarks/gpu_decode.py       # k = 20, 10, 50
    python benchmarks/gpu_decode.py 20

Prints seconds of whole decodes on two cores and on all, how much of that is the objective of the pooled fits, what
one evaluation of value and gradient takes on the processor and on a GPU (CuPy, all of it there, in float32 and in
float64, and only the products there), what Amdahl's law makes of it, and a decode that really has its objective there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import sketchlearn as sl
from sketchlearn.decoders import factored

DIM, ROWS = 50, 200_000


def sketch_of(k, size=None, rows=ROWS):
    """Clusters with heavy tails, of different widths along the axes: none that is round."""
    rng = np.random.default_rng(k)
    label = rng.integers(k, size=rows)
    wide = np.exp(rng.normal(0.0, 0.5, (k, DIM)))
    tails = np.sqrt(4.0 / rng.chisquare(4.0, rows))
    X = 3.0 * rng.normal(size=(k, DIM))[label] + wide[label] * tails[:, None] * rng.normal(size=(rows, DIM))
    phi = sl.design(X[:5000], n_components=k, task="kmeans", size=size or 5 * k * DIM, seed=0)
    return sl.sketch(X, phi)


class Watch:
    """Seconds and calls of the objective, and one of its largest problems."""

    def __init__(self, replacement=None):
        self.seconds, self.calls, self.kept, self.lock = 0.0, 0, None, threading.Lock()
        self.objective, self.replacement = factored._Coordinates.objective, replacement

    def __enter__(self):
        def timed(coordinates, v):
            start = time.thread_time()
            found = (self.replacement or self.objective)(coordinates, v)
            with self.lock:
                self.seconds += time.thread_time() - start
                self.calls += 1
                if self.kept is None or (coordinates.k, coordinates.rank) >= (self.kept[0].k, self.kept[0].rank):
                    self.kept = coordinates, v.copy()
            return found

        factored._Coordinates.objective = timed
        return self

    def __exit__(self, *_):
        factored._Coordinates.objective = self.objective


def median_of(function, times=15):
    function()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


# -- the objective on a device -----------------------------------------------------------------


class OnDevice:
    """The objective of `factored` with the sketch and the frequencies on a device; v goes there, the gradient back."""

    def __init__(self, coordinates, real):
        import cupy

        self.xp, self.c, self.real = cupy, coordinates, real
        p = coordinates.problem
        w = p.operator.forward(np.eye(coordinates.d)).T  # (m, d)
        self.w = cupy.asarray(w, real)
        self.squares = self.w * self.w
        self.z, self.u = cupy.asarray(p.z, real), cupy.asarray(p.u, real)
        name, c_name = np.dtype(real).name, "float" if real == np.float32 else "double"
        self.atoms = cupy.ElementwiseKernel(
            f"{name} phase, {name} damping", f"{name} c, {name} s",
            "const T e = exp(damping); T a, b; sincos(phase, &b, &a); c = a * e; s = b * e;".replace("T", c_name),
        )  # fmt: skip
        self.products = cupy.ElementwiseKernel(
            f"{name} re, {name} im", f"{name} c, {name} s",
            "const T t = re * c + im * s, g = im * c - re * s; c = t; s = g;".replace("T", c_name),
        )  # fmt: skip
        self.damp = cupy.ReductionKernel(f"{name} y", f"{name} out", "y * y", "a + b", "out = a", "0", f"damp_{name}")

    def __call__(self, v):
        xp, c, real = self.xp, self.c, self.real
        k, d, r = c.k, c.d, c.rank
        means, weights, f, diagonal = c.parts(v)
        sent = xp.asarray(np.concatenate([means, f.reshape(k * r, d), -0.5 * diagonal]).astype(real))
        a = xp.asarray(weights.astype(real))
        both = sent[: k + k * r] @ self.w.T
        phases, projected = both[:k], both[k:]
        damping = sent[k + k * r :] @ self.squares.T
        if r:
            damping -= real(0.5) * self.damp(projected.reshape(k, r, -1), axis=1)
        cosine, sine = self.atoms(phases, damping)
        residual = self.z - xp.stack([a @ cosine, a @ sine])
        weighted = self.u * residual
        value = xp.vdot(weighted, residual)
        self.products(weighted[0], weighted[1], cosine, sine)
        parts = [value[None], cosine.sum(1), (sine @ self.w).ravel(), (cosine @ self.squares).ravel()]
        if r:
            view = projected.reshape(k, r, -1)
            view *= cosine[:, None, :]
            parts.append((projected @ self.w).ravel())
        back = xp.concatenate(parts).get().astype(np.float64)  # the only wait
        return self._put_together(v, back, weights, diagonal)

    def _put_together(self, v, back, weights, diagonal):
        c, (k, d, r) = self.c, (self.c.k, self.c.d, self.c.rank)
        gradient = np.zeros(len(v))
        g_c, g_a, g_f, g_d = c._split(gradient)
        ends = np.cumsum([1, k, k * d, k * d])
        value, g_a[:] = back[0], back[1 : ends[1]]
        g_c[:], g_d[:] = back[ends[1] : ends[2]].reshape(k, d), back[ends[2] : ends[3]].reshape(k, d)
        if r:
            g_f[:] = back[ends[3] :].reshape(k, r, d)
        value += c.strength * float((c.pool / diagonal + np.log(diagonal)).sum())
        twice = (2.0 / c.unit_f) * weights[:, None]
        g_c *= -twice * c.unit_c
        g_a *= (-2.0 / c.unit_f) * c.unit_a
        g_f *= (twice * c.unit_v)[:, None, :]
        g_d *= twice * diagonal
        if c.strength:
            g_d += (2.0 * c.strength / c.unit_f) * (1.0 - c.pool / diagonal)
        g_d *= c.unit_d
        return value / c.unit_f, gradient


def products_only(coordinates):
    """One evaluation's products on the device and everything else on the processor: arrays (k, m) travel."""
    import cupy

    w = cupy.asarray(coordinates.problem.operator.forward(np.eye(coordinates.d)).T, np.float32)
    k, r, d, m = coordinates.k, coordinates.rank, coordinates.d, len(w)
    rng = np.random.default_rng(0)
    small = rng.normal(size=(2 * k + k * r, d)).astype(np.float32)
    large = cupy.cuda.alloc_pinned_memory(4 * (2 * k + k * r) * m)
    large = np.frombuffer(large, np.float32, (2 * k + k * r) * m).reshape(-1, m)

    def there():
        (cupy.asarray(small) @ w.T).get(out=large)
        return (cupy.asarray(large) @ w).get()

    return there


# -- what is printed ---------------------------------------------------------------------------


def decode(k, path, device):
    s = sl.load(path)
    replacement = None
    if device:
        made = {}

        def replacement(coordinates, v):
            if id(coordinates) not in made:
                made[id(coordinates)] = coordinates, OnDevice(coordinates, np.float32)
            return made[id(coordinates)][1](v)

    with Watch(replacement):
        sl.decode(sketch_of(2, 300, 5000), 2, random_state=0)  # compiles what there is to compile
    with Watch(replacement) as watch:
        wall, cpu = time.perf_counter(), time.process_time()
        solution = sl.decode(s, k, random_state=0)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return wall, cpu, watch, solution


def child(k, path, device):
    wall, cpu, watch, solution = decode(k, path, device)
    share = watch.seconds / cpu
    print(
        f"   whole decode {wall:6.2f} s, {cpu:6.2f} s of processors, of these {100 * share:.0f} % in {watch.calls} "
        f"evaluations; misfit over floor {solution.ratio:.4g}",
        flush=True,
    )
    if device:
        return
    coordinates, v = watch.kept
    one = median_of(lambda: coordinates.objective(v))
    print(
        f"   one evaluation ({coordinates.k} components, {coordinates.rank} factors, {coordinates.problem.size} "
        f"frequencies): processor {1e3 * one:.2f} ms",
        flush=True,
    )
    value, gradient = coordinates.objective(v)
    for real in (np.float32, np.float64):
        there = OnDevice(coordinates, real)
        seconds = median_of(lambda there=there: there(v))
        other, slope = there(v)
        error = np.abs(slope - gradient).max() / np.abs(gradient).max()
        ratio = one / seconds
        gain = 1.0 / (1.0 - share + share / ratio)
        print(
            f"   GPU {np.dtype(real).name}: {1e3 * seconds:.2f} ms, {ratio:.1f} times; value {other / value - 1:+.1e}, "
            f"gradient {error:.1e} of its largest; by Amdahl {gain:.1f} times for the processor's seconds"
        )
    print(f"   products alone there, arrays travelling: {1e3 * median_of(products_only(coordinates)):.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("k", nargs="*", type=int, default=[20, 10, 50])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.k[0], arguments.child[0], arguments.child[1] == "gpu")
        return
    cores = sorted(os.sched_getaffinity(0))
    for k in arguments.k:
        path = str(Path(tempfile.gettempdir()) / f"gpu-decode-{k}.sketch")
        sketch_of(k).save(path)
        for what, held in (("cpu", cores[:2]), ("cpu", cores), ("gpu", cores)):
            print(f"d={DIM} k={k} m={5 * k * DIM}, {len(held)} cores{', objective on the GPU' * (what == 'gpu')}:")
            command = [sys.executable, __file__, str(k), "--child", path, what]
            subprocess.run(command, check=False, preexec_fn=lambda held=held: os.sched_setaffinity(0, held))


if __name__ == "__main__":
    main()
