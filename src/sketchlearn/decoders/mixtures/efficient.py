"""The last step of a mixture that explains the data: generalised least squares in the metric of the sampling noise.

Frequencies weighted one by one, by the noise that each is left with, do not know that this noise is nearly the same at
neighbouring frequencies: combinations of them are far more precise than each, and a fit that does not use them has
twice the divergence of EM on the rows, or more.  With the whole covariance of the noise
(:mod:`sketchlearn.decoders.certificate.whitened`) the estimate is as good as the sketch allows, which for a sketch of
usual size is about as good as EM; and its standard errors are known.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.decoders.certificate.examine import RESIDUAL, residual_test
from sketchlearn.decoders.certificate.tangent import Tangent, remainders
from sketchlearn.decoders.certificate.whitened import Whitened
from sketchlearn.decoders.families import GAUSSIANS
from sketchlearn.decoders.mixtures.certificate import in_rows
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.decoders.state import State


def efficient(problem: Problem, solution: MixtureSolution, rng: np.random.Generator) -> MixtureSolution | None:
    """The solution after this step, if it takes a second or two, and still explains the sketch then."""
    k, d, family = len(solution.weights), problem.dim, GAUSSIANS[solution.covariance_type]
    few = problem.size <= 1600 and family.parameters(k, d) <= min(1500, 2 * problem.size - 1)
    if not few or family.shared or (solution.weights <= 0).any():
        return None
    work = Whitened.of(problem, State.of(problem.inverse(solution.mixture)).to(family), dense=True)
    work.settle(3)
    tangent = Tangent(work)
    if not residual_test(tangent, remainders(work, rng)) < RESIDUAL:
        return None
    means, covariances = in_rows(problem, work.state)
    covariance = tangent.covariance() / problem.n
    back = np.eye(d) if problem.metric is None else np.linalg.inv(problem.metric)
    blocks = np.stack([covariance[l * d : l * d + d, l * d : l * d + d] for l in range(k)])
    variances = np.einsum("ab,kbc,ac->ka", back, blocks, back) * problem.scale**2
    return replace(
        solution,
        weights=work.state.weights,
        means=means,
        covariances=covariances,
        means_std=np.sqrt(np.maximum(variances, 0.0)),
        weights_std=np.sqrt(np.maximum(np.diag(covariance)[k * d :], 0.0)),
    )
