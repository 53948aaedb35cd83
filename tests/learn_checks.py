"""What every estimator must show, whatever it learns: one list of estimators and sources for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import sketchlearn as sl

NAMES = ["a", "b", "c"]


def rows(n: int = 1500, seed: int = 0) -> np.ndarray:
    """Three clusters in three columns; few enough rows to be their own pilot."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) + 8 * np.eye(3)[rng.integers(3, size=n)]


@dataclass(frozen=True)
class Case:
    """An estimator, and how its rows are handed over."""

    make: Callable[..., Any]
    attribute: str
    supervised: bool = False
    exact: bool = True
    """Whether sums are integers: those of plain quadratic features are floating point, equal to a few last bits."""
    labelled: bool = False
    """Whether the last column holds labels, so that there is one sketch per class."""

    def rows(self, n: int = 1500, seed: int = 0) -> np.ndarray:
        """Rows of :func:`rows`; with labels, one of two classes in the place of the last column."""
        X = rows(n, seed)
        if self.labelled:
            X[:, -1] = X[:, -1] > 4.0
        return X

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the feature map."""
        return NAMES[:2] if self.labelled else NAMES

    def takes(self, parameter: str) -> bool:
        """Whether there is such a parameter."""
        return parameter in self.make().get_params()

    def sketch(self, X: np.ndarray, features: Any) -> Any:
        """What `fit_sketch` takes."""
        return sl.sketch(X[:, :2], features, group_by=X[:, 2].astype(int)) if self.labelled else sl.sketch(X, features)

    def split(self, X: Any) -> tuple[Any, ...]:
        """Arguments of `fit` for rows in memory: the last column is the target of a regression."""
        if not self.supervised:
            return (X,)
        return (X.iloc[:, :-1], X.iloc[:, -1]) if hasattr(X, "iloc") else (X[:, :-1], X[:, -1])

    def fit(self, estimator: Any, source: str, X: np.ndarray, folder: Any, **options: Any) -> Any:
        """Fit to rows that come from one of SOURCES."""
        if source in ("array", "frame"):
            return estimator.fit(*self.split(given(source, X, folder)), **options)
        if source == "read" and self.labelled:  # groups are part of what is read
            given("path", X, folder)
            return estimator.fit(sl.read(folder, columns=NAMES[:2], group_by="c"))
        return estimator.fit(given(source, X, folder), **({"y": -1} if self.supervised else {}))

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """What `predict` takes."""
        return X[:, :-1] if self.supervised else X


CASES = {
    "kmeans": Case(lambda **o: sl.CompressiveKMeans(3, random_state=0, **o), "cluster_centers_"),
    "kmedians": Case(lambda **o: sl.CompressiveKMedians(3, random_state=0, **o), "cluster_centers_"),
    "gmm": Case(
        lambda **o: sl.CompressiveGaussianMixture(3, covariance_type="diag", random_state=0, **o), "covariances_"
    ),
    "stable": Case(lambda **o: sl.CompressiveStableMixture(3, scatter_type="diag", random_state=0, **o), "locations_"),
    "pca": Case(lambda **o: sl.CompressivePCA(2, random_state=0, **o), "components_", exact=False),
    "subspaces": Case(lambda **o: sl.CompressiveSubspaces(1, random_state=0, **o), "bases_"),
    "regression": Case(
        lambda **o: sl.CompressiveLinearRegression(random_state=0, **o), "coef_", supervised=True, exact=False
    ),
    "dictionary": Case(lambda **o: sl.CompressiveDictionaryLearning(2, random_state=0, **o), "components_"),
    "nmf": Case(lambda **o: sl.CompressiveNMF(2, random_state=0, **o), "components_", exact=False),
    "ica": Case(lambda **o: sl.CompressiveICA(random_state=0, **o), "components_"),
    "mixture regression": Case(
        lambda **o: sl.CompressiveMixtureRegressor(3, **{"sketch_size": 120, "random_state": 0, **o}),
        "means_",
        supervised=True,
    ),
    "classifier": Case(
        lambda **o: sl.CompressiveClassifier(**{"sketch_size": 40, "random_state": 0, **o}),
        "class_counts_",
        supervised=True,
        labelled=True,
    ),
    "lda": Case(lambda **o: sl.CompressiveLDA(**o), "scalings_", supervised=True, labelled=True, exact=False),
    "cca": Case(lambda **o: sl.CompressiveCCA(**o), "x_rotations_", supervised=True, exact=False),
}
SOURCES = ("array", "frame", "memmap", "path", "glob", "generator", "read")


def given(source: str, X: np.ndarray, folder: Any) -> Any:
    """Rows in one of many shapes."""
    import pandas as pd

    if source == "array":
        return X
    if source == "frame":
        return pd.DataFrame(X, columns=NAMES)
    if source == "generator":
        return batches(X)
    if source == "memmap":
        np.save(folder / "rows.npy", X)
        return np.load(folder / "rows.npy", mmap_mode="r")
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(np.array_split(X, 3)):
        table = pd.DataFrame(part, columns=NAMES)
        if set(np.unique(part[:, -1])) <= {0.0, 1.0}:
            table["c"] = table["c"].astype(int)  # labels are no measurements
        table.to_parquet(folder / f"{i}.parquet")
    if source == "path":
        return folder
    return str(folder / "*.parquet") if source == "glob" else sl.read(folder, columns=NAMES)


def batches(X: np.ndarray) -> Iterator[np.ndarray]:
    """A stream that can be read once."""
    yield from np.array_split(X, 7)


def assert_same_sketch(case: Case, ours: Any, theirs: Any) -> None:
    """Equal sums bit for bit, where sums are exact; names of columns don't matter."""
    for a, b in zip(sketches(ours), sketches(theirs), strict=True):
        assert a.count == b.count
        if case.exact:
            np.testing.assert_array_equal(a.sums, b.sums)
        else:
            np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13)


def sketches(learned: Any) -> list[sl.Sketch]:
    """The sketch behind an estimator, or those of all classes in the order of their labels."""
    found = learned.sketch_
    return [found] if isinstance(found, sl.Sketch) else [found[label] for label in sorted(found)]


def assert_same_model(case: Case, ours: Any, theirs: Any) -> None:
    """Equal attributes, up to what the sums allow."""
    a, b = (getattr(found, case.attribute) for found in (ours, theirs))
    np.testing.assert_allclose(a, b, rtol=0.0 if case.exact else 1e-9)
