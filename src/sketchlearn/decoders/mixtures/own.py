"""Mixtures of any family, also one of your own, decoded greedily (CL-OMPR)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from sketchlearn.decoders import verdicts
from sketchlearn.decoders.certificate import Certifier
from sketchlearn.decoders.drive import Run, decoder
from sketchlearn.decoders.evidence import determined
from sketchlearn.decoders.families import Family
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import FamilySolution, said
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.pursuit import clompr
from sketchlearn.sketches.value import Sketch


@decoder
def decode_family(
    sketch: Sketch,
    k: int,
    family: Family,
    *,
    rng: np.random.Generator,
    starts: int = 3,
    candidates: int = 50,
    stop: bool = False,
) -> FamilySolution:
    """Decode a mixture of members of a family.

    There are at most `starts` runs, and no more once the misfit is near the noise floor.  The start of each ascent is
    chosen among `candidates` random points.  With `stop`, k is the largest number of components: a run ends with as
    few as leave no more than noise.

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
    if starts < 1:
        raise ValueError(f"starts must be positive, got {starts!r}")
    base = Problem.from_sketch(sketch)
    # shapes mean what they mean in the units of the rows, so those are kept; only the place is centred
    problem = base.rescaled(1.0 / base.scale)
    smallest, largest = 1e-2 / problem.effective_radius(k) ** 2, 4.0 * problem.spread**2
    run = Run()

    def attempt() -> State:
        enough = problem.explains if stop else None
        return clompr(problem, family, k, rng, candidates, smallest=smallest, largest=largest, explained=enough)

    attempts = ((f"CL-OMPR, run {start + 1}", attempt) for start in range(starts))
    state = run.best_of(attempts, lambda found: problem.floor(found)[0], verdicts.FAMILY)
    rounds, floor = len(run.trace), problem.floor(state)[0]
    ratio, certifier, seen = state.value / floor, Certifier(problem, rng), None
    k = state.k
    if ratio < verdicts.FAMILY and certifier.can(k, family):
        begin = perf_counter()
        certified = certifier.certify(state, mend=False)
        seen, failed = certified.examination, [f for f in certified.examination.findings if not f.passed]
        if seen.passed:
            state = replace(certified.state, value=problem.misfit(certified.state))
        found = "; ".join(map(str, failed)) or "all tests pass"
        run.note("certificate", "the misfit is low", found, seen.passed, perf_counter() - begin)
    judged, name = verdicts.of_family(ratio, k, seen), f"CL-OMPR ({type(family).__name__})"
    judged = determined(judged, family.parameters(k, base.dim) - 1, 2 * base.size, ratio)
    return FamilySolution(
        **said("family", name, state.value, floor, judged, rounds, run.trace, ratio),
        weights=state.simplex,
        means=state.means + base.center,
        shapes=state.shapes,
        facts=family.describe(state.shapes, k, base.dim),
    )
