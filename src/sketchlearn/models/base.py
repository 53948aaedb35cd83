"""What all models share: what was learned, the decoder's certificate, facts about the sketch, words, and a file.

A task has one class of model, and its decoder returns it.  It is a frozen dataclass, decorated with
:func:`register_model`, that says which fields its file holds and estimators show (:func:`stored`), what they mean in
words (`headline`, :meth:`Model.table`) and what they predict.  Estimators, files, reports, pictures
and the command line ask the model; none of them knows a task by name.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import sealed
from sketchlearn.limits import read_json
from sketchlearn.models.file import FORMAT, VERSION, Reader, is_known, plain
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.table import Column, Table, number
from sketchlearn.models.usage import UsableModel
from sketchlearn.sketches import file as sketch_file
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted, html_table

_SAID = ("verdict", "decoder", "code", "ratio", "reliable")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Model(UsableModel):
    """A learned model, as a decoder returns it. It can be saved, loaded, used and drawn without the rows or the sketch.

    Each task has its own subclass with what was learned in fields of its own: ``centers`` and ``weights`` of
    clusters, ``weights``, ``means`` and ``covariances`` of a mixture, ``components`` of a PCA, ``coefficients`` of a
    regression.  The certificate of the decoder (verdict, code, ratio, trace) is that of
    :class:`~sketchlearn.Solution`.

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

    layout: ClassVar[Mapping[str, Any]] = {}
    """The fields of a file, by what they are (see :class:`~sketchlearn.models.Reader`), in their order."""
    attributes: ClassVar[Mapping[str, str]] = {}
    """What estimators of the task show, by scikit-learn's names: the field or property behind each."""
    title: ClassVar[str] = "Model"
    """The kind of model in words."""
    praise: ClassVar[str] = "The model explains the data"
    """What a good verdict means."""
    outlines: ClassVar[str] = "two standard deviations"
    """What the outlines of components in a picture are."""
    mixture: ClassVar[Mixture | None] = None
    """The mixture of Gaussians that describes the density of the rows, of models that have one."""
    spread: ClassVar[Array | None] = None
    """Units of the columns in which distances are meant, of models that have them."""
    fitted_shape: ClassVar[str | None] = None
    """Which parameters of the mixture were fitted, for its noise floor; None: what the shape of covariances says."""
    unreliable: ClassVar[tuple[int, ...]] = ()
    """Components that the sketch does not determine."""

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
                f"can't make a model of {type(learned).__name__}; give a fitted estimator such as CompressiveKMeans "
                "or CompressivePCA"
            )
        model = make()
        assert isinstance(model, Model)
        return model

    def of_sketch(self, sketch: Sketch) -> Self:
        """The model with the facts of the sketch that it was learned from."""
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
        return replace(
            self, rows=sketch.count, columns=column_names(phi), named=phi.columns is not None, sketch=facts,
            library=importlib.import_module("sketchlearn").__version__,
        )  # fmt: skip

    @staticmethod
    def promise_of(learned: Any) -> PrivacyRecord | None:
        """The privacy guarantee of a model or a fitted estimator; None for anything else."""
        model = Model.of(learned) if hasattr(learned, "to_model") else learned
        return model.privacy if isinstance(model, Model) else None

    def promising(self, records: Sequence[PrivacyRecord | None]) -> Self:
        """The model with the joint guarantee of several releases; without one if any of them has none."""
        facts = {name: value for name, value in self.sketch.items() if name != "privacy"}
        known = [record for record in records if record is not None]
        if known and len(known) == len(records):
            facts["privacy"] = PrivacyRecord.added(known).to_json()
        return replace(self, sketch=facts)

    def renamed(self, names: Any) -> Model:
        """The model with these column names, if it has none and their number is right."""
        given = tuple(str(name) for name in names)
        return self if self.named or len(given) != len(self.columns) else replace(self, columns=given, named=True)

    # -- what it says --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of clusters, components or coefficients: the length of the first field."""
        return len(getattr(self, next(iter(self.layout))))

    @property
    def row_count(self) -> str:
        """Number of rows as text; weights can make it a fraction."""
        return f"{self.rows:,}" if isinstance(self.rows, int) else f"{self.rows:,.1f}"

    @property
    def behind(self) -> str:
        """In words, whether the mixture is the model itself or a richer one from which its centres were computed."""
        if self.mixture is None or self.mixture.n_components == self.size:
            return "model"
        return f"{self.mixture.n_components} components behind the {self.size} centres"

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        return f"{counted(self.size, self.thing)} of {self.row_count} rows, {counted(len(self.columns), 'column')}"

    def __repr__(self) -> str:
        return f"Model({type(self).task}: {self.headline})"

    def _repr_html_(self) -> str:
        said = f"{self.title}: {self.headline}"
        facts = [(what, value) for value, what in self.numbers()]
        verdict = f"{self.verdict.removesuffix('.')}." if self.verdict else ""
        return html_table(said, facts, note=verdict) + self.table()._repr_html_()

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
        values = {name: getattr(self, name) for name in (*self.layout, *_SAID)}
        return {k: v for k, v in values.items() if isinstance(v, str | int | float) and is_known(v)}

    def numbers(self) -> list[tuple[str, str]]:
        """The first things to look at: (value, what it is)."""
        found = [(self.row_count, "rows"), (f"{len(self.columns):,}", "columns"), (f"{self.size:,}", f"{self.thing}s")]
        found += self.own_numbers()
        if is_known(self.ratio):
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
        raise ValueError(f"a {type(self).task} model has no components to draw")

    def density(self) -> Mixture:
        """The mixture that describes the density of the rows."""
        return self.parts() if self.mixture is None else self.mixture

    def pictures(self) -> dict[str, Any]:
        """What a page draws besides components: ``spectrum`` or ``regression``, as numbers."""
        return {}

    def sweep_options(self) -> dict[str, Any] | None:
        """Options of :func:`sketchlearn.sweep` for other numbers of components; None if there is nothing to choose."""
        return None

    # -- the file ------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The model as JSON text."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "library": self.library,
            "task": type(self).task,
            "rows": self.rows,
            "columns": list(self.columns) if self.named else None,
            "n_columns": len(self.columns),
        }
        for name in (*self.layout, *_SAID, "profile"):
            value = self.filed(name)
            if is_known(value):
                facts[name] = value
        stages = [{key: str(r[key]) for key in ("stage", "found", "why") if r.get(key)} for r in self.trace]
        if any("stage" in stage for stage in stages):  # without seconds: equal models have equal files
            facts["trace"] = [stage for stage in stages if "stage" in stage]
        facts["sketch"] = dict(self.sketch)
        return json.dumps(sealed(plain(facts)), indent=1, allow_nan=False) + "\n"

    def filed(self, name: str) -> Any:
        """What a file holds of a field."""
        return getattr(self, name)

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
        if isinstance(task, str) and task in _ELSEWHERE:
            importlib.import_module(_ELSEWHERE[task])
        if not isinstance(task, str) or task not in MODELS:
            raise reader.fail(f"unknown task {task!r}; known tasks: {', '.join(MODELS)}")
        rows = reader.rows()
        kind = MODELS[task]
        learned = kind.read(reader)
        d = kind.width(reader)
        columns = reader.columns(d)
        made = kind(
            rows=rows,
            columns=columns or tuple(f"column {i}" for i in range(d)),
            named=columns is not None,
            profile=reader.profile(),
            sketch=reader.sketch(d),
            library=str(reader.facts.get("library", "")),
            **reader.certificate(),
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
_ELSEWHERE = {"verifier": "sketchlearn.comparison.verifier_model"}  # needs comparisons, which need decoders
Kind = TypeVar("Kind", bound=type[Model])


def stored(*shape: str, kind: Any = (), shown: bool | str = False, **options: Any) -> Any:
    """A field of a model that its file holds: an array, letters standing for its lengths; no letters, a number.

    `*shape`: lengths of the axes, ``"k"`` components and ``"d"`` columns. `kind`: of a field that is no array: str,
    list (of names), Mixture; None if :meth:`Model.read` says how it is read. `shown`: whether estimators show it, by
    its name with an underscore or by this one. `**options`: of :func:`dataclasses.field`: a file may leave out what has
    a default.
    """
    return field(metadata={"what": shape or kind, "shown": shown}, **options)


@dataclass_transform(kw_only_default=True, eq_default=False, frozen_default=True, field_specifiers=(stored, field))
def register_model(kind: Kind) -> Kind:
    """Make a frozen dataclass of a class of models, and add it for its task (a decorator).

    What is :func:`stored` becomes part of its `layout` and `attributes`, in the order of the class.

    Examples
    --------
    >>> from sketchlearn.models import MODELS
    >>> sorted(MODELS)[:2]
    ['anomaly', 'cca']
    """
    if "__dataclass_params__" not in kind.__dict__:
        dataclass(frozen=True, eq=False, kw_only=True, repr=False)(kind)
    declared = {each.name: each.metadata for each in fields(kind) if "what" in each.metadata}
    own = {name: declared[name] for name in inspect.get_annotations(kind) if name in declared}
    kind.layout = {**kind.layout, **{name: facts["what"] for name, facts in own.items()}}
    names = {name: facts["shown"] for name, facts in own.items() if facts["shown"]}
    kind.attributes = {**{f"{k}_" if v is True else v: k for k, v in names.items()}, **kind.attributes}
    MODELS[kind.task] = kind
    return kind


def shown(*names: str, **others: str) -> dict[str, str]:
    """Attributes of estimators, by scikit-learn's names: these fields with an underscore, and others by other names.

    Examples
    --------
    >>> from sketchlearn.models.base import shown
    >>> shown("weights", n_iter="iterations")
    {'weights_': 'weights', 'n_iter_': 'iterations'}
    """
    return {f"{name}_": name for name in names} | {f"{name}_": field for name, field in others.items()}


def column_names(features: FeatureMap) -> tuple[str, ...]:
    """Names of the columns of a map; ``"column 0"``, ... if it has none."""
    return tuple(features.columns or (f"column {i}" for i in range(features.dim)))
