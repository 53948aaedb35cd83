"""What all models share: rows and columns behind them, the decoder's verdict, facts about the sketch, and a file.

A task has one class of model.  It is a frozen dataclass, decorated with :func:`register_model`, that says what its
fields are (`layout`), what they mean in words (`headline`, :meth:`Model.table`) and what they predict.  Files,
reports, pictures and the command line ask the model; none of them knows a task by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.profile import Profile, residual_profile
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.projection import Projection
from sketchlearn.files import sealed
from sketchlearn.learn.models.file import FORMAT, VERSION, Reader, plain
from sketchlearn.learn.models.table import Column, Table, number
from sketchlearn.limits import read_json
from sketchlearn.sketches import file as sketch_file
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import read

Array = npt.NDArray[np.float64]

_VERDICT: dict[str, Any] = {"verdict": str, "decoder": str, "code": str, "ratio": (), "reliable": bool}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Model:
    """A learned model that can be saved, loaded and drawn; it needs neither rows nor sketch.

    Each task has its own subclass with what was learned in fields of its own: ``centers`` and ``weights`` of
    clusters, ``weights``, ``means`` and ``covariances`` of a mixture, ``components`` of a PCA, ``coefficients`` of a
    regression.

    Attributes
    ----------
    task : str
        ``"kmeans"``, ``"gmm"``, ``"stable"``, ``"pca"``, ``"regression"`` or what another package registered.
    rows : int or float
        Rows behind the sketch.
    columns : tuple of str
        Names of the columns (``"column 0"``, ... if the sketch has none).
    named : bool
        Whether the columns have names of their own.
    verdict, decoder, code, ratio, reliable
        What the decoder says about the quality of the model; None if it says nothing.
    profile : Profile or None
        Misfit and noise floor by radius.
    sketch : dict
        Facts about the sketch: features, fingerprint, box, noise level, the record of a private release.
    library : str
        Version of sketchlearn that learned it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> km = sl.CompressiveKMeans(2, random_state=0).fit(X)
    >>> model = sl.Model.of(km)
    >>> model
    Model(kmeans: 2 clusters of 5,000 rows, 2 columns)
    >>> sl.Model.from_json(model.to_json()).centers.shape
    (2, 2)
    """

    task: ClassVar[str]
    layout: ClassVar[Mapping[str, Any]] = {}
    """The fields of a file, by what they are (see :class:`~sketchlearn.learn.models.Reader`), in their order."""
    title: ClassVar[str] = "Model"
    """The kind of model in words."""
    thing: ClassVar[str] = "component"
    """What there are several of."""
    praise: ClassVar[str] = "The model explains the data"
    """What a good verdict means."""
    outlines: ClassVar[str] = "two standard deviations"
    """What the outlines of components in a picture are."""
    mixture: ClassVar[Mixture | None] = None
    """The mixture of Gaussians that describes the density of the rows, of models that have one."""
    spread: ClassVar[Array | None] = None
    """Units of the columns in which distances are meant, of models that have them."""

    rows: int | float
    columns: tuple[str, ...]
    named: bool = True
    verdict: str | None = None
    decoder: str | None = None
    code: str | None = None
    ratio: float | None = None
    reliable: bool | None = None
    profile: Profile | None = None
    sketch: Mapping[str, Any] = field(default_factory=dict)
    library: str = ""

    # -- making one ----------------------------------------------------------------------------

    @staticmethod
    def of(learned: Any) -> Model:
        """The model of a fitted estimator.

        Parameters
        ----------
        learned : estimator
            A fitted :class:`CompressiveKMeans`, ``KMedians``, ``GaussianMixture``, ``StableMixture``, ``PCA`` or
            ``Regression``, or any other that has a method ``to_model``.

        Returns
        -------
        Model

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> pca = sl.CompressivePCA(2).fit(np.random.default_rng(0).normal(size=(500, 3)))
        >>> sl.Model.of(pca).task
        'pca'
        """
        make = getattr(learned, "to_model", None)
        if make is None:
            raise TypeError(
                f"no model can be made of {type(learned).__name__}; give a fitted estimator such as CompressiveKMeans "
                "or CompressivePCA"
            )
        model = make()
        assert isinstance(model, Model)
        return model

    @classmethod
    def from_sketch(cls, sketch: Sketch, solution: Any = None, *, kind: str | None = None, **learned: Any) -> Self:
        """A model with the facts of the sketch that it was learned from.

        Parameters
        ----------
        sketch : Sketch
            What was learned from.
        solution : Solution, optional
            Gives verdict, decoder, ratio and certificate.
        kind : str, optional
            Which parameters of the mixture were fitted, as for :func:`~sketchlearn.decoders.profile.residual_profile`.
        **learned
            The fields of the class.
        """
        from sketchlearn import __version__

        phi = sketch.features
        facts: dict[str, Any] = {
            "features": phi.size,
            "kind": phi.kind,
            "description": phi.describe(),
            "fingerprint": phi.fingerprint,
            "bytes": sketch.nbytes,
            "skipped": sketch.skipped,
        }
        for name in ("lower", "upper"):
            edge = getattr(sketch, name)
            if edge is not None and np.isfinite(edge).all():  # a private sketch has no box
                facts[name] = edge.tolist()
        if phi.as_characteristic is not None:
            facts["noise_level"] = sketch.noise_level
        for name in ("encoder", "projection"):
            if getattr(phi, name) is not None:
                facts[name] = getattr(phi, name).to_json()
        if sketch.privacy is not None:
            facts["privacy"] = sketch.privacy.to_json()
        said: dict[str, Any] = {name: getattr(solution, name, None) for name in _VERDICT}
        said["code"] = None if said["code"] is None else str(said["code"])
        if said["ratio"] is not None and not np.isfinite(said["ratio"]):
            said["ratio"] = None
        model = cls(
            rows=sketch.count,
            columns=tuple(phi.columns or (f"column {i}" for i in range(phi.dim))),
            named=phi.columns is not None,
            sketch=facts,
            library=__version__,
            **{**said, **learned},
        )
        if model.mixture is None or phi.as_characteristic is None:
            return model
        return replace(model, profile=residual_profile(sketch, model.mixture, kind))

    @classmethod
    def from_solution(cls, sketch: Sketch, solution: Any) -> Self:
        """The model that a decoder found: the fields of the class are attributes of its solution."""
        names = [name for name in cls.layout if hasattr(solution, name)]
        return cls.from_sketch(sketch, solution, **{name: getattr(solution, name) for name in names})

    def renamed(self, names: Any) -> Model:
        """The model with names for its columns, if it has none and these are as many."""
        given = tuple(str(name) for name in names)
        return self if self.named or len(given) != len(self.columns) else replace(self, columns=given, named=True)

    # -- what it says --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of clusters, components or coefficients: the length of the first field."""
        return len(getattr(self, next(iter(self.layout))))

    @property
    def row_count(self) -> str:
        """Number of rows, to be read; weights can make it a fraction."""
        return f"{self.rows:,}" if isinstance(self.rows, int) else f"{self.rows:,.1f}"

    @property
    def behind(self) -> str:
        """What the mixture is: the model, or a richer one that its centres were computed from."""
        if self.mixture is None or self.mixture.n_components == self.size:
            return "model"
        return f"{self.mixture.n_components} components behind the {self.size} centres"

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        columns = f"{len(self.columns)} column" + "s" * (len(self.columns) != 1)
        return f"{self.size} {self.thing}{'s' * (self.size != 1)} of {self.row_count} rows, {columns}"

    def __repr__(self) -> str:
        return f"Model({self.task}: {self.headline})"

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Model) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def summary(self) -> dict[str, Any]:
        """What was learned that is a number or a few words, by name.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> pca = sl.CompressivePCA(2).fit(np.random.default_rng(0).normal(size=(500, 3)))
        >>> sl.Model.of(pca).summary()["decoder"]
        'exact'
        """
        values = {name: getattr(self, name) for name in (*self.layout, *_VERDICT)}
        return {k: v for k, v in values.items() if isinstance(v, str | int | float)}

    def numbers(self) -> list[tuple[str, str]]:
        """The first things to look at: (value, what it is)."""
        found = [(self.row_count, "rows"), (f"{len(self.columns):,}", "columns"), (f"{self.size:,}", f"{self.thing}s")]
        found += self.own_numbers()
        if self.ratio is not None:
            found.append((number(self.ratio), "misfit / noise floor (near 1: explained)"))
        return found

    def own_numbers(self) -> list[tuple[str, str]]:
        """What :meth:`numbers` says about this kind of model."""
        return []

    def table(self) -> Table:
        """What was learned, as a table for terminal, page and CSV; by default the summary."""
        facts = self.summary()
        return Table(
            "facts", self.title, (Column("what", list(facts), "text"), Column("is", list(facts.values()), "text"))
        )

    def parts(self) -> Mixture:
        """The components that a picture shows."""
        raise ValueError(f"a {self.task} model has no components to draw")

    def density(self) -> Mixture:
        """The mixture that describes the density of the rows."""
        return self.parts() if self.mixture is None else self.mixture

    def pictures(self) -> dict[str, Any]:
        """What a page draws besides components: ``spectrum`` or ``regression``, as numbers."""
        return {}

    def sweep_options(self) -> dict[str, Any] | None:
        """Options of :func:`sketchlearn.sweep` for other numbers of components; None if there is nothing to choose."""
        return None

    # -- using it ------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that :meth:`predict` takes."""
        return self.columns

    @property
    def encoder(self) -> Encoder | None:
        """How rows of a table become the columns of the model, if categories or missing values were encoded."""
        given = self.sketch.get("encoder")
        return None if given is None else Encoder.from_json(given)

    @property
    def projection(self) -> Projection | None:
        """How rows become the columns of the model, if these are random projections."""
        given = self.sketch.get("projection")
        return None if given is None else Projection.from_json(given)

    @property
    def privacy(self) -> PrivacyRecord | None:
        """What was promised to the people behind a private sketch; the model keeps it without further noise."""
        given = self.sketch.get("privacy")
        return None if given is None else PrivacyRecord.from_json(given)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Cluster or component of each row, or the predicted target of a regression.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows with all columns of the model; of a regression only the predictors.

        Returns
        -------
        ndarray (n,)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
        >>> km = sl.CompressiveKMeans(2, random_state=0).fit(X)
        >>> bool((sl.Model.of(km).predict(X) == km.predict(X)).all())
        True
        """
        return self.predict_rows(self._checked(X))

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component, given the row; for models that have them.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows with all columns of the model.

        Returns
        -------
        ndarray (n, k)

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.models import GaussianMixtureModel
        >>> model = GaussianMixtureModel(
        ...     rows=10, columns=("x",), weights=np.array([0.5, 0.5]), means=np.array([[0.0], [4.0]]),
        ...     covariances=np.ones(2), covariance_type="spherical")
        >>> model.predict_proba([[2.0]])
        array([[0.5, 0.5]])
        """
        return self.probabilities(self._checked(X))

    def _checked(self, X: Any) -> Array:
        encoder, projection = self.encoder, self.projection
        names = (self.inputs if self.named else None) if projection is None else projection.columns
        width = len(self.inputs) if projection is None else projection.dim
        if encoder is not None and hasattr(X, "columns"):
            X = np.concatenate(list(read(X, encoder=encoder)))
        elif names is not None and hasattr(X, "columns"):
            X = X[list(names)]  # a frame may have more columns, in another order
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"expected rows with {width} columns, got an array of shape {rows.shape}")
        bad = ~np.isfinite(rows).all(1)
        if bad.any():
            raise ValueError(f"row {int(np.argmax(bad))} (counting from 0) holds NaN or infinity")
        return rows if projection is None else projection(rows)

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """What :meth:`predict` returns, for rows that were checked."""
        raise TypeError(f"a {self.task} model of a file predicts nothing; use the estimator")

    def probabilities(self, rows: Array) -> Array:
        """What :meth:`predict_proba` returns, for rows that were checked."""
        raise TypeError(f"a {self.task} model has no probabilities")

    def answers(self, rows: Array, proba: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Named columns that a table of predictions has, for rows that were checked."""
        found: dict[str, npt.NDArray[Any]] = {self.thing.split()[-1]: self.predict_rows(rows).astype(np.int32)}
        if proba:
            found |= {f"probability {l}": p for l, p in enumerate(self.probabilities(rows).T)}
        return found

    # -- the file ------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The model as JSON text."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "library": self.library,
            "task": self.task,
            "rows": self.rows,
            "columns": list(self.columns) if self.named else None,
            "n_columns": len(self.columns),
        }
        for name in (*self.layout, *_VERDICT, "profile"):
            value = getattr(self, name)
            if value is not None:
                facts[name] = value
        facts["sketch"] = dict(self.sketch)
        return json.dumps(sealed(plain(facts)), indent=1, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, whole or not at all."""
        sketch_file.write(path, self.to_json().encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Model:
        """Read a model from a JSON file.

        Raises
        ------
        ModelFileError
            If the file is no model, damaged, or of a version that this library doesn't know.
        """
        return Model.from_json(read_json(path), os.fsdecode(path))

    @staticmethod
    def from_json(text: str | bytes, name: str = "model") -> Model:
        """The model in some JSON text; `name` is for error messages."""
        reader = Reader.of_text(text, name)
        task = reader.facts.get("task")
        if not isinstance(task, str) or task not in MODELS:
            raise reader.fail(f"the task {task!r} is none of {', '.join(MODELS)}")
        rows = reader.rows()
        kind = MODELS[task]
        learned = kind.read(reader)
        d = kind.width(reader)
        columns = reader.columns(d)
        said = {key: reader.value(key, what) for key, what in _VERDICT.items() if reader.has(key)}
        made = kind(
            rows=rows,
            columns=columns or tuple(f"column {i}" for i in range(d)),
            named=columns is not None,
            profile=reader.profile(),
            sketch=reader.sketch(d),
            library=str(reader.facts.get("library", "")),
            **said,
            **learned,
        )
        reader.check_seal()
        return made

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """The fields of the class from a file: those with a default may be missing."""
        needed = {name for name in cls.layout if not hasattr(cls, name)}
        found = {
            name: reader.value(name, what) for name, what in cls.layout.items() if name in needed or reader.has(name)
        }
        cls.check(reader, found)
        return found

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Refuse fields that make no sense together, with ``reader.fail``."""

    @classmethod
    def width(cls, reader: Reader) -> int:
        """Number of columns: what the letter ``d`` of the layout stands for."""
        return reader.lengths["d"]


MODELS: dict[str, type[Model]] = {}
Kind = TypeVar("Kind", bound=type[Model])


def register_model(kind: Kind) -> Kind:
    """Add a class of models for its task (a decorator).

    Examples
    --------
    >>> from sketchlearn.learn.models import MODELS
    >>> sorted(MODELS)[:2]
    ['anomaly', 'cca']
    """
    MODELS[kind.task] = kind
    return kind
