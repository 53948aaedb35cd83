"""Why not just keep a random sample?  The same questions, answered from a sketch and from rows of the same size.

    python benchmarks/sample.py                    # all parts, about four minutes on one core
    python benchmarks/sample.py --part cost        # one part: cost, rare, drift or regression
    python benchmarks/sample.py --picture FILE     # also draw the first part

Everything runs offline: the rows are made up, or the pixels of the two photographs that come with scikit-learn.
A sketch counts with all bytes of its file, a sample with the bytes of its values alone (float32, pixels one byte each).
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as sl

SEEDS = 5
ROWS = 1_000_000


def clusters(seed, rows=ROWS, k=10, d=10, separation=6.0, rare=0.0):
    """Round normal clusters of unit width; a share ``rare`` of the rows is in one more cluster, the last."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k + bool(rare), d)) * separation
    shares = rng.dirichlet(np.full(k, 5.0)) * (1 - rare)
    owner = rng.choice(len(centres), size=rows, p=np.append(shares, [rare] if rare else []))
    return (centres[owner] + rng.normal(size=(rows, d))).astype(np.float32), centres


def photograph(seed):
    """The pixels of a photograph, 427 x 640, as rows of red, green and blue."""
    return load_sample_image("china.jpg" if seed % 2 == 0 else "flower.jpg").reshape(-1, 3).astype(np.float32)


