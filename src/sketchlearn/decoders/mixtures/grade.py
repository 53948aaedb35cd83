"""A grade for Gaussian mixtures: by how many nats per row their likelihood is below the best of that size, and a bound.

Judges are densities that explain the sketch: the richer mixture that a model was projected from, or the model itself if
it explains the sketch, refitted to either half of the frequencies.  Rows are fixed and frequencies are random, so
halves of these are the right resampling.  Under a richer judge the excess is that over maximum likelihood on draws;
under a model of the same family it is the divergence of the two.  To this come what rows at the ends of the box cost,
which averages don't show, and what the best of many optima gains by chance on so few rows.  Factors are quantile
regressions on many data sets (`benchmarks/graded_mixtures.py` makes and tests them; `docs/how-good.md` has the table).
Judges of a certified mixture err by little, since the rows are of its family.  Judges of others err by more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.families import FULL
from sketchlearn.decoders.mixtures.certificate import Certificate
from sketchlearn.decoders.mixtures.projection import draw, maximum_likelihood
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.solution import Code
from sketchlearn.decoders.state import State, reduced
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.decoders.verdicts import Verdict
from sketchlearn.kernels import lloyd
from sketchlearn.models.mixture import Mixture
from sketchlearn.words import counted

PARTS = ("constant", "judges", "rows", "far")
# Nats per row for one unit of each part, none negative: 50 % and 88 % quantiles of 651 cases, with which nine in ten
# cases of data sets that are left out are covered; then of 70 certified ones,
# whose box is that of so many rows.
ESTIMATE, BOUND = (0.0005, 1.32, 0.0, 1.95), (0.0005, 8.4, 0.95, 7.0)
SURE_ESTIMATE, SURE_BOUND = (0.0005, 0.08, 0.03, 0.0), (0.0005, 0.8, 2.1, 0.0)
NO_BOUND = 1.0  # nats per row from which on a bound says nothing: the truth is often many times larger
CALIBRATED = 10_000.0  # rows of the largest data sets of the calibration
MOST = 3.0  # nats per row that a part counts for at most: beyond, all are the same
DRAWS, DRAWS_EACH = 3000, 300  # of a judge, and for each component: optimism and noise cancel in two sets
GOOD, CERTIFIED, BAD = 0.05, 0.1, 0.3
"""Bounds in nats per row up to which a mixture is good, and up to which a certificate is given; an estimate above
which the model is wrong."""
ROUNDS, STEPS = 30, 40  # of maximum likelihood on them; L-BFGS iterations of a refit to half of the frequencies


@dataclass(frozen=True)
class Grade:
    """What is known of the likelihood of a mixture.

    Attributes
    ----------
    excess, bound : float
        Nats per row below the best mixture of that size: an estimate, and what nine in ten stay below.
    judges, rows, far : float
        What they are made of: the mean of the judges; p / 2n for the p parameters that more than one component has; and
        half the squared distance in widths of the worst end of the box over n, beyond what normal rows reach, for as
        many rows as can hide there.
    column : int
        Of the end of the box.
    worst : str
        The part with the largest share of the bound.
    """

    excess: float
    bound: float
    judges: float
    rows: float
    far: float
    column: int
    worst: str

    @property
    def numbers(self) -> dict[str, float]:
        """For the trace."""
        return {name: getattr(self, name) for name in ("judges", "rows", "far", "excess", "bound")}

    @property
    def words(self) -> str:
        """The grade in words."""
        return f"{self.excess:.2g} nats per row below the best ({self.most}); most of it: {self.worst}"

    @property
    def most(self) -> str:
        """The bound in words."""
        return f"90 %: at most {self.bound:.2g}" if self.bound < NO_BOUND else "no upper bound can be given"


def graded(
    setting: Setting,
    certificate: Certificate,
    answer: Mixture,
    richer: Mixture | None,
    box: tuple[Array, Array],
    certified: bool,
) -> Grade | None:
    """The grade of a mixture, None where nothing explains the sketch well enough to judge it.

    Parameters
    ----------
    setting, certificate : Setting, Certificate
        The problem, and the state that was found.
    answer, richer : Mixture, Mixture or None
        The answer, and the richer mixture that it was projected from (units of the rows).
    box : tuple of ndarray
        Bounds of the rows.
    certified : bool
        Whether the answer passed all other tests.
    """
    if not tells_halves(setting):
        return None
    model = setting.base.inverse(answer)
    rich = None if richer is None else setting.base.inverse(richer)
    if rich is None and certificate.ratio > certificate.limit:
        return None
    if rich is None:
        problem, strength, fit = certificate.problem, certificate.strength, certificate.state
    else:
        problem, strength, fit = setting.whole, setting.strength, State.of(rich).to(FULL)
    last = problem.size - 1  # the equation "weights sum to 1" belongs to both halves
    found = []
    for half in np.array_split(setting.rng.permutation(last), 2):
        part = problem.subset(np.append(np.sort(half), last))
        judge = refine(part, fit.revived(), STEPS, strength=2.0 * strength, **setting.limits)
        found.append(_divergence(judge, model, setting) if rich is None else _excess(judge, model, setting))
    n, d = setting.base.n, setting.base.dim
    far, column = _far(box, answer, n)
    more = setting.family.parameters(setting.k, d) - setting.family.parameters(1, d)
    judges, rows, far = np.clip([np.mean(found), more / (2.0 * n), far], 0.0, MOST).tolist()
    x = np.array([1.0, judges, rows, far])
    estimate, bound = (SURE_ESTIMATE, SURE_BOUND) if certified else (ESTIMATE, BOUND)
    shares, excess = np.array(bound) * x, float(np.array(estimate) @ x)
    worst = PARTS[1 + int(shares[1:].argmax())]
    return Grade(excess, max(float(shares.sum()), excess), judges, rows, far, column, worst)


def tells_halves(setting: Setting) -> bool:
    """Whether half of the frequencies have as many numbers as the mixture: fewer agree with any."""
    return setting.base.size >= setting.family.parameters(setting.k, setting.base.dim) - 1


def _count(setting: Setting) -> int:
    return DRAWS + DRAWS_EACH * setting.k


def _divergence(judge: State, model: Mixture, setting: Setting) -> float:
    """Kullback-Leibler divergence of a model from a judge of its own family, by draws.

    The mean of ``r - 1 - log r``, for r the model's density over the judge's: each term is positive, and there is
    next to no noise where the two are close.
    """
    x = draw(judge, setting.rng, _count(setting))
    log = model.log_density(x) - judge.mixture().log_density(x)
    return float(np.mean(np.expm1(np.minimum(log, 3.0)) - log))


def _excess(judge: State, model: Mixture, setting: Setting) -> float:
    """Nats that the best mixture of the family has more under a judge.

    The best for some draws is too good there by as much as it is too bad on others: the mean has neither error.
    """
    first, second = (draw(judge, setting.rng, _count(setting)) for _ in range(2))
    starts = [State.of(model), reduced(judge.revived(), setting.k), *_by_cells(first, setting)]
    fits = [maximum_likelihood(first, start.to(setting.family), ROUNDS) for start in starts]
    best = max(fits, key=lambda fit: fit[1])[0].mixture()
    return float(np.mean([np.mean(best.log_density(x) - model.log_density(x)) for x in (first, second)]))


def _by_cells(x: Array, setting: Setting) -> list[State]:
    """One component for each cell of k-means on some draws, if none is too small."""
    points, k = np.ascontiguousarray(x, np.float32), setting.k
    alike = np.full(len(points), 1.0 / len(points))
    centers = lloyd.seed_centers(points, alike, k, setting.rng.uniform(size=(k, 2 + int(np.log(k)))))
    labels = lloyd.lloyd(points, alike, centers, ROUNDS, 1e-4)[0]
    cells = [x[labels == l] for l in range(k)]
    if min(len(cell) for cell in cells) <= 2 * x.shape[1]:
        return []
    shapes = np.stack([np.cov(cell.T).reshape(x.shape[1], -1) for cell in cells])
    weights, means = np.array([len(cell) / len(x) for cell in cells]), np.stack([cell.mean(0) for cell in cells])
    return [State(FULL, weights, means, shapes + setting.smallest * np.eye(x.shape[1]))]


def _far(box: tuple[Array, Array], answer: Mixture, n: float) -> tuple[float, int]:
    """What rows at the worst end of the box cost beyond what normal rows would, and its column.

    The largest of m normal values has a squared distance of about ``2 log m`` widths; there are 2 d n of them.  The box
    tells of one row there.  How many more the noise of averages can hide grows with the root of n, and the factors are
    those of up to 10 000 rows: 60 of 200 000 rows at 20 widths cost .013 nats, and a bound that counted one was .008.
    """
    width = np.sqrt(np.maximum(np.diagonal(answer.full_covariances(), axis1=1, axis2=2), 1e-300))
    apart = np.stack([(np.abs(end - answer.means) / width).min(0) for end in box]) ** 2
    column = int(apart.max(0).argmax())
    usual = float(np.log(max(2.0 * len(box[0]) * n, 1.0)))
    hidden = float(np.sqrt(max(n / CALIBRATED, 1.0)))
    return hidden * max(0.5 * float(apart.max()) - usual, 0.0) / max(n, 1.0), column


def of_graded(
    code: Code, certificate: str, grade: Grade, k: int, names: tuple[str, ...], box: tuple[Array, Array]
) -> Verdict:
    """The code and the words for a graded mixture of k components, of what its certificate says."""
    if code is Code.MISFIT or (code is Code.RELIABLE and grade.bound > CERTIFIED):
        code = Code.GOOD if grade.bound <= GOOD else Code.MISFIT if grade.excess > BAD else Code.DOUBTFUL
    said = (
        f"{code.capitalize()}: about {grade.excess:.2g} nats per row below the best mixture of "
        f"{counted(k, 'component')} ({grade.most})."
    )
    if code in (Code.DOUBTFUL, Code.MISFIT):
        said += f" Try first: {_remedy(grade, names, box)}."
    return code, f"{said} {certificate.removeprefix('Reliable. ')}"


def _remedy(grade: Grade, names: tuple[str, ...], box: tuple[Array, Array]) -> str:
    """What takes away the largest part of the bound."""
    if grade.worst == "far":
        low, high = (float(end[grade.column]) for end in box)
        return (
            f"{names[grade.column]} clipped or transformed (it reaches from {low:.4g} to {high:.4g}), or a mixture of "
            "stable laws"
        )
    if grade.worst == "rows":
        return "more rows, fewer components, or covariances with fewer numbers (there are too few rows for so many)"
    return "a larger sketch, a map designed from rows, or other numbers of components"
