"""How many clusters ``n_clusters="auto"`` finds: real tables and ten made-up mixtures, over seeds.

    pip install palmerpenguins                    # else the penguins are left out
    python benchmarks/auto.py --seeds 10 --start 7000
    python benchmarks/auto.py --only digits

One line for each data set: the numbers found with every seed (of the map, the decoder and, for made-up data, the
rows), how often the number is right, whether the recommendation of the sweep and the final fit agree, whether the
cost ever rises with k, and seconds of processor time for one fit.  Agreement means: the model has the recommended
number of clusters, and both say the same about its certificate.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import sketchlearn as sl

Array = npt.NDArray[np.float64]


def balls(rng: np.random.Generator, n: int, d: int) -> Array:
    """Rows uniform in a ball whose columns have standard deviation 1."""
    rows = rng.normal(size=(n, d))
    rows *= (rng.random(n) ** (1 / d) / np.linalg.norm(rows, axis=1))[:, None]
    return rows * np.sqrt(d + 2)


def mixture(
    rng: np.random.Generator,
    n: int,
    k: int,
    d: int,
    apart: float,
    *,
    shape: Callable[[np.random.Generator, int, int], Array] | None = None,
    weights: Array | None = None,
    widths: Array | None = None,
    oblong: float = 1.0,
) -> Array:
    """Clusters whose centres are at least `apart` standard deviations of a cluster from each other."""
    box = apart * max(1.0, k ** (1 / d))
    while True:  # centres by rejection, in a box that grows until they fit
        centres = rng.uniform(-box, box, size=(k, d))
        gaps = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 1e9 * np.eye(k)
        if gaps.min() >= apart:
            break
        box *= 1.02
    labels = rng.choice(k, size=n, p=weights)
    within = rng.normal(size=(n, d)) if shape is None else shape(rng, n, d)
    if oblong > 1.0:
        stretched = np.where(np.arange(d) == 0, oblong, 1.0)
        turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
        within = np.einsum("nij,nj->ni", turns[labels], within * stretched / stretched.max())
    return centres[labels] + within * (1.0 if widths is None else widths[labels][:, None])


def laplace(rng: np.random.Generator, n: int, d: int) -> Array:
    """Heavier tails than normal ones, standard deviation 1."""
    return rng.laplace(size=(n, d)) / np.sqrt(2)


MADE: dict[str, tuple[int, Callable[[np.random.Generator], Array]]] = {
    "one normal, 4 columns": (1, lambda r: mixture(r, 3000, 1, 4, 1.0)),
    "2 in 1 column, 9:1": (2, lambda r: mixture(r, 4000, 2, 1, 7.0, weights=np.array([0.9, 0.1]))),
    "3 of unequal width": (3, lambda r: mixture(r, 6000, 3, 2, 9.0, widths=np.array([0.4, 0.8, 1.4]))),
    "4 oblong 3:1": (4, lambda r: mixture(r, 8000, 4, 3, 6.0, oblong=3.0)),
    "5 uniform balls": (5, lambda r: mixture(r, 10_000, 5, 3, 7.0, shape=balls)),
    "6 with Laplace tails": (6, lambda r: mixture(r, 12_000, 6, 5, 9.0, shape=laplace)),
    "7 near each other": (7, lambda r: mixture(r, 30_000, 7, 6, 5.0)),
    "8 of few rows": (8, lambda r: mixture(r, 600, 8, 2, 8.0)),
    "12 in 12 columns": (12, lambda r: mixture(r, 40_000, 12, 12, 6.0)),
    "15, one of 1 %": (
        15, lambda r: mixture(r, 60_000, 15, 4, 6.0, weights=np.append(np.full(14, 0.99 / 14), 0.01))),
}  # fmt: skip


def real() -> dict[str, Array]:
    """Rows of tables that ship with packages."""
    from sklearn import datasets

    out = {name: getattr(datasets, f"load_{name}")().data for name in ("iris", "wine", "digits")}
    try:
        import palmerpenguins
    except ImportError:
        return out
    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    return {**out, "penguins": palmerpenguins.load_penguins()[columns].dropna().to_numpy(np.float64)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--only", help="part of a name")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'data':<24} {'true':>4} {'right':>6} {'agree':>6} {'falls':>6} {'s':>6}  found")
    tables = real()
    cases = [*((name, None) for name in tables), *((name, k) for name, (k, _) in MADE.items())]
    for name, true in cases:
        if given.only and given.only not in name:
            continue
        found, agree, falls, begin = [], 0, 0, time.process_time()
        remarks: dict[str, int] = {}
        for seed in range(given.start, given.start + given.seeds):
            rows = tables[name] if name in tables else MADE[name][1](np.random.default_rng(seed))
            model = sl.CompressiveKMeans("auto", standardize=name in ("wine", "penguins"), random_state=seed).fit(rows)
            table = model.sweep_
            found.append(len(model.cluster_centers_))
            says = table.reason.endswith("is certified")
            agree += found[-1] == table.recommended and says == bool(model.reliable_)
            falls += bool((np.diff(table.column("inertia")) <= 1e-12).all())
            remark = table.reason.partition("a Gaussian mixture with ")[2][:2].strip()
            remarks[remark] = remarks.get(remark, 0) + 1
        spent = (time.process_time() - begin) / given.seeds
        right = "-" if true is None else f"{sum(k == true for k in found)}/{len(found)}"
        gaussians = ", ".join(f"{k} components {n} times" for k, n in remarks.items() if k)
        print(
            f"{name:<24} {true or '-':>4} {right:>6} {agree:>3}/{len(found)} {falls:>3}/{len(found)} {spent:>6.1f}  "
            f"{' '.join(map(str, found))}" + (f"  (mixture: {gaussians})" if gaussians else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
