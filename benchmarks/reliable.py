"""How often an answer that is called reliable is wrong, for every estimator, on data made to break it.

    python benchmarks/reliable.py run rows.jsonl [--seeds 0:13] [--only gmm-full,lda] [--kinds noise]   # resumable
    python benchmarks/reliable.py show rows.jsonl [--wrong]                                           # the table

A case is an estimator, a kind of rows (`reliable_rows.KINDS`, sixteen of them) and a seed.  Wrong is judged by the task
itself, beside something that saw the rows:

- kmeans, kmedians: the cost of the rows is more than 1.05 times that of Lloyd's algorithm on the rows;
- gmm-*: new rows are less likely, by 0.1 nats and three standard errors, than under EM on the rows;
- stable: new rows and draws of the model differ by more than 0.05, and chance, in the distribution of a direction;
- pca: less than 0.95 of the variance that as many components can hold, or a component claims 4/3 of what it holds;
- regression: off the least squares of the rows by half a standard error, or off the truth by six;
- mixture-regression: R2 of new rows 0.05 below that of least squares, or 90 % intervals hold less than 80 %;
- classifiers: new labels are less probable than by the classes' shares (0.01 nats), or the error is 0.05 above a claim;
- cca: correlations other than those of the rows, or pairs that are not correlated in new rows;
- ica: more of other sources in a component than 0.15 and three times what is claimed;
- nmf, dictionary: a component or atom off the true one by a tenth of its length (0.15) and three times what is claimed;
- subspaces: new rows are farther from the subspaces, by a tenth, than from the best of k-subspaces on the rows;
- anomaly: three times as many alarms among new rows as asked for, or shifts of 100 spreads that are not noticed;
- verifier: the cost of the likelihood ratios (Cllr) of new segments is above that of no answer.
"""

import argparse
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from reliable_rows import KINDS, NEW, columns, factored, flat, labelled, mixed, paired, sparse
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import sketchlearn as sl

SHIFT, CONTAMINATION = 100.0, 0.05


class Judged(dict):
    """A model, what was measured of it, and by how much that is beyond its limit (wrong above 1)."""

    def __init__(self, found, **beyond):
        worst = max(beyond, key=lambda name: np.nan_to_num(beyond[name], nan=np.inf))
        value = float(np.nan_to_num(beyond[worst], nan=1e300, posinf=1e300))
        super().__init__(reliable=bool(found.reliable_), code=str(found.solution_.code), worst=worst, beyond=value)


def lowest(X, k, seed, medians):
    """Cost of Lloyd's algorithm on the rows, of squared distances or distances."""
    k = min(k, len(np.unique(X, axis=0)))
    centers = KMeans(k, n_init=5, random_state=seed).fit(X).cluster_centers_
    return settled(X, centers) if medians else cost(X, centers, 2)


def cost(X, centers, power):
    squares = ((X[:, None] - centers) ** 2).sum(2).min(1)
    return float((squares if power == 2 else np.sqrt(squares)).sum())


def settled(X, centers, rounds=30):
    """Cost of k-medians, from some centres on (Weiszfeld's steps)."""
    centers, best = centers.copy(), np.inf
    for _ in range(rounds):
        owner = ((X[:, None] - centers) ** 2).sum(2).argmin(1)
        for l in np.unique(owner):
            mine = X[owner == l]
            for _ in range(5):
                near = 1.0 / np.maximum(np.sqrt(((mine - centers[l]) ** 2).sum(1)), 1e-12 + 1e-9 * np.abs(mine).max())
                centers[l] = near @ mine / near.sum()
        best = min(best, cost(X, centers, 1))
    return best


def kmeans(kind, seed, medians=False):
    X, _, k = columns(kind, seed)
    estimator = sl.CompressiveKMedians if medians else sl.CompressiveKMeans
    found = estimator(min(k, len(X)), random_state=seed).fit(X)
    power = 1 if medians else 2
    ours, best = cost(X, found.cluster_centers_, power), lowest(X, k, seed, medians)
    slack = 1e-9 * cost(X, X.mean(0)[None], power) + 1e-300
    return Judged(found, cost=(ours - best) / (0.05 * best + slack))


