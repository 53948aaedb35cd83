"""What every stage and constant of the default k-means decoder is worth: each is taken away or changed in turn.

    python benchmarks/ablation.py run rows.jsonl [--seeds 0:2] [--suites grid,hard,real,noise] [--only NAME,...]
    python benchmarks/ablation.py show rows.jsonl             # the table, in Markdown

Suites: `grid` is round clusters at 2, 3 and 5 frequencies per number; `hard` the certificate's nested, rare and short
problems; `real` the tables that come with scikit-learn; `noise` clusters in a sketch with a tenth of its power added
as noise.  A row has the cost over that of k-means on the rows (RSE), whether the answer was called reliable, and the
CPU seconds of decoding.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import certificate
import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.decoders.kmeans import default
from sketchlearn.decoders.steps import greedy, overcomplete

STAGES = [stage.name for stage in default.POLICY[1:]]
CONSTANTS = {
    "one search": (default, {"RESTARTS": 1, "MORE_RESTARTS": 1, "NOISY_RESTARTS": 1}),
    "search on all frequencies": (default, {"ENOUGH": 1e9}),
    "never scarce": (default, {"SCARCE": 0.0}),
    "no share of whole clusters": (default, {"WHOLE": 0.0, "FEW_WHOLE": 0.0}),
    "one scale": (default, {"MANY_SCALES": np.inf}),
    "one pooled fit": (default, {"DECODES": 1}),
    "two components a cluster": (overcomplete, {"EXTRA": 0}),
    "no shrinkage": (overcomplete, {"SHRINKAGE": 0.0}),
    "no all-factor steps": (overcomplete, {"ALL_STEPS": 100}),
    "particles nowhere special": (greedy, {"_NEAR": 0.0}),
    "no patience": (greedy, {"_PATIENCE": 1}),
}


def sketched(X, k, size, seed):
    return sl.sketch(X, sl.design(X[:2000], n_components=k, size=size, seed=seed), progress=False)


def grid(seed):
    for k, d in ((5, 2), (10, 10), (20, 10)):
        for factor in (2, 3, 5):
            rng = np.random.default_rng([seed, k, d, factor])
            centers = rng.normal(size=(k, d)) * (3.0 if factor < 5 else 2.0) * k ** (1 / d)
            X = centers[rng.integers(k, size=10_000)] + rng.normal(size=(10_000, d))
            yield f"{k} x {d}, {factor}kd", X, k, sketched(X, k, factor * k * d, seed)


def hard(seed):
    for name in ("nested", "nested1000", "rare", "short"):
        case = certificate.CASES[name](seed)
        size = case.size
        phi = case.features or sl.design(case.X[:2000], n_components=case.k, size=size, seed=seed)
        yield name, case.X, case.k, sl.sketch(case.X, phi, progress=False)


def real(seed):
    for name, k in (("digits", 10), ("wine", 3), ("iris", 3), ("breast_cancer", 5), ("diabetes", 5)):
        X = getattr(datasets, f"load_{name}")().data
        X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
        yield name, X, k, sketched(X, k, None, seed)


def noise(seed):
    rng = np.random.default_rng([seed, 7])
    for k, d in ((5, 5), (10, 10)):
        centers = 5.0 * rng.normal(size=(k, d))
        X = centers[rng.integers(k, size=5000)] + rng.normal(size=(5000, d))
        s = sketched(X, k, 5 * k * d, seed)
        variance = 0.1 * float(np.mean(np.abs(s.mean) ** 2))
        error = rng.normal(size=s.sums.shape) * np.sqrt(variance / 2) * s.weight * 2.0**22
        noisy = sl.Sketch(**{**s.__dict__, "sums": s.sums + np.rint(error).astype(np.int64)}).with_noise(variance)
        yield f"{k} x {d}", X, k, noisy


SUITES = {"grid": grid, "hard": hard, "real": real, "noise": noise}


def cost(X, centers):
    squares = (X**2).sum(1)[:, None] - 2 * X @ centers.T + (centers**2).sum(1)
    return float(squares.min(1).mean())


def decoded(s, k, seed, variant):
    """The solution of a variant: without a stage, or with other constants."""
    if variant in STAGES:
        policy = tuple(stage for stage in default.POLICY if stage.name != variant)
        return sl.decode(s, k, random_state=seed, policy=policy)
    module, values = CONSTANTS.get(variant, (default, {}))
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        return sl.decode(s, k, random_state=seed)
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def run(arguments):
    path = Path(arguments.rows)
    done = set()
    if path.exists():
        done = {(r["suite"], r["seed"], r["case"], r["variant"]) for r in map(json.loads, path.open())}
    first, last = map(int, arguments.seeds.split(":"))
    variants = arguments.only.split(",") if arguments.only else ["default", *STAGES, *CONSTANTS]
    for seed in range(first, last):
        for suite in arguments.suites.split(","):
            for case, X, k, s in SUITES[suite](seed):
                reference = None
                for variant in variants:
                    if (suite, seed, case, variant) in done:
                        continue
                    if reference is None:
                        reference = KMeans(k, n_init=5, random_state=0).fit(X).inertia_ / len(X)
                    begin = time.process_time()
                    found = decoded(s, k, seed, variant)
                    row = {
                        "suite": suite, "seed": seed, "case": case, "variant": variant, "version": sl.__version__,
                        "rse": cost(X, found.centers) / reference, "reliable": found.reliable,
                        "seconds": time.process_time() - begin, "stages": [step["stage"] for step in found.trace],
                    }  # fmt: skip
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")


def show(arguments):
    rows = [json.loads(line) for line in Path(arguments.rows).read_text().splitlines()]
    suites = [suite for suite in SUITES if any(r["suite"] == suite for r in rows)]
    print("| without, or with | " + " | ".join(f"{s}: right, reliable, RSE, s" for s in suites) + " |")
    print("|---|" + "---|" * len(suites))
    for variant in ["default", *STAGES, *CONSTANTS]:
        cells = []
        for suite in suites:
            part = [r for r in rows if (r["suite"], r["variant"]) == (suite, variant)]
            if not part:
                cells.append("")
                continue
            right = sum(r["rse"] < 1.05 for r in part)
            seconds = np.mean([r["seconds"] for r in part])
            sure, middle = sum(r["reliable"] for r in part), np.median([r["rse"] for r in part])
            cells.append(f"{right} of {len(part)}, {sure}, {middle:.4f}, {seconds:.2g}")
        print(f"| {variant} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for function in (run, show):
        command = commands.add_parser(function.__name__)
        command.add_argument("rows", help="file of results, one JSON object a line")
        command.set_defaults(function=function)
        if function is run:
            command.add_argument("--seeds", default="0:2")
            command.add_argument("--suites", default=",".join(SUITES))
            command.add_argument("--only", default="")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
