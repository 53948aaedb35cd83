"""What must support a model besides a small misfit: enough rows for its numbers, the box of the rows, and a gain.

A sketch is an average.  Averages don't show a few rows far away, or how narrow a column is that counts little, and a
rich model explains any average of few rows.  These tests use what else is known.  They give a doubt in words, or
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from sketchlearn.decoders.families import GAUSSIANS
from sketchlearn.decoders.metric import has_box
from sketchlearn.decoders.noise import Averages
from sketchlearn.decoders.solution import Code, MixtureSolution, Solution
from sketchlearn.decoders.verdicts import FEWEST_ROWS, Verdict, of_few_rows
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.table import SketchTable

S = TypeVar("S", bound=Solution)

ROWS_EACH = 5.0
"""Rows for each free number of a density: p numbers from n rows cost about p / 2n nats per row (Akaike 1974)."""


def examined(found: S, sketch: Averages, k: int) -> S:
    """A reliable model of k groups of rows, or the model with the doubt that these tests give."""
    if found.code is not Code.RELIABLE:
        return found
    rows = float(sketch.effective_count)
    if isinstance(found, MixtureSolution):
        k = found.size  # a greedy decoder that stops has fewer than were asked for
    if rows < FEWEST_ROWS * k:
        code, verdict = of_few_rows(rows, k)
        return replace(found, code=code, verdict=verdict)
    if not isinstance(found, MixtureSolution):
        return found
    mixture, parameters = found.mixture, _parameters(found)
    if found.decoder == "moments":  # right, whatever the law; but one far row hides all others in them
        doubt = beyond_box(mixture, sketch, far_only=True)
        verdict = f"Not certified. The component has mean and covariance of the rows, but {doubt}."
        return replace(found, code=Code.MISFIT, verdict=verdict) if doubt else found
    code = Code.UNDETERMINED
    doubt = too_few_rows(parameters, rows) or too_few_numbers(parameters, 2 * characteristic(sketch.features).size)
    if not doubt:
        code, doubt = Code.MISFIT, beyond_box(mixture, sketch)
    if not doubt:
        return found
    verdict = f"Not certified. The misfit is {found.ratio:.2f} times the noise floor, but {doubt}."
    return replace(found, code=code, verdict=verdict, means_std=None, weights_std=None)


def small_class(table: SketchTable) -> str:
    """A doubt, where a class has so few rows that almost anything tells it from others; empty for none."""
    name, rows = min(((str(label), float(s.effective_count)) for label, s in table.items()), key=lambda each: each[1])
    return f"Class {name} has {rows:.6g} rows, fewer than {FEWEST_ROWS}" if rows < FEWEST_ROWS else ""


def too_few_rows(parameters: int, rows: float) -> str:
    """A doubt, where a density has too many free numbers for so many rows.

    Examples
    --------
    >>> from sketchlearn.decoders.evidence import too_few_rows
    >>> too_few_rows(5, 1000.0)
    ''
    >>> too_few_rows(50, 200.0)
    '200 rows are too few for 50 parameters: about 0.12 nats per new row are lost'
    """
    if rows >= ROWS_EACH * parameters:
        return ""
    lost = parameters / (2.0 * rows)
    return f"{rows:.6g} rows are too few for {parameters} parameters: about {lost:.2g} nats per new row are lost"


def too_few_numbers(parameters: int, numbers: int) -> str:
    """A doubt, where a density has more free numbers than the sketch: almost any explains it.

    Examples
    --------
    >>> from sketchlearn.decoders.evidence import too_few_numbers
    >>> too_few_numbers(11, 10)
    'the sketch has 10 numbers, fewer than 11 parameters: make a larger one'
    """
    if numbers >= parameters:
        return ""
    return f"the sketch has {numbers} numbers, fewer than {parameters} parameters: make a larger one"


def determined(judged: Verdict, parameters: int, numbers: int, ratio: float) -> Verdict:
    """What is said of a model with so many parameters: none is reliable that has more than its sketch has numbers."""
    doubt = too_few_numbers(parameters, numbers) if judged[0] is Code.RELIABLE else ""
    if not doubt:
        return judged
    return Code.UNDETERMINED, f"Not certified. The misfit is {ratio:.2f} times the noise floor, but {doubt}."


def _parameters(found: MixtureSolution) -> int:
    """Free numbers of a mixture; those of a covariance that is known are none."""
    k, d = found.means.shape
    return (k * (d + 1) if found.decoder == "known" else GAUSSIANS[found.covariance_type].parameters(k, d)) - 1


def beyond_box(mixture: Mixture, sketch: Averages, *, far_only: bool = False) -> str:
    """A doubt, where the largest or smallest value of a column is none that so many rows of the mixture would have.

    The largest of n values has the distribution function ``F ** n``.  `far_only` looks for values that are too far, and
    not for columns that are too narrow.  Of rows that were subtracted the box still tells.  The true law is refused
    with a probability of 1e-4.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.evidence import beyond_box
    >>> X = np.random.default_rng(0).normal(size=(1000, 1))
    >>> phi = sl.FourierFeatures.draw(dim=1, size=10, scale=1.0)
    >>> normal = sl.Mixture(np.ones(1), np.zeros((1, 1)), np.ones(1))
    >>> beyond_box(normal, sl.sketch(X, phi))
    ''
    >>> beyond_box(normal, sl.sketch(np.append(X, [[9.0]], axis=0), phi))
    'the model has no row as far out as 9 in column 0'
    """
    if not has_box(sketch) or not sketch.effective_count > 1:
        return ""
    from scipy.special import ndtr

    n = float(sketch.effective_count)
    spread = np.sqrt(np.maximum(np.diagonal(mixture.full_covariances(), axis1=1, axis2=2), 1e-300))
    limit = 1e-4 / (4 * mixture.dim)
    for end, sign in ((sketch.upper, 1.0), (sketch.lower, -1.0)):
        reach = sign * (end - mixture.means) / spread
        beyond = np.minimum(mixture.weights @ ndtr(-reach), 1.0)
        inside = mixture.weights @ ndtr(reach)
        with np.errstate(divide="ignore"):
            too_far = -np.expm1(n * np.log1p(-beyond)) < limit
            too_near = n * np.log(inside) < np.log(limit)
        if too_far.any():
            j = int(np.argmax(too_far))
            return f"the model has no row as far out as {end[j]:.4g} in column {j}"
        if too_near.any() and not far_only:
            j = int(np.argmax(too_near))
            return f"the model has rows beyond {end[j]:.4g} in column {j}, and the data has none"
    return ""
