"""Principal components and regression from rows with missing entries, beside an EM on the rows.

``python benchmarks/missing.py table`` takes made-up and real rows, removes a share of the entries at random, and
compares second moments from the pairs that are there, a normal EM on the same rows, and complete rows alone (where some
are left) with what all entries give.  ``errors`` checks the standard errors of regression by simulation, ``bias`` what
is left where entries are not missing at random.
"""

import argparse

import numpy as np

import sketchlearn as sl


def em(X, steps=200, tolerance=1e-8):
    """Mean and covariance of normal rows with missing entries, by EM over patterns (Little and Rubin, section 11.2)."""
    there = ~np.isnan(X)
    patterns, of_row = np.unique(there, axis=0, return_inverse=True)
    mean = np.nanmean(X, axis=0)
    S = np.diag(np.nanvar(X, axis=0))
    for _ in range(steps):
        first, second = np.zeros(len(mean)), np.zeros_like(S)
        for p, o in enumerate(patterns):
            rows = X[of_row.ravel() == p]
            filled, extra = np.where(o, rows, mean), np.zeros_like(S)
            if not o.all() and o.any():
                gain = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, ~o)]).T
                filled[:, ~o] = mean[~o] + (rows[:, o] - mean[o]) @ gain.T
                extra[np.ix_(~o, ~o)] = S[np.ix_(~o, ~o)] - gain @ S[np.ix_(o, ~o)]
            elif not o.any():
                extra = S
            first += filled.sum(0)
            second += filled.T @ filled + len(rows) * extra
        before, mean = mean, first / len(X)
        S, last = second / len(X) - np.outer(mean, mean), S
        if np.abs(S - last).max() < tolerance * np.abs(S).max() and np.allclose(mean, before, rtol=1e-8):
            break
    return mean, S


def holes(X, share, rng):
    """The rows with this share of their entries removed at random."""
    made = X.copy()
    made[rng.random(X.shape) < share] = np.nan
    return made


def coefficients(S):
    """Of the last column on the others."""
    return np.linalg.solve(S[:-1, :-1], S[:-1, -1])


def left(S, b):
    """Variance of the last column that coefficients leave, under the second moment of all entries."""
    g = np.append(-b, 1.0)
    return float(g @ S @ g)


def captured(S, k, true):
    """Variance that the first directions of S hold, under the second moment of all entries."""
    V = np.linalg.eigh(S)[1][:, ::-1][:, :k]
    return float(np.trace(V.T @ true @ V))


def matrix(sketch):
    """The second moment about the mean that decoders get."""
    d = sketch.features.dim
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = sketch.features.centred_mean_from_sums(sketch.sums, float(sketch.weight))
    return S + np.triu(S, 1).T


def data(rng):
    """Rows by name: made-up ones, and tables that ship with scikit-learn, whose columns are standardised."""
    for d, k, n in ((10, 3, 2000), (10, 3, 20_000), (30, 5, 20_000)):
        A = rng.normal(size=(d, k)) * np.linspace(2.0, 1.0, k)
        yield f"{k} factors, {d} columns, {n} rows", rng.normal(size=(n, k)) @ A.T + rng.normal(size=(n, d)), k
    heavy = rng.standard_t(5, size=(20_000, 10)) @ rng.normal(size=(10, 10))
    yield "t with 5 degrees, 10 columns, 20000 rows", heavy, 3
    for name in ("breast-cancer", "wine"):
        X = sl.datasets.load_table(name, standardize=True).rows
        yield f"{name}, {X.shape[1]} columns, {len(X)} rows", X, 3
    X = sl.datasets.load_table("digits").rows
    yield "digits, columns that vary", X[:, X.std(0) > 1.0], 10


