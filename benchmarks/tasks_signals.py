"""Independent components, independence and exact projections against their peers on the rows, in one run.

python benchmarks/tasks_signals.py                     # all parts, seeds 100 to 104
python benchmarks/tasks_signals.py --part ica          # FastICA (logcosh and cube) and JADE on the rows
python benchmarks/tasks_signals.py --part outliers     # the same with 0.1 % of the rows twenty times as far out
python benchmarks/tasks_signals.py --part independent  # false alarms and power of the test of independence
python benchmarks/tasks_signals.py --part projections  # CCA and LDA against scikit-learn's
python benchmarks/tasks_signals.py --part passes       # the quartic pass against a quadratic one of as many directions
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import time
import warnings

import numpy as np
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_wine
from sklearn.decomposition import FastICA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import sketchlearn as sl

PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def show(title, table):
    """Medians over seeds, and all values."""
    print(f"\n{title}")
    for name, found in table.items():
        values = np.array(found)
        print(f"  {name:<42} {np.median(values):10.4g}   {' '.join(f'{v:.4g}' for v in values)}", flush=True)


# -- independent components ----------------------------------------------------------------------------


def amari(P):
    """Amari's index of unmixing times mixing: 0 for one entry per row and column."""
    P = np.abs(P)
    d = len(P)
    rows, columns = (P / P.max(1, keepdims=True)).sum(1) - 1, (P / P.max(0)).sum(0) - 1
    return (rows.sum() + columns.sum()) / (2 * d * (d - 1))


