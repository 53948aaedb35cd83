"""Principal components in scikit-learn's shape, learned from a sketch of quadratic features."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sketchlearn.accepts import FLAG, NOTHING, choice, kind, real, whole
from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders.lowrank import certified, default_rank, standardised
from sketchlearn.designs.request import Request
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.second_moment import second_moment
from sketchlearn.learn.parameters import MISSING, estimator, learned, parameter
from sketchlearn.learn.rows import Rows
from sketchlearn.learn.using import Inverts
from sketchlearn.models.base import Model
from sketchlearn.models.pca import PCAModel, most_components
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import Selection, Source, open_source

_UNKNOWN_COMPONENTS = 20  # what a map is sized for when the number of components is left open


@estimator
class CompressivePCA(Inverts):
    """Principal component analysis from a sketch.

    Parameters
    ----------
    n_components : int, float, "auto" or None
        Number of components. A float in (0, 1): as many as explain that share of the variance. ``"auto"``: as many as
        stand out from the noise of the sample and the sketch. None: all that have any variance, if the sketch holds all
        products of columns; otherwise ``"auto"``.
    whiten : bool
        Divide the transformed columns by their standard deviations.
    features : QuadraticFeatures, optional
        The map to sketch with; by default one of `sketch_size` features.
    sketch_size : int, optional
        Number of features. By default, all products of up to 5000 columns are kept, because this is less work than
        random features; beyond that, it is ``8 * n_components * n_features``. Set a smaller number to keep a smaller
        sketch.
    decoder : str
        ``"auto"``, ``"burer-monteiro"``, ``"greedy"``, ``"positive"``, ``"nuclear"``, ``"thresholding"``,
        ``"shrunk"``, or the name of a decoder of your own (see :func:`sketchlearn.decode`).
    rank : int, optional
        Rank to decode at before truncating; by default ``2 * n_components``.
    n_starts : int
        Largest number of starts of the decoder.
    standardize : bool
        Compute components of standardised columns (of the correlation matrix). The standard deviations are in the
        sketch, so this works with any sketch of all products of columns. Components and variances are in these units,
        ``scale_`` holds the standard deviations, and `transform` takes the original rows.
    embedding : FourierFeatures, optional
        For kernel PCA: rows are replaced by the cosines and sines of their Fourier features (divided by the root
        of their number), whose inner products approximate the kernel.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Principal directions, orthonormal, by falling variance.
    explained_variance_, explained_variance_ratio_ : ndarray (n_components,)
        Variances along the components, and their shares of the total variance.
    singular_values_ : ndarray (n_components,)
        Singular values of the centred rows.
    scale_ : ndarray (n_features,) or None
        Standard deviations of the columns, if they were standardised.
    mean_ : ndarray (n_features,)
        Mean of the rows.
    noise_variance_ : float
        Mean variance of the directions that are left out.
    captured_, captured_bound_ : float
        Estimated variance along the components as a share of the most that so many can have, and a low estimate; 1 from
        a sketch of all products of columns, NaN where noise was added or the sketch is too small to tell.
    n_components_, n_samples_ : int
        Number of components; of rows.
    reliable_, verdict_ : bool, str
        Whether the sketch is good enough for this, as a yes or no and in words.

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
    fewest_rows: ClassVar[int] = 2
    n_components: int | float | str | None = parameter(
        default=None, accepts=whole() | real(0.0, 1.0) | choice("auto") | NOTHING, kw_only=False
    )
    whiten: bool = parameter(default=False, accepts=FLAG)
    rank: int | None = parameter(default=None, accepts=whole() | NOTHING)
    n_starts: int = parameter(default=3, accepts=whole())
    standardize: bool = parameter(default=False)
    embedding: FeatureMap | None = parameter(default=None, accepts=kind(FeatureMap, "a FeatureMap") | NOTHING)
    missing: str | None = parameter(default=None, accepts=MISSING)
    components_: Array = learned()
    explained_variance_: Array = learned()
    mean_: Array = learned()
    captured_: float = learned()
    captured_bound_: float = learned()
    n_components_: int = learned()

    # -- learning ------------------------------------------------------------------------------

    def design_request(self) -> dict[str, Any]:
        """The number of components, or as many as are likely to be wanted."""
        known = isinstance(self.n_components, int | np.integer)
        k = int(self.n_components) if known else min(_UNKNOWN_COMPONENTS, self._map_columns())  # type: ignore[arg-type]
        # the sketch knows the units of the columns: its map is that of a regression, for which they don't matter
        task = "regression" if self.standardize else self.task
        return {"task": task, "n_components": k, "standardize": None}

    def design_features(self, request: Request) -> FeatureMap:
        """Quadratic features; of embedded rows about the origin."""
        if self.embedding is not None:
            request = replace(request, sample=None, weights=None, dim=self._map_columns())
        return super().design_features(request)

    def decode_sketch(self, seed: int) -> Model:
        """Components of a second moment of somewhat higher rank than is asked for."""
        phi, wished, most = (
            second_moment(self.sketch_.features, "PCA"),
            self.n_components,
            most_components(self.sketch_),
        )
        if self.standardize and not phi.is_exact:
            raise InputError(
                Option("standardize", True), " needs a sketch of all products of columns: leave out ",
                Option("sketch_size"), " in the design",
            )  # fmt: skip
        known = isinstance(wished, int | np.integer)
        if known and wished > most:  # type: ignore[operator]
            raise ValueError(f"n_components={wished} must be between 1 and min(n_samples, n_features)={most}")
        wanted = int(wished) if known else max(1, phi.size // (8 * phi.dim))  # type: ignore[arg-type]
        if phi.is_exact:
            rank = phi.dim
        elif self.rank is not None:
            rank = max(int(self.rank), wanted if known else 1)
        else:
            rank = default_rank(phi, wanted)
        found = self._decoded(rank, seed, starts=self.n_starts)
        moment, scale = standardised(found, self.sketch_) if self.standardize else (found, None)
        model = PCAModel.of_moment(moment, self.sketch_, wished, scale)
        judged = certified(found, model.size)
        return replace(model, code=judged.code, verdict=judged.verdict)

    def to_model(self) -> Model:
        """What was learned, as a value; directions of an embedding are none of columns."""
        if self.embedding is not None:
            raise TypeError("kernel principal components are directions of an embedding: there is no model of columns")
        return super().to_model()

    # -- rows and their embedding ----------------------------------------------------------------

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
                "it was not made from embedded rows"
            )

    def _pass(self, rows: Rows, features: FeatureMap) -> Sketch:
        if self.embedding is None:
            return super()._pass(rows, features)
        known = isinstance(rows.data, Source)
        source = rows.data if known else open_source(rows.data, Selection.of(sample_weight=rows.weights))
        return super()._pass(Rows(source.map(partial(embed, phi=self.embedding))), features)

    # -- using ---------------------------------------------------------------------------------

    def transform(self, X: Any) -> AnyArray:
        rows = self._new_rows(X)
        real = rows.dtype
        if self.embedding is not None:
            rows = embed(rows, self.embedding)
        out = self.solution_.transform_rows(rows)
        if self.whiten:
            out /= self.solution_.deviations.astype(rows.dtype)
        return np.asarray(out.astype(real, copy=False))

    def _coordinates(self, X: Any) -> Array:
        if self.embedding is not None:
            raise ValueError("kernel principal components have no inverse: the embedding can't be undone")
        found = super()._coordinates(X)
        return found * self.solution_.deviations if self.whiten else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def embed(X: AnyArray, phi: FeatureMap) -> Array:
    """Cosines and sines of the Fourier features of rows, divided by the root of their number, (n, 2 size)."""
    z = phi(X)
    return np.concatenate([z.real, z.imag], axis=1) / math.sqrt(phi.size)