def lloyd(X, k, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        return KMeans(min(k, len(X)), n_init=10, random_state=seed).fit(X)


def cost(X, centres):
    squares = (X.astype(float) ** 2).sum(1)
    nearest = np.min((centres**2).sum(1)[:, None] - 2 * centres @ X.T.astype(float), axis=0)
    return float((squares + nearest).sum())


def part_cost(seeds):
    """Cost of k-means relative to k-means on all rows, against the bytes that are kept."""
    found = []
    cases = (
        ("made-up clusters", lambda seed: clusters(seed)[0], 10, 4),
        ("pixels of a photograph", photograph, 8, 1),
    )
    for name, make, k, width in cases:
        for seed in range(seeds):
            X = make(seed)
            rng = np.random.default_rng(100 + seed)
            best = cost(X, lloyd(X, k, seed).cluster_centers_)
            pilot = X[rng.choice(len(X), 1000, replace=False)]
            for factor in (3, 5, 10, 20):
                phi = sl.design(pilot, n_components=k, size=factor * k * X.shape[1], seed=seed)
                s = sl.sketch(X, phi)
                model = sl.CompressiveKMeans(k, random_state=seed).fit_sketch(s)
                found.append((name, "sketch", len(s.to_bytes()), cost(X, model.cluster_centers_) / best))
            for kept in (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 400_000):
                n = kept // (width * X.shape[1])
                rows = X[rng.choice(len(X), min(n, len(X)), replace=False)]
                found.append((name, "sample", kept, cost(X, lloyd(rows, k, seed).cluster_centers_) / best))
    table = {}
    for name, kind, kept, ratio in found:
        size = kept if kind == "sample" else round(kept, -2)
        table.setdefault((name, kind, size), []).append(ratio)
    print("cost over that of k-means on all rows")
    for (name, kind, size), ratios in table.items():
        print(f"  {name:24} {kind:7} {size:>8,} bytes  median {np.median(ratios):.5f}  worst {max(ratios):.5f}")
    return found


def part_rare(seeds):
    """Is a cluster of one row in a thousand among the centres, within one width?"""
    hits = {}
    for seed in range(seeds):
        X, centres = clusters(50 + seed, rare=1e-3)
        rng = np.random.default_rng(seed)
        s = sl.sketch(X, sl.design(X[rng.choice(ROWS, 1000, replace=False)], n_components=11, seed=seed))
        kept = len(s.to_bytes())
        answers = {f"sketch of {round(kept, -2):,} bytes": sl.decode(s, 11, random_state=seed).centers}
        for size in (kept, 400_000):
            rows = X[rng.choice(ROWS, size // 40, replace=False)]
            label = f"sample of {len(rows):,} rows, {round(size, -2):,} bytes"
            answers[label] = lloyd(rows, 11, seed).cluster_centers_
        for label, found in answers.items():
            hits.setdefault(label, []).append(bool(np.linalg.norm(found - centres[-1], axis=1).min() < 1))
    print("a cluster of one row in a thousand was found")
    for label, values in hits.items():
        print(f"  {label:40} {sum(values)} of {len(values)}")


def part_drift(seeds):
    """How often is a shift of a few hundredths of a standard deviation noticed, at one false alarm in a hundred?"""
    pairs, n, d = 40 * seeds, 100_000, 5
    noticed = {}
    for pair in range(pairs):
        rng = np.random.default_rng(pair)
        before, quiet = rng.normal(size=(2, n, d)).astype(np.float32)
        phi = sl.design(before[:1000], n_components=5, size=100, seed=pair)
        a = sl.sketch(before, phi)
        kept = len(a.to_bytes()) // (4 * d)
        for shift in (0.0, 0.02, 0.05):
            after = quiet.copy()
            after[:, 0] += shift
            sure = sl.compare(a, sl.sketch(after, phi), mixture=normal(d)).p_value < 0.01
            noticed.setdefault((f"sketches of {len(a.to_bytes()):,} bytes", shift), []).append(sure)
            for rows in (kept, 10_000):
                # each column by a t-test, the best test of a shift, corrected for the number of columns
                p = stats.ttest_ind(before[:rows], after[:rows]).pvalue.min() * d
                noticed.setdefault((f"samples of {rows:,} rows, {rows * 4 * d:,} bytes", shift), []).append(p < 0.01)
    print(f"a shift of one of {d} columns was noticed, {n:,} rows per day, {pairs} pairs of days")
    for (label, shift), values in noticed.items():
        print(f"  {label:40} shift {shift:.2f} sd: {np.mean(values):.0%}")


def normal(d):
    """The law of the quiet days, so that no comparison has to decode a mixture."""
    return np.ones(1), np.zeros((1, d)), np.eye(d)[None]


def part_regression(seeds):
    """Blue from red and green, over all pixels: coefficients relative to those of all rows."""
    errors = {}
    for seed in range(seeds):
        X = photograph(seed).astype(float)
        truth = np.linalg.lstsq(np.column_stack([X[:, :2], np.ones(len(X))]), X[:, 2], rcond=None)[0][:2]
        s = sl.sketch(X, sl.design(X[:1000], task="regression"))
        kept = len(s.to_bytes())
        reg = sl.CompressiveLinearRegression().fit_sketch(s, targets=2)
        rng = np.random.default_rng(seed)
        rows = X[rng.choice(len(X), kept // 3, replace=False)]
        few = np.linalg.lstsq(np.column_stack([rows[:, :2], np.ones(len(rows))]), rows[:, 2], rcond=None)[0][:2]
        for label, got in ((f"sketch of {kept:,} bytes", reg.coef_), (f"sample of {kept // 3:,} rows", few)):
            errors.setdefault(label, []).append(float(np.abs(got - truth).max() / np.abs(truth).max()))
    print("regression coefficients, largest error relative to the largest coefficient")
    for label, values in errors.items():
        print(f"  {label:40} median {np.median(values):.2g}")


def draw(found, path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, *_ in found))
    figure, axes = plt.subplots(1, len(names), figsize=(10, 4), sharey=True)
    for ax, name in zip(axes, names, strict=True):
        for kind, style, label in (("sample", "o--C7", "random rows"), ("sketch", "s-C0", "a sketch")):
            sizes, medians = [], []
            groups = {}
            for case, which, kept, ratio in found:
                if (case, which) == (name, kind):
                    groups.setdefault(kept if kind == "sample" else round(kept, -2), []).append(100 * (ratio - 1))
            for size, values in sorted(groups.items()):
                sizes.append(size / 1000)
                medians.append(max(np.median(values), 1e-3))
            ax.plot(sizes, medians, style, label=label, markersize=6)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks([1, 10, 100], ["1 kB", "10 kB", "100 kB"])
        ax.set_title(TITLES[name], fontsize=12)
        ax.set_xlabel("bytes kept", fontsize=11)
        ax.grid(alpha=0.3)
    axes[0].set_yticks([0.001, 0.01, 0.1, 1, 10, 100], ["≤ 0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    axes[0].set_ylabel("cost above k-means on all rows", fontsize=11)
    axes[0].legend(fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


TITLES = {
    "made-up clusters": "ten clear clusters, ten columns, made up",
    "pixels of a photograph": "pixels of a photograph, k = 8",
}
PARTS = {"cost": part_cost, "rare": part_rare, "drift": part_drift, "regression": part_regression}


def run():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--picture", type=Path, help="draw the first part into this file")
    parser.add_argument("--json", type=Path, help="write the numbers of the first part into this file")
    options = parser.parse_args()
    for name in options.part:
        start = time.process_time()
        found = PARTS[name](options.seeds)
        print(f"  ({time.process_time() - start:.0f} s of processor time)")
        if name == "cost" and options.picture:
            draw(found, options.picture)
        if name == "cost" and options.json:
            options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    run()
