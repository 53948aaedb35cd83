"""From a sketch to a model: one algorithm a file, plain functions that return a Solution."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sketchlearn.decoders.clompr import decode_clompr
from sketchlearn.decoders.compare import Comparison, compare
from sketchlearn.decoders.metric import standardised
from sketchlearn.decoders.solution import Mixture, Solution
from sketchlearn.decoders.splitting import decode_splitting
from sketchlearn.decoders.sweep_gmm import as_table, sweep_gmm
from sketchlearn.decoders.sweep_kmeans import Sweep, sweep_kmeans
from sketchlearn.decoders.tuning_free import decode_tuning_free
from sketchlearn.sketches.value import Sketch

__all__ = ["DECODERS", "Comparison", "Mixture", "Solution", "Sweep", "compare", "decode", "sweep"]


def _clomp(sketch: Sketch, n_components: int, **options: Any) -> Solution:
    return decode_clompr(sketch, n_components, replacement=False, **options)


DECODERS: dict[str, Callable[..., Solution]] = {
    "tuning-free": decode_tuning_free,
    "clompr": decode_clompr,
    "clomp": _clomp,
    "splitting": decode_splitting,
}


def decode(
    sketch: Sketch,
    n_components: int,
    *,
    decoder: str = "auto",
    criterion: str = "means",
    random_state: int | np.random.Generator | None = None,
    trace: bool = False,
    **options: Any,
) -> Solution:
    """Decode the centres of k clusters from a sketch.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features, best from a map made by :func:`sketchlearn.design`.
    n_components : int
        Number of centres.
    decoder : {"auto", "tuning-free", "clompr", "clomp", "splitting"}
        ``"auto"`` takes the tuning-free decoder; the others are the published ones.  The solution says
        which one ran.
    criterion : {"means", "medians"}
        Centres for squared or plain distances.
    random_state : int or Generator, optional
        For repeatable results.
    trace : bool
        Keep what happened in every round in ``solution.trace``.
    **options
        Of the decoder, e.g. ``n_decodes=`` (tuning-free: fits that are pooled on data that is not
        Gaussian; more is better and slower), ``starts=``, ``replicates=``, ``init=``.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=2, seed=0))
    >>> solution = sl.decode(s, 2, random_state=0)
    >>> np.sort(solution.centers[:, 0]).round(1)
    array([1., 9.])
    """
    k = check_components(sketch, n_components)
    if decoder != "auto" and decoder not in DECODERS:
        raise ValueError(f"decoder={decoder!r}: choose 'auto' or one of {', '.join(DECODERS)}")
    if criterion not in ("means", "medians"):
        raise ValueError(f"criterion={criterion!r}: choose 'means' or 'medians'")
    function = DECODERS["tuning-free" if decoder == "auto" else decoder]
    rng = np.random.default_rng(random_state)
    view, spread = standardised(sketch)
    if spread is not None:
        for name in ("start", "sample"):
            if options.get(name) is not None:
                options[name] = np.asarray(options[name], np.float64) / spread
    found = function(view, k, rng=rng, criterion=criterion, trace=[] if trace else None, **options)
    if spread is None:
        return found
    return replace(found, mixture=found.mixture.stretched(spread), centers=found.centers * spread)


def check_components(sketch: Sketch, n_components: int) -> int:
    """A valid number of components for this sketch."""
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer) or n_components < 1:
        raise ValueError(f"the number of components must be a positive integer, got {n_components!r}")
    if not isinstance(sketch, Sketch):
        raise TypeError(f"expected a sketch, got {type(sketch).__name__}")
    if sketch.count < n_components:
        raise ValueError(
            f"n_samples={sketch.count} should be >= the number of components, {n_components}: the sketch has fewer rows"
        )
    return int(n_components)


def sweep(
    sketch: Sketch,
    ks: Iterable[int],
    *,
    task: str = "kmeans",
    covariance_type: str = "full",
    random_state: int | np.random.Generator | None = None,
) -> Sweep:
    """Decode every number of components from one sketch, and recommend one.

    Parameters
    ----------
    sketch : Sketch
        Of a feature map sized for the largest number (``n_components=max(ks)`` in the design).
    ks : iterable of int
        Numbers of components to try; each is warm-started from the last.
    task : {"kmeans", "gmm"}
        Centres of clusters, or Gaussian mixtures.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components, for mixtures.
    random_state : int or Generator, optional
        For repeatable results.

    Returns
    -------
    Sweep
        A table that prints itself, with ``recommended``, ``reason`` and ``plot()``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(6000, 2)) + np.repeat([[0, 0], [12, 0], [0, 12]], 2000, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=6, seed=0))
    >>> sl.sweep(s, range(1, 6), random_state=0).recommended
    3
    """
    rng = np.random.default_rng(random_state)
    if task == "kmeans":
        return sweep_kmeans(sketch, ks, rng=rng)
    if task == "gmm":
        return as_table(sweep_gmm(sketch, ks, covariance_type, rng=rng, exhaustive=True), sketch)
    raise ValueError(f"task={task!r}: choose 'kmeans' or 'gmm'")
