"""False alarm rates of the tests on sketches, over laws and maps, and power beside a permutation test on the rows.

    python benchmarks/sizes.py run rows.jsonl [--seeds 0:400] [--only Cauchy] [--tests fit,power] [--rows 500]
    python benchmarks/sizes.py show rows.jsonl  # the table

A line a law: the share of samples of one law with p < 0.05 and p < 0.01, in percent, for `compare`, `drift` (three
sketches against the first, every p-value counted), `goodness_of_fit` (against the law itself, where that is a mixture)
and `independence`.  For verification it is the share of impostors whose likelihood ratio is 20 and 100 or more, which
should be at most 5 and 1 %: where the background is reliable, and withheld where it is not.  What was withheld is in a
column of its own.  With 400 seeds a true 5 % shows as 2.9 to 7.1 in 95 % of all runs, a true 1 % as up to 2.
The last columns are the power of `compare` at 5 % against a shift of one column, and of a permutation test of the same
statistic on the rows.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import sketchlearn as sl
from sketchlearn.comparison import changes

NORMAL = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
LAWS = {
    "normal": lambda g, n: g.normal(size=(n, 2)),
    "Student, 3 degrees": lambda g, n: g.standard_t(3, size=(n, 2)),
    "Cauchy": lambda g, n: g.standard_cauchy((n, 2)),
    "Pareto 1.5": lambda g, n: g.pareto(1.5, (n, 2)),
    "95 % zeros": lambda g, n: g.normal(size=(n, 2)) * (g.random((n, 2)) < 0.05),
    "lattice": lambda g, n: g.poisson(1.0, (n, 2)).astype(float),
    "one-hot": lambda g, n: np.eye(6)[g.integers(6, size=n)][:, :2],
    **dict.fromkeys(
        ("weights", "heavy weights", "features_per_row", "one-bit", "one-bit, wide", "private"),
        lambda g, n: g.normal(size=(n, 2)),
    ),
}
ROWS = {"30 rows": ("normal", 30), "8 rows": ("normal", 8), "Cauchy, 150 rows": ("Cauchy", 150),
        "95 % zeros, 100 rows": ("95 % zeros", 100), "one-hot, 30 rows": ("one-hot", 30),
        "one-bit, 20 000 rows": ("one-bit", 20000)}  # fmt: skip
NAMES = (*LAWS, *ROWS)
OPTIONS = {"features_per_row": {"features_per_row": 20}, "one-bit": {"quantized": True},
           "one-bit, wide": {"quantized": True}}  # fmt: skip
UNSPLIT = ("private", *OPTIONS)  # that have no map for a test of independence
IS_NORMAL = {"normal", "weights", "heavy weights", *UNSPLIT}
TESTS = ("compare", "drift", "fit", "independence", "verification")
SPEAKERS, VOICE, MOVED = 20, 0.3, 0.06  # of the background; their shifts, and that of the power, in widths of the law


def feature_map(kind, pilot, seed):
    """Frequencies for compare, drift and goodness of fit, at the scale of the pilot's middle half."""
    low, high = np.quantile(pilot, [0.25, 0.75])
    scale = max(high - low, 0.5) * (3.0 if kind == "one-bit, wide" else 1.0)
    return sl.FourierFeatures.draw(dim=2, size=100, scale=scale, seed=seed, **OPTIONS.get(kind, {}))


def weights_of(kind, count, rng):
    """Weights of some rows, or None."""
    return {"weights": rng.integers(1, 4, count) / 2, "heavy weights": rng.lognormal(0.0, 1.5, count)}.get(kind)


def sketched(kind, rows, phi, rng, weights=None):
    """One sketch of some rows, with the weights or the noise that the kind asks for."""
    weights = weights_of(kind, len(rows), rng) if weights is None else weights
    s = sl.sketch(rows, phi, sample_weight=weights, workers=1, progress=False)
    return sl.privatize(s, 5.0, delta=1e-6, public_map=True) if kind == "private" else s


def impostor(kind, law, pilot, rows, seed):
    """One over the likelihood ratio of a false claim, by speakers that differ in mean, and whether it is reliable."""
    rng = np.random.default_rng([2, seed])
    unit = VOICE * np.subtract(*np.quantile(pilot, [0.75, 0.25], axis=0)).clip(0.5)
    phi = feature_map(kind, pilot, seed % 4)

    def spoken():
        return law(rng, rows) + unit * rng.normal(size=(1, 2))

    group, verifier = _BACKGROUNDS.get((kind, rows), (None, None))
    if group != seed // 20:  # one for twenty claims
        verifier = sl.CompressiveVerifier(2, features=phi, random_state=0)
        verifier.fit_sketch(sl.SketchTable({i: sketched(kind, spoken(), phi, rng) for i in range(SPEAKERS)}))
        _BACKGROUNDS[kind, rows] = seed // 20, verifier
    phi = verifier.sketch_.features
    verifier.enroll(seed, sketched(kind, spoken(), phi, rng))
    return float(np.exp(-verifier.log_ratio(seed, sketched(kind, spoken(), phi, rng)))), verifier.reliable_


