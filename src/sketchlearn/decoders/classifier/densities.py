"""Class densities and Bayes' rule: normal laws from exact moments, or mixtures decoded from one sketch per class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import decode
from sketchlearn.decoders.classifier.ridge import class_moments, counts_of, one_component, shares_of, varying
from sketchlearn.decoders.classifier.worth import worth
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.evidence import beyond_box, small_class
from sketchlearn.decoders.families import GAUSSIANS
from sketchlearn.decoders.solution import Code, MixtureSolution, said
from sketchlearn.decoders.verdicts import FEWEST_ROWS
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.second_moment import second_moment
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.rules import MixtureRule
from sketchlearn.sketches.table import SketchTable
from sketchlearn.words import counted

# added to variances, in parts of each column's own: little for naive Bayes (scikit-learn's GaussianNB adds a part of
# the largest one, which drowns narrow columns), more for matrices, which may be singular
_FLOOR, _MATRIX_FLOOR = 1e-9, 1e-7


@decoder
def decode_moments(
    table: SketchTable,
    k: int = 1,
    *,
    rng: np.random.Generator,
    class_weights: Array | None = None,
    shrinkage: float = 0.0,
    shape: str = "tied",
) -> ClassifierModel:
    """Normal classes with one covariance for all (LDA, ``"tied"``), one each (QDA, ``"full"``), or variances only
    (naive Bayes, ``"diag"``).

    `class_weights` (c,) multiply the rows of the classes.  Covariances are pulled towards their mean variance by
    `shrinkage`, between 0 and 1.  The shares in `typical` are estimated from draws.
    """
    name = {"tied": "lda", "full": "qda", "diag": "naive-bayes"}[shape]
    one_component(k, name)
    if not second_moment(table.features, name).is_exact:
        raise UnsuitableMapError(f"{name} needs all products of columns, the sketches have {table.features.describe()}")
    if not 0.0 <= shrinkage <= 1.0:
        raise ValueError(f"shrinkage must be between 0 and 1, got {shrinkage!r}")
    moments, counts = class_moments(table, class_weights, name), counts_of(table)
    within = np.tensordot(moments.shares, np.stack(moments.covariances), 1)
    variances = np.diag(moments.pooled()[0])
    vary = varying(moments, table.features)
    units = np.where(vary, variances, float(variances[vary].max(initial=0.0)) or 1.0)
    floors = np.diag(np.where(vary, _MATRIX_FLOOR, _FLOOR) * units)
    d = len(within)
    covariances = []
    for covariance, n in zip(moments.covariances, counts, strict=True):
        if shape == "tied":
            covariance = within
        elif shape == "full":  # unbiased, as scikit-learn's QDA
            covariance = covariance * (n / (n - 1.0) if n > 1 else 1.0)
        mean_variance = float(np.trace(covariance)) / d
        shrunk = (1.0 - shrinkage) * covariance + shrinkage * mean_variance * np.eye(d)
        covariances.append(np.diag(shrunk) + _FLOOR * units if shape == "diag" else shrunk + floors)
    mixtures = _normal(moments.means, covariances)
    # columns that are none, or drawn to their mean variance, have fewer numbers of their own
    free = float(np.trace(np.linalg.solve(covariances[0], (1.0 - shrinkage) * within))) if shape == "tied" else d
    numbers = {"tied": free, "diag": 2.0 * d, "full": 0.5 * d * (d + 3.0)}[shape] * (len(counts) - 1)
    rule = MixtureRule(np.log(moments.shares), mixtures)
    laws = _normal(moments.means, moments.covariances)
    found = _solution(table, name, rule, laws, shape == "tied", numbers, rng)
    pairs = list(zip(laws, table.values(), strict=True))
    if any(beyond_box(law, sketch) for law, sketch in pairs):  # then it is not known how often normal classes are told
        found = replace(found, facts={**found.facts, "expected_error": float("nan")})
    far = next((doubt for law, sketch in pairs if (doubt := beyond_box(law, sketch, far_only=True))), "")
    if found.reliable and shape != "tied" and far:
        return replace(
            found, code=Code.MISFIT, verdict=f"Not certified. The classes are not normally distributed: {far}."
        )
    return found


@decoder
def decode_class_mixtures(
    table: SketchTable,
    k: int,
    *,
    rng: np.random.Generator,
    class_weights: Array | None = None,
    covariance_type: str = "full",
) -> ClassifierModel:
    """A Gaussian mixture of k components per class, decoded from its sketch.

    A class with fewer than ten rows for each has fewer components.  `class_weights` (c,) multiply the rows.
    """
    characteristic(table.features, "a mixture per class")
    counts_of(table)
    found: list[MixtureSolution] = []
    short = [str(label) for label, sketch in table.items() if sketch.count < FEWEST_ROWS * k]
    for sketch in table.values():
        fitting = int(np.clip(sketch.count // FEWEST_ROWS, 1, k))
        found.append(decode(sketch, fitting, task="gmm", random_state=rng, covariance_type=covariance_type))
    doubtful = [str(label) for label, s in zip(table, found, strict=True) if not s.reliable]
    code = Code.RELIABLE if not doubtful else max((s.code for s in found if not s.reliable), key=_severity)
    said = ["Not certified."]
    if short:
        code = max(code, Code.UNDETERMINED, key=_severity)
        said.append(f"Classes with too few rows for {counted(k, 'component')}: {', '.join(short[:5])}.")
    if doubtful:
        first = next(s.verdict for s in found if not s.reliable).removeprefix("Not certified. ")
        said.append(f"Classes whose mixture is not certified: {', '.join(doubtful[:5])}. The first of them: {first}")
    rule = MixtureRule(np.log(shares_of(table, class_weights)), tuple(s.mixture for s in found))
    each = [GAUSSIANS[covariance_type].parameters(len(s.weights), table.features.dim) for s in found]
    model = _solution(table, "mixture", rule, rule.mixtures, False, float(sum(each) - max(each)), rng)
    if code is not Code.RELIABLE:
        model = replace(model, code=code, verdict=" ".join(said))
    return replace(model, ratio=max(s.ratio for s in found), trace=[step for s in found for step in s.trace])


def _severity(code: Code) -> int:
    return list(Code).index(code)


def _normal(means: Array, covariances: list[Array]) -> tuple[Mixture, ...]:
    pairs = zip(means, covariances, strict=True)
    return tuple(Mixture(np.ones(1), mean[None], covariance[None]) for mean, covariance in pairs)


def _solution(
    table: SketchTable,
    name: str,
    rule: MixtureRule,
    laws: tuple[Mixture, ...],
    shared: bool,
    parameters: float,
    rng: np.random.Generator,
) -> ClassifierModel:
    """The rule with what it is worth, if the classes have these laws and differ in so many numbers."""
    counts, shares = counts_of(table), np.exp(rule.log_priors)
    found = worth(rule, laws, counts, shared, rng)
    error = float(1.0 - shares @ np.diag(found.typical))
    doubt = small_class(table) or found.doubt(parameters, 1.0 / float(np.sum(shares**2 / counts)))
    code, verdict = Code.RELIABLE, "Reliable. The densities separate the classes, also in new rows drawn from them."
    if len(counts) < 2:
        code, verdict = Code.UNDETERMINED, "Not certified. All rows are of one class, so there is nothing to separate."
    elif doubt:
        code, verdict = Code.UNDETERMINED, f"Not certified. {doubt}."
    return ClassifierModel(
        **said("classifier", name, error, float("nan"), (code, verdict)),
        rule=rule,
        counts=counts,
        typical=found.typical,
        facts={"expected_error": error, "gain": found.gain, "gain_left": found.left},
    ).labelled(table.groups)
