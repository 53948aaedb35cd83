"""Principal components in scikit-learn's shape, learned from a sketch of quadratic features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sketchlearn.decoders.lowrank import LowRankSolution, decode_second_moment, default_rank
from sketchlearn.designs.pca import design_pca
from sketchlearn.engines import sketch as make_sketch
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.sketches.value import Sketch

_LEARNED = frozenset(
    [
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "mean_",
        "noise_variance_",
        "n_components_",
        "n_samples_",
        "solution_",
    ]
)
_EMBEDDED_ROWS = 4096
_UNKNOWN_COMPONENTS = 20  # what a map is sized for when the number of components is left open
_FEW_COLUMNS = 64  # all products of so few columns are 16 kilobytes: there is nothing to gain by compressing them
_FULL_COLUMNS = 1000  # the same where all components are wanted


class CompressivePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Principal component analysis from a sketch.

    Parameters
    ----------
    n_components : int, float, "auto" or None
        How many; a float in (0, 1): as many as explain that part of the variance; ``"auto"``: as many as stand out
        from the noise of sample and sketch; None: all that have any variance, if the sketch holds all products of
        columns, else ``"auto"``.
    whiten : bool
        Divide the transformed columns by their standard deviations.
    features : QuadraticFeatures, optional
        The map to sketch with; by default one of `sketch_size` features.
    sketch_size : int, optional
        Features of the sketch; by default ``8 * n_components * n_features``, or all products of columns where
        those are fewer or at most 64 columns make them.
    decoder : str
        ``"auto"``, ``"burer-monteiro"``, ``"greedy"``, ``"positive"``, ``"nuclear"`` or ``"thresholding"``.
    rank : int, optional
        Rank to decode at before truncating; by default ``2 * n_components``.
    n_starts : int
        Starts of the decoder, at most.
    embedding : FourierFeatures, optional
        For kernel PCA: rows are replaced by the cosines and sines of their Fourier features (divided by the root
        of their number), whose inner products approximate the kernel.
    workers : int, optional
        Threads of the pass.
    random_state : int, RandomState or None
        Seeds the map and the starts.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Principal directions, orthonormal, by falling variance.
    explained_variance_, explained_variance_ratio_ : ndarray (n_components,)
        Variances along them, and their parts of the whole.
    singular_values_ : ndarray (n_components,)
        Singular values of the centred rows.
    mean_ : ndarray (n_features,)
        Mean of the rows.
    noise_variance_ : float
        Mean variance of the directions that are left out.
    n_components_, n_samples_ : int
        Number of components; of rows.
    sketch_ : Sketch
        What was learned from.
    solution_ : LowRankSolution
        Residual, noise floor and verdict of the decoder.

    See Also
    --------
    sketchlearn.QuadraticFeatures : the sketch behind it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3)) @ rng.normal(size=(3, 80)) + 0.1 * rng.normal(size=(5000, 80))
    >>> pca = sl.CompressivePCA(n_components=3, random_state=0).fit(X)
    >>> pca.sketch_.features.size, bool(pca.explained_variance_ratio_.sum() > 0.98)
    (1920, True)
    >>> other = sl.CompressivePCA(n_components="auto").fit_sketch(pca.sketch_)
    >>> other.n_components_
    3
    """

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        whiten: bool = False,
        features: QuadraticFeatures | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        rank: int | None = None,
        n_starts: int = 3,
        embedding: FourierFeatures | None = None,
        workers: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.features = features
        self.sketch_size = sketch_size
        self.decoder = decoder
        self.rank = rank
        self.n_starts = n_starts
        self.embedding = embedding
        self.workers = workers
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CompressivePCA:
        """Sketch the rows in one pass and learn the components from the sketch.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows; whole numbers are exactly repetition.

        Returns
        -------
        self
        """
        rows, weights = self._validate(X, sample_weight, reset=True, fewest=2)
        rng = check_random_state(self.random_state)
        self._seed = int(rng.randint(2**31 - 1))
        self.sketch_ = self._sketch(rows, weights, self._draw(rows.shape[1]))
        self._forget()
        self._decode()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CompressivePCA:
        """Add rows to the sketch; the components are decoded when they are next asked for.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows to add.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self
        """
        first = not hasattr(self, "sketch_")
        rows, weights = self._validate(X, sample_weight, reset=first, fewest=1)
        if first:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.sketch_ = self._sketch(rows, weights, self._draw(rows.shape[1]))
        else:
            self.sketch_ = self.sketch_ + self._sketch(rows, weights, self.sketch_.features)
        self._forget()
        return self

    def fit_sketch(self, sketch: Sketch) -> CompressivePCA:
        """Learn the components from a sketch made elsewhere.

        Parameters
        ----------
        sketch : Sketch
            Of :class:`~sketchlearn.QuadraticFeatures` (with an `embedding`, of the embedded rows).

        Returns
        -------
        self
        """
        if not isinstance(sketch, Sketch):
            raise TypeError(f"fit_sketch takes a Sketch, got {type(sketch).__name__}; for rows use fit")
        if self.embedding is not None and 2 * self.embedding.size != sketch.features.dim:
            raise ValueError(
                f"the embedding has {2 * self.embedding.size} columns, the sketch {sketch.features.dim}: "
                "it is not of embedded rows"
            )
        self.n_features_in_ = sketch.features.dim if self.embedding is None else self.embedding.dim
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.sketch_ = sketch
        self._forget()
        self._decode()
        return self

    def _validate(
        self, X: Any, sample_weight: Any, reset: bool, fewest: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        rows = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], accept_large_sparse=False, ensure_min_samples=fewest
        )
        _check_choice(self.n_components)
        if sample_weight is None:
            return rows, None
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("all sample weights are zero: nothing to learn from")
        return rows, weights

    def _draw(self, columns: int) -> QuadraticFeatures:
        if self.embedding is not None:
            if self.embedding.dim != columns:
                raise ValueError(f"the embedding is for {self.embedding.dim} columns, X has {columns}")
            columns = 2 * self.embedding.size
        if self.features is not None:
            if self.features.dim != columns:
                raise ValueError(f"features are for {self.features.dim} columns, X has {columns}")
            return self.features
        known = isinstance(self.n_components, int | np.integer)
        k = int(self.n_components) if known else min(_UNKNOWN_COMPONENTS, columns)  # type: ignore[arg-type]
        size = self.sketch_size
        if size is None and columns <= (_FULL_COLUMNS if self.n_components is None else _FEW_COLUMNS):
            size = columns * (columns + 1) // 2
        return design_pca(dim=columns, n_components=k, size=size, seed=self._seed)[0]

    def _sketch(self, rows: npt.NDArray[Any], weights: npt.NDArray[Any] | None, features: FeatureMap) -> Sketch:
        if self.embedding is None:
            return make_sketch(rows, features, sample_weight=weights, workers=self.workers, progress=False)
        embedding = self.embedding

        def batches() -> Iterator[Any]:
            for i in range(0, len(rows), _EMBEDDED_ROWS):
                block = embed(rows[i : i + _EMBEDDED_ROWS], embedding)
                yield block if weights is None else (block, weights[i : i + _EMBEDDED_ROWS])

        return make_sketch(batches(), features, workers=self.workers, progress=False)

    def _forget(self) -> None:
        for name in _LEARNED:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # what partial_fit has made stale is decoded when it is asked for
        if name in _LEARNED and "sketch_" in self.__dict__:
            self._decode()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _decode(self) -> None:
        _check_choice(self.n_components)
        sketch, choice = self.sketch_, self.n_components
        phi = sketch.features
        if not isinstance(phi, QuadraticFeatures):
            raise TypeError(f"principal components need quadratic features, the sketch has {phi.kind} features")
        count = float(sketch.count)
        most = int(min(phi.dim, max(1, math.floor(count))))
        if isinstance(choice, int | np.integer) and choice > most:
            raise ValueError(f"n_components={choice} must be between 1 and min(n_samples, n_features)={most}")
        known = isinstance(choice, int | np.integer)
        if phi.is_exact:
            rank = phi.dim
        elif self.rank is not None:
            rank = max(int(self.rank), int(choice) if known else 1)  # type: ignore[arg-type]
        else:
            rank = default_rank(phi, int(choice) if known else max(1, phi.size // (8 * phi.dim)))  # type: ignore[arg-type]
        solution = decode_second_moment(
            sketch, rank, decoder=self.decoder, starts=self.n_starts, seed=getattr(self, "_seed", 0)
        )
        unbiased = count / (count - 1.0) if count > 1 else 1.0
        variances = (solution.values + solution.isotropic) * unbiased
        total = float(solution.values.sum() + phi.dim * solution.isotropic) * unbiased
        if phi.is_exact:
            total = float(variances.sum())
        k = _choose(choice, variances, total, solution, phi, count, most)
        self.solution_ = solution
        self.n_components_ = k
        self.n_samples_ = sketch.count
        self.mean_ = solution.mean
        vectors = solution.vectors[:, :k].T
        # signs as scikit-learn has them: the largest entry of each component is positive
        largest = vectors[np.arange(k), np.abs(vectors).argmax(1)]
        self.components_ = np.where(largest < 0, -1.0, 1.0)[:, None] * vectors
        self.explained_variance_ = variances[:k]
        self.explained_variance_ratio_ = variances[:k] / total if total > 0 else np.zeros(k)
        self.singular_values_ = np.sqrt(np.maximum(variances[:k] * max(count - 1.0, 0.0), 0.0))
        others = (most if phi.is_exact else phi.dim) - k
        rest = max(total - float(variances[:k].sum()), 0.0)
        self.noise_variance_ = rest / others if others > 0 else 0.0

    # -- using ---------------------------------------------------------------------------------

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Coordinates of rows along the components.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_components)
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], accept_large_sparse=False)
        real = rows.dtype
        if self.embedding is not None:
            rows = embed(rows, self.embedding)
        out = (rows - self.mean_.astype(rows.dtype)) @ self.components_.T.astype(rows.dtype)
        if self.whiten:
            out /= self._deviations().astype(rows.dtype)
        return np.asarray(out.astype(real, copy=False))

    def inverse_transform(self, X: Any) -> npt.NDArray[Any]:
        """Rows in the space of the components that have these coordinates.

        Parameters
        ----------
        X : array (n_samples, n_components)
            Coordinates.

        Returns
        -------
        ndarray (n_samples, n_features)
        """
        check_is_fitted(self)
        if self.embedding is not None:
            raise ValueError("kernel principal components have no inverse: the embedding can't be undone")
        coordinates = np.asarray(X, np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != self.n_components_:
            raise ValueError(f"expected {self.n_components_} columns, got an array of shape {coordinates.shape}")
        if self.whiten:
            coordinates = coordinates * self._deviations()
        return np.asarray(coordinates @ self.components_ + self.mean_)

    def _deviations(self) -> npt.NDArray[np.float64]:
        scale = np.sqrt(self.explained_variance_)
        return np.maximum(scale, np.finfo(np.float64).eps * max(float(scale.max(initial=0.0)), 1e-300))

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def embed(X: npt.NDArray[Any], phi: FourierFeatures) -> npt.NDArray[np.float64]:
    """Cosines and sines of the Fourier features of rows, divided by the root of their number, (n, 2 size)."""
    z = phi(X)
    return np.concatenate([z.real, z.imag], axis=1) / math.sqrt(phi.size)


def _check_choice(choice: Any) -> None:
    if choice is None or choice == "auto":
        return
    if isinstance(choice, (bool, str)):
        pass
    elif isinstance(choice, int | np.integer):
        if choice >= 1:
            return
    elif isinstance(choice, float | np.floating) and 0.0 < choice < 1.0:
        return
    raise ValueError(f"n_components must be a positive integer, a number in (0, 1), 'auto' or None, got {choice!r}")


def _choose(
    choice: Any,
    variances: npt.NDArray[np.float64],
    total: float,
    solution: LowRankSolution,
    phi: QuadraticFeatures,
    count: float,
    most: int,
) -> int:
    """Number of components."""
    most = min(most, len(variances))
    if isinstance(choice, int | np.integer):
        return int(choice)
    if choice is None and phi.is_exact:
        # directions without variance are arbitrary: rounding alone would choose them
        return max(1, min(most, int(np.sum(variances > 1e-13 * len(variances) * variances[0]))))
    if isinstance(choice, float | np.floating):
        part = np.cumsum(variances) / total if total > 0 else np.ones(len(variances))
        return min(int(np.searchsorted(part, float(choice))) + 1, most)
    # white noise of variance s in n rows has sample variances up to s (1 + sqrt(d / n))^2 (Marchenko and Pastur)
    ratio = phi.dim / count
    edge = (1.0 + math.sqrt(ratio)) ** 2
    if phi.is_exact:
        # the median of what noise there is; exact for ratio -> 0, and at most 3 % off up to ratio 1/2
        present = variances[:most]
        noise = float(np.median(present)) / (1.0 - min(ratio, 1.0) / 3.0)
        above = int(np.sum(present > noise * edge))
    else:
        # twice the edge: the residual is neither quite random nor quite normal
        level = max(2.0 * solution.resolution, solution.isotropic * (edge - 1.0))
        above = int(np.sum(solution.values > level))
    return max(1, min(above, most))