def gmm(kind, seed, shape):
    X, new, k = columns(kind, seed)
    k = min(k, len(X))
    found = sl.CompressiveGaussianMixture(k, covariance_type=shape, random_state=seed).fit(X)
    low, high = np.quantile(X, [0.16, 0.84], axis=0)
    unit = np.maximum(0.5 * (high - low), 1e-12 * np.abs(X).max(0) + 1e-300)
    unit = np.where(unit > 1e-9 * X.std(0), unit, X.std(0) + 1e-12 * np.abs(X).max(0) + 1e-300)
    if shape == "spherical":
        unit = np.full(len(unit), unit.max())
    middle = np.median(X, axis=0)
    rival = GaussianMixture(k, covariance_type=shape, n_init=2, random_state=seed).fit((X - middle) / unit)
    apart = rival.score_samples((new - middle) / unit) - np.log(unit).sum() - found.score_samples(new)
    lost, error = float(apart.mean()), float(apart.std() / np.sqrt(len(apart)))
    return Judged(found, nats=(lost - 3.0 * error) / 0.1)


def stable(kind, seed):
    from scipy.stats import ks_2samp

    X, new, k = columns(kind, seed)
    found = sl.CompressiveStableMixture(min(k, len(X), 3), random_state=seed).fit(X)
    drawn = found.solution_.sample(NEW, seed)[0]
    unit = np.maximum(np.subtract(*np.quantile(new, [0.75, 0.25], axis=0)), 1e-12 * np.abs(new).max(0) + 1e-300)
    directions = np.column_stack([np.eye(X.shape[1]), np.random.default_rng(seed).normal(size=(X.shape[1], 5))])
    a, b = (x / unit @ directions for x in (new, drawn))
    worst = max(ks_2samp(s, t, method="asymp").statistic for s, t in zip(a.T, b.T, strict=True))
    return Judged(found, distribution=worst / (0.05 + 2.0 * np.sqrt(1.0 / len(X) + 2.0 / NEW)))


