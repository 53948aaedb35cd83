"""From a sketch to a model: plain functions by task and name, each loaded when it is first used.

:data:`DECODERS` holds them, :func:`register_decoder` adds one, and all return a
:class:`~sketchlearn.decoders.solution.Solution`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from sketchlearn.decoders.budget import decoding_budget, spending
from sketchlearn.decoders.device import decoding_engine
from sketchlearn.decoders.registry import DECODERS, decoders_of, register_decoder
from sketchlearn.decoders.solution import (
    ClusterSolution,
    Code,
    FamilySolution,
    LowRankSolution,
    MixtureSolution,
    Solution,
    StableSolution,
)
from sketchlearn.decoders.sweep import Sweep, numbers_of_components, sweep_by_certificate
from sketchlearn.engines.progress import Report, reporting
from sketchlearn.models.base import Model
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.randomness import RandomState, as_generator
from sketchlearn.models.start import in_order_of
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

__all__ = [
    "DECODERS",
    "ClusterSolution",
    "Code",
    "FamilySolution",
    "LowRankSolution",
    "Mixture",
    "MixtureSolution",
    "Solution",
    "StableSolution",
    "Sweep",
    "as_generator",
    "check_components",
    "decode",
    "decoding_budget",
    "decoding_engine",
    "register_decoder",
    "sweep",
]


def decode(
    sketch: Sketch | SketchTable,
    n_components: int,
    *,
    task: str = "kmeans",
    decoder: str = "auto",
    random_state: RandomState = None,
    start: Any = None,
    trace: bool = True,
    **options: Any,
) -> Any:
    """Decode a model from a sketch.

    Parameters
    ----------
    sketch : Sketch, or SketchTable for ``"classifier"``
        A sketch with a feature map for the task, best from :func:`sketchlearn.design`.
    n_components : int
        Number of clusters or components; for ``"pca"`` the rank, for ``"classifier"`` the components per class.
    task : {"kmeans", "kmedians", "gmm", "stable", "family", "pca", "mixture-regression", "classifier"}
        What to learn: centres of clusters for squared or plain distances, a Gaussian mixture, a mixture of elliptic
        stable distributions or of any family (``family=``), a second moment of low rank, linear maps of many targets
        (``targets=``, from a sketch of :class:`~sketchlearn.CompressiveMixtureRegressor` with ``covariance="diag"``),
        or a classifier. You can add tasks of your own (:func:`sketchlearn.decoders.register_decoder`).
    decoder : str
        ``"auto"`` is the default of the task, which needs no tuning. ``sketchlearn.decoders.DECODERS[task]`` lists the
        others. The solution says which decoder ran.
    random_state : int, Generator, RandomState or None
        For repeatable results.
    start : model, estimator, Mixture or array of centres, optional
        An earlier model to start from, e.g. yesterday's. This is quick if the rows have hardly changed, and component i
        is the one nearest to component i of the earlier model. If the earlier model doesn't explain the sketch, the
        search continues without it. Only the default decoders of k-means, k-medians and Gaussian mixtures support this.
        From a private sketch, the promise of the model is that of both releases together; there is none if the earlier
        model was not learned from a release, or is an array.
    trace : bool
        Keep in ``solution.trace`` which stages ran, why, and what each found; False leaves it empty.
    **options
        Options of the decoder, e.g. ``covariance_type=`` of mixtures, ``n_decodes=`` of the default for k-means (the
        number of fits that are pooled on data that is not Gaussian; more is better and slower), ``starts=``,
        ``replicates=``, ``init=``, ``own_count=`` of sliding Frank-Wolfe, ``covariances=`` of mixtures whose covariance
        is known (``decoder="known"``), ``stop=True`` of greedy decoders of mixtures.

    Returns
    -------
    Model
        :class:`~sketchlearn.models.ClusterModel` for k-means and k-medians, and another class for each other task. For
        ``"pca"`` it is a second moment, from which :class:`~sketchlearn.models.PCAModel` takes some directions.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=2, seed=0))
    >>> solution = sl.decode(s, 2, random_state=0)
    >>> np.sort(solution.centers[:, 0]).round(1)
    array([1., 9.])
    >>> sl.decode(s, 2, task="gmm", covariance_type="spherical", random_state=0).covariances.round()
    array([1., 1.])
    """
    decoders = decoders_of(task)
    chosen = decoders.choose(decoder)
    if start is not None:
        if not chosen.start:
            raise ValueError(f"start: decoder={decoder!r} of task={task!r} can't start from an earlier model")
        options["start"] = start
    decoders.check(decoder, options)
    k = check_components(sketch, n_components, groups=decoders.groups, tables=decoders.tables)
    begin = perf_counter()
    with single_blas_thread, spending(components=k) as budget:  # many small products: more than one thread only costs
        options |= {"rng": as_generator(random_state), "trace": []}
        if isinstance(sketch, Sketch) and getattr(sketch.features, "dither", None) is not None:
            from sketchlearn.decoders.harmonics import decode_cleaned

            found = decode_cleaned(chosen, sketch, k, **options)
        else:
            found = chosen(sketch, k, **options)
    if isinstance(found, Solution):
        seconds = perf_counter() - begin
        staged = any("stage" in step for step in found.trace)
        records = found.trace if staged else [_record(found, seconds)]
        found = replace(found, trace=records if trace else [])
        if budget.cut and found.code is not Code.RELIABLE:
            found = replace(found, code=Code.UNFINISHED, verdict=f"{budget.words} The best so far: {found.verdict}")
        if start is not None:
            found = in_order_of(found, start, sketch.features.dim)
    if isinstance(found, Model):
        found = found.of_sketch(sketch if isinstance(sketch, Sketch) else sketch.union())
        if start is not None and found.privacy is not None:  # what it starts from is in it
            found = found.promising([found.privacy, Model.promise_of(start)])
    if not isinstance(sketch, Sketch) or not isinstance(found, Solution):
        return found  # a decoder of another package may return what it likes
    if sketch.has_box:
        found = found.within(sketch.lower, sketch.upper)
    if not decoders.groups:
        return found
    from sketchlearn.decoders.evidence import examined

    return examined(found, sketch, k)


def _record(found: Solution, seconds: float) -> dict[str, Any]:
    """The trace of a decoder with a single stage."""
    words = {"why": f"the decoder for {found.task} that was asked for", "found": found.verdict}
    rounds = {"rounds": found.trace} if found.trace else {}
    return {"stage": found.decoder, **words, "accepted": found.reliable, "seconds": round(seconds, 4), **rounds}


def check_components(
    sketch: Sketch | SketchTable, n_components: int, *, groups: bool = True, tables: bool = False
) -> int:
    """A valid number of components for this sketch: no more than rows, if they are groups of rows."""
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer) or n_components < 1:
        raise ValueError(f"the number of components must be a positive integer, got {n_components!r}")
    if tables:
        if not isinstance(sketch, SketchTable):
            raise TypeError(f"expected a table with one sketch per class, got {type(sketch).__name__}")
        return int(n_components)
    if not isinstance(sketch, Sketch):
        raise TypeError(f"expected a sketch, got {type(sketch).__name__}")
    if sketch.weight == 0:
        raise ValueError("the sketch is empty: there is nothing to learn from")
    if groups and sketch.count < n_components:
        raise ValueError(
            f"{n_components} components need at least as many rows, but the sketch has fewer: n_samples={sketch.count}"
        )
    return int(n_components)


# a task, the function that sweeps it, and the options that this takes
_SWEEPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kmeans": ("sketchlearn.decoders.sweep_kmeans:sweep_kmeans", ()),
    "gmm": ("sketchlearn.decoders.sweep_gmm:sweep_gmm", ("covariance_type", "exhaustive")),
}


def sweep(
    sketch: Sketch,
    ks: int | Iterable[int],
    *,
    task: str = "kmeans",
    random_state: RandomState = None,
    progress: bool | Report | None = False,
    **options: Any,
) -> Sweep:
    """Decode every number of components from one sketch, and recommend one.

    Parameters
    ----------
    sketch : Sketch
        A sketch whose map was designed for the largest number (``n_components=max(ks)``).
    ks : int or iterable of int
        The number of components to try, or several. For k-means, each starts from the solution for the last one.
    task : str
        As for :func:`sketchlearn.decode`.
    random_state : int, Generator, RandomState or None
        For repeatable results.
    progress : bool or callable, optional
        Show a progress bar, as for :func:`sketchlearn.sketch`. A callable gets (numbers tried, total).
    **options
        Options of the decoder, e.g. ``covariance_type=`` of mixtures.

    Returns
    -------
    Sweep
        A table that prints itself, with ``recommended`` and ``reason``.  All numbers share one budget
        (:func:`sketchlearn.decoding_budget`): the table ends where it is spent, and says so.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(6000, 2)) + np.repeat([[0, 0], [12, 0], [0, 12]], 2000, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=6, seed=0))
    >>> sl.sweep(s, range(1, 6), random_state=0).recommended
    3
    """
    decoders = decoders_of(task)
    rng = as_generator(random_state)
    if task == "regression":
        raise ValueError("task='regression' has no number of components to choose")
    numbers = numbers_of_components(sketch, ks)
    label = "trying numbers of components"
    reports = reporting(progress, len(numbers), label, unit="numbers")
    with single_blas_thread, spending(components=max(numbers)) as budget, reports as report:
        if task in _SWEEPS:
            place, known = _SWEEPS[task]
            for name in sorted(options.keys() - set(known)):
                raise TypeError(
                    f"a sweep of task={task!r} has no option {name!r}: there are {', '.join(known) or 'none'}"
                )
            module, _, function = place.partition(":")
            made = getattr(importlib.import_module(module), function)
            table: Sweep = made(sketch, numbers, rng=rng, report=report, **options)
        else:
            decoders.check("auto", options)
            table = sweep_by_certificate(decoders[decoders.default], sketch, numbers, rng=rng, report=report, **options)
    table = replace(table, privacy=sketch.privacy)
    return table.unfinished(budget.words) if budget.cut else table
