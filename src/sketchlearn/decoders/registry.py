"""All decoders by task and name; a decoder is loaded when it is first used.

A decoder is a function ``(sketch, k, *, rng, trace, **options)`` that returns a
:class:`~sketchlearn.decoders.solution.Solution`: `rng` is a NumPy generator, `trace` a list that gets a dict per
stage, or None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any, TypeVar

from sketchlearn.accepts import FLAG, NOTHING, Accepts, whole
from sketchlearn.decoders.solution import Solution

Decoder = Callable[..., Solution]
_D = TypeVar("_D", bound=Decoder)


@dataclass(frozen=True)
class Entry:
    """A decoder, or the place of one that is loaded when it is first used, and what it can do."""

    decoder: Decoder | str  # the function, or "module:function"
    start: bool = False  # whether it takes ``start=``, an earlier model to begin with
    rough: bool = False  # whether it takes ``rough=True``, for a quick model that is only a beginning
    options: Mapping[str, Accepts] = field(default_factory=dict)  # what they accept; others are left to the function
    fixed: Mapping[str, Any] = field(default_factory=dict)  # options that are part of the name

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the decoder."""
        assert callable(self.decoder)
        return self.decoder(*args, **options)

    @property
    def parameters(self) -> dict[str, Parameter] | None:
        """What a caller may set, by name; None if only the function knows."""
        assert callable(self.decoder)
        every = list(signature(self.decoder).parameters.values())
        if any(each.kind is Parameter.VAR_KEYWORD for each in every) and not self.options:
            return None
        own = {"rng", "trace", "rough"}
        named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        found = {p.name: p for p in every[2:] if p.kind in named and p.name not in own}  # (after sketch and number)
        return found | {n: Parameter(n, Parameter.KEYWORD_ONLY, default=None) for n in self.options if n not in found}