def pca(kind, seed):
    X = columns(kind, seed).X
    k = int(np.clip(X.shape[1] // 2, 1, 3))
    size = None if seed % 2 else 2 * k * X.shape[1] + 20
    found = sl.CompressivePCA(k, sketch_size=size, random_state=seed).fit(X)
    S = np.cov(X.T).reshape(X.shape[1], -1)
    most = float(np.linalg.eigvalsh(S)[::-1][:k].sum())
    V = found.components_
    held = np.einsum("ij,jk,ik->i", V, S, V)
    claimed = found.explained_variance_
    lost = (most - float(held.sum())) / (0.05 * most + 1e-300)
    return Judged(found, lost=lost, claimed=float((claimed / np.maximum(held, 1e-9 * most + 1e-300)).max()) / (4 / 3))


def regression(kind, seed):
    X, Y, new, truth, _ = paired(kind, seed)
    y, t = Y[:, 0], truth[:, 0]
    found = sl.CompressiveLinearRegression(random_state=seed).fit(X, y)
    middle, unit = X.mean(0), np.where(X.std(0) > 0, X.std(0), 1.0)
    Z = (X - middle) / unit
    right = np.linalg.lstsq(Z, y - y.mean(), rcond=1e-14)[0] / unit
    se = found.coef_std_ if hasattr(found, "coef_std_") else found.solution_.standard_errors
    error = np.abs(found.coef_ - right) / np.maximum(0.5 * np.asarray(se).ravel(), 1e-6 * np.abs(right) + 1e-300)
    # what it says of the noise, beside new rows that are like those that were seen
    inside = ((new >= X.min(0)) & (new <= X.max(0))).all(1)
    n, p = X.shape
    claimed = float(np.ravel(found.solution_.residual_variance)[0])
    usual = n > 3 * p + 20 and inside.sum() > 500
    off = float(np.mean((t - found.predict(new))[inside] ** 2)) / (4.0 * claimed + 1e-9 * y.var()) if usual else 0.0
    return Judged(found, rows=float(error.max()), noise=off, unknown=0.0 if np.isfinite(se).all() else np.inf)


def mixture_regression(kind, seed):
    from sklearn.linear_model import LinearRegression

    X, Y, new, truth, _ = paired(kind, seed)
    y, t = Y[:, 0], truth[:, 0]
    found = sl.CompressiveMixtureRegressor("auto" if seed % 2 else int(1 + seed % 4), random_state=seed).fit(X, y)
    unit = np.where(X.std(0) > 0, X.std(0), 1.0)
    line = LinearRegression().fit(X / unit, y)
    worse = (t - found.predict(new)) ** 2 - (t - line.predict(new / unit)) ** 2
    lost = float(worse.mean()) - 3.0 * float(worse.std() / np.sqrt(len(worse)))
    low, high = found.predict_interval(new, 0.9)
    missed = float(np.mean((t < low) | (t > high)))
    return Judged(found, r2=lost / (0.05 * t.var()), intervals=missed / (0.2 + 3.0 * np.sqrt(0.09 / len(X))))


def classifier(kind, seed, method):
    X, y, new, truth = labelled(kind, seed)
    if method == "lda":
        found = sl.CompressiveLDA(random_state=seed).fit(X, y)
    else:
        found = sl.CompressiveClassifier(method, sketch_size=200 if method == "ridge" else None, random_state=seed)
        found.fit(X, y)
    c = len(found.classes_)
    p = np.full((len(new), max(truth.max() + 1, c)), 1e-6)
    p[:, found.classes_] = np.clip(found.predict_proba(new), 1e-6, 1.0)
    shares = np.bincount(y, minlength=p.shape[1]) / len(y)
    worse = -np.log(p[np.arange(len(new)), truth]) + np.log(np.maximum(shares[truth], 1e-6))
    noise = 3.0 * float(worse.std() / np.sqrt(len(worse)))
    error = float(np.mean(found.predict(new) != truth))
    claimed = found.facts_.get("expected_error", found.solution_.residual if method == "mixture" else np.nan)
    chance = 3.0 * np.sqrt(0.25 / len(new)) + 3.0 * np.sqrt(error * (1.0 - error) / len(X))
    above = 0.0 if np.isnan(claimed) else (error - float(claimed)) / (0.05 + chance)
    return Judged(found, loss=(float(worse.mean()) - noise) / 0.01, error=above)


def cca(kind, seed):
    X, Y, new, truth, _ = paired(kind, seed, targets=2)
    found = sl.CompressiveCCA("auto" if seed % 2 else 1).fit(X, Y)

    def root(A):
        size = A.std(0)
        U, s, _ = np.linalg.svd((A - A.mean(0)) / np.where(size > 0, size, 1.0), full_matrices=False)
        return U[:, s > 1e-7 * s.max()]

    r = np.asarray(found.correlations_)
    right = np.linalg.svd(root(X).T @ root(Y), compute_uv=False)[: len(r)]
    # a pair that is there is there in new rows
    inside = ((new >= X.min(0)) & (new <= X.max(0))).all(1)
    if inside.sum() < 500 or not len(r):
        return Judged(found, rows=float(np.abs(r - right).max(initial=0.0)) / 0.01)
    a = (new[inside] - X.mean(0)) @ found.x_rotations_
    b = (truth[inside] - Y.mean(0)) @ found.y_rotations_
    with np.errstate(invalid="ignore", divide="ignore"):  # a score that doesn't vary
        seen = np.array([np.corrcoef(u, v)[0, 1] for u, v in zip(a.T, b.T, strict=True)])
    absent = 3.0 / np.sqrt(inside.sum()) / np.maximum(np.nan_to_num(seen), 1e-9)
    return Judged(found, rows=float(np.abs(r - right).max()) / 0.01, absent=float(absent.max()))


def ica(kind, seed):
    from scipy.optimize import linear_sum_assignment

    X, A = mixed(kind, seed)
    found = sl.CompressiveICA(random_state=seed).fit(X)
    gain = found.components_ @ A
    gain = np.abs(gain) / np.maximum(np.linalg.norm(gain, axis=1, keepdims=True), 1e-300)
    own = gain[linear_sum_assignment(-gain)]
    leak = float(np.sqrt(np.maximum(1.0 - own**2, 0.0).mean() / max(A.shape[1] - 1, 1)))
    return Judged(found, leakage=leak / max(0.15, 3.0 * float(found.solution_.leakage)))


def components(found, W, limit):
    """Judged by the largest distance of a component from the true one, both of length 1."""
    from scipy.optimize import linear_sum_assignment

    a, b = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) for x in (found.components_, W))
    at = linear_sum_assignment(-np.abs(a @ b.T))
    a, b = a[at[0]], b[at[1]]
    off = np.linalg.norm(a - b, axis=1)
    if found.solution_.task == "dictionary":  # of which the sign is free
        off = np.minimum(off, np.linalg.norm(a + b, axis=1))
    return Judged(found, components=float(off.max()) / np.fmax(limit, 3.0 * found.errors_.max()))


