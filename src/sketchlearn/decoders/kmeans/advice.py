"""Verdicts of centres in words: how good they are, what to do first, where the cost sits, what they don't show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sketchlearn.decoders.kmeans.grade import Grade, percent
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import Code
from sketchlearn.decoders.steps.far import BEYOND
from sketchlearn.decoders.verdicts import Verdict

GOOD, CERTIFIED, BAD = 0.03, 0.05, 0.10
"""Bounds on the excess of the cost up to which centres are good, and up to which a certificate is given; an estimate of
it from which on the model is wrong."""

ENOUGH = 10  # features for each number of the centres: the usual size
_ONE_COLUMN = 0.95  # share of the variance from which on one column decides alone
_SHOWN = 2  # clusters without a centre, constant columns, and columns of far rows, that are named


def of_graded(
    code: Code,
    certificate: str,
    grade: Grade,
    problem: Problem,
    names: tuple[str, ...],
    k: int,
    what: str,
    blind: bool,
    constant: Sequence[str],
) -> Verdict:
    """The code and the words for graded centres.

    Parameters
    ----------
    code, certificate : Code, str
        What the certificate of the mixture says.
    grade : Grade
        What judges say of the centres.
    problem, names, k : Problem, tuple of str, int
        The sketch, its columns, the number of centres.
    what : str
        "k-means" or "k-medians".
    blind : bool
        Whether rows are so far that the map can't see what they cost.
    constant : sequence of str
        Columns of the rows with one value only.
    """
    excess, bound = grade.excess, grade.bound
    code = _code(code, excess, bound)
    most = f"at most {percent(bound)} more, with 90 % confidence" if bound < 1.0 else "no upper bound can be given"
    said = [
        f"{code.capitalize()}: the centres cost about {percent(excess)} more than those of {what} on all rows ({most})"
    ]
    if code in (Code.DOUBTFUL, Code.MISFIT):
        said.append(f"Try first: {_remedy(grade, problem, names, k, what)}")
    if constant and code is not Code.RELIABLE:
        has = "it has" if len(constant) == 1 else "each has"
        said.append(
            f"Leave out {', '.join(constant[:_SHOWN])}{', ...' * (len(constant) > _SHOWN)}: {has} one value only"
        )
    if blind and names[grade.opinions.far_column] not in constant:
        far = names[grade.opinions.far_column]
        said.append(f"The map can't see what the farthest rows in {far} cost: it has no frequencies low enough")
    if grade.concentration is not None:
        few = grade.concentration
        columns = [names[j] for j in few.columns if names[j] not in constant]
        where = " and ".join(columns) if len(columns) <= _SHOWN else "several columns"
        place = f", far out in {where}," if columns else ""
        rows = max(few.rows, 1.0 / problem.n)
        said.append(f"{percent(rows)} of the rows{place} carry {percent(few.cost)} of the cost")
    for cluster in grade.hidden[:_SHOWN]:
        place = ", ".join(f"{x:.4g}" for x in problem.points(cluster.place[None])[0][:6])
        more = ", ..." if problem.dim > 6 else ""
        said.append(
            f"A cluster of {percent(cluster.rows)} of the rows near ({place}{more}) has no centre of its own: "
            "splitting a larger cluster lowers the cost more"
        )
    rest = certificate.removeprefix("Reliable. ").removeprefix("Not certified. ")
    return code, ". ".join([*said, rest])


def _code(code: Code, excess: float, bound: float) -> Code:
    if code is Code.RELIABLE and bound <= CERTIFIED:
        return code
    if code is Code.UNDETERMINED and excess <= BAD:
        return code
    if bound <= GOOD:
        return Code.GOOD
    return Code.MISFIT if excess > BAD else Code.DOUBTFUL


def _remedy(grade: Grade, problem: Problem, names: tuple[str, ...], k: int, what: str) -> str:
    """What takes away the largest part of the bound; other units, if one column decides alone.

    A column whose ends are as near as those of a normal one is not to be clipped.
    """
    said, share = grade.opinions, grade.variances / max(float(grade.variances.sum()), 1e-300)
    j = int(share.argmax())
    first = ""
    if problem.metric is None and len(share) > 1 and share[j] > _ONE_COLUMN:
        first = f"standardise the columns ({names[j]} has {percent(float(share[j]))} of the variance), or "
    parts = grade.parts if grade.reach > BEYOND else {name: grade.parts[name] for name in ("judges", "coarse")}
    worst = max(parts, key=lambda name: parts[name])
    if worst in ("tails", "far"):
        column = names[said.far_column]
        end = _value(problem, said.far_column, said.far_place)
        reached = f"{end:,.0f}" if abs(end) >= 1e4 else f"{end:.4g}"
        other = "k-medians or a mixture" if what == "k-means" else "a mixture"
        logarithm = " or take its logarithm" * (end > 0)
        return f"{first}clip {column}{logarithm} (it reaches {reached}), or use {other}"
    if worst == "coarse":
        finer = f"design a finer map, for more than {k} clusters (this one is too coarse)"
        return f"{first}{finer}, or ask for fewer clusters"
    larger = max(2 * problem.size, ENOUGH * k * problem.dim)
    return f"{first}make a larger sketch ({larger:,} features; it has {problem.size:,}), or ask for fewer clusters"


def _value(problem: Problem, column: int, place: float) -> float:
    """A place of a column in the units of the rows."""
    point: Any = np.zeros((1, problem.dim))
    point[0, column] = place
    return float(problem.points(point)[0, column])