class Decoders(Mapping[str, Decoder]):
    """Decoders of one task by name; the first one is the default.

    `groups` says whether components are groups of rows, so that there are at most as many as rows; `tables` whether
    they learn from a table of sketches, one per class, instead of a sketch.
    """

    def __init__(
        self,
        task: str,
        entries: Mapping[str, Entry | str] | None = None,
        *,
        groups: bool = True,
        tables: bool = False,
        **fixed: Any,
    ) -> None:
        self.task, self.groups, self.tables = task, groups, tables
        self._known = {name: e if isinstance(e, Entry) else Entry(e) for name, e in (entries or {}).items()}
        self._fixed = fixed

    @property
    def default(self) -> str:
        """Name of the decoder that ``"auto"`` stands for."""
        return next(iter(self._known))

    def __getitem__(self, name: str) -> Decoder:
        entry = self._known[name]
        if isinstance(entry.decoder, str):
            module, _, function = entry.decoder.partition(":")
            loaded: Decoder = getattr(importlib.import_module(module), function)
            fixed = {**self._fixed, **entry.fixed}
            entry = replace(entry, decoder=partial(loaded, **fixed) if fixed else loaded)
            self._known[name] = entry
        assert callable(entry.decoder)
        return entry.decoder

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Decoders({self.task!r}: {', '.join(self)})"

    def choose(self, name: str) -> Entry:
        """The entry of this name, loaded, or the default for ``"auto"``; ValueError with the names there are."""
        name = self.default if name == "auto" else name
        if name not in self._known:
            raise ValueError(f"decoder={name!r}: choose 'auto' or one of {', '.join(self)}")
        return replace(self._known[name], decoder=self[name])

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Refuse options that the decoder of this name lacks, or needs and does not get, and values that are none."""
        entry = self.choose(name)
        known, asked = entry.parameters, f"decoder={name!r} of task={self.task!r}"
        for option in options if known is not None else ():
            if known is not None and option not in known:
                able = [other for other in self if option in (self.choose(other).parameters or ())]
                hint = f"decoder={able[0]!r} has" if able else f"there are {', '.join(known) or 'none'}"
                raise TypeError(f"{asked} has no option {option!r}: {hint}")
        for option, each in (known or {}).items():
            if each.default is Parameter.empty and option not in options:
                raise TypeError(f"{asked} needs {option}=")
        for option, accepts in entry.options.items():
            if option in options:
                accepts.check(option, options[option])

    def add(self, name: str, entry: Entry | Decoder) -> None:
        """Make a decoder, or an entry that says what it can do, known under a name that is free."""
        if name == "auto" or name in self._known:
            raise ValueError(f"there is a decoder {name!r} for {self.task} already")
        self._known[name] = entry if isinstance(entry, Entry) else Entry(entry)


_PUBLISHED = "sketchlearn.decoders.kmeans.published"
_CLUSTERS: dict[str, Entry | str] = {
    "tuning-free": Entry(
        "sketchlearn.decoders.kmeans.default:decode_tuning_free", True, True, {"n_decodes": whole() | NOTHING}
    ),
    "clompr": f"{_PUBLISHED}.clompr:decode_clompr",
    "clomp": Entry(f"{_PUBLISHED}.clompr:decode_clompr", fixed={"replacement": False}),
    "splitting": f"{_PUBLISHED}.splitting:decode_splitting",
    "cl-amp": f"{_PUBLISHED}.amp:decode_amp",
    "sketch-and-shift": f"{_PUBLISHED}.shift:decode_shift",
    "sliding-frank-wolfe": f"{_PUBLISHED}.sliding:decode_sliding",
    "adcg": f"{_PUBLISHED}.adcg:decode_adcg",
    "thresholding": f"{_PUBLISHED}.thresholding:decode_thresholding",
    "particle-flow": f"{_PUBLISHED}.particles:decode_particles",
}
_GREEDY, _STOPS = "sketchlearn.decoders.mixtures.published.greedy", {"stop": FLAG}
_MIXTURES: dict[str, Entry | str] = {
    "tuning-free": Entry(
        "sketchlearn.decoders.mixtures.default:decode_gmm",
        start=True,
        options={"starts": whole(0), "rounds": whole(0), "project": FLAG},
    ),
    "clompr": Entry(f"{_GREEDY}:decode_gaussian_clompr", options=_STOPS),
    "splitting": Entry(f"{_GREEDY}:decode_gaussian_splitting", options=_STOPS),
    "moments": "sketchlearn.decoders.mixtures.moments:decode_gaussian_moments",
    "known": "sketchlearn.decoders.mixtures.known:decode_known",
}
_LOW_RANK = {
    name: Entry("sketchlearn.decoders.lowrank.solution:decode_second_moment", fixed={"method": name})
    for name in ("burer-monteiro", "positive", "nuclear", "thresholding", "greedy", "shrunk")
}
_POSITIVE = "sketchlearn.decoders.nmf:decode_nmf"
_FACTORS: dict[str, Entry | str] = {
    "moments": Entry(_POSITIVE),
    "cone": Entry(_POSITIVE, fixed={"method": "cone"}),
    "draws": Entry(_POSITIVE, fixed={"method": "draws"}),
}
_CLASSES = "sketchlearn.decoders.classifier"
_CLASSIFIERS: dict[str, Entry | str] = {
    "ridge": f"{_CLASSES}.ridge:decode_ridge",
    "lda": Entry(f"{_CLASSES}.densities:decode_moments", fixed={"shape": "tied"}),
    "qda": Entry(f"{_CLASSES}.densities:decode_moments", fixed={"shape": "full"}),
    "naive-bayes": Entry(f"{_CLASSES}.densities:decode_moments", fixed={"shape": "diag"}),
    "mixture": f"{_CLASSES}.densities:decode_class_mixtures",
    "mean": f"{_CLASSES}.means:decode_means",
}
DECODERS: dict[str, Decoders] = {
    "kmeans": Decoders("kmeans", _CLUSTERS),
    "kmedians": Decoders("kmedians", _CLUSTERS, criterion="medians"),
    "gmm": Decoders("gmm", _MIXTURES),
    "stable": Decoders("stable", {"search": "sketchlearn.decoders.mixtures.stable:decode_stable"}),
    "family": Decoders("family", {"clompr": Entry("sketchlearn.decoders.mixtures.own:decode_family", options=_STOPS)}),
    "pca": Decoders("pca", _LOW_RANK, groups=False),
    "regression": Decoders(
        "regression", {"least-squares": "sketchlearn.decoders.least_squares:decode_regression"}, groups=False
    ),
    "mixture-regression": Decoders("mixture-regression", {"maps": "sketchlearn.decoders.mixtures.maps:decode_maps"}),
    "cca": Decoders("cca", {"exact": "sketchlearn.decoders.cca:decode_cca"}, groups=False),
    "ica": Decoders("ica", {"cumulants": "sketchlearn.decoders.ica:decode_ica"}, groups=False),
    "dictionary": Decoders(
        "dictionary", {"cumulants": "sketchlearn.decoders.dictionary:decode_dictionary"}, groups=False
    ),
    "nmf": Decoders("nmf", _FACTORS, groups=False),
    "subspaces": Decoders("subspaces", {"flats": "sketchlearn.decoders.subspaces.decode:decode_subspaces"}),
    "anomaly": Decoders("anomaly", {"mahalanobis": "sketchlearn.decoders.anomaly:decode_anomaly"}, groups=False),
    "classifier": Decoders("classifier", _CLASSIFIERS, groups=False, tables=True),
}
"""Decoders by task and name."""


def register_decoder(task: str, name: str, *, start: bool = False, rough: bool = False) -> Callable[[_D], _D]:
    """Make a function known as the decoder `name` of a task, which may be a new one.

    `start` and `rough` say what it can do (:class:`Entry`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders import Solution, register_decoder
    >>> @register_decoder("nothing", "quick")
    ... def decode_nothing(sketch, k, *, rng, trace):
    ...     return Solution(task="nothing", decoder="quick", residual=float(np.mean(abs(sketch.mean) ** 2)))
    >>> s = sl.sketch([[1.0], [2.0]], sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0))
    >>> str(sl.decode(s, 1, task="nothing").code)
    'uncertified'
    """

    def known(function: _D) -> _D:
        DECODERS.setdefault(task, Decoders(task)).add(name, Entry(function, start, rough))
        return function

    return known


def decoders_of(task: str) -> Decoders:
    """Decoders of a task; ValueError with the tasks there are."""
    if task not in DECODERS:
        raise ValueError(f"task={task!r}: choose one of {', '.join(DECODERS)}")
    return DECODERS[task]
