"""Mixtures of any family of atoms, also one of your own, decoded greedily (CL-OMPR)."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sketchlearn.atoms.base import Atom
from sketchlearn.decoders import verdicts
from sketchlearn.decoders.family import FamilyFit, FamilyProblem
from sketchlearn.decoders.gaussian_clompr import clompr
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import FamilySolution
from sketchlearn.sketches.value import Sketch


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
    >>> from sketchlearn.decoders.families import decode_family
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[5.0], [14.0]], 2000, axis=0)
    >>> s = sl.sketch(X, design_gmm(X[::4], 2, "spherical", seed=0))
    >>> solution = decode_family(s, 2, KnownGaussian(1.0), rng=np.random.default_rng(0))
    >>> np.sort(solution.means[:, 0]).round(0)
    array([ 5., 14.])
    """
    if n_components < 1 or starts < 1:
        raise ValueError(f"n_components and starts must be positive, got {n_components!r} and {starts!r}")
    base = Problem.from_sketch(sketch)
    # shapes mean what they mean in the units of the rows, so those are kept; only the place is centred
    w = base.operator._matrix.astype(np.float64) / base.scale
    z = base.z.astype(np.float64)
    problem = FamilyProblem(
        atom=atom,
        w=w,
        z=z[0] + 1j * z[1],
        u=base.u.astype(np.float64) / float(base.u.sum()),
        n=base.n,
        smallest=1e-2 * (base.scale / base.effective_radius(n_components)) ** 2,
        largest=4.0 * base.scale**2,
        box=(base.box[0] * base.scale, base.box[1] * base.scale),
        spread=base.scale,
    )
    best: tuple[FamilyFit, float] | None = None
    with threadpool_limits(1, "blas"):
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


def noise_floor(problem: FamilyProblem, fit: FamilyFit) -> float:
    """Misfit that the variance of features within the components leaves, less what the parameters absorb."""
    envelope = problem.atom.envelope(fit.shapes, problem.w)
    inner = 1.0 - envelope**2
    weights = fit.weights / max(float(fit.weights.sum()), 1e-12)
    variance = inner[0] if len(inner) == 1 else weights @ inner
    freedom = max(1.0 - 0.5 * (fit.means.size + fit.weights.size + fit.shapes.size) / len(problem.z), 0.1)
    return max(float(problem.u @ variance) * freedom / problem.n, 1e-14)
