"""Digests of sketches of every kind of map: the same lines on every machine and with every kernel."""

import hashlib
import sys

import numpy as np

import sketchlearn as sl
from sketchlearn.features import SplitFeatures
from sketchlearn.features.base import _KINDS
from sketchlearn.features.quadratic import VARIANTS
from sketchlearn.features.radial import LAWS
from sketchlearn.features.structured import padded
from sketchlearn.kernels import active_kernel

ROWS = {(d, n): np.random.default_rng(d).normal(size=(n, d)) for d, n in ((10, 300), (3, 1000), (70, 64))}


def maps(dim, size):
    """A map of every kind and variant with integer sums, by name; sums of floats promise digits, not bytes."""
    draw, quadratic = sl.FourierFeatures.draw, sl.QuadraticFeatures.draw
    made = {f"fourier {law}": draw(dim, size, 1.5, law, seed=1) for law in LAWS}
    made |= {
        "fourier centred": draw(dim, size, 1.5, seed=2, center=np.arange(dim) / 7),
        "fourier whitened": draw(dim, size, 1.5, seed=3, whitening=np.eye(dim) + 0.1),
        "fourier independent": draw(dim, size, 1.5, seed=3, directions="iid", radii="iid"),
        "fourier quantized": draw(dim, size, 1.5, seed=4, quantized=True),
        "fourier in turns": draw(dim, size // 8 * 8, 1.5, seed=5, features_per_row=size // 8),
    }
    block = padded(dim)
    for structure in ("gr2", "fastfood", *(("hadamard",) if dim >= 16 else ())):
        made[f"fourier {structure}"] = draw(dim, 4 * block, 1.5, seed=6, structure=structure)
        made[f"fourier {structure} quantized"] = draw(dim, 2 * block, 1.5, seed=6, structure=structure, quantized=True)
        turns = draw(dim, 4 * block, 1.5, seed=6, structure=structure, features_per_row=block)
        made[f"fourier {structure} in turns"] = turns
    for variant in VARIANTS if dim >= 16 else sorted({*VARIANTS} - {"hadamard"}):
        length = {"hadamard": 2 * block, "exact": dim * (dim + 1) // 2}.get(variant, size)
        made[f"quadratic {variant}"] = quadratic(dim=dim, size=length, variant=variant, radius=4.0, seed=7)
    plain = draw(dim, 20, 1.5, seed=8)
    made["quartic"] = sl.QuarticFeatures.draw(dim=dim, size=size, seed=9, whitening=np.eye(dim) + 0.1)
    made["quartic random"] = sl.QuarticFeatures.draw(dim=dim, size=size, seed=9, pairs=False)
    made["embedded"] = sl.EmbeddedFeatures.of(plain)
    made["fourier projected"] = draw(2, 20, 1.5, seed=12).with_projection(sl.Projection.draw(dim, 2, seed=13))
    made["split"] = SplitFeatures.of(draw(2, 21, 1.5, seed=10), draw(dim - 2, 30, 1.5, seed=11), [0, dim - 1])
    return made


def main():
    """One line per map: name, fingerprint, digests of the bytes."""
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
