"""The other tasks against their peers on the rows, measured in one run: medians over seeds.

python benchmarks/tasks.py                    # all parts, seeds 100 to 104
python benchmarks/tasks.py --part classify    # SVC tuned by cross-validation, LDA, naive Bayes
python benchmarks/tasks.py --part sizes       # the same on data of all sizes
python benchmarks/tasks.py --part speed       # the pass of the classifier against a plain quadratic pass
python benchmarks/tasks.py --part speed --rows 1000000 --seeds 1 2 3   # some minutes
python benchmarks/tasks.py --seeds 1 2 3
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
    make_friedman1,
    make_gaussian_quantiles,
    make_moons,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import sketchlearn as sl

PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def show(title, names, table):
    """Medians over seeds, and all values."""
    print(f"\n{title}")
    for name in names:
        values = np.array(table[name])
        print(f"  {name:<42} {np.median(values):8.4f}   {' '.join(f'{v:.4f}' for v in values)}", flush=True)


def classification_data(name, seed):
    if name == "moons":
        X, y = make_moons(3000, noise=0.15, random_state=seed)
    else:
        X, y = {"wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}[name](return_X_y=True)
    return train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)


@part
def classify(seeds):
    """Accuracy on fresh rows."""
    for name in ("wine", "cancer", "digits", "moons"):
        table = {}
        for seed in seeds:
            X, fresh, y, truth = classification_data(name, seed)
            gammas = np.array([0.1, 0.3, 1.0, 3.0]) / X.shape[1]
            svc = GridSearchCV(
                make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 10, 100], "svc__gamma": gammas}, cv=5
            )
            peers = {
                "SVC, tuned by 5-fold cross-validation": svc,
                "LDA on rows": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-3),
                "sketch: ridge (default)": sl.CompressiveClassifier(random_state=seed),
                "sketch: ridge, 300 features": sl.CompressiveClassifier(sketch_size=300, random_state=seed),
                "sketch: LDA": sl.CompressiveClassifier("lda", shrinkage=1e-3),
                "sketch: class means": sl.CompressiveClassifier("mean", random_state=seed),
            }
            for peer, model in peers.items():
                table.setdefault(peer, []).append(model.fit(X, y).score(fresh, truth))
        show(f"classification, {name}: accuracy", table, table)


def other_sizes(name, seed):
    """Classes in data of all sizes: cells of a mixture, shells, thirds of a smooth function, some columns of digits."""
    kind, columns = name.rsplit(" ", 1)
    d, rng = int(columns), np.random.default_rng(seed)
    if kind == "shells":
        X, y = make_gaussian_quantiles(n_samples=2500, n_features=d, n_classes=3, random_state=seed)
    elif kind == "clouds":
        X, y = make_classification(
            2500, d, n_informative=d // 2, n_redundant=d // 4, n_classes=3, n_clusters_per_class=3, random_state=seed
        )
    elif kind == "thirds":
        X, value = make_friedman1(2500, n_features=d, noise=0.5, random_state=seed)
        y = np.digitize(value, np.quantile(value, [1 / 3, 2 / 3]))
    else:
        X, y = load_digits(return_X_y=True)
        X = X[:, rng.choice(np.flatnonzero(X.std(0) > 0.5), d, replace=False)]
    return train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)


@part
def sizes(seeds):
    """Accuracy on fresh rows, in data that the law of the frequencies was not made for."""
    for name in [
        "digits 12", "digits 24", "digits 40", "clouds 8", "clouds 20", "clouds 50", "thirds 5", "thirds 12",
        "thirds 25", "shells 3", "shells 8", "shells 20",
    ]:  # fmt: skip
        table = {}
        for seed in seeds:
            X, fresh, y, truth = other_sizes(name, seed)
            gammas = np.array([0.03, 0.1, 0.3, 1.0, 3.0]) / X.shape[1]
            peer = GridSearchCV(
                make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 10], "svc__gamma": gammas}, cv=3
            ).fit(X, y)
            ours = sl.CompressiveClassifier(random_state=seed).fit(X, y)
            linear = ours.solution_.rule.linear.scores(fresh).argmax(1)
            values = {
                "SVC, tuned by 3-fold cross-validation": peer.score(fresh, truth),
                "sketch: ridge (default)": ours.score(fresh, truth),
                "  the largest score alone": np.mean(ours.classes_[linear] == truth),
            }
            for what, value in values.items():
                table.setdefault(what, []).append(value)
        show(f"classification, {name} columns: accuracy", table, table)


@part
def speed(seeds, rows=20_000):
    """Rows per second of the pass, against products of as many plain columns, in turn; one thread, a repetition a seed.

    Wide rows are the same 20 000 again and again: a million would take 5 GB.
    """
    width, block = 600, 20_000
    X = np.random.default_rng(0).normal(size=(rows, 20))
    wide = np.random.default_rng(1).normal(size=(min(rows, block), width))
    y = np.arange(rows) % 2
    embedded = sl.design(X[:2000], task="classifier", size=width)
    plain = sl.QuadraticFeatures.draw(dim=width)
    sl.sketch(wide[:100], plain), sl.sketch(X[:100], embedded, group_by=y[:100])  # compiles
    table = {}
    for _ in seeds:
        for name, function in {
            "plain quadratic pass": lambda: sl.sketch([wide] * (rows // len(wide)), plain, workers=1),
            "embedded pass": lambda: sl.sketch(X, embedded, workers=1),
            "embedded pass by two classes": lambda: sl.sketch(X, embedded, group_by=y, workers=1),
        }.items():
            begin = time.perf_counter()
            count = function()
            took = time.perf_counter() - begin
            table.setdefault(name, []).append(rows / took)
            assert sum(s.count for s in count.values()) == rows if "classes" in name else count.count == rows
    show(f"rows per second, {rows} rows, 20 columns, {width} features", table, table)
    best = {name: max(values) for name, values in table.items()}
    for name in list(best)[1:]:
        print(
            f"  {name}: {best[name] / best['plain quadratic pass']:.3f} of the speed of a plain one (the best of each)"
        )


def regression_data(name, seed):
    """Rows and targets: 14 000 to learn from, 6000 fresh ones; of diabetes 70 % of 442 rows."""
    rng = np.random.default_rng(seed)
    if name == "diabetes":
        return train_test_split(*load_diabetes(return_X_y=True), test_size=0.3, random_state=seed)
    n = 20_000
    if name == "sine":
        X = rng.uniform(-3, 3, (n, 1))
        y = np.sin(2 * X[:, 0]) + np.where(X[:, 0] > 0, 0.3, 0.1) * rng.normal(size=n)
    else:
        X, y = make_friedman1(n, n_features=5, noise=1.0, random_state=seed)
    return train_test_split(X, y, test_size=0.3, random_state=seed)


@part
def regress(seeds):
    """R^2 on fresh rows, and how many of them the intervals for 90 % hold."""
    for name in ("sine", "friedman", "diabetes"):
        table = {}
        for seed in seeds:
            X, fresh, y, truth = regression_data(name, seed)
            ours = sl.CompressiveMixtureRegressor(random_state=seed).fit(X, y)
            low, high = ours.predict_interval(fresh, 0.9)
            values = {
                "linear regression (rows)": LinearRegression().fit(X, y).score(fresh, truth),
                "gradient boosting (rows)": HistGradientBoostingRegressor().fit(X, y).score(fresh, truth),
                "sketch: mixture regression": ours.score(fresh, truth),
                "  its components": ours.n_components_,
                "  coverage of 90 % intervals": np.mean((low <= truth) & (truth <= high)),
            }
            for what, value in values.items():
                table.setdefault(what, []).append(value)
        show(f"regression, {name}: R^2", table, table)


def curved(n, rng):
    """A curved and a round part in three columns."""
    t = rng.uniform(0, np.pi, n)
    arc = np.column_stack([2 * np.cos(t), 2 * np.sin(t), 0.3 * t]) + 0.1 * rng.normal(size=(n, 3))
    ball = 0.5 * rng.normal(size=(n, 3)) + np.array([0.0, -2.0, 0.0])
    return np.where((rng.random(n) < 0.4)[:, None], arc, ball)


@part
def points(seeds):
    """Squared distance of points from the rows at frequencies that were not used (MMD), in units of 1e-4."""
    for n in (20, 100, 300):
        table = {}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            X = curved(50_000, rng)
            s = sl.sketch(X, sl.design(X[:2000], n_components=10, task="gmm", size=500, seed=seed))
            other = sl.FourierFeatures.draw(dim=3, size=2000, scale=1.0, radial="gaussian", seed=seed + 1000)
            z = sl.sketch(X, other).mean

            def distance(rows, other=other, z=z):
                return 1e4 * np.mean(np.abs(other(rows).mean(0) - z) ** 2)

            values = {
                "random rows": np.mean([distance(X[rng.choice(len(X), n)]) for _ in range(10)]),
                "sketch: draws from a mixture": distance(sl.synthesize(s, n, method="mixture", random_state=seed)),
                "sketch: points": distance(sl.synthesize(s, n, random_state=seed)),
            }
            values["  worth so many random rows"] = n * values["random rows"] / values["sketch: points"]
            for what, value in values.items():
                table.setdefault(what, []).append(value)
        show(f"{n} points: squared MMD * 1e4", table, table)


@part
def one_sample(seeds):
    """How often the test rejects rows of the mixture at 5 % (500 repetitions), and of one with wider components."""
    table = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        law = sl.Mixture(np.array([0.3, 0.7]), rng.normal(size=(2, 3)), np.array([0.3, 1.0]))
        wide = sl.Mixture(law.weights, law.means, 1.15 * law.covariances)
        phi = sl.FourierFeatures.draw(dim=3, size=100, scale=1.0, seed=seed)
        for what, truth in {"rejected, true law": law, "rejected, variances 15 % wider": wide}.items():
            found = [
                sl.goodness_of_fit(sl.sketch(truth.sample(1000, rng)[0], phi, workers=1), law).p_value
                for _ in range(500)
            ]
            table.setdefault(what, []).append(np.mean(np.array(found) < 0.05))
    show("goodness of fit, 1000 rows", table, table)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), action="append")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    parser.add_argument("--rows", type=int, default=20_000, help="of the part speed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.part or PARTS:
        PARTS[name](options.seeds, **({"rows": options.rows} if name == "speed" else {}))


if __name__ == "__main__":
    main()
