"""How many components?  The certificate answers: the fewest that explain the sketch down to its noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders.mixtures.default import decode_gmm
from sketchlearn.decoders.solution import Code, MixtureSolution
from sketchlearn.decoders.sweep import Sweep, SweepRow, numbers_of_components, recommend, watched
from sketchlearn.designs.gmm import parameter_count
from sketchlearn.engines.progress import Report, silent
from sketchlearn.sketches.value import Sketch


@dataclass(frozen=True, eq=False)
class MixtureSweep:
    """Mixtures with several numbers of components, from one sketch.

    Attributes
    ----------
    ks : tuple of int
        Numbers of components that were tried, ascending.
    solutions : tuple of MixtureSolution
        One for each.
    best : int
        The number chosen: the smallest whose misfit is at the noise floor; if none is, the smallest whose misfit
        is within a quarter of the least.
    certified : bool
        Whether the misfit of the chosen one is at the noise floor.
    """

    ks: tuple[int, ...]
    solutions: tuple[MixtureSolution, ...]
    best: int
    certified: bool

    @property
    def ratios(self) -> tuple[float, ...]:
        """Misfit over noise floor, for each number of components."""
        return tuple(s.ratio for s in self.solutions)

    @property
    def solution(self) -> MixtureSolution:
        """The chosen mixture."""
        return self.solutions[self.ks.index(self.best)]


def sweep_gmm(
    sketch: Sketch,
    ks: Iterable[int],
    covariance_type: str = "full",
    *,
    rng: np.random.Generator,
    exhaustive: bool = False,
    report: Report = silent,
) -> MixtureSweep:
    """Decode mixtures with different numbers of components and choose one.

    Parameters
    ----------
    sketch : Sketch
        Designed for the largest number of components.
    ks : iterable of int
        Numbers of components to try.
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
    MixtureSweep

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> from sketchlearn.decoders.sweep_gmm import sweep_gmm
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(9 * i, 1, (2000, 2)) for i in range(3)])
    >>> s = sl.sketch(X, design_gmm(X[::6], 5, "spherical"))
    >>> sweep = sweep_gmm(s, range(1, 6), "spherical", rng=rng)
    >>> sweep.best, sweep.certified, sweep.ks
    (3, True, (1, 2, 3))
    """
    numbers = numbers_of_components(sketch, ks)
    found: dict[int, MixtureSolution] = {}
    for k in watched(numbers, report):  # one search each: most of these numbers are too small, and clearly so
        found[k] = decode_gmm(sketch, k, covariance_type, rng=rng, starts=1, project=False)
        if not exhaustive and _at_floor(found[k]):
            break
    best = next((k for k in found if _at_floor(found[k])), None)
    while best is not None and best > numbers[0]:
        # was the next smaller number too small, or its search unlucky?  Try again, from the larger model
        fewer = max(k for k in found if k < best)
        start = found[best].mixture
        again = decode_gmm(sketch, fewer, covariance_type, rng=rng, start=start, starts=0, project=False)
        if again.ratio < found[fewer].ratio:
            found[fewer] = again
        if not _at_floor(found[fewer]):
            break
        best = fewer
    tried, solutions = tuple(found), tuple(found.values())
    best, _ = recommend(list(tried), [s.ratio for s in solutions], [_at_floor(s) for s in solutions])
    return MixtureSweep(tried, solutions, best, _at_floor(found[best]))


def sweep_mixtures(
    sketch: Sketch,
    ks: Iterable[int],
    *,
    rng: np.random.Generator,
    covariance_type: str = "full",
    report: Report = silent,
) -> Sweep:
    """Every number of components, as the table that :func:`sketchlearn.sweep` returns."""
    sweep = sweep_gmm(sketch, ks, covariance_type, rng=rng, exhaustive=True, report=report)
    rows = []
    for k, s in zip(sweep.ks, sweep.solutions, strict=True):
        mixture = s.mixture
        inertia = float(mixture.weights @ mixture.variances())
        numbers = 2 * sketch.features.size
        parameters = parameter_count(k, sketch.features.dim, s.covariance_type)
        criterion = numbers * np.log(s.residual) + parameters * np.log(numbers)
        rows.append(SweepRow(k, s.residual, s.ratio, inertia, float(criterion), s.code))
    chosen = recommend(list(sweep.ks), list(sweep.ratios), [_at_floor(s) for s in sweep.solutions])
    return Sweep(tuple(rows), *chosen, tuple(s.mixture for s in sweep.solutions))


def _at_floor(solution: MixtureSolution) -> bool:
    """Whether the solution's own certificate lets its misfit pass; components may still be undetermined."""
    return solution.code in (Code.RELIABLE, Code.UNDETERMINED)
