"""A second sketch of a mixture, whose frequencies are designed from a first model, beside one from the pilot.

python benchmarks/adapted.py                  # three kinds whose components have different shapes, one control
python benchmarks/adapted.py --kinds tilted --seeds 0 1

Every row of the table is a size in frequencies per parameter.  Shown are the excess nats of a row, fresh rows under the
true mixture less under the model (medians of the seeds), and how many models are within 0.05 nats.  Three designs:
"pilot" is the usual one; "second" is from a first model, decoded from a sketch of two frequencies per parameter of the
usual design; "em" is from scikit-learn's GaussianMixture (three starts) on the 2000 rows of the pilot.
"""

import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from pathlib import Path

import numpy as np
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from sketchlearn.designs.gmm import parameter_count

GOOD = 0.05  # nats: what the verdicts call good
FIRST = 2  # frequencies per parameter of the first sketch
WAYS = ("pilot", "second", "em")


def turned(widths, k, rng):
    """Covariances with these widths along axes in random directions."""
    turns = np.linalg.qr(rng.normal(size=(k, len(widths), len(widths))))[0]
    return np.einsum("kab,b,kcb->kac", turns, widths**2, turns)


def tilted(rng):
    """Full covariances, axes from 0.05 to 2 in random directions; 5 columns."""
    k, d = 5, 5
    matrices = turned(np.geomspace(0.05, 2, d), k, rng)
    return sl.Mixture(np.full(k, 0.2), 2.5 * rng.normal(size=(k, d)), matrices), "full"


def flat(rng):
    """Rows near planes: two wide directions, 0.05 in the others; 6 columns, shares from 3 to 1."""
    k, d = 4, 6
    matrices = turned(np.array([1.0, 1.0, 0.05, 0.05, 0.05, 0.05]), k, rng)
    shares = np.linspace(3, 1, k)
    return sl.Mixture(shares / shares.sum(), rng.normal(size=(k, d)), matrices), "full"


def axes(rng):
    """Diagonal covariances, each component with its own widths of the columns, from 0.03 to 3; 8 columns."""
    k, d = 6, 8
    widths = np.exp(rng.uniform(np.log(0.03), np.log(3), (k, d)))
    return sl.Mixture(np.full(k, 1 / k), 2.0 * rng.normal(size=(k, d)), widths**2), "diag"


def alike(rng):
    """Round components of about one width, shares from 10 to 1: nothing to adapt to; 5 columns."""
    k, d = 5, 5
    shares = np.geomspace(10, 1, k)
    return sl.Mixture(shares / shares.sum(), 2.0 * rng.normal(size=(k, d)), rng.uniform(0.5, 1.5, k)), "full"


KINDS = {function.__name__: function for function in (tilted, flat, axes, alike)}


def measure(kind, seed, sizes, ways, n):
    rng = np.random.default_rng([17, seed])
    truth, shape = KINDS[kind](rng)
    k, d = truth.n_components, truth.dim
    X, fresh = (rng.permutation(truth.sample(count, rng)[0]) for count in (n, 20_000))
    of_truth = truth.log_density(fresh).mean()
    parameters = parameter_count(k, d, shape)
    asked = {"task": "gmm", "n_components": k, "covariance_type": shape, "seed": seed}

    def decoded(phi):
        return sl.decode(sl.sketch(X, phi), k, task="gmm", covariance_type=shape, random_state=seed)

    before = {"pilot": None}
    if "second" in ways:
        before["second"] = decoded(sl.design(X[:2000], size=FIRST * parameters, **asked))
    if "em" in ways:
        before["em"] = GaussianMixture(k, covariance_type=shape, n_init=3, random_state=seed).fit(X[:2000])
    for size in sizes:
        asked["size"] = int(size * parameters)
        for way in ways:
            phi = sl.design(X[:2000], **asked) if way == "pilot" else sl.design(previous=before[way], **asked)
            excess = float(of_truth - decoded(phi).mixture.log_density(fresh).mean())
            yield {"kind": kind, "seed": seed, "size": size, "way": way, "excess": excess}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--sizes", nargs="*", type=float, default=[2, 3, 6, 10])
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--out", help="append every measurement to this file, one JSON object per line")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in given.kinds:
        rows = []
        for seed in given.seeds:
            for row in measure(name, seed, given.sizes, given.ways, given.rows):
                rows.append(row)
                if given.out:
                    with Path(given.out).open("a") as file:
                        file.write(json.dumps(row) + "\n")
        print(f"\n{name}: {KINDS[name].__doc__}", flush=True)
        print("  per parameter" + "".join(f"{way + ': nats, good':>22}" for way in given.ways))
        for size in given.sizes:
            text = ""
            for way in given.ways:
                found = np.array([row["excess"] for row in rows if (row["size"], row["way"]) == (size, way)])
                text += f"{np.median(found):16.4f} {(found <= GOOD).sum():3d}/{len(found)}"
            print(f"  {size:13g}{text}", flush=True)