def table(seed=0, share=0.2):
    """Ratios to EM: what is left by regression, and variance captured by principal components."""
    print(f"{share:.0%} of the entries removed; ratios: pairs over EM (complete rows over EM)")
    for name, X, k in data(np.random.default_rng(seed)):
        rng = np.random.default_rng(seed + 1)
        X = X - X.mean(0)
        true, holed = X.T @ X / len(X), holes(X, share, rng)
        sketch = sl.sketch(holed, sl.design(holed, task="pca", missing="pairs"), progress=False)
        found, (_, theirs) = matrix(sketch), em(holed)
        complete = holed[~np.isnan(holed).any(1)]
        few = np.cov(complete.T, ddof=0) if len(complete) > X.shape[1] + 1 else None

        def both(function, few=few, found=found, theirs=theirs):
            other = function(theirs)
            return function(found) / other, None if few is None else function(few) / other

        rest = both(lambda S, true=true: left(true, coefficients(S)))
        share_held = both(lambda S, true=true, k=k: captured(S, k, true))
        values = np.linalg.eigvalsh(found)[::-1][:k] / np.linalg.eigvalsh(theirs)[::-1][:k]
        b = sl.CompressiveLinearRegression().fit_sketch(sketch).coef_
        b_em, rest = coefficients(theirs), (left(true, b) / left(true, coefficients(theirs)), rest[1])
        off = np.linalg.norm(b - b_em) / np.linalg.norm(b_em)
        words = [f"{r[0]:.4f} ({'none' if r[1] is None else f'{r[1]:.4f}'})" for r in (rest, share_held)]
        print(f"{name}: variance left by regression {words[0]}, captured by {k} components {words[1]}, eigenvalues "
              f"{values.min():.3f} to {values.max():.3f}, coefficients differ by {off:.1%}")  # fmt: skip


def errors(runs=40, seed=0, n=1500, d=6):
    """Coverage of intervals from the standard errors of regression, over laws and shares of missing entries."""
    rng = np.random.default_rng(seed)
    print(f"{runs} laws of {d} columns, 10 tables of {n} rows each, 5 to 40 % of a column missing")
    found = {"auto": [], 0.0: []}
    for _ in range(runs):
        A = rng.normal(size=(d, d)) * 0.5 + np.eye(d)
        S, shares = A @ A.T, rng.uniform(0.6, 0.95, d)
        true, root = coefficients(S), np.linalg.cholesky(S)
        for _ in range(10):
            X = rng.normal(size=(n, d)) @ root.T + 3.0
            X[rng.random(X.shape) > shares] = np.nan
            sketch = sl.sketch(X, sl.design(X, task="regression", missing="pairs"), progress=False)
            for alpha, inside in found.items():
                fit = sl.CompressiveLinearRegression(alpha).fit_sketch(sketch)
                off = np.append(fit.coef_ - true, fit.intercept_ - 3.0 * (1.0 - true.sum()))
                error = np.append(fit.standard_errors_, fit.intercept_standard_error_)
                textbook = np.sqrt(fit.residual_variance_ * np.diag(np.linalg.inv(S[:-1, :-1])) / n)
                inside.append((np.mean(np.abs(off) < 1.96 * error), np.mean(np.abs(off[:-1]) < 1.96 * textbook)))
    for alpha, inside in found.items():
        share, textbook = np.mean(inside, axis=0)
        print(f"alpha={alpha}: 95 % intervals cover {share:.1%}, textbook errors of complete rows {textbook:.1%}")


def bias(seed=0, n=200_000):
    """A column that is missing by chance, by what another column shows, or by its own value."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = 0.8 * a + 0.6 * rng.normal(size=n)
    y = a + b + rng.normal(size=n)
    X = np.column_stack([a, b, y])
    by = {"by chance": rng.random(n) < 0.3, "by another column": a > 0.5, "by its own value": b > 0.5}
    for name, gone in by.items():
        holed = X.copy()
        holed[gone, 1] = np.nan
        found = matrix(sl.sketch(holed, sl.design(holed, task="pca", missing="pairs"), progress=False))
        theirs = em(holed)[1]
        shown = [f"{S[1, 1]:.3f} {np.round(coefficients(S), 3)}" for S in (found, theirs)]
        print(f"missing {name}: variance of the column (true 1), coefficients (1, 1): pairs {shown[0]}, EM {shown[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("table", "errors", "bias"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    {"table": table, "errors": errors, "bias": bias}[given.what](seed=given.seed)


if __name__ == "__main__":
    main()
