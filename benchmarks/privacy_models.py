"""Models of privacy side by side: local answers, federations, continual releases, private classes.

python benchmarks/privacy_models.py local        smallest error of k-means from local answers, against n
python benchmarks/privacy_models.py federation   noise of totals over that of a central release
python benchmarks/privacy_models.py classes      accuracy of private classification of digits
python benchmarks/privacy_models.py sampling     releases of a sample of the rows beside releases of all of them
python benchmarks/privacy_models.py users        cost of bounding rows of each user, in processor time
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import sketchlearn as sl
from sketchlearn.privacy import combine, privatize, privatize_table
from sketchlearn.privacy.federated import Round, aggregate


def clusters(n: int, k: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Well separated clusters with bounds of -1 to 1."""
    while True:
        centres = rng.uniform(-0.8, 0.8, size=(k, d))
        apart = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 9 * np.eye(k)
        if apart.min() > 0.4:
            break
    return centres, np.clip(centres[rng.integers(0, k, n)] + 0.06 * rng.normal(size=(n, d)), -1, 1)


def cost(rows: np.ndarray, centres: np.ndarray) -> float:
    """Mean squared distance to the nearest centre."""
    return float(np.min(((rows[:, None] - centres[None]) ** 2).sum(2), axis=1).mean())


def local() -> None:
    """RSE of k-means from randomised answers, k = 5, d = 2; medians of three seeds."""
    for epsilon in (1.0, 2.0, 4.0):
        for n in (10**4, 3 * 10**4, 10**5, 10**6):
            found = []
            for seed in range(3):
                rng = np.random.default_rng(seed)
                centres, rows = clusters(n, 5, 2, rng)
                phi = sl.FourierFeatures.draw(dim=2, size=60, scale=0.25, seed=seed, quantized=True)
                s = sl.local.collect([sl.local.Encoder(phi, epsilon).encode(rows)], phi, epsilon)
                try:
                    model = sl.CompressiveKMeans(5, random_state=seed).fit_sketch(s)
                except ValueError:  # all averages are at the level of the noise
                    continue
                some = rows[:20_000]
                found.append(cost(some, model.cluster_centers_) / cost(some, centres))
            said = (
                "no information" if not found else f"RSE {np.median(found):.3f} ({min(found):.3f} to {max(found):.3f})"
            )
            print(f"local epsilon={epsilon:g} n={n:,}: {said}", flush=True)


def federation() -> None:
    """Root mean square error of averages: central release, secure aggregation, each node on its own."""
    phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    ways = ("central", "secure aggregation", "each node releases")
    for nodes, leaving in ((3, 0), (3, 1), (10, 0), (10, 1), (10, 3), (30, 10)):
        names = [f"node {i}" for i in range(nodes)]
        honest = nodes - nodes // 3
        for n in (10**4, 10**6):
            rows = np.random.default_rng(0).normal(size=(n, 2))
            parts = {name: sl.sketch(rows[i::nodes], phi) for i, name in enumerate(names)}
            there = sl.merge(parts[name] for name in names[leaving:])
            for epsilon in (0.1, 1.0):
                errors: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(3):
                    agreed = Round.agreed(phi, epsilon, 1e-6, holders=names, honest=honest)
                    own = [privatize(parts[name], epsilon, 1e-6, public_map=True) for name in names[leaving:]]
                    made = (
                        privatize(there, epsilon, 1e-6, public_map=True),
                        aggregate(agreed, parts, leaving=names[:leaving]),
                        combine(own, "disjoint"),
                    )
                    for way, s in zip(ways, made, strict=True):
                        off = (s.sums - there.sums).astype(float) / 2.0**22 / there.count
                        errors[way].append(float(np.mean(off**2)))
                base = np.sqrt(np.mean(errors["central"]))
                said = ", ".join(f"{way} {np.sqrt(np.mean(errors[way])) / base:.3f}" for way in ways[1:])
                print(
                    f"federation, {nodes} nodes, {leaving} leave, n={n:,}, epsilon={epsilon:g}: error of an average "
                    f"{base:.2e} centrally; over that: {said}", flush=True,
                )  # fmt: skip


