"""Principal components in scikit-learn's shape, learned from a sketch of quadratic features."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sketchlearn.decoders import decode
from sketchlearn.decoders.lowrank import default_rank
from sketchlearn.decoders.solution import LowRankSolution
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.second_moment import SecondMomentMap, second_moment
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.pca import PCAModel
from sketchlearn.learn.rows import Rows
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import Selection, Source, open_source

Array = npt.NDArray[np.float64]

_UNKNOWN_COMPONENTS = 20  # what a map is sized for when the number of components is left open


class CompressivePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SketchEstimator):  # type: ignore[misc]
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
        Features of the sketch; by default all products of up to 2000 columns, which is less work than random
        features; beyond that ``8 * n_components * n_features``.  Ask for fewer to keep a smaller sketch.
    decoder : str
        ``"auto"``, ``"burer-monteiro"``, ``"greedy"``, ``"positive"``, ``"nuclear"``, ``"thresholding"``,
        ``"shrunk"``, or the name of a decoder of your own (see :func:`sketchlearn.decode`).
    rank : int, optional
        Rank to decode at before truncating; by default ``2 * n_components``.
    n_starts : int
        Starts of the decoder, at most.
    embedding : FourierFeatures, optional
        For kernel PCA: rows are replaced by the cosines and sines of their Fourier features (divided by the root
        of their number), whose inner products approximate the kernel.
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, Generator, RandomState or None
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
    reliable_, verdict_ : bool, str
        Whether the sketch is good enough for this, as a yes or no and in words.
    n_features_in_, feature_names_in_
        Number of columns, and their names if they have any.

    See Also
    --------
    sketchlearn.QuadraticFeatures : the sketch behind it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3)) @ rng.normal(size=(3, 80)) + 0.1 * rng.normal(size=(5000, 80))
    >>> pca = sl.CompressivePCA(n_components=3, sketch_size=1920, random_state=0).fit(X)
    >>> pca.sketch_.features.size, bool(pca.explained_variance_ratio_.sum() > 0.98)
    (1920, True)
    >>> other = sl.CompressivePCA(n_components="auto").fit_sketch(pca.sketch_)
    >>> other.n_components_
    3
    """

    task: ClassVar[str] = "pca"
    model: ClassVar[type[Model]] = PCAModel
    learned: ClassVar[tuple[str, ...]] = (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "mean_",
        "noise_variance_",
        "n_components_",
        "n_samples_",
    )
    fewest_rows: ClassVar[int] = 2
    components_: Array
    explained_variance_: Array
    mean_: Array
    n_components_: int

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        whiten: bool = False,
        features: FeatureMap | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        rank: int | None = None,
        n_starts: int = 3,
        embedding: FeatureMap | None = None,
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
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
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """The number of components may be left open."""
        _check_choice(self.n_components)
        self.check_sketching()

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
        super().fit_sketch(sketch)
        return self

    def design_request(self) -> dict[str, Any]:
        """The number of components, or as many as are likely to be wanted."""
        known = isinstance(self.n_components, int | np.integer)
        k = int(self.n_components) if known else min(_UNKNOWN_COMPONENTS, self._map_columns())  # type: ignore[arg-type]
        return {"task": self.task, "n_components": k}

    def design_features(self, request: Request) -> FeatureMap:
        """Quadratic features; of embedded rows about the origin."""
        if self.embedding is not None:
            request = replace(request, sample=None, weights=None, dim=self._map_columns())
        return super().design_features(request)

    def decode_sketch(self, seed: int) -> LowRankSolution:
        """A second moment of somewhat higher rank than is asked for."""
        phi, choice, most = second_moment(self.sketch_.features, "PCA"), self.n_components, self._most()
        known = isinstance(choice, int | np.integer)
        if known and choice > most:  # type: ignore[operator]
            raise ValueError(f"n_components={choice} must be between 1 and min(n_samples, n_features)={most}")
        wanted = int(choice) if known else max(1, phi.size // (8 * phi.dim))  # type: ignore[arg-type]
        if phi.is_exact:
            rank = phi.dim
        elif self.rank is not None:
            rank = max(int(self.rank), wanted if known else 1)
        else:
            rank = default_rank(phi, wanted)
        solution = decode(
            self.sketch_, rank, task=self.task, decoder=self.decoder, random_state=seed, starts=self.n_starts
        )
        assert isinstance(solution, LowRankSolution)
        return solution

    def set_learned(self, solution: LowRankSolution) -> None:
        """Truncate to the number of components that is wanted."""
        phi, count = second_moment(self.sketch_.features, "PCA"), self.sketch_.effective_count
        most = self._most()
        unbiased = count / (count - 1.0) if count > 1 else 1.0
        variances = (solution.values + solution.isotropic) * unbiased
        total = float(solution.values.sum() + phi.dim * solution.isotropic) * unbiased
        if phi.is_exact:
            total = float(variances.sum())
        k = _choose(self.n_components, variances, total, solution, phi, count, most)
        self.n_components_ = k
        self.n_samples_ = self.sketch_.count
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

    def make_model(self) -> Model:
        """Directions of columns; those of an embedding are none."""
        if self.embedding is not None:
            raise TypeError("kernel principal components are directions of an embedding: there is no model of columns")
        exact = second_moment(self.sketch_.features, "PCA").is_exact
        names = ("components", "explained_variance", "explained_variance_ratio", "noise_variance", "mean")
        learned = {name: getattr(self, name + "_") for name in names}
        # what an exact sketch leaves is what was left out on purpose
        return PCAModel.from_sketch(self.sketch_, self.solution_, **learned, **({"ratio": None} if exact else {}))

    # -- rows and their embedding ----------------------------------------------------------------

    def _most(self) -> int:
        return int(min(self.sketch_.features.dim, max(1, math.floor(self.sketch_.effective_count))))

    def _needed_rows(self) -> int:
        return 1

    def _map_columns(self) -> int:
        if self.embedding is None:
            return super()._map_columns()
        if self.embedding.dim != self.n_features_in_:
            raise ValueError(f"the embedding is for {self.embedding.dim} columns, X has {self.n_features_in_}")
        return 2 * self.embedding.size

    def _set_columns(self, columns: int, names: tuple[str, ...] | None) -> None:
        if self.embedding is not None and columns == 2 * self.embedding.size:
            columns, names = self.embedding.dim, self.embedding.columns  # of the rows, not of what they become
        super()._set_columns(columns, names)

    def _check_sketch(self, sketch: Any) -> None:
        super()._check_sketch(sketch)
        if self.embedding is not None and 2 * self.embedding.size != sketch.features.dim:
            raise ValueError(
                f"the embedding has {2 * self.embedding.size} columns, the sketch {sketch.features.dim}: "
                "it is not of embedded rows"
            )

    def _pass(self, rows: Rows, features: FeatureMap) -> Sketch:
        if self.embedding is None:
            return super()._pass(rows, features)
        known = isinstance(rows.data, Source)
        source = rows.data if known else open_source(rows.data, Selection.of(sample_weight=rows.weights))
        return super()._pass(Rows(source.map(partial(embed, phi=self.embedding))), features)

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
        rows = self._new_rows(X)
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


def embed(X: npt.NDArray[Any], phi: FeatureMap) -> npt.NDArray[np.float64]:
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
    variances: Array,
    total: float,
    solution: LowRankSolution,
    phi: SecondMomentMap,
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
