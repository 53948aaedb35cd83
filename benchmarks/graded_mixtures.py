"""Grades of Gaussian mixtures: are estimate and bound of the lost likelihood right on data that did not calibrate them?

    python benchmarks/graded_mixtures.py collect rows.jsonl [--cases 300] [--start 0] [--seconds 600]  # goes on
    python benchmarks/graded_mixtures.py table rows.jsonl   # calibrate, and test on data sets that are left out
    python benchmarks/graded_mixtures.py check rows.jsonl   # the constants of the library on these rows

The truth is the mean log-likelihood of the rows under the best of EM (two random starts, and one from the model itself)
less that of the model, in nats per row.  Where many rows are equal the likelihood has no upper bound: columns in which
one value is that of more than 2 % of the rows are left out.  EM adds .001 to all variances (columns are standardised).
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import graded
import graded_data
import numpy as np
from scipy.stats import spearmanr
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from sketchlearn.decoders.mixtures.grade import (
    BAD,
    BOUND,
    ESTIMATE,
    GOOD,
    MOST,
    NO_BOUND,
    PARTS,
    SURE_BOUND,
    SURE_ESTIMATE,
)
from sketchlearn.designs.gmm import default_size

TAU = 0.88  # quantile of the calibration
LEAST_VARIANCE, EQUAL, MOST_COLUMNS, MOST_ROWS = 1e-3, 0.02, 6, 10_000
DISCRETE = ("integers", "counts", "zeros", "codes")  # generators whose columns are no densities


def continuous(x):
    """The columns in which no value is that of many rows."""
    most = [np.unique(column, return_counts=True)[1].max() for column in x.T]
    return x[:, np.array(most) <= EQUAL * len(x)]


def sets():
    """All data sets but those of discrete columns, in one random order: (kind, name)."""
    found = [given for given in graded_data.names() if given[1] not in DISCRETE]
    return [found[i] for i in np.random.default_rng(9).permutation(len(found))]


def case(index, known):
    """Number `index`: all data sets in turn, with settings drawn for it; None if fewer than two columns are left."""
    rng = np.random.default_rng([index, 555])
    kind, name = known[index % len(known)]
    k = int(rng.choice([1, 2, 3, 5, 8], p=[0.1, 0.25, 0.3, 0.25, 0.1]))
    n, d = int(rng.choice([2000, 5000, 10_000])), int(rng.choice([2, 3, 4, 6]))
    x = continuous(graded_data.rows(kind, name, n, d, k, rng)[:MOST_ROWS])
    if x.shape[1] < 2:
        return None
    x = graded_data.standardised(x[:, np.sort(rng.permutation(x.shape[1])[:MOST_COLUMNS])])
    shape = str(rng.choice(["full", "diag", "spherical", "tied"], p=[0.5, 0.3, 0.1, 0.1]))
    return kind, name, x, k, shape, float(rng.choice([0.5, 1.0, 2.0], p=[0.25, 0.6, 0.15])), int(rng.integers(10**6))


def truth(x, model, k, shape, seed):
    """Nats per row below the best of EM on the rows."""
    ours = float(model.mixture.log_density(x).mean())
    options = {"covariance_type": shape, "reg_covar": LEAST_VARIANCE, "max_iter": 100}
    runs = [GaussianMixture(k, random_state=seed + i, **options) for i in range(2)]
    weights = np.maximum(model.weights, 1e-6)
    start = {"weights_init": weights / weights.sum(), "means_init": model.means}
    runs.append(GaussianMixture(k, precisions_init=model.precisions, **start, **options))
    return max([ours, *[run.fit(x).score(x) for run in runs]]) - ours


def judged(kind, name, x, k, shape, factor, seed):
    pilot = x[np.random.default_rng(seed).permutation(len(x))[:2000]]
    size = max(40, int(factor * default_size(k, x.shape[1], shape)))
    phi = sl.design(pilot, n_components=k, task="gmm", covariance_type=shape, seed=seed, size=size)
    sketch = sl.sketch(x, phi)
    begin = time.process_time()
    model = sl.decode(sketch, k, task="gmm", covariance_type=shape, random_state=seed)
    record = {"name": name, "kind": kind, "k": k, "shape": shape, "size": factor, "n": len(x), "d": x.shape[1]}
    record |= {"seconds": time.process_time() - begin, "code": str(model.code), "ratio": model.ratio}
    record |= {"kurtosis": float((x**4).mean(0).max()), "truth": truth(x, model, k, shape, seed)}
    grade = model.trace[-1]
    if grade["stage"] == "grade":
        record |= {name: grade[name] for name in (*PARTS[1:], "excess", "bound")}
        record["certified"] = "Not certified" not in model.verdict
        record["share"] = grade["seconds"] / max(sum(step["seconds"] for step in model.trace[:-1]), 1e-9)
    return record


def collect(path, count, start, seconds):
    begin, known = time.monotonic(), sets()
    done = {json.loads(line)["case"] for line in path.read_text().splitlines()} if path.exists() else set()
    for index in range(start, start + count):
        if index in done:
            continue
        if time.monotonic() - begin > seconds:
            return
        try:
            given = case(index, known)
            record = {} if given is None else judged(*given)
        except (ValueError, np.linalg.LinAlgError) as error:
            record = {"error": repr(error)[:300]}
        with path.open("a") as file:
            file.write(json.dumps({"case": index, **record}) + "\n")


def matrix(records):
    """The parts as the library adds them up."""
    return np.clip(np.array([[r[name] for name in PARTS[1:]] for r in records]), 0.0, MOST)


def fitted(records, tau):
    y = np.minimum([r["truth"] for r in records], MOST)
    return graded.quantile_sum(matrix(records), y, tau, graded.weights_of([r["name"] for r in records]))


def kinds(records):
    """Certified mixtures have factors of their own."""
    certified = np.array([r["certified"] for r in records])
    return ~certified, certified


def left_out(records, tau, folds=10):
    """Predictions for every data set by the others."""
    names = np.array([r["name"] for r in records])
    order, x, out = np.random.default_rng(0).permutation(np.unique(names)), matrix(records), np.empty(len(names))
    for i in range(folds):
        test = np.isin(names, order[i::folds])
        for kind in kinds(records):
            b = fitted([records[j] for j in np.flatnonzero(kind & ~test)], tau)
            out[test & kind] = b[0] + x[test & kind] @ b[1:]
    return out


def by_library(records):
    """Estimate and bound with the constants of the library."""
    x, (_, certified) = np.column_stack([np.ones(len(records)), matrix(records)]), kinds(records)
    pairs = (ESTIMATE, SURE_ESTIMATE), (BOUND, SURE_BOUND)
    return [np.where(certified, x @ np.array(sure), x @ np.array(other)) for other, sure in pairs]


def show(records, estimate, bound):
    y = np.array([r["truth"] for r in records])
    tell = {"all": np.ones(len(y), bool)}
    tell |= {s: np.array([r["shape"] == s for r in records]) for s in ("full", "diag", "spherical", "tied")}
    tell |= {f"size {s:g}": np.array([r["size"] == s for r in records]) for s in (0.5, 1.0, 2.0)}
    tell |= {
        "tables": np.array([r["kind"] == "table" for r in records]),
        "generators": np.array([r["kind"] in ("synthetic", "made", "tails") for r in records]),
        "kurtosis above 50": np.array([r["kurtosis"] > 50 for r in records]),
        "certified": np.array([r["certified"] for r in records]),
    }
    print(f"{'':24}{'cases':>6}{'truth':>9}{'cover':>7}{'good':>6}{'useful':>8}{'comfort':>9}")
    for label, at in tell.items():
        t, b = y[at], bound[at]
        if len(t):
            deserved = t <= 0.6 * GOOD
            useful = 100 * np.mean(b[deserved] <= GOOD) if deserved.any() else np.nan
            covered = 100 * np.mean((t <= b) | (b >= NO_BOUND))
            comfort = f"{np.sum((b <= GOOD) & (t > 2 * GOOD))}/{np.sum(b <= GOOD)}"
            print(f"{label:24}{len(t):6}{np.median(t):9.4f}{covered:7.0f}{100 * np.mean(b <= GOOD):6.0f}"
                  f"{useful:8.0f}{comfort:>9}")  # fmt: skip
    print(f"rank correlation {spearmanr(estimate, y)[0]:.2f}; useful: bound <= {GOOD} where truth <= {0.6 * GOOD:g}; "
          f"comfort: truth > {2 * GOOD:g} and bound <= {GOOD}; cover: or no bound is given (from {NO_BOUND:g} on); "
          f"above {BAD}: {np.sum(y > BAD)} cases")  # fmt: skip
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
    warnings.simplefilter("ignore")
    if asked.verb == "collect":
        collect(asked.path, asked.cases, asked.start, asked.seconds)
        return
    records = [json.loads(line) for line in asked.path.read_text().splitlines()]
    known = [r for r in records if "bound" in r]
    print(f"{len(known)} cases of {len({r['name'] for r in known})} data sets; "
          f"{sum('truth' in r and 'bound' not in r for r in records)} more have no grade")  # fmt: skip
    if asked.verb == "check":
        show(known, *by_library(known))
        return
    estimate, bound = left_out(known, 0.5), left_out(known, TAU)
    show(known, estimate, np.maximum(bound, estimate))
    for prefix, kind in zip(("", "SURE_"), kinds(known), strict=True):
        of_kind = [known[j] for j in np.flatnonzero(kind)]
        for name, tau in (("ESTIMATE", 0.5), ("BOUND", TAU)):
            factors = ", ".join(f"{v:.4g}" for v in fitted(of_kind, tau))
            print(f"{prefix}{name} = ({factors})  # {', '.join(PARTS)}; {len(of_kind)} cases")


if __name__ == "__main__":
    main()