def nmf(kind, seed):
    X, W, k = factored(kind, seed)
    return components(sl.CompressiveNMF(k, random_state=seed).fit(X), W, 0.1)


def dictionary(kind, seed):
    X, D, k = sparse(kind, seed)
    return components(sl.CompressiveDictionaryLearning(k, random_state=seed).fit(X), D, 0.15)


def distances(X, bases):
    return np.min([(X**2).sum(1) - ((X @ B) ** 2).sum(1) for B in bases], axis=0).clip(0.0)


def subspaces(kind, seed):
    X, new, k, dim, bases = flat(kind, seed)
    found = sl.CompressiveSubspaces(min(k, len(X)), dim=dim, random_state=seed).fit(X)
    best, rng = np.inf, np.random.default_rng(seed)
    starts = [bases] if len(bases) == k and kind not in ("scales", "one narrow column", "rank loss") else []
    for start in range(10 + len(starts)):
        now = starts[start] if start < len(starts) else [X[rng.integers(len(X), size=2 * dim)].T for _ in range(k)]
        now = [
            np.linalg.svd(np.pad(b, ((0, X.shape[1] - len(b)), (0, 0))), full_matrices=False)[0][:, :dim] for b in now
        ]
        for _ in range(15):
            owner = np.argmin([(X**2).sum(1) - ((X @ B) ** 2).sum(1) for B in now], axis=0)
            for l in range(k):
                if (owner == l).sum() > dim:
                    now[l] = np.linalg.svd(X[owner == l].T, full_matrices=False)[0][:, :dim]
        best = min(best, float(distances(new, now).mean()))
    ours = distances(new, [np.asarray(b) if b.shape[0] == X.shape[1] else b.T for b in found.bases_])
    error = 3.0 * float(ours.std() / np.sqrt(len(ours)))
    return Judged(
        found, distance=(float(ours.mean()) - error - best) / (0.1 * best + 1e-3 * float((new**2).sum(1).mean()))
    )


def anomaly(kind, seed):
    X, new, _ = columns(kind, seed)
    method = "features" if seed % 2 else "columns"
    found = sl.CompressiveAnomalyDetector(
        method, contamination=CONTAMINATION, sketch_size=100 if method == "features" else None, random_state=seed
    ).fit(X)
    rate = float(np.mean(found.predict(new) < 0))
    allowed = 3.0 * (CONTAMINATION + 3.0 * np.sqrt(CONTAMINATION / min(len(X), NEW)))
    rng = np.random.default_rng(seed)
    low, high = np.quantile(new, [0.025, 0.975], axis=0)
    spread = np.maximum((high - low) / 4.0, 0.0)
    missed = 0.0
    if kind not in ("heavy tails", "mostly zero", "outliers", "far outlier"):
        for j in np.flatnonzero(spread > 0):
            far = new[rng.integers(len(new), size=200)].copy()
            far[:, j] += SHIFT * spread[j]
            missed = max(missed, float(np.mean(found.predict(far) > 0)))
    return Judged(found, alarms=rate / allowed, missed=missed / 0.1)


def verifier(kind, seed):
    rng = np.random.default_rng([500, seed])
    X, new, k = columns(kind, seed)
    low, high = np.quantile(new, [0.16, 0.84], axis=0)
    unit = 0.5 * (high - low)
    speakers = 8
    apart = float(rng.choice([0.0, 0.3, 1.0]))
    voices = rng.normal(size=(2 * speakers, X.shape[1])) * apart * unit
    who = rng.integers(speakers, size=len(X))
    found = sl.CompressiveVerifier(min(k, len(X)), random_state=seed).fit(X + voices[who], who.astype(str))
    ratios = {True: [], False: []}
    for name in range(speakers, 2 * speakers):
        found.enroll(name, new[rng.integers(NEW, size=100)] + voices[name])
    for name in range(speakers, 2 * speakers):
        for other in range(speakers, 2 * speakers):
            segment = new[rng.integers(NEW, size=100)] + voices[other]
            ratios[name == other].append(found.log_ratio(name, segment))
    costs = [
        np.logaddexp(0.0, sign * np.array(ratios[answer])) / np.log(2.0) for answer, sign in ((True, -1), (False, 1))
    ]
    total = 0.5 * sum(float(c.mean()) for c in costs)
    error = 0.5 * np.sqrt(sum(float(c.var()) / len(c) for c in costs))
    return Judged(found, cllr=(total - 3.0 * error) / 1.05)


