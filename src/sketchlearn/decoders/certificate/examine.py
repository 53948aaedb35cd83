"""What is known of a fitted mixture: standard errors, what is left of the residual, what may be missing.

All tests look at the whitened residual r of :mod:`sketchlearn.decoders.certificate.whitened`, off the derivatives of
the model (the fit has used those up):

- *residual*: n |r|^2 against its mean and variance under the model;
- *missing*: for a component at x, the score of its weight, ``sqrt(n) g'r / |g|`` with g the whitened atom at x less the
  model; standard normal for one x, so the maximum over many is compared with :func:`missing_limit`;
- *split*: for every component, the scores of its second derivatives, a chi-square of d (d + 1)/2: two clusters taken as
  one, another width, an oblong shape.

``1 / (|g| sqrt(n))`` is the standard error of the weight of a cluster at x: the smallest cluster that would have been
noticed follows from it, and the closest pair from the information on the second derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.certificate.findings import DETERMINED, EXPLAINED, RESOLVED, TESTS, Exam, Finding
from sketchlearn.decoders.certificate.scores import SPLIT, missing_limit, search_missing, split_test
from sketchlearn.decoders.certificate.tangent import F32, Tangent, remainders
from sketchlearn.decoders.certificate.whitened import APART, Whitened

RESIDUAL = 4.0  # standard deviations up to which chance explains it
COORDINATE, DISTANCE = 0.5, 1.0  # widths: standard error of a coordinate, root mean square distance of a mean
REACH = 1.5  # radians
FARTHEST = 0.75
"""Of the largest distance in the box from all components: how far away places are, if that is less than 4 widths.

