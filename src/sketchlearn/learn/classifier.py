"""Classification from one sketch per class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sketchlearn.accepts import NOTHING, choice, kind, real, whole
from sketchlearn.arrays import FARTHEST, AnyArray, Array
from sketchlearn.decoders import decode
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.designs.classifier import design_class_means, design_class_mixtures
from sketchlearn.designs.pca import ALL_PRODUCTS
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.parameters import COVARIANCES, estimator, learned, parameter
from sketchlearn.learn.rows import Rows, is_source
from sketchlearn.learn.tables import TableEstimator, checked_labels
from sketchlearn.learn.using import HasProbabilities
from sketchlearn.models.base import Model
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sources import Source

_MOMENTS = ("lda", "qda", "naive-bayes")


@estimator
class CompressiveClassifier(ClassifierMixin, HasProbabilities, TableEstimator):  # type: ignore[misc]
    """Classification from a table of sketches, one for each class.

    The default is least squares on Fourier features. The sketches hold all products of features exactly, so the result
    is the same as from the rows. Penalty and kernel scale are chosen by cross-validation without the rows. Sketches of
    classes can be added and subtracted. To add a class, add its sketch; to delete a class, leave its sketch out.

    Parameters
    ----------
    method : {"auto", "ridge", "lda", "qda", "naive-bayes", "mixture", "mean"}
        ``"ridge"`` (``"auto"``): least squares on Fourier features of many scales; three classes or more are normal in
        the space of its scores, unless `alpha` is given. ``"lda"``, ``"qda"``, ``"naive-bayes"``: normal classes, from
        exact moments of the columns, as in scikit-learn. ``"mixture"``: one Gaussian mixture per class. ``"mean"``: the
        nearest class mean in feature space, for sketches of a few kilobytes; its probabilities are not calibrated.
    n_components : int
        Components per class, for ``"mixture"``.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Of mixtures.
    alpha : float, optional
        Penalty of least squares, as in :class:`sklearn.linear_model.Ridge`; by default chosen by generalised
        cross-validation.
    shrinkage : float
        Of the covariances of LDA and QDA, between 0 and 1.
    class_weight : dict, "balanced" or None
        Weights of the classes. They are applied to the sketches, so changing them needs no second pass. For ``"mean"``,
        which has no prior, they multiply the probabilities.
    features : FeatureMap, optional
        The map to sketch with; by default one for `method`, designed from 2000 rows.
    sketch_size : int, optional
        Number of cosines and sines of the embedding (1000), or of frequencies for the other methods. Least squares
        keeps half of its square as integers per class.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        Labels.
    class_counts_ : ndarray (n_classes,)
        Rows of each class.
    facts_ : dict
        What was chosen: for least squares ``alpha``, ``band`` (of frequencies) and ``gcv``.
    sketch_ : SketchTable
        The sketches that were learned from, one for each class.
    solution_ : ClassifierModel
        The rule, and the typical result for rows of each class.
    reliable_, verdict_ : bool, str
        Whether the sketches are good enough for this, as a yes or no and in words.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.15, random_state=0)
    >>> clf = sl.CompressiveClassifier(sketch_size=100, random_state=0).fit(X[:1500], y[:1500])
    >>> bool(clf.score(X[1500:], y[1500:]) > 0.97), clf.predict_proba(X[:1]).shape
    (True, (1, 2))

    The sketches are all that is needed, and a class can be forgotten:

    >>> again = sl.CompressiveClassifier().fit_sketch(clf.sketch_)
    >>> bool((again.predict(X) == clf.predict(X)).all())
    True
    >>> sl.CompressiveClassifier().fit_sketch({1: clf.sketch_[1]}).classes_
    array([1])
    """

    task: ClassVar[str] = "classifier"
    group: ClassVar[str] = "class"
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = ClassifierModel
    method: str = parameter(default="auto", kw_only=False)
    n_components: int = parameter(default=1, accepts=whole())
    covariance_type: str = parameter(default="full", accepts=COVARIANCES)
    alpha: float | None = parameter(default=None, accepts=real(closed=True) | NOTHING)
    shrinkage: float = parameter(default=0.0, accepts=real(0.0, 1.0, closed=True))
    class_weight: dict[Any, float] | str | None = parameter(
        default=None, accepts=kind(dict, "a dict") | choice("balanced") | NOTHING
    )
    decoder: ClassVar[str] = "auto"  # type: ignore[misc]
    classes_: AnyArray = learned()
    class_counts_: Array = learned()
    facts_: dict[str, Any] = learned()

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows of each class in one pass and learn a rule.

        Parameters
        ----------
        X : array, frame, or anything that :func:`sketchlearn.sketch` reads
            Rows.
        y : array (n_samples,), or a column of a path or stream
            Labels: ``fit(array, labels)``, ``fit("data/*.parquet", "species")``, ``fit(batches, -1)``. Not needed for
            rows that were opened with ``sl.read(..., group_by="species")``.
        sample_weight : array (n_samples,), optional
            Weights of the rows of an array or frame; whole numbers are exactly repetition.

        Returns
        -------
        self
        """
        self._expected = None
        return super().fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Self:
        """Add rows to the sketches of their classes; new classes may appear in any batch.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        classes : array, optional
            All labels that are expected: others are refused.

        Returns
        -------
        self
        """
        self._expected = classes
        return super().partial_fit(X, y, sample_weight)

    def _given(self, sketch: Any) -> SketchTable:
        table = super()._given(sketch)
        self._labels = {key: key for key in table}
        return table

    def check_decoder(self) -> None:
        """Refuse a name that no method has."""
        decoders = decoders_of(self.task)
        if self.method != "auto" and self.method not in decoders:
            raise ValueError(f"method={self.method!r}: choose 'auto' or one of {', '.join(decoders)}")

    def design_request(self) -> dict[str, Any]:
        """A map for one rule, whatever the number of classes."""
        return ALL_PRODUCTS if self._method in _MOMENTS else {"task": self.task, "n_components": 1}

    def design_features(self, request: Request) -> FeatureMap:
        """A map for the method; the labels of the pilot rows are those that ``_map`` left."""
        if self._method == "ridge" or self._method in _MOMENTS:
            return super().design_features(request)
        rows, weights = request.weighted()
        labels = self._pilot_labels
        if labels is None:
            labels = np.zeros(len(rows), np.intp)
        how: dict[str, Any] = {"size": request.size, "seed": request.seed, "weights": weights}
        if self._method == "mean":
            phi = design_class_means(rows, labels, **how)
            return phi.explained(f"{phi.size} features of one scale, in the metric of the classes' pooled covariance")
        phi = design_class_mixtures(rows, labels, self.n_components, self.covariance_type, **how)
        return phi.explained(f"{phi.size} features for {self.n_components} components per class, about the class means")

    def decode_sketch(self, seed: int) -> ClassifierModel:
        """A rule from the table, with the options that the method has."""
        # the mean rule gives all classes the same weight as it is
        even = self._method == "mean" and self.class_weight == "balanced"
        options: dict[str, Any] = {"class_weights": None if even else self._class_weights()}
        if self._method == "ridge" and self.alpha is not None:
            options["alpha"] = float(self.alpha) * self._weight_scale
        elif self._method in _MOMENTS:
            options["shrinkage"] = float(self.shrinkage)
        elif self._method == "mixture":
            options["covariance_type"] = self.covariance_type
        k = int(self.n_components) if self._method == "mixture" else 1
        found: ClassifierModel = decode(
            self._ordered(), k, task=self.task, decoder=self._method, random_state=seed, **options
        )
        labels = [self._labels[key] for key in self._keys()]
        return replace(found.labelled(labels), counts=found.counts / self._weight_scale)

    # -- classes -------------------------------------------------------------------------------

    @property
    def _method(self) -> str:
        if self.method != "auto":
            return self.method
        known = self.__dict__.get("sketch_")
        features = self.features if known is None else known.features
        # averages of Fourier features alone, as releases have them, know class means and no products
        means = features is not None and features.as_embedded is None and features.as_characteristic is not None
        return "mean" if means else decoders_of(self.task).default

    def _keys(self) -> list[Any]:
        """Groups of the table in the order of their labels."""
        keys = self.sketch_.groups
        return sorted(keys, key=lambda key: self._labels[key]) if None not in keys else keys

    def _ordered(self) -> SketchTable:
        """The table in the order of the labels: columns of a rule are in the order of the table."""
        keys = self._keys()
        if keys == self.sketch_.groups:
            return self.sketch_
        return SketchTable({i: self.sketch_[key] for i, key in enumerate(keys)})

    def _class_weights(self) -> Array | None:
        keys, given = self._keys(), self.class_weight
        if given is None:
            return None
        if given == "balanced":
            counts = np.array([float(self.sketch_[key].count) for key in keys])
            return np.asarray(counts.sum() / (len(counts) * counts))
        labels = [self._labels[key] for key in keys]
        assert isinstance(given, dict)
        factors = np.array([float(given.get(label, 1.0)) for label in labels])
        if not (factors >= 0).all() or not factors.any():
            raise ValueError(f"class_weight must hold numbers, not negative nor all zero: {given!r}")
        return factors

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _opened(self, X: Any, y: Any, sample_weight: Any, seed: int | None = None) -> Rows:
        first = seed is not None
        if first:
            self._labels = {}
        if is_source(X) and not (isinstance(X, np.memmap) and y is not None and np.ndim(y) > 0):
            groups = isinstance(X, Source) and X.grouped
            if groups != (y is None) or not (groups or isinstance(y, str | int | np.integer)):
                raise ValueError(
                    "say which column holds the labels: fit('data.parquet', 'species') or fit(batches, -1)"
                )
            rows = self._from_source(X, sample_weight, seed, y if y is None or isinstance(y, str) else int(y))
            if first:
                self._set_columns(rows.width(self.features), rows.names)
            return rows
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        checked_labels(y, self.group)
        array, labels = validate_data(self, X, y, reset=first, dtype=list(self.row_types), ensure_all_finite=False)
        self._check_finite(array)
        check_classification_targets(labels)
        known, codes = np.unique(labels, return_inverse=True)
        self._check_expected(known)
        keys = tuple(_key(label) for label in known)
        self._labels |= dict(zip(keys, known.tolist(), strict=True))
        return replace(self._weighted(array, sample_weight, self._names(), first), groups=(codes, keys))

    def _map(self, rows: Rows, seed: int, whole: bool) -> FeatureMap:
        self._pilot_labels: AnyArray | None = None
        if rows.groups is not None:  # the labels of the pilot are needed too
            at = np.arange(len(rows.data), dtype=np.float64)[:, None]
            chosen, weights, _ = Rows(at, rows.weights).pilot(seed)
            where = chosen[:, 0].astype(np.intp)
            good = (np.abs(rows.data[where]) <= FARTHEST).all(axis=1)
            where, weights = where[good], None if weights is None else weights[good]
            self._pilot_labels = rows.groups[0][where]
            rows = Rows(rows.data[where], weights, names=rows.names)
        try:
            return super()._map(rows, seed, whole)
        finally:
            del self._pilot_labels

    def _pass(self, rows: Rows, features: FeatureMap) -> SketchTable:
        table = super()._pass(rows, features)
        if rows.groups is None:  # the labels of a source are known now
            self._check_expected(np.array([key for key in table if key is not None]))
            self._labels |= {key: key for key in table}
        return table

    def _check_expected(self, labels: AnyArray) -> None:
        if self._expected is None:
            return
        strange = np.setdiff1d(labels, np.asarray(self._expected))
        if len(strange):
            raise ValueError(f"y has the label {strange[0]!r}, which is not among classes")

    # -- using ---------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Scores of the classes: (n_samples, n_classes), or the second one's minus the first one's for two classes.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray
        """
        rows = self._new_rows(X)
        return np.asarray(self.solution_.decisions(rows))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def _key(label: Any) -> Any:
    """A label as a group of a table: text, whole numbers and booleans are themselves, others are text."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    return plain if isinstance(plain, str | bool | int) else str(plain)
