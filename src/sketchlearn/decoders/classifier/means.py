"""The nearest class mean in feature space: nothing is decoded, a score is linear in the features of a row.

With z_c the sketch of class c, ``|Phi(x) - z_c|^2`` is smallest where ``<Phi(x), z_c> - |z_c|^2 / 2`` is largest: the
kernel's nearest-centroid rule, which in the limit of a wide kernel is the plain one.

A release adds noise e to z_c.  In ``<Phi(x), e>`` it is small, but its length is not: ``E|e|^2`` is taken off
``|z_c|^2``, with the same number of rows that z_c was divided by.  What is left of the noise of lengths is known, and
lengths are drawn together by its share in their variance (DerSimonian and Laird 1986).
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.classifier.ridge import counts_of, one_component, shares_of
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.evidence import small_class
from sketchlearn.decoders.noise import DEVIATIONS
from sketchlearn.decoders.solution import Code, said
from sketchlearn.features.characteristic import characteristic
from sketchlearn.kernels import GRID_BITS
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.models.rules import LinearRule
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch


@decoder
def decode_means(
    table: SketchTable, k: int = 1, *, rng: np.random.Generator, class_weights: Array | None = None
) -> ClassifierModel:
    """Nearest class mean in feature space; `class_weights` (c,) multiply probabilities, the rule has no prior."""
    one_component(k, "the mean rule")
    phi, counts = characteristic(table.features, "the mean rule"), counts_of(table)
    m = phi.size
    factors = np.array([float(s.count) / count for s, count in zip(table.values(), counts, strict=True)])
    z = np.stack([s.mean * factor for s, factor in zip(table.values(), factors, strict=True)])
    coefficients = np.concatenate([z.real, z.imag], axis=1).T / m
    # of n rows the spread about their own mean is n / (n - 1) times too small; one row says nothing of it
    rows = np.array([float(s.effective_count) for s in table.values()])
    seen = factors**2 * [float(s.variances.mean()) - _released(s, count=True) for s in table.values()]
    sampled = np.where(rows > 1, seen * rows / np.maximum(rows - 1.0, 1e-9), np.inf)
    added = factors**2 * [_released(s) for s in table.values()]
    lengths = _together((np.abs(z) ** 2).mean(1) - added, added, m)
    # what is left of a row's features about its class mean: the unit in which distances are soft
    within = float(shares_of(table, None) @ np.maximum(1.0 - lengths, 1e-12))
    intercepts = -0.5 * lengths
    if class_weights is not None:
        intercepts = intercepts + within * np.log(np.maximum(class_weights / class_weights.max(), 1e-300))
    inner = (z @ z.conj().T).real / m
    distances = lengths[:, None] + lengths - 2.0 * inner
    both = added[:, None] + added
    error = np.sqrt((2.0 * both * np.maximum(distances, 0.0) + both**2) / m)
    noise = np.maximum(DEVIATIONS**2 * (sampled[:, None] + sampled), DEVIATIONS * error)
    close = distances <= np.maximum(noise, 4.0**-GRID_BITS)  # features are rounded to that grid
    np.fill_diagonal(close, False)
    if few := small_class(table):
        code, verdict = Code.UNDETERMINED, f"Not certified. {few}."
    elif close.any():
        a, b = (table.groups[i] for i in np.argwhere(close)[0])
        code, verdict = (
            Code.UNDETERMINED,
            f"Not certified. The sketches of {a!r} and {b!r} don't differ by more than their noise.",
        )
    else:
        code, verdict = Code.RELIABLE, "Reliable. All class means differ by more than their noise."
    return ClassifierModel(
        **said("classifier", "mean", within, float("nan"), (code, verdict)),
        rule=LinearRule(phi, coefficients, intercepts, softness=within),
        counts=counts,
        typical=inner + intercepts,
        facts={},
    ).labelled(table.groups)


def _together(lengths: Array, added: Array, m: int) -> Array:
    """Lengths drawn to their average by the share of the noise of a release in their variance."""
    noise = float(np.mean(added * (added + 2.0 * np.maximum(lengths, 0.0)))) / m
    spread = float(lengths.var(ddof=1)) if len(lengths) > 1 else 0.0
    if not noise > 0.0 or not spread > 0.0:
        return lengths
    return np.asarray(lengths.mean() + max(0.0, 1.0 - noise / spread) * (lengths - lengths.mean()))


def _released(sketch: Sketch, count: bool = False) -> float:
    """Mean variance of the averages by what a release added to the sums, and to the number of rows if asked for."""
    if sketch.privacy is None:
        return 0.0
    noise = np.asarray(sketch.privacy.variances_of_sums())
    noise = noise if noise.ndim == 0 else noise.reshape(sketch.sums.shape)
    rows = sketch.privacy.weight_variance if count else 0.0
    return float(sketch.features.release_variances(sketch.sums, float(sketch.weight), noise, rows).mean())
