"""Rows that are hard to learn from: kinds of data, each with rows to learn from and new rows of the same law.

`columns` gives rows without targets; `labelled`, `paired`, `mixed` and `flat` what classifiers, regressions, ICA and
subspaces need.  A seed decides on the numbers of rows, columns and components as well.
"""

from typing import NamedTuple

import numpy as np

NEW = 4000  # rows to judge by
KINDS = (
    "clusters", "too few k", "too many k", "noise", "n < d", "few rows", "outliers", "far outlier", "scales",
    "one narrow column", "rank loss", "constant and double", "heavy tails", "skewed", "few distinct rows",
    "mostly zero",
)  # fmt: skip


class Rows(NamedTuple):
    """Rows to learn from, new rows, and the number of components to ask for."""

    X: np.ndarray
    new: np.ndarray
    k: int


def columns(kind, seed):
    """Rows without targets."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    d, k = int(rng.choice([1, 2, 3, 5, 8])), int(rng.integers(1, 5))
    n = int(rng.choice([300, 1000, 3000]))
    if kind in ("scales", "one narrow column", "rank loss", "constant and double"):
        d = max(d, 2)
    if kind == "n < d":
        d = int(rng.integers(6, 13))
        n = int(rng.integers(max(k, 4), d))
    if kind == "few rows":
        n = int(rng.integers(20, 101))
    true = {"noise": 1, "too few k": k + 2, "too many k": k}.get(kind, k)
    asked = {"noise": k + 1, "too many k": k + 2}.get(kind, k)
    centers = rng.normal(size=(true, d)) * float(rng.choice([1.0, 3.0, 10.0]))
    widths = np.exp(rng.uniform(-0.7, 0.7, true))
    turn = np.diag(np.exp(rng.uniform(-1.0, 1.0, d) * (seed % 4 > 1)))  # round in half of the cases
    if seed % 4 == 3:
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0] @ turn
        widths[:] = 1.0
    low = rng.normal(size=(d - 1, d)) if d > 1 else None
    factors = 10.0 ** rng.uniform(-6.0, 6.0, d)
    narrow = 10.0 ** rng.uniform(-12.0, -4.0)
    tail = float(rng.choice([1.0, 1.5, 2.5]))
    share = float(rng.choice([0.5, 0.9, 0.98]))
    lattice = rng.normal(size=(asked + int(rng.integers(0, 6)), d)) * 3.0

    def drawn(count):
        owner = rng.integers(true, size=count)
        out = centers[owner] + widths[owner][:, None] * (rng.normal(size=(count, d)) @ turn.T)
        if kind == "heavy tails":
            out = centers[owner] + rng.standard_t(tail, size=(count, d))
        if kind == "skewed":
            out = np.exp(0.5 * out / max(1.0, np.abs(out).max() / 6.0))
        if kind == "scales":
            out = out * factors + 3.0 * factors
        if kind == "one narrow column":
            out[:, 0] *= narrow
        if kind == "rank loss":
            out = out[:, : d - 1] @ low
        if kind == "constant and double":
            out = np.column_stack([out, np.full(count, 7.5), out[:, 0]])
        if kind == "few distinct rows":
            out = lattice[rng.integers(len(lattice), size=count)]
        if kind == "mostly zero":
            out = out * (rng.random(out.shape) > share)
        return out

    X, new = drawn(n), drawn(NEW)
    if kind == "outliers":
        far = rng.integers(n, size=max(1, n // 200))
        X[far] += rng.normal(size=(len(far), d)) * 10.0 ** rng.uniform(1.0, 3.0)
    if kind == "far outlier":
        X[0] += rng.normal(size=d) * 10.0 ** rng.uniform(3.0, 9.0)
    return Rows(X, new, asked)


class Labelled(NamedTuple):
    """Rows and labels to learn from, and new ones."""

    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    truth: np.ndarray


def labelled(kind, seed):
    """Classes that are shifted clouds, or no classes at all."""
    rng = np.random.default_rng([100, KINDS.index(kind), seed])
    if kind in ("noise", "clusters", "too few k"):
        c, d = int(rng.integers(2, 5)), int(rng.integers(1, 20))
        n = int(rng.choice([30, 100, 300, 1000]))
        X, new = rng.normal(size=(n, d)), rng.normal(size=(NEW, d))
    else:
        X, new, _ = columns(kind, seed)
        c = int(rng.integers(2, 4))
    n, d = X.shape
    apart = 0.0 if kind == "noise" or seed % 3 == 0 else float(rng.choice([0.5, 1.0, 3.0]))
    y, truth = (np.r_[np.arange(c), rng.integers(c, size=max(len(x) - c, 0))][: len(x)] for x in (X, new))
    usual = np.quantile(new, [0.16, 0.84], axis=0)
    shift = rng.normal(size=(c, d)) * apart * 0.5 * (usual[1] - usual[0]) / np.sqrt(d)
    if kind == "too few k":  # rings: means say nothing
        grow = np.exp(apart * np.arange(c))
        return Labelled(X * grow[y][:, None], y, new * grow[truth][:, None], truth)
    return Labelled(X + shift[y], y, new + shift[truth], truth)


class Paired(NamedTuple):
    """Predictors and targets, new ones, and the true coefficients and noise where the law is linear."""

    X: np.ndarray
    Y: np.ndarray
    new: np.ndarray
    truth: np.ndarray
    linked: bool


def paired(kind, seed, targets=1):
    """Targets that depend on the columns linearly (two seeds of three), or on nothing."""
    rng = np.random.default_rng([200, KINDS.index(kind), seed])
    X, new, _ = columns(kind, seed)
    linked = kind != "noise" and seed % 3 != 0
    middle, size = np.median(new, axis=0), np.maximum(np.abs(new - np.median(new, axis=0)).mean(axis=0), 1e-300)
    slopes = rng.normal(size=(X.shape[1], targets)) * linked
    noise = float(rng.choice([0.1, 1.0, 5.0]))

    def told(x):
        near = np.clip((x - middle) / size, -1e12, 1e12)
        return near @ slopes + noise * rng.normal(size=(len(x), targets))

    return Paired(X, told(X), new, told(new), linked)


class Mixed(NamedTuple):
    """Rows, and the matrix that mixed independent sources into them."""

    X: np.ndarray
    A: np.ndarray


def mixed(kind, seed):
    """Linear mixtures of sources; of some kinds sources are normal, dependent, or without moments."""
    rng = np.random.default_rng([300, KINDS.index(kind), seed])
    d = int(rng.integers(2, 6))
    n = {"n < d": d - 1, "few rows": int(rng.integers(30, 150))}.get(kind, int(rng.choice([1000, 3000, 10000])))
    n = max(n, 2)
    draws = {
        "flat": lambda: rng.uniform(-1.7, 1.7, n), "peaked": lambda: rng.laplace(size=n),
        "normal": lambda: rng.normal(size=n), "two": lambda: rng.choice([-1.0, 1.0], n),
        "skewed": lambda: rng.exponential(size=n) - 1.0, "zero": lambda: rng.normal(size=n) * (rng.random(n) < 0.1),
        "heavy": lambda: rng.standard_t(float(rng.choice([1.0, 2.0, 3.0])), n),
    }  # fmt: skip
    usual = ["flat", "peaked", "two", "skewed"]
    names = {
        "noise": ["normal"] * d, "heavy tails": ["heavy"] * d, "skewed": ["skewed"] * d,
        "few distinct rows": ["two"] * d, "mostly zero": ["zero"] * d,
        "too few k": ["normal", "normal", *usual], "too many k": ["normal", *usual, "peaked"],
    }.get(kind)  # fmt: skip
    S = np.column_stack([draws[names[j] if names else str(rng.choice(usual))]() for j in range(d)])
    if kind == "clusters":  # dependent: sources share their size
        S = rng.normal(size=(n, d)) * rng.gamma(1.0, size=(n, 1))
    A = rng.normal(size=(d, d))
    if kind == "scales":
        A *= 10.0 ** rng.uniform(-6, 6, (d, 1))
    if kind == "one narrow column":
        A[0] *= 10.0 ** rng.uniform(-12, -4)
    if kind == "rank loss":
        A[-1] = A[0] + 1e-9 * rng.normal(size=d)
    X = S @ A.T
    if kind == "constant and double":
        X, A = np.column_stack([X, X[:, 0]]), np.vstack([A, A[0]])
    if kind == "outliers":
        X[rng.integers(n, size=max(1, n // 200))] *= 10.0 ** rng.uniform(1, 3)
    if kind == "far outlier":
        X[0] += rng.normal(size=X.shape[1]) * 10.0 ** rng.uniform(3, 9)
    return Mixed(X, A)


class Factored(NamedTuple):
    """Rows of non-negative components, the true ones, and how many to ask for."""

    X: np.ndarray
    components: np.ndarray
    k: int


def factored(kind, seed):
    """Combinations of non-negative components; of some kinds components have no zeros, or noise is of another law."""
    rng = np.random.default_rng([500, KINDS.index(kind), seed])
    k = int(rng.integers(2, 8))
    d = int(rng.integers(2 * k + 4, 61))
    n = {"n < d": d - 1, "few rows": int(rng.integers(d, 3 * d))}.get(kind, int(10 ** rng.uniform(2.7, 4.5)))
    present = rng.random((k, d)) < {"clusters": 1.0}.get(kind, rng.uniform(0.2, 0.9))
    W = [rng.exponential(size=(k, d)), rng.gamma(0.3, size=(k, d)), rng.random((k, d))][seed % 3] * present
    often = 0.1 if kind == "mostly zero" else rng.uniform(0.3, 1.0)
    H = rng.exponential(size=(n, k)) * (rng.random((n, k)) < often)
    if kind == "skewed":
        H = rng.dirichlet(np.full(k, 0.3), size=n)
    if kind == "heavy tails":
        H = rng.pareto(2.5, size=(n, k))
    if kind == "few distinct rows":
        H = rng.integers(0, 2, size=(n, k)).astype(float)
    X, noise = H @ W, 10.0 ** rng.uniform(-2.5, 0.0)
    own = X.std(0) if seed % 2 else np.full(d, X.std())
    X = rng.poisson(X) if kind == "outliers" else X + noise * own * rng.normal(size=X.shape)
    if kind == "noise":  # shared by columns
        X = X + noise * rng.normal(size=(n, 1)) * X.std(0) * rng.normal(size=d)
    if kind in ("scales", "one narrow column"):
        units = 10.0 ** (rng.uniform(-6, 6, d) if kind == "scales" else np.where(np.arange(d), 0.0, -8.0))
        X, W = X * units, W * units
    if kind == "rank loss":  # in a part of the rows, two components go together
        X[: n // 2] = X[: n // 2] - np.outer(H[: n // 2, 0] - H[: n // 2, 1], W[0])
    if kind == "constant and double":
        X, W = np.column_stack([X, X[:, 0], np.ones(n)]), np.column_stack([W, W[:, 0], np.zeros(k)])
    if kind == "far outlier":
        X[0] += 10.0 ** rng.uniform(1, 6) * rng.random(d)
    return Factored(np.asarray(X, float), W, {"too few k": max(k - 1, 1), "too many k": k + 1}.get(kind, k))


def sparse(kind, seed):
    """Sparse combinations of atoms; of some kinds coefficients are normal, depend on each other, or have no moments."""
    rng = np.random.default_rng([600, KINDS.index(kind), seed])
    d = int(rng.integers(3, 9))
    k = int(rng.integers(2, max(int(1.6 * d), 3)))
    n = {"n < d": d - 1, "few rows": int(rng.integers(d, 50 * d))}.get(kind, int(10 ** rng.uniform(3.3, 4.9)))
    D = rng.normal(size=(k, d))
    there = rng.random((n, k)) < (0.02 if kind == "mostly zero" else rng.uniform(0.08, 0.4))
    if kind == "clusters":  # only some go together
        there[:, 1:] = np.where(rng.random((n, 1)) < 0.5, there[:, :1], there[:, 1:])
    law = [rng.normal(size=(n, k)), rng.uniform(-1.7, 1.7, (n, k)), rng.laplace(size=(n, k))][seed % 3]
    if kind in ("noise", "heavy tails"):
        law, there = (rng.normal(size=(n, k)) if kind == "noise" else rng.standard_t(3.0, (n, k))), 1.0
    if kind == "skewed":
        law = rng.exponential(size=(n, k))
    if kind == "few distinct rows":
        law = rng.choice([-1.0, 1.0], (n, k))
    X = (law * there) @ D
    X = X + 10.0 ** rng.uniform(-2, -0.3) * X.std() * rng.normal(size=X.shape)
    if kind == "rank loss":
        D[-1] = D[0] + 0.1 * rng.normal(size=d)
        X = (law * there) @ D
    if kind == "scales":
        units = 10.0 ** rng.uniform(-6, 6, d)
        X, D = X * units, D * units
    if kind == "one narrow column":
        units = np.where(np.arange(d), 1.0, 1e-6)
        X, D = X * units, D * units
    if kind == "constant and double":
        X, D = np.column_stack([X, X[:, 0], np.ones(n)]), np.column_stack([D, D[:, 0], np.zeros(k)])
    if kind == "outliers":
        X[rng.integers(n, size=max(1, n // 200))] *= 10.0 ** rng.uniform(1, 3)
    if kind == "far outlier":
        X[0] += rng.normal(size=d) * 10.0 ** rng.uniform(3, 9)
    return Factored(X, D, {"too few k": max(k - 1, 1), "too many k": k + 1}.get(kind, k))


class Flat(NamedTuple):
    """Rows near subspaces, new ones, how many to ask for, of which dimension, and bases of the true ones."""

    X: np.ndarray
    new: np.ndarray
    k: int
    dim: int
    bases: list


def flat(kind, seed):
    """Rows near a union of subspaces."""
    rng = np.random.default_rng([400, KINDS.index(kind), seed])
    d, k, dim = int(rng.integers(2, 6)), int(rng.integers(1, 4)), 1
    if d > 3:
        dim = int(rng.integers(1, 3))
    n = {"n < d": d - 1, "few rows": int(rng.integers(20, 101))}.get(kind, int(rng.choice([1000, 3000])))
    n = max(n, 2)
    true = {"too few k": k + 1, "too many k": k, "noise": 0}.get(kind, k)
    asked = k + 1 if kind == "too many k" else k
    bases = [np.linalg.qr(rng.normal(size=(d, dim)))[0] for _ in range(true)]
    thick = float(rng.choice([0.01, 0.05, 0.2]))
    factors, narrow = 10.0 ** rng.uniform(-4, 4, d), 10.0 ** rng.uniform(-12, -4)

    def drawn(count):
        inside = rng.standard_t(1.5, size=(count, dim)) if kind == "heavy tails" else rng.normal(size=(count, dim))
        if kind == "skewed":
            inside = np.exp(inside)
        if kind == "few distinct rows":
            inside = np.rint(2.0 * inside) / 2.0
        if kind == "mostly zero":
            inside = inside * (rng.random(inside.shape) < 0.1)
        out = rng.normal(size=(count, d)) * (1.0 if kind == "noise" else thick)
        if true:
            owner = rng.integers(true, size=count)
            out = out + np.einsum("nij,nj->ni", np.array(bases)[owner], inside)
        if kind == "scales":
            out = out * factors
        if kind == "one narrow column":
            out[:, 0] *= narrow
        if kind == "rank loss":
            out[:, -1] = out[:, 0]
        if kind == "constant and double":
            out = np.column_stack([out, np.zeros(count), out[:, 0]])
        return out

    X, new = drawn(n), drawn(NEW)
    if kind == "outliers":
        far = rng.integers(n, size=max(1, n // 200))
        X[far] += rng.normal(size=(len(far), X.shape[1])) * 10.0 ** rng.uniform(1, 3)
    if kind == "far outlier":
        X[0] += rng.normal(size=X.shape[1]) * 10.0 ** rng.uniform(3, 9)
    return Flat(X, new, asked, dim, bases)
