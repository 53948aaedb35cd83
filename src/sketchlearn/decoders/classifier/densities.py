"""Class densities and Bayes' rule: normal laws from exact moments, or mixtures decoded from one sketch a class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.classifier.ridge import class_moments, counts_of, one_component, shares_of
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.decoders.solution import Code, MixtureSolution
from sketchlearn.decoders.verdicts import FEWEST_ROWS
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.second_moment import second_moment
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.rules import MixtureRule
from sketchlearn.sketches.table import SketchTable

Array = npt.NDArray[np.float64]

# added to variances: of naive Bayes a part of the largest one, as in scikit-learn's GaussianNB; of matrices a part of
# each column's own, which singular ones need
_FLOOR, _MATRIX_FLOOR = 1e-9, 1e-7
_DRAWS = 2000


def decode_moments(
    table: SketchTable,
    k: int = 1,
    *,
    rng: np.random.Generator,
    trace: list[dict[str, Any]] | None = None,
    class_weights: Array | None = None,
    shrinkage: float = 0.0,
    shape: str = "tied",
) -> ClassifierModel:
    """Normal classes with one covariance for all (LDA), one each (QDA), or variances only (naive Bayes).

    Parameters
    ----------
    table : SketchTable
        One sketch of all products of columns a class.
    k : int
        Must be 1.
    rng : numpy Generator
        For the shares in `typical`, which are estimated from draws.
    trace : list, optional
        Stays empty.
    class_weights : ndarray (c,), optional
        Factors of the classes' rows.
    shrinkage : float
        Between 0 and 1: covariances are pulled towards their mean variance by so much.
    shape : {"tied", "full", "diag"}
        LDA, QDA or naive Bayes.

    Returns
    -------
    ClassifierModel
    """
    name = {"tied": "lda", "full": "qda", "diag": "naive-bayes"}[shape]
    one_component(k, name)
    if not second_moment(table.features, name).is_exact:
        raise TypeError(f"{name} needs all products of columns, the sketches have {table.features.describe()}")
    if not 0.0 <= shrinkage <= 1.0:
        raise ValueError(f"shrinkage must be between 0 and 1, got {shrinkage!r}")
    moments, counts = class_moments(table, class_weights, name), counts_of(table)
    within = np.tensordot(moments.shares, np.stack(moments.covariances), 1)
    variances = np.diag(moments.pooled()[0])
    floor = _FLOOR * (float(variances.max()) or 1.0)
    floors = np.diag(np.maximum(_MATRIX_FLOOR * variances, floor if not variances.all() else 0.0))
    d = len(within)
    short = [label for label, n in zip(table, counts, strict=True) if n <= (d if shape == "full" else 1)]
    covariances = []
    for covariance, n in zip(moments.covariances, counts, strict=True):
        if shape == "tied":
            covariance = within
        elif shape == "full":  # unbiased, as scikit-learn's QDA
            covariance = covariance * (n / (n - 1.0) if n > 1 else 1.0)
        mean_variance = float(np.trace(covariance)) / d
        shrunk = (1.0 - shrinkage) * covariance + shrinkage * mean_variance * np.eye(d)
        covariances.append(np.diag(shrunk) + floor if shape == "diag" else shrunk + floors)
    mixtures = tuple(
        Mixture(np.ones(1), mean[None], covariance[None])
        for mean, covariance in zip(moments.means, covariances, strict=True)
    )
    if short and shape != "tied":
        code = Code.UNDETERMINED
        verdict = f"too few rows for a density of its own: class {', '.join(map(str, short[:5]))}"
    else:
        code, verdict = Code.RELIABLE, "the sketches hold the classes' moments: the same rule as from the rows"
    return _solution(table, name, MixtureRule(np.log(moments.shares), mixtures), rng, code, verdict, trace)


decode_lda = partial(decode_moments, shape="tied")
decode_qda = partial(decode_moments, shape="full")
decode_naive_bayes = partial(decode_moments, shape="diag")


def decode_class_mixtures(
    table: SketchTable,
    k: int,
    *,
    rng: np.random.Generator,
    trace: list[dict[str, Any]] | None = None,
    class_weights: Array | None = None,
    covariance_type: str = "full",
) -> ClassifierModel:
    """A Gaussian mixture of k components a class, decoded from its sketch.

    Parameters
    ----------
    table : SketchTable
        One sketch of Fourier features a class.
    k : int
        Components a class, where there are ten rows for each; of a class with fewer rows as many as there are.
    rng, trace
        Of the decoder of mixtures.
    class_weights : ndarray (c,), optional
        Factors of the classes' rows.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components.

    Returns
    -------
    ClassifierModel
    """
    characteristic(table.features, "a mixture a class")
    counts_of(table)
    decoder = decoders_of("gmm").choose("auto")
    found: list[MixtureSolution] = []
    short = [str(label) for label, sketch in table.items() if sketch.count < FEWEST_ROWS * k]
    for sketch in table.values():
        fitting = int(np.clip(sketch.count // FEWEST_ROWS, 1, k))
        solution = decoder(sketch, fitting, rng=rng, trace=trace, covariance_type=covariance_type)
        assert isinstance(solution, MixtureSolution)
        found.append(solution)
    doubtful = [str(label) for label, s in zip(table, found, strict=True) if not s.reliable]
    code = Code.RELIABLE if not doubtful else max((s.code for s in found if not s.reliable), key=_severity)
    verdict = (
        "every class is explained down to its noise"
        if not doubtful
        else f"classes whose mixture is not certified: {', '.join(doubtful[:5])} "
        f"({next(s.verdict for s in found if not s.reliable)})"
    )
    if short:
        code = max(code, Code.UNDETERMINED, key=_severity)
        verdict = f"too few rows for {k} component{'s' * (k != 1)}: class {', '.join(short[:5])}; {verdict}"
    rule = MixtureRule(np.log(shares_of(table, class_weights)), tuple(s.mixture for s in found))
    return _solution(table, "mixture", rule, rng, code, verdict, trace, max(s.ratio for s in found))


def _severity(code: Code) -> int:
    return list(Code).index(code)


def _solution(
    table: SketchTable,
    name: str,
    rule: MixtureRule,
    rng: np.random.Generator,
    code: Code,
    verdict: str,
    trace: list[dict[str, Any]] | None,
    ratio: float = float("nan"),
) -> ClassifierModel:
    typical = []
    for mixture in rule.mixtures:
        winners = rule.scores(mixture.sample(_DRAWS, rng)[0]).argmax(1)
        typical.append(np.bincount(winners, minlength=len(rule.mixtures)) / _DRAWS)
    shares = np.exp(rule.log_priors)
    error = float(1.0 - shares @ np.diag(typical))
    return ClassifierModel(
        task="classifier",
        decoder=name,
        residual=error,
        ratio=ratio,
        code=code,
        verdict=verdict,
        trace=trace or [],
        rule=rule,
        counts=counts_of(table),
        typical=np.array(typical),
        facts={"expected_error": error},
    ).labelled(table.groups)
