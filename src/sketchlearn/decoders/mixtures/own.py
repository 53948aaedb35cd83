"""Mixtures of any family, also one of your own, decoded greedily (CL-OMPR)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from sketchlearn.decoders import verdicts
from sketchlearn.decoders.certificate import Certifier
from sketchlearn.decoders.drive import Run
from sketchlearn.decoders.families import Family
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import FamilySolution, said
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.pursuit import clompr
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread


def decode_family(
    sketch: Sketch,
    n_components: int,
    family: Family,
    *,
    rng: np.random.Generator,
    starts: int = 3,
    candidates: int = 50,
    trace: list[dict[str, Any]] | None = None,
) -> FamilySolution:
    """Decode a mixture of `n_components` members of a family.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    n_components : int
        Number of components.
    family : Family
        What the components are.
    rng : numpy Generator
        Source of the random starts.
    starts : int
        At most this many runs; no more once the misfit is near the noise floor.
    candidates : int
        Random points among which each ascent's start is chosen.
    trace : list, optional
        Gets one dict per start.

    Returns
    -------
    FamilySolution

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.families import Known
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[5.0], [14.0]], 2000, axis=0)
    >>> s = sl.sketch(X, design_gmm(X[::4], 2, "spherical", seed=0))
    >>> solution = sl.decode(s, 2, task="family", family=Known(1.0), random_state=0)
    >>> np.sort(solution.means[:, 0]).round(0)
    array([ 5., 14.])
    """
    if n_components < 1 or starts < 1:
        raise ValueError(f"n_components and starts must be positive, got {n_components!r} and {starts!r}")
    base = Problem.from_sketch(sketch)
    # shapes mean what they mean in the units of the rows, so those are kept; only the place is centred
    problem = base.rescaled(1.0 / base.scale)
    smallest, largest = 1e-2 / problem.effective_radius(n_components) ** 2, 4.0 * problem.spread**2
    run = Run()

    def attempt() -> State:
        return clompr(problem, family, n_components, rng, candidates, smallest=smallest, largest=largest)

    attempts = ((f"CL-OMPR, run {start + 1}", attempt) for start in range(starts))
    with single_blas_thread:
        state = run.best_of(attempts, lambda found: problem.floor(found)[0], verdicts.FAMILY)
    rounds, floor = len(run.trace), problem.floor(state)[0]
    ratio, certifier, seen = state.value / floor, Certifier(problem, rng), None
    if ratio < verdicts.FAMILY and certifier.can(n_components, family):
        begin = perf_counter()
        certified = certifier.certify(state, mend=False)
        seen, failed = certified.examination, [f for f in certified.examination.findings if not f.passed]
        if seen.passed:
            state = replace(certified.state, value=problem.misfit(certified.state))
        found = "; ".join(map(str, failed)) or "all tests pass"
        run.note("certificate", "the misfit is low", found, seen.passed, perf_counter() - begin)
    if trace is not None:
        trace += run.trace
    judged, name = verdicts.of_family(ratio, n_components, seen), f"CL-OMPR ({type(family).__name__})"
    return FamilySolution(
        **said("family", name, state.value, floor, judged, rounds, run.trace, ratio),
        weights=state.simplex,
        means=state.means + base.center,
        shapes=state.shapes,
        facts=family.describe(state.shapes, n_components, base.dim),
    )
