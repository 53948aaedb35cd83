"""The nearest class mean in feature space: nothing is decoded, a score is linear in the features of a row.

With z_c the sketch of class c, ``|Phi(x) - z_c|^2`` is smallest where ``<Phi(x), z_c> - |z_c|^2 / 2`` is largest: the
kernel's nearest-centroid rule, which in the limit of a wide kernel is the plain one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.classifier.ridge import counts_of, one_component, shares_of
from sketchlearn.decoders.noise import DEVIATIONS
from sketchlearn.decoders.solution import Code
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.models.rules import LinearRule
from sketchlearn.sketches.table import SketchTable

Array = npt.NDArray[np.float64]


def decode_means(
    table: SketchTable,
    k: int = 1,
    *,
    rng: np.random.Generator,
    trace: list[dict[str, Any]] | None = None,
    class_weights: Array | None = None,
) -> ClassifierModel:
    """Nearest class mean in feature space.

    Parameters
    ----------
    table : SketchTable
        One sketch of Fourier features a class.
    k : int
        Must be 1.
    rng, trace
        Nothing here is random, and there are no rounds.
    class_weights : ndarray (c,), optional
        What the probability of each class is multiplied by; the rule itself has no prior.

    Returns
    -------
    ClassifierModel
    """
    one_component(k, "the mean rule")
    phi, counts = characteristic(table.features, "the mean rule"), counts_of(table)
    z = np.stack([s.mean for s in table.values()])
    m = phi.size
    coefficients = np.concatenate([z.real, z.imag], axis=1).T / m
    lengths = (np.abs(z) ** 2).mean(1)
    # what is left of a row's features about its class mean: the unit in which distances are soft
    within = float(shares_of(table, None) @ np.maximum(1.0 - lengths, 1e-12))
    intercepts = -0.5 * lengths
    if class_weights is not None:
        intercepts = intercepts + within * np.log(np.maximum(class_weights / class_weights.max(), 1e-300))
    noise = np.array([float(s.variances.mean()) for s in table.values()])
    inner = (z @ z.conj().T).real / m
    distances = lengths[:, None] + lengths - 2.0 * inner
    close = distances < DEVIATIONS**2 * (noise[:, None] + noise)
    np.fill_diagonal(close, False)
    if close.any():
        a, b = (table.groups[i] for i in np.argwhere(close)[0])
        code, verdict = Code.UNDETERMINED, f"the sketches of {a!r} and {b!r} can't be told apart"
    else:
        code, verdict = Code.RELIABLE, "all class means are apart by more than their noise"
    return ClassifierModel(
        task="classifier",
        decoder="mean",
        residual=within,
        code=code,
        verdict=verdict,
        trace=trace or [],
        rule=LinearRule(phi, coefficients, intercepts, softness=within),
        counts=counts,
        typical=inner + intercepts,
        facts={},
    ).labelled(table.groups)