_BACKGROUNDS = {}


def permutation_p(a, b, weights, phi, rng, times=199):
    """p-value of the mean squared difference of average features, over permutations of the rows of both."""
    z = phi(np.r_[a, b])
    first = np.zeros(len(z))
    first[: len(a)] = 1.0
    w = np.ones(len(z)) if weights is None else np.concatenate(weights)
    orders = np.stack([first, *(rng.permutation(first) for _ in range(times))])
    means = [(side * w) @ z / (side @ w)[:, None] for side in (orders, 1.0 - orders)]
    found = np.sum(np.abs(means[0] - means[1]) ** 2, axis=1)
    return float(np.mean(found >= found[0] * (1.0 - 1e-12)))


def judged(name, seed, many, tests):
    """The p-values of some tests for one law and seed."""
    kind, rows = ROWS.get(name, (name, many))
    law = LAWS[kind]
    pilot = law(np.random.default_rng([1, seed]), 2000)
    rng, phi = np.random.default_rng([0, NAMES.index(name), seed]), feature_map(kind, pilot, seed)
    samples = [law(rng, rows) for _ in range(4)]
    weights = [weights_of(kind, rows, rng) for _ in range(4)]
    count = 4 if "drift" in tests else 2
    sketches = [sketched(kind, x, phi, rng, w) for x, w in zip(samples[:count], weights, strict=False)]
    found = {}
    if "compare" in tests:
        found["compare"] = [sl.compare(*sketches[:2]).p_value]
    if "drift" in tests:
        found["drift"] = [c.p_value for c in changes(sketches)]
    if "fit" in tests and kind in IS_NORMAL:
        found["fit"] = [sl.goodness_of_fit(sketches[0], NORMAL).p_value]
    if "independence" in tests and kind not in UNSPLIT:
        pair = sl.design_independence(pilot[:500], first=[0], size=20, seed=seed)
        free = np.column_stack([samples[0][:, 0], samples[1][:, 1]])
        found["independence"] = [sl.independence(sketched(kind, free, pair, rng)).p_value]
    if "verification" in tests and kind != "private":  # (a table of private sketches has no union)
        ratio, promised = impostor(kind, law, pilot, rows, seed)
        found |= {"verification": [ratio if promised else None], "unpromised": [None if promised else ratio]}
    if "power" in tests:
        moved = samples[1] + [MOVED * np.subtract(*np.quantile(pilot[:, 0], [0.98, 0.02])), 0.0]
        found["power"] = [sl.compare(sketches[0], sketched(kind, moved, phi, rng, weights[1])).p_value]
        if kind not in UNSPLIT:
            both = None if weights[0] is None else weights[:2]
            found["rows"] = [permutation_p(samples[0], moved, both, phi, rng)]
    return {"law": name, "seed": seed} | {test: found.get(test, []) for test in tests} | found


def shares(values):
    """Percent below 0.05 and 0.01 of those that were not withheld, and how many there are."""
    p = np.array([value for value in values if value is not None and value == value])
    return f"{100 * np.mean(p < 0.05):7.1f}{100 * np.mean(p < 0.01):5.1f}{len(p):6}" if len(p) else f"{'-':>7}{'':11}"


def show(rows):
    """The table."""
    print(f"{'':22}" + "".join(f"{test:>20}" for test in TESTS) + f"{'withheld':>10}{'power':>7}{'rows':>6}")
    for name in NAMES:
        mine = [row for row in rows if row["law"] == name]
        if not mine:
            continue
        p = {test: [value for row in mine for value in row.get(test, [])] for test in (*TESTS, "power", "rows")}
        every = [value for test in TESTS for value in p[test]]
        withheld = 100.0 * np.mean([value is None or value != value for value in every]) if every else 0.0
        cells = "".join(f"  {shares(p[test])}" for test in TESTS)
        found = "".join(f"{shares(p[test])[:7]}" for test in ("power", "rows"))
        print(f"{name:22}{cells}{withheld:9.0f}%{found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", default="0:400")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--only", help="laws, with semicolons")
    parser.add_argument("--tests", default=",".join((*TESTS, "power")), help="with commas; power is one of them")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    if given.what == "run":
        done = {(row["law"], row["seed"], test) for row in rows for test in row}
        first, last = map(int, given.seeds.split(":"))
        warnings.simplefilter("ignore")
        with given.file.open("a") as file:
            for seed in range(first, last):
                for name in given.only.split(";") if given.only else NAMES:
                    if tests := [test for test in given.tests.split(",") if (name, seed, test) not in done]:
                        rows.append(judged(name, seed, given.rows, tests))
                        print(json.dumps(rows[-1]), file=file, flush=True)
    show(rows)


if __name__ == "__main__":
    main()