TASKS = {
    "kmeans": kmeans,
    "kmedians": lambda kind, seed: kmeans(kind, seed, medians=True),
    **{
        f"gmm-{shape}": lambda kind, seed, shape=shape: gmm(kind, seed, shape)
        for shape in ("full", "tied", "diag", "spherical")
    },
    "stable": stable,
    "pca": pca,
    "regression": regression,
    "mixture-regression": mixture_regression,
    **{
        name: lambda kind, seed, name=name: classifier(kind, seed, name)
        for name in ("ridge", "mixture", "mean", "lda", "qda", "naive-bayes")
    },
    "cca": cca,
    "ica": ica,
    "nmf": nmf,
    "dictionary": dictionary,
    "subspaces": subspaces,
    "anomaly": anomaly,
    "verifier": verifier,
}


def judged(task, kind, seed):
    """One case as a row."""
    row = {"task": task, "kind": kind, "seed": seed}
    begin = time.process_time()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            row |= TASKS[task](kind, seed)
    except (ValueError, TypeError) as error:
        plain = not isinstance(error, np.linalg.LinAlgError)  # (which is a ValueError, too)
        row |= {"refused" if plain else "crashed": f"{type(error).__name__}: {error}"[:300]}
    except Exception as error:
        row |= {"crashed": f"{type(error).__name__}: {error}"[:300]}
    return row | {"seconds": round(time.process_time() - begin, 2)}


def show(rows, wrong):
    """The table: of every estimator the cases, what was called reliable, and how much of that was wrong."""
    print(f"{'':20}{'cases':>7}{'reliable':>10}{'wrong':>7}{'share':>8}{'refused':>9}{'crashed':>9}{'s per case':>12}")
    for task in TASKS:
        mine = [r for r in rows if r["task"] == task]
        if not mine:
            continue
        trusted = [r for r in mine if r.get("reliable")]
        bad = [r for r in trusted if r["beyond"] > 1.0]
        share = f"{len(bad) / len(trusted):.1%}" if trusted else "-"
        refused, crashed = (sum(what in r for r in mine) for what in ("refused", "crashed"))
        print(
            f"{task:20}{len(mine):7}{len(trusted):10}{len(bad):7}{share:>8}{refused:9}{crashed:9}"
            f"{np.mean([r['seconds'] for r in mine]):12.2f}"
        )
        if wrong:
            for kind, count in Counter(r["kind"] for r in bad).items():
                some = [f"{r['seed']} {r['worst']} {r['beyond']:.3g}" for r in bad if r["kind"] == kind]
                print(f"    {kind}: {count} ({'; '.join(some[:6])})")
            for text, count in Counter(r["crashed"] for r in mine if "crashed" in r).items():
                print(f"    crashed {count}: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--seeds", default="0:13")
    parser.add_argument("--only", help="tasks, with commas")
    parser.add_argument("--kinds", help="kinds, with commas")
    parser.add_argument("--wrong", action="store_true", help="list what was wrong")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.rows.read_text().splitlines()] if given.rows.exists() else []
    if given.what == "run":
        done = {(r["task"], r["kind"], r["seed"]) for r in rows}
        first, last = map(int, given.seeds.split(":"))
        tasks, kinds = (given.only or ",".join(TASKS)).split(","), (given.kinds or ",".join(KINDS)).split(",")
        with given.rows.open("a") as file:
            for seed in range(first, last):
                for task in tasks:
                    for kind in kinds:
                        if (task, kind, seed) not in done:
                            rows.append(judged(task, kind, seed))
                            print(json.dumps(rows[-1]), file=file, flush=True)
    show(rows, given.wrong)


if __name__ == "__main__":
    main()