def mixed(kind, n, d, seed):
    """Sources, half of them uniform and half Laplace or all of one kind, mixed at random."""
    rng = np.random.default_rng(seed)
    flat = {"mixed": d // 2, "uniform": d, "laplace": 0}[kind]
    S = np.concatenate(
        [rng.uniform(-np.sqrt(3), np.sqrt(3), (n, flat)), rng.laplace(size=(n, d - flat)) / np.sqrt(2)], axis=1
    )
    A = rng.normal(size=(d, d))
    return S @ A.T + rng.normal(size=d), A, rng


def cumulant_slices(white):
    """The fourth cumulant of whitened rows as matrices, one for each element of an orthonormal basis of symmetric ones.

    The slice of a basis matrix M is ``E (x'Mx) xx' - tr(M) I - 2 M``.
    """
    n, d = white.shape
    first, second = np.triu_indices(d)
    basis = np.zeros((len(first), d, d))
    at = np.arange(len(first))
    basis[at, first, second] = basis[at, second, first] = np.where(first == second, 1.0, 0.5**0.5)
    forms = np.einsum("ni,kij,nj->nk", white, basis, white, optimize=True)
    moments = np.stack([(white * form[:, None]).T @ white / n for form in forms.T])
    return moments - np.trace(basis, axis1=1, axis2=2)[:, None, None] * np.eye(d) - 2.0 * basis


def best_turn(slices, p, q):
    """The angle in the plane of p and q that makes the slices as diagonal there as they can be.

    Half the difference of the diagonal entries and the entry off the diagonal turn like a vector in the plane, by twice
    the angle: the sum of squares off the diagonal is least when the main axis of these vectors lies along the first.
    """
    along, across = 0.5 * (slices[:, p, p] - slices[:, q, q]), slices[:, p, q]
    return 0.25 * np.arctan2(2.0 * (along @ across), along @ along - across @ across)


def jade(X, rounds=100, smallest=1e-8):
    """JADE on rows (Cardoso and Souloumiac 1993): cumulant slices, diagonalised together by plane rotations."""
    centred = X - X.mean(0)
    values, vectors = np.linalg.eigh(np.cov(centred.T, bias=True))
    whitening = vectors.T / np.sqrt(values)[:, None]
    slices, axes = cumulant_slices(centred @ whitening.T), np.eye(X.shape[1])
    planes = list(itertools.combinations(range(X.shape[1]), 2))
    for _ in range(rounds):
        largest = 0.0
        for p, q in planes:
            angle = best_turn(slices, p, q)
            largest = max(largest, abs(angle))
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            slices[:, :, [p, q]] = slices[:, :, [p, q]] @ turn
            slices[:, [p, q]] = turn.T @ slices[:, [p, q]]
            axes[:, [p, q]] = axes[:, [p, q]] @ turn
        if largest < smallest:
            break
    return axes.T @ whitening


def separate(X, A, seed, table):
    d = X.shape[1]
    for name, contrast in (("FastICA, logcosh (rows)", "logcosh"), ("FastICA, cube (rows)", "cube")):
        peer = FastICA(d, whiten="unit-variance", fun=contrast, max_iter=1000, random_state=seed).fit(X)
        table.setdefault(name, []).append(amari(peer.components_ @ A))
    table.setdefault("JADE (rows)", []).append(amari(jade(X) @ A))
    peers = [values[-1] for name, values in table.items() if "(rows)" in name]
    begin = time.perf_counter()
    ours = sl.CompressiveICA(random_state=seed).fit(X)
    took = time.perf_counter() - begin
    found = amari(ours.components_ @ A)
    values = {
        "sketch: CompressiveICA": found,
        "  over the better peer": found / min(peers),
        "  leakage it expects": ours.leakage_,
        "  misfit over noise floor": ours.solution_.ratio,
        "  seconds": took,
    }
    for what, value in values.items():
        table.setdefault(what, []).append(value)


@part
def ica(seeds):
    """Amari's index."""
    for kind, d, n in [
        ("mixed", 4, 20_000), ("mixed", 8, 20_000), ("mixed", 16, 50_000), ("mixed", 32, 50_000),
        ("uniform", 8, 20_000), ("laplace", 8, 20_000), ("laplace", 16, 50_000), ("laplace", 32, 50_000),
    ]:  # fmt: skip
        table = {}
        for seed in seeds:
            X, A, _ = mixed(kind, n, d, seed)
            separate(X, A, seed, table)
        show(f"ICA, {kind} sources, d={d}, n={n}: Amari index", table)


@part
def outliers(seeds):
    """Amari's index with 0.1 % of the rows twenty times as far out."""
    for d in (5, 8):
        table = {}
        for seed in seeds:
            X, A, rng = mixed("mixed", 20_000, d, seed)
            X[rng.random(len(X)) < 0.001] *= 20.0
            separate(X, A, seed, table)
        show(f"ICA with outliers, d={d}, n=20000: Amari index", table)


# -- independence --------------------------------------------------------------------------------------


def two_groups(kind, n, rng):
    x = np.column_stack([rng.exponential(size=n), rng.normal(size=n)])
    if kind == "null: skewed and heavy-tailed":
        return x, np.column_stack([rng.uniform(size=n), rng.standard_t(5, size=n)])
    if kind == "null: bimodal":
        return x + 4 * rng.integers(2, size=(n, 1)), rng.normal(size=(n, 1)) + 3 * rng.integers(2, size=(n, 1))
    if kind == "null: discrete":
        return rng.integers(3, size=(n, 2)), rng.poisson(1.0, size=(n, 1))
    if kind == "null: normal, 8 and 5 columns":
        return rng.normal(size=(n, 8)), rng.normal(size=(n, 5))
    if kind == "power: y = x**2 + noise":
        return x, x[:, 1:] ** 2 + 3 * rng.normal(size=(n, 1))
    return x, 0.15 * x[:, 1:] + rng.normal(size=(n, 1))


@part
def independent(seeds):
    """How often independence is rejected at 5 %: 500 samples for each seed, of 200 and of 1000 rows."""
    kinds = [
        "null: skewed and heavy-tailed", "null: bimodal", "null: discrete", "null: normal, 8 and 5 columns",
        "power: y = x**2 + noise", "power: correlation of 0.15",
    ]  # fmt: skip
    for n in (200, 1000):
        table = {}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for kind in kinds:
                pilot = np.column_stack(two_groups(kind, 2000, rng))
                first = range(two_groups(kind, 1, rng)[0].shape[1])
                phi = sl.design_independence(pilot, first=first, seed=seed)
                found = [
                    sl.independence(sl.sketch(np.column_stack(two_groups(kind, n, rng)), phi, workers=1)).p_value
                    for _ in range(500 if "null" in kind else 100)
                ]
                table.setdefault(kind, []).append(np.mean(np.array(found) < 0.05))
        show(f"independence, {n} rows: share with p < 0.05", table)


# -- exact projections ---------------------------------------------------------------------------------


@part
def projections(seeds):
    """Largest difference from scikit-learn's canonical correlations and discriminant scores."""
    table = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        common = rng.normal(size=(5000, 3))
        X, Y = (common @ rng.normal(size=(3, d)) + rng.normal(size=(5000, d)) for d in (6, 4))
        ours, peer = sl.CompressiveCCA(3).fit(X, Y), CCA(3, max_iter=10_000, tol=1e-13).fit(X, Y)
        a, b = peer.transform(X, Y)
        theirs = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(3)]
        table.setdefault("CCA: correlations", []).append(np.abs(ours.correlations_ - theirs).max())
        rows, kinds = load_wine(return_X_y=True)
        some = rng.permutation(len(rows))[:150]
        lda = sl.CompressiveLDA().fit(rows[some], kinds[some]).transform(rows)
        other = LinearDiscriminantAnalysis().fit(rows[some], kinds[some]).transform(rows)
        together = [1 - abs(np.corrcoef(lda[:, i], other[:, i])[0, 1]) for i in range(2)]
        table.setdefault("LDA: 1 - correlation of scores", []).append(max(together))
    show("differences from scikit-learn", table)


@part
def passes(seeds):
    """Rows per second of the quartic pass and of a quadratic pass of as many directions; one thread."""
    table = {}
    for d, n in ((8, 200_000), (32, 20_000)):
        X = np.random.default_rng(0).normal(size=(n, d))
        quartic = sl.QuarticFeatures.draw(dim=d)
        squares = sl.QuadraticFeatures.draw(dim=d, size=quartic.size, variant="gaussian", radius=quartic.radius)
        for _ in range(len(seeds) + 1):
            for name, phi in (("quartic", quartic), ("quadratic", squares)):
                begin = time.perf_counter()
                sl.sketch(X, phi, workers=1)
                table.setdefault(f"{name}, d={d}, {phi.size} directions", []).append(n / (time.perf_counter() - begin))
    show("rows per second (the best one counts; the first run compiles)", {k: v[1:] for k, v in table.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), action="append")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.part or PARTS:
        PARTS[name](options.seeds)


if __name__ == "__main__":
    main()