def sampling() -> None:
    """Root mean square error of averages over all rows: of a sample with amplification, over that of all rows."""
    phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    for n in (10**4, 10**6):
        rows = np.random.default_rng(0).normal(size=(n, 2))
        exact = sl.sketch(rows, phi)
        for epsilon, delta in ((0.1, 0.0), (1.0, 0.0), (0.1, 1e-7), (1.0, 1e-7), (4.0, 1e-7)):
            found = []
            for share in (None, 0.5, 0.1, 0.01):
                errors = []
                for _ in range(5):
                    s = exact if share is None else sl.sketch(rows, phi, sample=share)
                    made = privatize(s, epsilon, delta, sample=share, public_map=True)
                    errors.append(float(np.mean(np.abs(made.mean - exact.mean) ** 2)))
                found.append(float(np.sqrt(np.mean(errors))))
            said = ", ".join(f"{b:g}: {e / found[0]:.2f}" for b, e in zip((0.5, 0.1, 0.01), found[1:], strict=True))
            print(
                f"sampling, n={n:,}, epsilon={epsilon:g}, delta={delta:g}: error {found[0]:.2e}; of samples: "
                f"{said}", flush=True,
            )  # fmt: skip


def classes() -> None:
    """Digits: least squares on private products of the columns, against epsilon; delta = 1e-6."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    X, y = X[order] / 16.0 - 0.3, y[order]
    train, test = slice(0, 1400), slice(1400, None)
    many = rng.integers(0, 1400, 100_000)
    large = X[train][many] + 0.05 * rng.normal(size=(100_000, 64))
    for name, rows, labels in (("n=1,400", X[train], y[train]), ("n=100,000", large, y[train][many])):
        phi = sl.QuadraticFeatures.draw(dim=64, radius=3.5)
        table = sl.sketch(rows, phi, group_by=labels)
        for epsilon in (0.3, 1.0, 3.0, None):
            used = table
            if epsilon is not None:
                used = privatize_table(table, epsilon, 1e-6, groups=list(range(10)), public_map=True)
            found = []
            for decoder in ("ridge", "lda"):
                try:
                    model = sl.CompressiveClassifier(decoder, random_state=0).fit_sketch(used)
                    found.append(f"{decoder} {np.mean(model.predict(X[test]) == y[test]):.3f}")
                except (ValueError, TypeError) as error:
                    found.append(f"{decoder}: {str(error)[:50]}")
            means = np.array([noisy_mean(rows[labels == c], epsilon, rng) for c in range(10)])
            near = np.argmin(((X[test][:, None] - means[None]) ** 2).sum(2), axis=1)
            rival = np.mean(near == y[test])
            print(f"digits {name} epsilon={epsilon}: {', '.join(found)}; noisy class means {rival:.3f}", flush=True)


def noisy_mean(rows: np.ndarray, epsilon: float | None, rng: np.random.Generator) -> np.ndarray:
    """A rival: the mean of rows clipped to the same ball, Gaussian noise on the sum, the number taken as public."""
    from sketchlearn.privacy.calibration import analytic_sigma

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped = rows * np.minimum(1.0, 3.5 / lengths)
    noise = 0.0 if epsilon is None else 3.5 * analytic_sigma(epsilon, 1e-6)
    return np.asarray((clipped.sum(0) + noise * rng.normal(size=rows.shape[1])) / len(rows))


def users() -> None:
    """Ten million rows of a million users, one thread; medians of five turns."""
    rng = np.random.default_rng(0)
    n = 10**7
    rows, who = rng.normal(size=(n, 10)).astype(np.float32), rng.integers(0, n // 10, n)
    ways = {"plain": {}, "half dropped": {"user": who, "max_rows_per_user": 5}}
    ways["none dropped"] = {"user": who, "max_rows_per_user": 10**6}
    for size in (500, 1000):
        phi = sl.FourierFeatures.draw(dim=10, size=size, scale=1.0, seed=0)
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(6):  # the first compiles
            for way, options in ways.items():
                begun = time.process_time()
                sl.sketch(rows, phi, workers=1, **options)  # type: ignore[arg-type]
                if turn:
                    spent[way].append(time.process_time() - begun)
        for way in list(ways)[1:]:
            over = np.array(spent[way]) / np.array(spent["plain"])
            print(
                f"users, {size} features, {way}: {np.median(spent[way]):.2f} s, {np.median(over):.2f} of the plain "
                f"pass ({over.min():.2f} to {over.max():.2f})", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for what in sys.argv[1:] or ["local", "federation", "classes", "sampling", "users"]:
        {"local": local, "federation": federation, "classes": classes, "sampling": sampling, "users": users}[what]()
