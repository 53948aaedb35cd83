"""Digests of sketches of every kind of map: the same lines on every machine and with every kernel."""

import hashlib
import sys

import numpy as np

import sketchlearn as sl
from sketchlearn.features.base import _KINDS
from sketchlearn.kernels import active_kernel

ROWS = {(d, n): np.random.default_rng(d).normal(size=(n, d)) for d, n in ((10, 300), (3, 1000), (70, 64))}


def maps(dim, size):
    """A map of every kind and variant, by name."""
    draw = sl.FourierFeatures.draw
    made = {
        "fourier": draw(dim, size, 1.5, seed=1),
        "fourier multiscale": draw(dim, size, 1.5, "multiscale", seed=2, center=np.arange(dim) / 7),
        "fourier whitened": draw(dim, size, 1.5, seed=3, whitening=np.eye(dim) + 0.1),
        "fourier quantized": draw(dim, size, 1.5, seed=4, quantized=True),
    }
    block = 1 << (dim - 1).bit_length()
    made["fourier in turns"] = draw(dim, size // 8 * 8, 1.5, seed=5, features_per_row=size // 8)
    for structure in ("gr2", "fastfood", *(("hadamard",) if dim >= 16 else ())):
        made[f"fourier {structure}"] = draw(dim, 4 * block, 1.5, seed=6, structure=structure)
    for variant in ("gaussian", "sphere", "complex", "difference"):
        made[f"quadratic {variant}"] = sl.QuadraticFeatures.draw(
            dim=dim, size=size, variant=variant, radius=4.0, seed=7
        )
    return made


def main():
    """One line a map: name, fingerprint, digests of the bytes."""
    seen = set()
    for (dim, n), X in ROWS.items():
        weights = (np.arange(n) % 7) / 4
        for name, phi in maps(dim, 130 if dim == 70 else 57).items():
            seen.add(phi.kind)
            digests = []
            for rows in (X, X.astype(np.float32)):
                for weight in (None, weights):
                    made = sl.sketch(rows, phi, sample_weight=weight, workers=1, progress=False)
                    digests.append(hashlib.sha256(made.to_bytes()).hexdigest()[:16])
            sys.stdout.write(f"{dim} {name}: {phi.fingerprint} {' '.join(digests)}\n")
    missing = set(_KINDS) - seen
    if missing:
        raise SystemExit(f"maps of the kinds {', '.join(sorted(missing))} are not looked at: add them to maps()")
    sys.stderr.write(f"{active_kernel()}\n")


if __name__ == "__main__":
    main()
