"""Many targets from a few predictors: mixtures of linear maps from a sketch, beside EM on the rows.

``python benchmarks/gllim.py`` makes 200 targets of 3 predictors in four worlds: a Gaussian locally linear mapping
("model"), one whose components of the predictors are thin in some directions ("thin"), and sums of absolute values
("kinks") and of sines ("waves") of projections of the predictors.  EM is that of
Deleforge, Forbes and Horaud (2015), with diagonal noise of each component, from the best of so many k-means starts.
Both have the same number of components.  Errors are mean squares on new rows: of the noise-free targets, and of the
targets with their noise, whose ratio is the last column.
"""

import argparse
from time import perf_counter

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl

NEW = 5000  # rows that errors are measured on
COMPONENTS = {"model": 5, "thin": 5, "kinks": 8, "waves": 8}


def world(kind, n, seed, predictors=3, targets=200):
    """Predictors, targets with noise, and targets without, of n rows and of new ones."""
    rng = np.random.default_rng(seed)
    count = n + NEW
    if kind in ("model", "thin"):
        k = COMPONENTS[kind]
        centres, owner = 2.0 * rng.normal(size=(k, predictors)), rng.integers(k, size=count)
        spread = 0.4 if kind == "thin" else 0.2
        roots = spread * rng.normal(size=(k, predictors, predictors)) + 0.6 * np.eye(predictors)
        x = centres[owner] + np.einsum("nij,nj->ni", roots[owner], rng.normal(size=(count, predictors)))
        slopes, offsets = rng.normal(size=(k, targets, predictors)), 2.0 * rng.normal(size=(k, targets))
        clean = np.empty((count, targets))
        for own in range(k):
            clean[owner == own] = x[owner == own] @ slopes[own].T + offsets[own]
        noise = rng.uniform(0.3, 1.0, (k, targets))[owner]
    else:
        x = rng.normal(size=(count, predictors))
        directions = rng.normal(size=(6, predictors))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        places, mixing = 0.7 * rng.normal(size=6), rng.normal(size=(6, targets))
        along = x @ directions.T
        clean = (np.abs(along - places) if kind == "kinks" else np.sin(1.5 * along + 3.0 * places)) @ mixing
        noise = 0.3
    y = clean + noise * rng.normal(size=clean.shape)
    return (x[:n], y[:n], clean[:n]), (x[n:], y[n:], clean[n:])


def log_densities(x, shares, centres, covariances):
    """Logarithms of share times density of the predictors, (n, k)."""
    out = np.empty((len(x), len(shares)))
    for own, (share, centre, covariance) in enumerate(zip(shares, centres, covariances, strict=True)):
        root = np.linalg.cholesky(covariance)
        out[:, own] = np.log(share) - 0.5 * (np.linalg.solve(root, (x - centre).T) ** 2).sum(0)
        out[:, own] -= np.log(np.diag(root)).sum()
    return out


def normalised(logs):
    """Responsibilities, and the mean log-density."""
    most = logs.max(1, keepdims=True)
    raised = np.exp(logs - most)
    return raised / raised.sum(1, keepdims=True), float((most[:, 0] + np.log(raised.sum(1))).mean())


def maximised(shares_of_rows, x, y):
    """Weights, centres, covariances, maps and noise variances (the M step)."""
    lines = np.column_stack([x, np.ones(len(x))])
    found = []
    for r in shares_of_rows.T:
        total = r.sum()
        centre = r @ x / total
        apart = x - centre
        covariance = (r[:, None] * apart).T @ apart / total + 1e-6 * np.eye(x.shape[1])
        weighted = r[:, None] * lines
        maps = np.linalg.solve(weighted.T @ lines + 1e-9 * total * np.eye(lines.shape[1]), weighted.T @ y)
        found.append((total / len(x), centre, covariance, maps, r @ (y - lines @ maps) ** 2 / total + 1e-6))
    return [np.array(each) for each in zip(*found, strict=True)]


def em(x, y, k, seed, starts, rounds):
    """Weights, centres, covariances and maps of the most likely mapping."""
    lines = np.column_stack([x, np.ones(len(x))])
    away = y - y.mean(0)
    scores = away @ np.linalg.svd(away[:2000], full_matrices=False)[2][: x.shape[1]].T
    places, best = np.column_stack([x / x.std(0), scores / scores[:, 0].std()]), None
    for start in range(starts):
        shares, before = np.eye(k)[KMeans(k, n_init=1, random_state=10 * seed + start).fit(places).labels_], -np.inf
        for _ in range(rounds):
            found = maximised(shares, x, y)
            logs = log_densities(x, *found[:3])
            for own, (maps, variances) in enumerate(zip(found[3], found[4], strict=True)):
                logs[:, own] -= 0.5 * ((y - lines @ maps) ** 2 @ (1.0 / variances) + np.log(variances).sum())
            shares, likelihood = normalised(logs)
            if likelihood - before < 1e-4:
                break
            before = likelihood
        if best is None or likelihood > best[0]:
            best = likelihood, found[:4]
    return best[1]


def predicted(model, x):
    """Expected targets."""
    shares, centres, covariances, maps = model
    gates = normalised(log_densities(x, shares, centres, covariances))[0]
    lines = np.column_stack([x, np.ones(len(x))])
    return sum(gates[:, [own]] * (lines @ each) for own, each in enumerate(maps))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=list(COMPONENTS), default=list(COMPONENTS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--starts", type=int, default=2, help="of EM")
    parser.add_argument("--rounds", type=int, default=50, help="of EM, at most")
    given = parser.parse_args()
    print(f"{'':9} {'EM on rows':>20} {'sketch':>28} {'90 %':>6}  new rows:")
    heads = f"{'error':>10} {'seconds':>9} {'error':>10} {'MB':>6} {'seconds':>10} {'hold':>6}"
    print(f"{'world':6} {'k':>2} {heads}  sketch / EM")
    for kind in given.worlds:
        k, ratios = COMPONENTS[kind], []
        for seed in range(given.start, given.start + given.seeds):
            (x, y, _), (new, noisy, clean) = world(kind, given.rows, seed)
            begin = perf_counter()
            rows = predicted(em(x, y, k, seed, given.starts, given.rounds), new)
            middle = perf_counter()
            reg = sl.CompressiveMixtureRegressor(k, covariance="diag", random_state=seed).fit(x, y)
            end = perf_counter()
            ours, spread = reg.predict(new, return_std=True)
            held = float(np.mean(np.abs(ours - noisy) < 1.645 * spread))
            errors = [float(np.mean((each - clean) ** 2)) for each in (rows, ours)]
            ratios.append(np.mean((ours - noisy) ** 2) / np.mean((rows - noisy) ** 2))
            print(
                f"{kind:6} {k:2d} {errors[0]:10.4f} {middle - begin:9.1f} {errors[1]:10.4f} "
                f"{reg.sketch_.sums.nbytes / 1e6:6.1f} {end - middle:10.1f} {held:6.2f}  {ratios[-1]:.3f}",
                flush=True,
            )
        print(f"{kind:6}    median {np.median(ratios):.3f}, worst {max(ratios):.3f}", flush=True)


if __name__ == "__main__":
    main()
