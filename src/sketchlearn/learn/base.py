"""One base for estimators: rows or a source become a sketch, the sketch a model, the model attributes.

A new estimator is a subclass with three things: `task` (which decoders), `model` (which class of model, whose
`attributes` are shown) and, where the task's own design will not do, :meth:`SketchEstimator.design_request`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from sketchlearn.arrays import AnyArray, nowhere
from sketchlearn.decoders import decode, sweep
from sketchlearn.decoders.profile import with_profile
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.designs.front import design_request
from sketchlearn.designs.request import Request, find
from sketchlearn.exceptions import IncompatibleSketchError, warn
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.parameters import DeclaredParameters, estimator, learned, parameter
from sketchlearn.learn.rows import (
    PILOT_ROWS,
    Rows,
    as_random_state,
    checked,
    checked_weights,
    is_source,
    on_grid,
    refuse_gaps,
    weight_scale,
)
from sketchlearn.models.base import Model
from sketchlearn.sketches.accumulator import invalid
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketching import sketch as make_sketch
from sketchlearn.sources import Selection, open_source
from sketchlearn.sources.pilot import pilot_rows
from sketchlearn.threads import limited

_OF_ALL = ("solution_", "reliable_", "verdict_")


@estimator
class SketchEstimator(DeclaredParameters, ABC):
    """What all estimators share.

    ``fit`` designs a feature map from a pilot of 2000 rows (unless `features` is given), sketches all rows in one
    pass and decodes; ``partial_fit`` adds rows to the sketch, and what was learned is decoded when it is next asked
    for; ``fit_sketch`` decodes a sketch made elsewhere.  Rows may be an array, a frame, or anything that
    :func:`sketchlearn.sketch` reads: paths, streams of batches, Arrow, databases, memory maps.

    Subclasses declare their other parameters (:func:`~sketchlearn.learn.parameters.estimator`), and say what is
    particular to them in the methods below.
    """

    task: ClassVar[str]
    """Name of the task in :data:`sketchlearn.decoders.DECODERS`."""
    model: ClassVar[type[Model]]
    """The class of models that :meth:`to_model` returns; its `attributes` are set by learning, go stale when rows are
    added, and come back when asked for."""
    also_shown: ClassVar[Mapping[str, str]] = {}
    """Further attributes, beside those that the model declares."""
    counted: ClassVar[str] = "n_components"
    """The parameter that says how many components are wanted."""
    fewest_rows: ClassVar[int] = 1
    """Rows that `fit` needs at least."""
    most: ClassVar[int] = 20
    """Components that are tried if their number is ``"auto"``."""
    projects: ClassVar[bool] = False
    """Whether rows may be projected at random first: not if the model is about single columns."""
    row_types: ClassVar[tuple[Any, ...]] = (np.float64, np.float32)
    """Types of rows that are sketched as they are."""

    features: FeatureMap | None = parameter(default=None)
    sketch_size: int | None = parameter(default=None)
    decoder: str = parameter(default="auto")
    on_invalid: str = parameter(default="raise")
    n_jobs: int | None = parameter(default=None)
    progress: Any = parameter(default=None)
    random_state: Any = parameter(default=None)
    sketch_: Sketch = learned()
    solution_: Any = learned()
    reliable_: bool = learned()
    verdict_: str = learned()

    # -- what subclasses say -------------------------------------------------------------------

    def design_request(self) -> dict[str, Any]:
        """What to ask of :func:`sketchlearn.design`, as fields of a request: task, number of components, options."""
        return {"task": self.task, "n_components": self._components(), **self._passed("design")}

    def design_features(self, request: Request) -> FeatureMap:
        """A feature map for a request with a pilot sample; by default that of the task's own designer."""
        phi, why = find(request.task).design(request)
        return phi.explained(why)

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any row is read."""
        super().check_parameters()
        if self.features is not None and getattr(self, "projection", None) is not None:
            raise ValueError("give features or projection, not both: a map has its own projection, or none")
        self.check_decoder()

    def check_decoder(self) -> None:
        """Refuse a name that no decoder of the task has."""
        decoders = decoders_of(self.task)
        if self.decoder != "auto" and self.decoder not in decoders:
            raise ValueError(f"decoder={self.decoder!r}: choose 'auto' or one of {', '.join(decoders)}")

    def default_size(self, columns: int, rows: float | None) -> int | None:
        """Number of features for so many columns and rows (None: not known yet); None leaves it to the design."""
        return None

    def decode_sketch(self, seed: int) -> Model:
        """The model behind ``self.sketch_``; by default what the chosen decoder and :meth:`decode_options` give."""
        options, k = self.decode_options(), self._chosen(seed)
        table = getattr(self, "sweep_", None) if getattr(self, self.counted, None) == "auto" else None
        final = None if table is None else table.solution
        if final is not None and final.task == self.task and self.decoder == "auto" and not options:
            return final  # one fit, and one verdict for both
        model: Model = self._decoded(k, seed, **options)
        if table is not None:
            self.sweep_ = table.concluded(model)
        return model

    def _decoded(self, k: int, seed: int, **options: Any) -> Any:
        with limited(self._workers):
            return decode(
                self.sketch_, k, **{"task": self.task, "decoder": self.decoder, "random_state": seed, **options}
            )

    @property
    def _workers(self) -> int | None:
        """Threads: -1 is scikit-learn's word for all cores."""
        return None if self.n_jobs == -1 else self.n_jobs

    def _chosen(self, seed: int) -> int:
        """The number of components; ``"auto"`` leaves it to a sweep, which is kept."""
        given = getattr(self, self.counted)
        if given != "auto":
            return int(given)
        most = min(self.most, int(self.sketch_.count))
        self.sweep_ = sweep(
            self.sketch_,
            range(1, most + 1),
            task={"kmedians": "kmeans"}.get(self.task, self.task),  # how many clusters there are is one question
            random_state=seed,
            progress=self.progress,
            **self.sweep_options(),
        )
        return self.sweep_.recommended

    def sweep_options(self) -> dict[str, Any]:
        """Options of the sweep that chooses the number of components."""
        return self._passed("sweep")

    def decode_options(self) -> dict[str, Any]:
        """Options of the decoder."""
        return self._passed("decode")

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows in one pass and learn from the sketch.

        Parameters
        ----------
        X : array, frame, or anything that :func:`sketchlearn.sketch` reads
            Rows: ``fit(array)``, ``fit(frame)``, ``fit("data/*.parquet")``, ``fit(batches)``.  To read some columns
            only, or weights from a column, give ``sl.read(path, columns=..., weight_column=...)``.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows of an array or frame. A whole number means exactly that many copies. Sketches keep
            multiples of 2**-16. Weights that are too small for that (for example, weights that sum to 1) are multiplied
            by a power of two first; this only changes the count of the sketch.

        Returns
        -------
        self
        """
        self.check_parameters()
        seeds = self._seeds()
        sketch, scale = self._gathered(X, y, sample_weight, seeds[0], whole=True)
        self._take(sketch, seeds[1], scale)
        self._solve()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the sketch. The model is decoded when it is next needed.

        The first batch designs the feature map (unless `features` is given), so it should be typical.  It also
        settles by how much weights are scaled.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        self
        """
        self.check_parameters()
        if "sketch_" not in self.__dict__:
            seeds = self._seeds()
            sketch, scale = self._gathered(X, y, sample_weight, seeds[0], whole=False)
            self._take(sketch, seeds[1], scale)
        else:
            total = self.sketch_ + self._gathered(X, y, sample_weight, None, whole=False)[0]
            self._forget()
            self.sketch_ = total
        return self

    def fit_sketch(self, sketch: Any) -> Self:
        """Learn from a sketch made elsewhere.

        Parameters
        ----------
        sketch : Sketch, or a table of sketches for an estimator that learns from groups of rows
            A sketch with features for this task. If the estimator has `features`, the sketch must have the same.

        Returns
        -------
        self
        """
        self.check_parameters()
        sketch = self._given(sketch)
        self._set_columns(sketch.features.inputs, sketch.features.input_columns)
        self._take(sketch, self._seeds()[1], 1.0)
        self._solve()
        return self

    def to_model(self) -> Model:
        """What was learned, as a value that can be saved, loaded and drawn without the estimator.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(1000, 2))
        >>> sl.CompressiveKMeans(1, random_state=0).fit(X).to_model()
        Model(kmeans: 1 cluster of 1,000 rows, 2 columns)
        """
        if "sketch_" not in self.__dict__:
            raise ValueError(f"this {type(self).__name__} has learned nothing yet: call fit or fit_sketch")
        model = with_profile(replace(self.solution_, task=self.model.task), self._whole())
        names = getattr(self, "feature_names_in_", None)
        return model if names is None else model.renamed(names)

    # -- pieces --------------------------------------------------------------------------------

    def _gathered(self, X: Any, y: Any, sample_weight: Any, seed: int | None, *, whole: bool) -> tuple[Any, float]:
        """The sketch of some rows, and by how much their weights were scaled.

        The first rows, for which there is a `seed`, give the map; `whole`: there will be no others.
        """
        rows = self._opened(X, y, sample_weight, seed)
        if whole and rows.count is not None and rows.count < self._needed_rows():
            raise ValueError(f"n_samples={rows.count} should be >= {self.counted}={self._needed_rows()}")
        features = self.sketch_.features if seed is None else self._map(rows, seed, whole)
        return self._pass(rows, features), rows.scale

    def _given(self, sketch: Any) -> Any:
        """A sketch made elsewhere, after checks."""
        self._check_sketch(sketch)
        return sketch

    def _whole(self) -> Sketch:
        """The sketch of all rows."""
        return self.sketch_

    def _needed_rows(self) -> int:
        """Rows at least: as many as groups of them are wanted."""
        given = getattr(self, self.counted, "auto")
        return int(given) if given != "auto" and decoders_of(self.task).groups else 1

    def _components(self) -> int:
        """The number of components that a map is designed for."""
        given = getattr(self, self.counted)
        return self.most if given == "auto" else int(given)

    def _opened(self, X: Any, y: Any, sample_weight: Any, seed: int | None = None) -> Rows:
        """Rows that were checked: arrays and frames by scikit-learn, sources while they are read.

        The first rows, for which there is a `seed`, say what the columns are.
        """
        first = seed is not None
        if hasattr(X, "tocsr"):
            return self._from_sparse(X, sample_weight, seed)
        if (is_source(X) or self._encodes(X, first)) and not (isinstance(X, np.memmap) and sample_weight is not None):
            rows = self._from_source(X, sample_weight, seed)
            if first:
                self._set_columns(rows.width(self.features), rows.names)
            return rows
        fewest = self.fewest_rows if first else 1
        array = checked(
            self, X, reset=first, dtype=list(self.row_types), ensure_min_samples=fewest, ensure_all_finite=False
        )
        self._check_finite(array)
        return self._weighted(array, sample_weight, self._names(), first)

    def _check_finite(self, rows: AnyArray) -> None:
        """Refuse rows with infinity, and with NaN unless entries may be missing or such rows are left out."""
        if self.on_invalid != "raise":
            return
        valid = np.isfinite(rows)
        if self._takes_missing():
            valid |= np.isnan(rows)
        if not valid.all():
            number = int(np.argmin(valid.all(axis=1)))
            names = self._names()
            where = None if names is None else lambda k, _: f"column {names[k]!r}"
            raise invalid(rows[number], number, where).placed(nowhere)

    @property
    def _missing(self) -> str | None:
        """How a map that is designed treats entries that are missing; None if none may be."""
        asked = getattr(self, "missing", None)
        return asked if asked in ("em", "pairs") else None  # others say what predictions do

    def _takes_missing(self) -> bool:
        """Whether rows may hold NaN for entries that are missing."""
        sketch = self.__dict__.get("sketch_")
        known = self.features if sketch is None else getattr(sketch, "features", None)
        return self._missing is not None if known is None else bool(known.takes_missing)

    def _encodes(self, X: Any, first: bool) -> bool:
        """Whether a frame goes through the encoder of the feature map."""
        known = self.features if first else self.sketch_.features
        return known is not None and known.encoder is not None and hasattr(X, "columns")

    def _names(self) -> tuple[str, ...] | None:
        """Names of the columns of a frame, where they tell columns apart."""
        names = tuple(self.__dict__.get("feature_names_in_", ()))
        return names if names and len(set(names)) == len(names) else None

    def _weighted(self, rows: AnyArray, sample_weight: Any, names: tuple[str, ...] | None, first: bool) -> Rows:
        weights = checked_weights(sample_weight, rows.shape[0])
        scale = 1.0 if first else self.__dict__.get("_weight_scale", 1.0)
        if weights is None:
            return Rows(rows, None, scale, names)
        if first:
            scale = weight_scale(weights)
        return Rows(rows, on_grid(weights, scale), scale, names)

    def _from_source(self, X: Any, sample_weight: Any, seed: int | None, group_by: Any = None) -> Rows:
        if sample_weight is not None:
            raise ValueError(
                "sample_weight is for rows in memory: read the weights with the rows, as pairs (rows, weights) of a "
                "stream or with sl.read(..., weight_column=...)"
            )
        known = self.features if seed is not None else self.sketch_.features
        source = open_source(X, Selection.for_map(known, group_by=group_by))
        if known is not None or seed is None:
            return Rows(source, names=source.names)
        sample = source.pilot(pilot_rows(self._missing), seed, self._missing is not None)
        named = source.names is not None and len(source.names) == sample.rows.shape[1]
        return Rows(source, names=source.names if named else None, sample=sample)

    def _from_sparse(self, X: Any, sample_weight: Any, seed: int | None) -> Rows:
        """A sparse matrix, which is made dense block by block."""
        first = seed is not None
        matrix = validate_data(
            self, X, reset=first, dtype=list(self.row_types), accept_sparse="csr",
            ensure_min_samples=self.fewest_rows if first else 1, ensure_all_finite=self.on_invalid == "raise",
        )  # fmt: skip
        if matrix.shape[0] <= PILOT_ROWS:  # small enough to be treated like any array, weights in the pilot included
            return self._weighted(matrix.toarray(), sample_weight, self._names(), first)
        weighted = self._weighted(matrix, sample_weight, None, first)
        source = open_source(matrix, Selection.of(sample_weight=weighted.weights))
        return Rows(source, None, weighted.scale, None, None if seed is None else source.pilot(PILOT_ROWS, seed))

    def _set_columns(self, columns: int, names: tuple[str, ...] | None) -> None:
        self.n_features_in_ = columns
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif "feature_names_in_" in self.__dict__:
            del self.feature_names_in_

    def _map(self, rows: Rows, seed: int, whole: bool) -> FeatureMap:
        """The map that was given, or one for these rows; `whole`: there will be no others."""
        columns = self._map_columns()
        if self.features is not None:
            if self.features.inputs != columns:
                raise ValueError(f"features are for {self.features.inputs} columns, X has {columns}")
            self._check_projection(self.features)
            return self.features
        size, few = self.sketch_size, getattr(self, "projection", None)
        if size is None:
            size = self.default_size(columns if few is None else few, rows.total if whole else None)
        pilot = rows.pilot(seed, self._missing)
        own = getattr(self, "standardize", None)
        asked = {"standardize": own, "missing": self._missing, "size": size, **self.design_request()}
        request = Request(sample=pilot.rows, weights=pilot.weights, seed=seed, looked_at=pilot.box, **asked)
        how: dict[str, Any] = {"designer": self._designed, "projection": few, "any_units": bool(own)}
        return design_request(request, rows.names, **how)

    def _designed(self, request: Request) -> tuple[FeatureMap, str]:
        phi = self.design_features(request)
        return phi, phi.reason

    def _check_projection(self, features: FeatureMap) -> None:
        if features.projection is not None and not self.projects:
            raise ValueError(
                f"{type(self).__name__} learns about the columns themselves: a map with a projection "
                "(of k-means, mixtures, classifiers and the like) can't be used"
            )

    def _map_columns(self) -> int:
        """Columns of the feature map."""
        return int(self.n_features_in_)

    def _pass(self, rows: Rows, features: FeatureMap) -> Any:
        """The sketch of the rows."""
        return make_sketch(
            rows.data,
            features,
            sample_weight=rows.weights,
            on_invalid=self.on_invalid,
            workers=self._workers,
            progress=self.progress,
        )

    def _check_sketch(self, sketch: Any) -> None:
        if not isinstance(sketch, Sketch):
            raise TypeError(f"fit_sketch takes a Sketch, got {type(sketch).__name__}; for rows use fit")
        if self.features is not None and self.features != sketch.features:
            difference = self.features.difference(sketch.features)
            raise IncompatibleSketchError(f"the sketch was made with another feature map: {difference}")

    def _seeds(self) -> tuple[int, int]:
        """Seeds of the map and of the decoder; a number is the seed of the map, as for :func:`sketchlearn.design`."""
        random = as_random_state(self.random_state)
        drawn = int(random.randint(2**31 - 1)), int(random.randint(2**31 - 1))
        given = isinstance(self.random_state, int | np.integer) and not isinstance(self.random_state, bool)
        return (int(self.random_state), drawn[1]) if given else drawn

    def _take(self, sketch: Any, seed: int, scale: float) -> None:
        """Begin with a new sketch."""
        self._check_projection(sketch.features)
        self._forget()
        self.sketch_ = sketch
        self._weight_scale = scale
        self._seed = seed

    @classmethod
    def _shown(cls) -> dict[str, str]:
        """Attributes that learning sets, and the fields of the model behind them."""
        return {**cls.model.attributes, **cls.also_shown}

    def _forget(self) -> None:
        for name in (*self._shown(), *_OF_ALL, "sweep_"):
            self.__dict__.pop(name, None)

    def _solve(self) -> None:
        model = self.decode_sketch(self._seed)
        if self._weight_scale != 1.0:  # which makes the sketch count more rows than there were
            model = replace(model, rows=float(model.rows) / self._weight_scale)
        self.solution_, self.reliable_, self.verdict_ = model, bool(model.reliable), model.verdict
        for name, field in self._shown().items():
            setattr(self, name, getattr(model, field))
        if model.unreliable:
            warn(model.verdict, ConvergenceWarning)

    def __getattr__(self, name: str) -> Any:
        # what partial_fit has made stale is decoded when it is asked for
        if name in _OF_ALL or name in self._shown():
            if "sketch_" in self.__dict__:
                self._solve()
                return self.__dict__[name]
            raise AttributeError(f"{type(self).__name__} has no {name} yet: call fit, partial_fit or fit_sketch first")
        if name in type(self).renamed:
            return self._under_old_name(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # made dense block by block
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "sketch_" in self.__dict__

    def _new_rows(self, X: Any, dtype: Any = None) -> AnyArray:
        """Rows to use the model on."""
        check_is_fitted(self)
        encoder = self.sketch_.features.encoder
        if encoder is not None and hasattr(X, "columns"):
            X = np.concatenate(list(open_source(X, Selection.of(encoder=encoder))))
            self.__dict__.pop("feature_names_in_", None)
        rows = checked(
            self, X, reset=False, dtype=list(self.row_types) if dtype is None else dtype, accept_sparse="csr",
            ensure_all_finite=hasattr(X, "tocsr"),
        )  # fmt: skip
        dense = rows.toarray() if hasattr(rows, "tocsr") else rows
        refuse_gaps(dense, self._names())
        projection = self.sketch_.features.projection
        return dense if projection is None else projection(dense)
