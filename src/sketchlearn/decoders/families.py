"""Mixtures of any family of atoms, also one of your own, decoded greedily (CL-OMPR)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.atoms.base import Atom
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.atom_clompr import clompr
from sketchlearn.decoders.atom_problem import AtomFit, AtomProblem
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import FamilySolution
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread


def decode_family(
    sketch: Sketch,
    n_components: int,
    atom: Atom,
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
    atom : Atom
        The family.
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
    >>> from sketchlearn.atoms import KnownGaussian
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[5.0], [14.0]], 2000, axis=0)
    >>> s = sl.sketch(X, design_gmm(X[::4], 2, "spherical", seed=0))
    >>> solution = sl.decode(s, 2, task="family", atom=KnownGaussian(1.0), random_state=0)
    >>> np.sort(solution.means[:, 0]).round(0)
    array([ 5., 14.])
    """
    if n_components < 1 or starts < 1:
        raise ValueError(f"n_components and starts must be positive, got {n_components!r} and {starts!r}")
    base = Problem.from_sketch(sketch)
    # shapes mean what they mean in the units of the rows, so those are kept; only the place is centred
    problem = AtomProblem.of(base, atom, 1e-2 / base.effective_radius(n_components) ** 2, 4.0, unit=base.scale)
    best: tuple[AtomFit, float] | None = None
    with single_blas_thread:
        for start in range(starts):
            fit = clompr(problem, n_components, rng, candidates)
            floor = noise_floor(problem, fit)
            if trace is not None:
                trace.append({"start": start, "ratio": fit.value / floor})
            if best is None or fit.value < best[0].value:
                best = fit, floor
            if best[0].value < verdicts.FAMILY * best[1]:
                break
    assert best is not None
    fit, floor = best
    code, verdict = verdicts.of_family(fit.value / floor, n_components)
    return FamilySolution(
        task="family",
        decoder=f"CL-OMPR ({type(atom).__name__})",
        residual=fit.value,
        noise_floor=floor,
        ratio=fit.value / floor,
        code=code,
        verdict=verdict,
        iterations=start + 1,
        trace=trace or [],
        weights=fit.weights / fit.weights.sum(),
        means=fit.means + base.center,
        shapes=fit.shapes,
        facts=atom.describe(fit.shapes, base.dim),
    )


def noise_floor(problem: AtomProblem, fit: AtomFit) -> float:
    """Misfit that the variance of features within the components leaves, less what the parameters absorb."""
    left = noise.left_by_envelope(fit.weights, problem.atom.envelope(fit.shapes, problem.operator))
    return noise.noise_floor(problem, left, fit.means.size + fit.weights.size + fit.shapes.size)[0]