In one column rows end at 3 to 4 widths.  On top of a component another one of its width can't be told from its weight:
counted there, one cluster of 4000 normal rows was undetermined.
"""


@dataclass(frozen=True, eq=False)
class Examination:
    """What is known of a fitted mixture, in normalised units.

    Attributes
    ----------
    findings : tuple of Finding
        Of all tests.
    covariance : ndarray
        Of the means (k d) and weights (k).
    means_std : ndarray (k, d)
        Standard errors of the means.
    missing_at, missing_weight : ndarray (d,), float
        Where a component is missing most, and its estimated weight.
    smallest : float
        Weight of a cluster that would have been noticed wherever it is (98 % of the places in the box that are apart
        from all components).
    closest : ndarray (k,)
        Distance in widths at which a component that is an equal pair would have been noticed.
    """

    findings: tuple[Finding, ...]
    covariance: Array
    means_std: Array
    missing_at: Array
    missing_weight: float
    smallest: float
    closest: Array

    def __getitem__(self, test: str) -> Finding:
        return next(f for f in self.findings if f.name == test)

    def _passes(self, *questions: str) -> bool:
        return all(f.passed for f in self.findings if f.question in questions)

    def covariance_of(self, k: int) -> Array:
        """Of the means (k d) and weights (k) of the first k components."""
        count, d = self.means_std.shape
        keep = np.concatenate([np.arange(k * d), count * d + np.arange(k)])
        return self.covariance[np.ix_(keep, keep)]

    @property
    def explained(self) -> bool:
        """Nothing is left that the model does not explain."""
        return self._passes(EXPLAINED)

    @property
    def determined(self) -> bool:
        """Every centre is known to within its width, and so is the width."""
        return self._passes(DETERMINED)

    @property
    def passed(self) -> bool:
        """All tests pass."""
        return all(f.passed for f in self.findings)


def residual_test(tangent: Tangent, noise: F32) -> float:
    """n |r|^2, standardised.

    Not only the part of r off the derivatives: a fit that has not converged must not pass.
    """
    problem = tangent.problem
    m, count = len(problem.w), noise.shape[1]
    statistic = problem.n * float(tangent.residual @ tangent.residual)
    left = tangent.off(noise)
    used = float(np.vdot(noise, noise) - np.vdot(left, left)) / count
    mean = max(problem.trace - used, 0.0)
    gram = left.T @ left
    second = (float((gram * gram).sum()) - float((np.diag(gram) ** 2).sum())) / (count * (count - 1))
    if problem.released:  # noise of a release is independent in every entry
        second += 2.0 * m
    return (statistic - mean) / math.sqrt(2.0 * max(second, 1.0))


def _smallest(error: float, limit: float) -> float:
    """Rows of a cluster that is noticed, if the standard error of their number is `error`.

    The score is then above its limit by 2.5 of its own standard deviations, and by as many of those with which a number
    of rows stands for a share.
    """
    needed = (limit + 2.5) * error
    return (0.5 * (2.5 + math.sqrt(2.5**2 + 4.0 * needed))) ** 2


def _reach(problem: Whitened, core: int) -> float:
    """The longest frequencies times the width of a component, or half its distance to the next, whichever is more.

    At the worst component.  Far below 1 only moments of the data are seen, and other clusters have the same.
    """
    state, d = problem.state, problem.w.shape[1]
    lengths = np.sort((problem.w**2).sum(1))
    longest = math.sqrt(lengths[-min(d + 1, len(lengths))])  # (a few of them, in all directions)
    nearest = np.zeros(1)
    if state.k > 1:
        apart = ((state.means[:, None] - state.means) ** 2).sum(2)
        np.fill_diagonal(apart, np.inf)
        nearest = apart.min(1)
    return longest * math.sqrt(float((state.widths**2 + nearest / 4.0)[:core].min()))


def examine(
    problem: Whitened, box: tuple[Array, Array], rng: np.random.Generator, core: int | None = None
) -> Examination:
    """All tests and standard errors at the present state; only the first `core` components need be determined."""
    tangent, state = Tangent(problem), problem.state
    k, d = state.means.shape
    core = core or k
    covariance = tangent.covariance() / problem.n
    means_std = np.sqrt(np.maximum(np.diag(covariance)[: k * d], 0.0)).reshape(k, d)
    noise = remainders(problem, rng)
    residual = residual_test(tangent, noise)
    limit = missing_limit(tangent, noise, box, rng)
    missing, at, error, places, errors = search_missing(tangent, noise, box, rng)
    split, closest = split_test(tangent)
    apart = np.sqrt(((places[:, None] - state.means) ** 2).sum(2)).min(1)
    away = apart >= min(APART * state.width, FARTHEST * float(apart.max()))
    smallest = _smallest(float(np.quantile(errors[away], 0.98)) * problem.n, limit) / problem.n
    coordinate = (means_std / state.widths[:, None]).max(1)[:core]
    distance = (np.sqrt((means_std**2).sum(1)) / state.widths)[:core]
    two, worst = int(split.argmax()), int(coordinate.argmax())
    known = float(coordinate[worst])
    short = 1.0 / max(_reach(problem, core), 1e-300)
    findings = (
        Finding("residual", residual, RESIDUAL, "standard deviations of the misfit above its mean"),
        Finding("missing", missing, limit, "score of one more component at its best place"),
        Finding("split", float(split[two]), SPLIT, f"score of component {two} being two, or of another shape", at=two),
        *(test(Exam(tangent, noise, box, rng, core)) for test in TESTS),
        Finding("coordinate", known, COORDINATE, "widths: error of the worst coordinate", DETERMINED, worst),
        Finding("distance", float(distance.max()), DISTANCE, "widths: error of the worst centre", DETERMINED),
        Finding("width", tangent.width_error(), COORDINATE, "relative error of the worst width", DETERMINED),
        Finding("reach", short, 1.0 / REACH, "inverse radians at the worst component", RESOLVED),
        Finding("smallest", smallest, 0.5 / core, "share of a cluster that would be noticed", RESOLVED),
    )
    return Examination(findings, covariance, means_std, at, max(missing, 0.0) * error, smallest, closest)
