"""False alarms, power and time of the comparison of sketches, over distributions, maps and numbers of rows.

python benchmarks/compare.py [--pairs 1000] [--decodes 10] [--seed 1] [--only uniform] [--cases 3,5] [--shift]

One line per case: the share of pairs from one distribution with p < 0.05, 0.01 and 0.001 (in percent, with the binomial
95 % interval for 0.01), the share of pairs found different at 0.01 if one column of the second is shifted by 0.1 (0.5
in small samples) standard deviations, and the time of one comparison.

Decoding a mixture is nearly all of that time.  With --decodes 10 it is done for every tenth part of the pairs, and the
shape of the null distribution found there is used for the pairs that follow, with their own variances; with as many
decodes as pairs every pair is compared on its own.
"""

import argparse
import time

import numpy as np
from scipy.stats import binomtest

import sketchlearn as sl
from sketchlearn.comparison.two_sample import noise_of_rows
from sketchlearn.decoders.description import describe


def laws(d):
    """Distributions of rows with d columns, by name."""
    fixed = np.random.default_rng(7)
    centres, many = 4 * fixed.normal(size=(5, d)), 3 * fixed.normal(size=(40, d))
    mix = fixed.normal(size=(d, d)) / np.sqrt(d) + 0.3 * np.eye(d)
    return {
        "normal": lambda g, n: g.normal(size=(n, d)),
        "5 clusters": lambda g, n: centres[g.integers(5, size=n)] + g.normal(size=(n, d)),
        "5 tight": lambda g, n: centres[g.integers(5, size=n)] + 0.05 * g.normal(size=(n, d)),
        "40 clusters": lambda g, n: many[g.integers(40, size=n)] + 0.5 * g.normal(size=(n, d)),
        "uniform": lambda g, n: g.uniform(size=(n, d)),
        "exponential": lambda g, n: g.exponential(size=(n, d)),
        "lognormal": lambda g, n: g.lognormal(size=(n, d)),
        "t3": lambda g, n: g.standard_t(3, size=(n, d)),
        "cauchy": lambda g, n: g.standard_cauchy(size=(n, d)),
        "poisson": lambda g, n: g.poisson(2.0, size=(n, d)).astype(float),
        "binary": lambda g, n: (g.random((n, d)) < 0.3).astype(float),
        "dice": lambda g, n: g.integers(1, 7, size=(n, d)).astype(float),
        "correlated": lambda g, n: g.normal(size=(n, d)) @ mix.T,
        "correlated t4": lambda g, n: g.normal(size=(n, d)) @ mix.T / np.sqrt(g.chisquare(4, size=(n, 1)) / 4),
        "unequal scales": lambda g, n: g.exponential(size=(n, d)) * np.geomspace(1, 1000, d) + 50,
        "constant column": lambda g, n: np.column_stack([g.normal(size=(n, d - 1)), np.full(n, 3.0)]),
    }


def feature_map(kind, draw, d, size, seed):
    """A designed map (kmeans, gmm) or one with `kind` standard deviations as its scale."""
    pilot = draw(np.random.default_rng([seed, 99]), 2000)
    if kind in ("kmeans", "gmm"):
        return sl.design(pilot, n_components=5, task=kind, size=size, seed=seed)
    middle = np.quantile(pilot, [0.16, 0.84], axis=0)  # spread without the outliers
    spread = max(float(np.sqrt(np.mean((middle[1] - middle[0]) ** 2))) / 2, 1e-3)
    return sl.FourierFeatures.draw(dim=d, size=size, scale=float(kind) * spread, seed=seed)


CASES = [
    # law, columns, rows, rows of the other, map, features
    ("normal", 1, 2000, 2000, "1", 200),
    ("normal", 10, 2000, 2000, "3", 200),
    ("normal", 10, 1000, 1000, "kmeans", 1000),
    ("normal", 50, 1000, 1000, "kmeans", 500),
    ("normal", 10, 2000, 2000, "0.1", 200),
    ("normal", 10, 2000, 2000, "100", 200),
    ("5 clusters", 2, 2000, 500, "kmeans", 200),
    ("5 clusters", 10, 2000, 2000, "gmm", 300),
    ("5 tight", 2, 1000, 1000, "1", 100),
    ("5 tight", 10, 2000, 2000, "0.1", 200),
    ("40 clusters", 10, 2000, 2000, "kmeans", 300),
    ("uniform", 1, 1000, 1000, "kmeans", 100),
    ("uniform", 2, 2000, 2000, "3", 200),
    ("uniform", 5, 300, 300, "1", 100),
    ("uniform", 10, 2000, 2000, "3", 200),
    ("uniform", 10, 2000, 2000, "kmeans", 200),
    ("uniform", 50, 1000, 3000, "gmm", 500),
    ("exponential", 3, 1000, 1000, "1", 50),
    ("exponential", 10, 300, 1000, "kmeans", 200),
    ("exponential", 10, 20000, 20000, "3", 200),
    ("lognormal", 1, 1000, 1000, "0.1", 200),
    ("lognormal", 10, 2000, 2000, "3", 200),
    ("lognormal", 10, 2000, 2000, "kmeans", 200),
    ("t3", 1, 2000, 2000, "3", 100),
    ("t3", 10, 2000, 2000, "kmeans", 200),
    ("t3", 10, 300, 300, "1", 50),
    ("cauchy", 2, 1000, 1000, "1", 100),
    ("cauchy", 10, 1000, 1000, "10", 200),
    ("poisson", 1, 2000, 2000, "kmeans", 200),
    ("poisson", 2, 2000, 2000, "0.1", 200),
    ("poisson", 10, 1000, 1000, "gmm", 300),
    ("binary", 1, 1000, 1000, "1", 100),
    ("binary", 10, 2000, 2000, "kmeans", 200),
    ("binary", 20, 1000, 1000, "1", 300),
    ("dice", 10, 2000, 2000, "1", 200),
    ("correlated", 10, 1000, 5000, "kmeans", 200),
    ("correlated t4", 10, 2000, 2000, "3", 200),
    ("unequal scales", 5, 1000, 1000, "gmm", 300),
    ("unequal scales", 5, 1000, 1000, "1", 100),
    ("constant column", 3, 1000, 1000, "kmeans", 100),
]


