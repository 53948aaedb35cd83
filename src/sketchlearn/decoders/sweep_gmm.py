"""How many components?  The certificate answers: the fewest that explain the sketch down to its noise."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sketchlearn.decoders.mixtures.default import decode_gmm
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.decoders.sweep import AT_FLOOR, Sweep, SweepRow, numbers_of_components, recommend, watched
from sketchlearn.designs.gmm import parameter_count
from sketchlearn.engines.progress import Report, silent
from sketchlearn.sketches.value import Sketch


def sweep_gmm(
    sketch: Sketch,
    ks: Iterable[int],
    covariance_type: str = "full",
    *,
    rng: np.random.Generator,
    exhaustive: bool = True,
    report: Report = silent,
) -> Sweep:
    """Decode mixtures with different numbers of components and choose one.

    Parameters
    ----------
    sketch, ks
        As for :func:`sketchlearn.sweep`.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components.
    rng : numpy Generator
        Source of the random starts.
    exhaustive : bool
        Try all numbers, even after one explains the sketch.
    report : callable
        Gets (numbers tried, numbers in all).

    Returns
    -------
    Sweep

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> from sketchlearn.decoders.sweep_gmm import sweep_gmm
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * i, 1, (2000, 2)) for i in range(3)])
    >>> s = sl.sketch(X, design_gmm(X[::6], 5, "spherical"))
    >>> table = sweep_gmm(s, range(1, 6), "spherical", rng=rng, exhaustive=False)
    >>> table.recommended, table.certified, len(table)
    (3, True, 3)
    """
    numbers = numbers_of_components(sketch, ks)
    found: dict[int, MixtureSolution] = {}
    for k in watched(numbers, report):  # one search each: most of these numbers are too small, and clearly so
        found[k] = decode_gmm(sketch, k, covariance_type, rng=rng, starts=1, project=False)
        if not exhaustive and found[k].code in AT_FLOOR:
            break
    best = next((k for k in found if found[k].code in AT_FLOOR), None)
    while best is not None and best > numbers[0]:
        # was the next smaller number too small, or its search unlucky?  Try again, from the larger model
        fewer = max(k for k in found if k < best)
        start = found[best].mixture
        again = decode_gmm(sketch, fewer, covariance_type, rng=rng, start=start, starts=0, project=False)
        if again.ratio < found[fewer].ratio:
            found[fewer] = again
        if found[fewer].code not in AT_FLOOR:
            break
        best = fewer
    rows = [_row(sketch, k, s) for k, s in found.items()]
    return Sweep(tuple(rows), *recommend(rows), tuple(s.mixture for s in found.values()))


def _row(sketch: Sketch, k: int, solution: MixtureSolution) -> SweepRow:
    """A line of the table, with Schwarz's criterion for the numbers of the sketch."""
    numbers = 2 * sketch.features.size
    inertia = float(solution.weights @ solution.mixture.variances())
    parameters = parameter_count(k, sketch.features.dim, solution.covariance_type)
    criterion = float(numbers * np.log(solution.residual) + parameters * np.log(numbers))
    return SweepRow(k, solution.residual, solution.ratio, inertia, criterion, solution.code)
