"""Classification from one sketch a class."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sketchlearn.arrays import FARTHEST
from sketchlearn.decoders import decode
from sketchlearn.decoders.classifier.rules import ClassSolution
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.designs.classifier import design_class_means, design_class_mixtures
from sketchlearn.designs.request import Request
from sketchlearn.engines import run
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.classifier import ClassifierModel
from sketchlearn.learn.rows import PILOT_ROWS, Rows, is_source
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sources import Selection, Source, open_source

Array = npt.NDArray[np.float64]

_MOMENTS = ("lda", "qda", "naive-bayes")


class CompressiveClassifier(ClassifierMixin, SketchEstimator):  # type: ignore[misc]
    """Classification from a table of sketches, one a class.

    The default, least squares on Fourier features, needs the products of all features: the sketches hold them
    exactly, so the rule is that of the rows, and penalty and kernel scale are chosen by cross-validation without
    them.  Sketches of classes add up and subtract: a new class is a new sketch, a class that is deleted is left out.

    Parameters
    ----------
    method : {"auto", "ridge", "lda", "qda", "naive-bayes", "mixture", "mean"}
        ``"ridge"`` (``"auto"``): least squares on Fourier features of many scales; three classes or more are normal in
        the space of its scores, unless `alpha` is given.  ``"lda"``, ``"qda"``, ``"naive-bayes"``: normal classes, from
        exact moments of the columns, as in scikit-learn.  ``"mixture"``: a Gaussian mixture a class.  ``"mean"``: the
        nearest class mean in feature space, for sketches of a few kilobytes; its probabilities are not calibrated.
    n_components : int
        Components a class, of mixtures.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Of mixtures.
    alpha : float, optional
        Penalty of least squares, as in :class:`sklearn.linear_model.Ridge`; by default chosen by generalised
        cross-validation.
    shrinkage : float
        Of the covariances of LDA and QDA, between 0 and 1.
    class_weight : dict, "balanced" or None
        Factors of the rows of each class, applied to the sketches: another choice needs no second pass.  Of
        ``"mean"``, which has no prior, they are factors of the probabilities.
    features : FeatureMap, optional
        The map to sketch with; by default one for `method`, designed from 2000 rows.
    sketch_size : int, optional
        Cosines and sines of the embedding (1000), or frequencies of the other methods.  Least squares keeps half
        the square of it in integers a class.
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, RandomState or None
        Seeds the map and the decoder of mixtures.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        Labels.
    class_counts_ : ndarray (n_classes,)
        Rows of each class.
    facts_ : dict
        What was chosen: for least squares ``alpha``, ``band`` (of frequencies) and ``gcv``.
    sketch_ : SketchTable
        What was learned from: one sketch a class.
    solution_ : ClassSolution
        The rule, and what the rows of each class typically get.
    reliable_, verdict_ : bool, str
        Whether the sketches are good enough for this, as a yes or no and in words.
    n_features_in_, feature_names_in_
        Number of columns, and their names if they have any.

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
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = ClassifierModel
    learned: ClassVar[tuple[str, ...]] = ("classes_", "class_counts_", "facts_")
    sketch_: SketchTable  # type: ignore[assignment]
    classes_: npt.NDArray[Any]
    class_counts_: Array
    facts_: dict[str, Any]

    def __init__(
        self,
        method: str = "auto",
        *,
        n_components: int = 1,
        covariance_type: str = "full",
        alpha: float | None = None,
        shrinkage: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        features: FeatureMap | None = None,
        sketch_size: int | None = None,
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.alpha = alpha
        self.shrinkage = shrinkage
        self.class_weight = class_weight
        self.features = features
        self.sketch_size = sketch_size
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows of each class in one pass and learn a rule.

        Parameters
        ----------
        X : array, frame, or anything that :func:`sketchlearn.sketch` reads
            Rows.
        y : array (n_samples,), or a column of a path or stream
            Labels: ``fit(array, labels)``, ``fit("data/*.parquet", "species")``, ``fit(batches, -1)``; none for rows
            that were opened with ``sl.read(..., group_by="species")``.
        sample_weight : array (n_samples,), optional
            Weights of the rows of an array or frame; whole numbers are exactly repetition.

        Returns
        -------
        self
        """
        self.check_parameters()
        seeds = self._seeds()
        self.__dict__.pop("_labels", None)
        table, scale = self._table(X, y, sample_weight, seeds[0], None)
        self._take(table, seeds[1], scale)  # type: ignore[arg-type]
        self._solve()
        return self

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
        self.check_parameters()
        if "sketch_" not in self.__dict__:
            seeds = self._seeds()
            self.__dict__.pop("_labels", None)
            table, scale = self._table(X, y, sample_weight, seeds[0], classes)
            self._take(table, seeds[1], scale)  # type: ignore[arg-type]
        else:
            table, _ = self._table(X, y, sample_weight, None, classes)
            total = self.sketch_ + table
            self._forget()
            self.sketch_ = total
        return self

    def fit_sketch(self, sketch: Any) -> Self:
        """Learn from sketches made elsewhere, one a class.

        Parameters
        ----------
        sketch : SketchTable, or dict of label to Sketch
            From ``sl.sketch(data, phi, group_by=labels)``.

        Returns
        -------
        self
        """
        self.check_parameters()
        if isinstance(sketch, dict):
            sketch = SketchTable(sketch)
        if not isinstance(sketch, SketchTable):
            raise TypeError(
                f"fit_sketch takes a table with one Sketch a class, got {type(sketch).__name__}; for rows use fit"
            )
        self._check_sketch(next(iter(sketch.values())))
        self._set_columns(sketch.features.inputs, sketch.features.input_columns)
        self._labels = {key: key for key in sketch}
        self._take(sketch, self._seeds()[1], 1.0)  # type: ignore[arg-type]
        self._solve()
        return self

    def check_parameters(self) -> None:
        """Methods have names, penalties are numbers."""
        self.check_options()
        super().check_parameters()

    def check_options(self) -> None:
        """Refuse options that make no sense."""
        decoders = decoders_of(self.task)
        if self.method != "auto" and self.method not in decoders:
            raise ValueError(f"method={self.method!r}: choose 'auto' or one of {', '.join(decoders)}")
        if self.alpha is not None and (
            isinstance(self.alpha, bool) or not np.isscalar(self.alpha) or not 0 <= self.alpha < math.inf  # type: ignore[operator]
        ):
            raise ValueError(f"alpha must be a number, not negative, or None, got {self.alpha!r}")
        if not 0.0 <= self.shrinkage <= 1.0:
            raise ValueError(f"shrinkage must be between 0 and 1, got {self.shrinkage!r}")
        given = self.class_weight
        if given is not None and given != "balanced" and not isinstance(given, dict):
            raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {given!r}")

    def design_request(self) -> dict[str, Any]:
        """A map for one rule, whatever the number of classes."""
        return {"task": self.task, "n_components": 1}

    def design_features(self, request: Request) -> FeatureMap:
        """A map for the method; the labels of the pilot rows are those that ``_table`` left."""
        if self._method == "ridge":
            return super().design_features(request)
        rows, weights = request.weighted()
        labels = self._pilot_labels
        if labels is None:
            labels = np.zeros(len(rows), np.intp)
        if self._method in _MOMENTS:
            return QuadraticFeatures.draw(dim=rows.shape[1]).explained("all products of columns, for class covariances")
        how: dict[str, Any] = {"size": request.size, "seed": request.seed, "weights": weights}
        if self._method == "mean":
            phi = design_class_means(rows, labels, **how)
            return phi.explained(f"{phi.size} features of one scale, in the metric of the classes' pooled covariance")
        phi = design_class_mixtures(rows, labels, self.n_components, self.covariance_type, **how)
        return phi.explained(f"{phi.size} features for {self.n_components} components a class, about the class means")

    def decode_sketch(self, seed: int) -> ClassSolution:
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
        solution = decode(self._ordered(), k, task=self.task, decoder=self._method, random_state=seed, **options)
        assert isinstance(solution, ClassSolution)
        return solution

    def set_learned(self, solution: ClassSolution) -> None:
        """Labels in their order, and rows."""
        self.classes_ = np.array([self._labels[key] for key in self._keys()])
        self.class_counts_ = solution.counts / self._weight_scale
        self.facts_ = solution.facts

    def make_model(self) -> Model:
        """The rule and its labels, as text."""
        total = self.sketch_.union()
        labels = [label.item() if isinstance(label, np.generic) else label for label in self.classes_]
        kinds = {bool: "bool", int: "int", float: "float"}
        return ClassifierModel.from_sketch(
            total,
            self.solution_,
            classes=tuple(str(label) for label in labels),
            label_type=kinds.get(type(labels[0]), "str"),
            counts=self.class_counts_,
            typical=self.solution_.typical,
            **ClassifierModel.rule_fields(self.solution_.rule),
        )

    # -- classes -------------------------------------------------------------------------------

    @property
    def _method(self) -> str:
        return decoders_of(self.task).default if self.method == "auto" else self.method

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

    def _table(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        seed: int | None,
        expected: Any,
    ) -> tuple[SketchTable, float]:
        """The sketches of some rows by class, and by how much their weights were scaled."""
        if is_source(X) and not (isinstance(X, np.memmap) and y is not None and np.ndim(y) > 0):
            return self._source_table(X, y, sample_weight, seed, expected), 1.0
        first = seed is not None
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        strict = self.on_invalid == "raise"
        array, labels = validate_data(self, X, y, reset=first, dtype=list(self.row_types), ensure_all_finite=strict)
        check_classification_targets(labels)
        rows = self._weighted(array, sample_weight, self._names(), first)
        known, codes = np.unique(labels, return_inverse=True)
        self._check_expected(known, expected)
        keys = [_key(label) for label in known]
        if seed is not None:
            kept = np.ones(len(array), bool) if rows.weights is None else rows.weights > 0
            at = np.arange(len(array), dtype=np.float64)[:, None]
            chosen, pilot_weights = Rows(at, rows.weights).pilot(seed)
            where = chosen[:, 0].astype(np.intp)
            assert kept[where].all()
            good = (np.abs(array[where]) <= FARTHEST).all(axis=1)
            where, pilot_weights = where[good], None if pilot_weights is None else pilot_weights[good]
            self._pilot_labels: npt.NDArray[Any] | None = codes[where]
            pilot = Rows(array[where], pilot_weights, names=rows.names)
            features = self._map(pilot, seed, whole=True)
            del self._pilot_labels
        else:
            features = self.sketch_.features
        wanted = features.input_columns
        source = open_source(
            rows.data, Selection.of(group_by=codes.tolist(), sample_weight=rows.weights, expected=wanted)
        )
        found = run(source, features, workers=self.workers, progress=self.progress, on_invalid=self.on_invalid)
        assert isinstance(found, SketchTable)
        labelled = {keys[code]: s for code, s in found.items() if s.weight > 0}
        if not labelled:
            raise ValueError("sample_weight is zero for every row: there is nothing to learn from")
        self._labels = {**self.__dict__.get("_labels", {}), **dict(zip(keys, known.tolist(), strict=True))}
        return SketchTable(labelled), rows.scale

    def _source_table(self, X: Any, y: Any, sample_weight: Any, seed: int | None, expected: Any) -> SketchTable:
        if sample_weight is not None:
            raise ValueError(
                "sample_weight is for rows in memory: read the weights with the rows, with "
                "sl.read(..., weight_column=...)"
            )
        groups = isinstance(X, Source) and X.grouped
        if groups != (y is None) or not (groups or isinstance(y, str | int | np.integer)):
            raise ValueError("say which column holds the labels: fit('data.parquet', 'species') or fit(batches, -1)")
        known = self.features if seed is not None else self.sketch_.features
        label = y if y is None or isinstance(y, str) else int(y)
        source = open_source(X, Selection.of(group_by=label, expected=None if known is None else known.input_columns))
        if seed is not None:
            sample = None if known is not None else source.pilot(PILOT_ROWS, seed)
            width = sample.rows.shape[1] if sample is not None else known.inputs  # type: ignore[union-attr]
            names = source.names if source.names is not None and len(source.names) == width else None
            self._set_columns(width, names)
            self._pilot_labels = None
            features = self._map(Rows(source, names=names, sample=sample), seed, whole=False)
            del self._pilot_labels
        else:
            assert known is not None
            features = known
        table = run(source, features, workers=self.workers, progress=self.progress, on_invalid=self.on_invalid)
        assert isinstance(table, SketchTable)
        self._check_expected(np.array([key for key in table if key is not None]), expected)
        self._labels = {**self.__dict__.get("_labels", {}), **{key: key for key in table}}
        return table

    @staticmethod
    def _check_expected(labels: npt.NDArray[Any], expected: Any) -> None:
        if expected is None:
            return
        strange = np.setdiff1d(labels, np.asarray(expected))
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
        scores = self.solution_.rule.scores(rows)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)
        """
        rows = self._new_rows(X)
        return np.asarray(self.classes_[self.solution_.rule.scores(rows).argmax(1)])

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, given the row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_classes)
        """
        rows = self._new_rows(X)
        return np.asarray(self.solution_.rule.probabilities(rows))

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