def shifted(rows, scale):
    """The rows with the first column that varies moved by 0.1 standard deviations (or `scale`)."""
    out = rows.copy()
    quartiles = np.quantile(rows[:, 0], [0.16, 0.84])
    out[:, 0] += scale * (quartiles[1] - quartiles[0]) / 2
    return out


def null_shape(both):
    """The law of the statistic as :func:`sketchlearn.compare` finds it, with mean 1."""
    law = noise_of_rows(describe(both), both.features.operator(dtype=np.float64), both).law
    return law.scaled(1.0 / law.mean)


def p_given(a, b, shape):
    """The p-value of a pair, its null distribution having this shape."""
    total = a.count + b.count
    variance = np.sum(1 - np.abs((a + b).mean) ** 2) * total / (total - 1)
    statistic = a.count * b.count / total * np.sum(np.abs(a.mean - b.mean) ** 2)
    return shape.tail(statistic / variance)


def measure(name, d, rows, others, kind, size, seed, pairs, decodes, powers):
    """One line of the table."""
    draw = laws(d)[name]
    phi = feature_map(kind, draw, d, size, seed)
    rng = np.random.default_rng([seed, 1])

    def sketched(draws):
        return [sl.sketch(x, phi, workers=1) for x in draws]

    p, spent = [], []
    for i in range(pairs):
        a, b = sketched((draw(rng, rows), draw(rng, others)))
        if i % (pairs // decodes) == 0:
            start = time.perf_counter()
            p.append(sl.compare(a, b).p_value)
            spent.append(time.perf_counter() - start)
            shape = null_shape(a + b) if decodes < pairs else None
        else:
            p.append(p_given(a, b, shape))
    p = np.array(p)
    step = 0.1 if min(rows, others) >= 10_000 else 0.5
    found = [
        sl.compare(*sketched((draw(rng, rows), shifted(draw(rng, others), step)))).p_value < 0.01 for _ in range(powers)
    ]
    interval = binomtest(int((p < 0.01).sum()), pairs).proportion_ci()
    rates = [100 * np.mean(p < alpha) for alpha in (0.05, 0.01, 0.001)]
    print(
        f"{name:<16} {d:>3} {rows:>7} {others:>7} {kind:>7} {size:>5}  "
        f"{rates[0]:5.1f} {rates[1]:5.2f} {rates[2]:5.2f}  "
        f"[{100 * interval.low:.2f}, {100 * interval.high:.2f}]  {np.mean(found) if found else np.nan:5.2f}  "
        f"{np.median(spent):6.2f} s",
        flush=True,
    )


def small_shift(seed, pairs):
    """The share of shifts by 0.1 standard deviations in one of ten columns that are found with 100 000 rows each."""
    for kind, size in (("3", 200), ("1", 200), ("kmeans", 500), ("gmm", 500)):
        draw = laws(10)["normal"]
        phi = feature_map(kind, draw, 10, size, seed)
        rng = np.random.default_rng([seed, 2])
        p = []
        for _ in range(pairs):
            a, b = draw(rng, 100_000), draw(rng, 100_000)
            b[:, 0] += 0.1
            p.append(sl.compare(sl.sketch(a, phi), sl.sketch(b, phi)).p_value)
        print(f"shift of 0.1 in one of ten columns, 100 000 rows, map {kind}, {size} features: ", end="")
        print(f"{np.mean(np.array(p) < 0.01):.2f} of {pairs} found, largest p {max(p):.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--decodes", type=int, default=10, help="mixtures decoded per case")
    parser.add_argument("--power", type=int, default=4, help="pairs with a shift")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="laws by name, separated by commas")
    parser.add_argument("--cases", default="", help="numbers of cases, separated by commas")
    parser.add_argument(
        "--shift", action="store_true", help="only the power: 0.1 sigma in one of ten columns, 10^5 rows"
    )
    arguments = parser.parse_args()
    if arguments.shift:
        small_shift(arguments.seed, 20)
        return
    cases = CASES
    if arguments.cases:
        cases = [CASES[int(i)] for i in arguments.cases.split(",")]
    if arguments.only:
        cases = [c for c in cases if c[0] in arguments.only.split(",")]
    print(
        f"{'law':<16} {'d':>3} {'n_a':>7} {'n_b':>7} {'map':>7} {'m':>5}  {'<.05':>5} {'<.01':>5} {'<.001':>5}", end=""
    )
    print("  95 % interval  power  time")
    for case in cases:
        measure(*case, arguments.seed, arguments.pairs, min(arguments.decodes, arguments.pairs), arguments.power)
    if not arguments.only and not arguments.cases:
        small_shift(arguments.seed, 20)


if __name__ == "__main__":
    main()
