"""Maps for classification: embeddings of many scales for least squares, one scale for class means.

Class means also serve releases.  A private sum of m Fourier features has noise of one size in every kernel value that
is computed from it, whatever m is (with Gaussian noise), but sums of products have noise that grows with their width.
How narrow may the kernel be?  Rows of one class in q dimensions that hold 0.6 of the variance have the average kernel
value ``kappa = (1 + 0.6 / (f**2 q))**(-q / 2)`` with each other, for a scale of f times the root mean square distance
of two rows.  m random frequencies know kernel values up to about ``1 / sqrt(m)``, and m is chosen by the noise
(:func:`sketchlearn.privacy.private_size`), so ``kappa = 4.7 / sqrt(m)`` is as narrow as both can bear.

Nor is a wider kernel of use where noise decides.  Its size is the same for all scales, so the best scale is that at
which values within classes and between them differ most: ``exp(-0.3 / f**2) - exp(-0.5 / f**2)`` is largest at
``f = 0.63``.  There phases are about a radian, and the noise of d orthogonal frequencies is less, beside what tells
classes apart, than that of the sums of the columns themselves: class means are no better at any epsilon.
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.designs.gmm import design_gmm
from sketchlearn.designs.request import Request, register_design
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import MultiscaleLaw

WIDTH = 1000
"""Cosines and sines of an embedding by default."""
_CELLS, _FARTHEST = 16.0, 2.0  # unit cells that the frequencies fill; the radius that is far enough in few columns
_MEAN_SIZE, _MEAN_SCALE, _SHRINKAGE = 2000, 1.5, 0.1
_RESOLVED = 4.7  # kernel values of a class times sqrt(m)
_FILLED = 0.7  # distances of two rows over those of rows spread evenly over their bounds, which are wider than the rows
_WITHIN, _DIMENSIONS = 0.6, 10  # share of the variance within classes, and dimensions that real columns seldom exceed


def design_classifier(rows: AnyArray, *, width: int | None = None, seed: int = 0) -> tuple[EmbeddedFeatures, str]:
    """An embedding with frequencies of all scales that classes may have, for columns of spread 1, and why.

    Lengths of the frequencies are log-uniform, with a tail; see :func:`lengths`.  Cross-validation on the sketches
    chooses among them later.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.classifier import design_classifier
    >>> design_classifier(np.random.default_rng(0).normal(size=(100, 3)), width=60)[0].width
    60
    """
    d = rows.shape[1]
    size = (WIDTH if width is None else width + width % 2) // 2
    law = lengths(d)
    scale = math.sqrt(d / law.second_moment(d))
    phi = EmbeddedFeatures.of(FourierFeatures.draw(dim=d, size=size, scale=scale, radial=law, seed=seed))
    return phi, f"products of {phi.width} features of many scales"


def lengths(dim: int) -> MultiscaleLaw:
    """The law of lengths of frequencies, in radians per standard deviation.

    From 0.3 to 2 with a tail up to 4 in few columns, where classes may be folded finely.  To fill a ball of frequencies
    takes as many of them as its radius to the power of the number of columns: the same hundreds reach less far in more
    columns, to a radius of ``16 ** (1 / dim)``.  In very many the law is from 0.5 to 1, with a tail up to 2.

    Examples
    --------
    >>> from sketchlearn.designs.classifier import lengths
    >>> [round(lengths(d).knee, 2) for d in (2, 4, 8, 16, 100)]
    [2.0, 2.0, 1.41, 1.19, 1.03]
    """
    knee = round(min(_CELLS ** (1.0 / dim), _FARTHEST), 6)
    return MultiscaleLaw(low=round(0.7 - 0.2 * knee, 6), knee=knee, high=2.0 * knee, decay=2.0)


def design_class_means(
    rows: Array, labels: AnyArray, *, size: int | None = None, seed: int = 0, weights: Array | None = None
) -> FourierFeatures:
    """A Gaussian kernel of one scale in the metric of the classes' pooled covariance, for columns of spread 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.classifier import design_class_means
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> design_class_means(X, np.repeat([0, 1], 50), size=50).size
    50
    """
    w = np.ones(len(rows)) if weights is None else weights
    offset = np.average(rows, axis=0, weights=weights)
    apart = np.array(rows, np.float64)
    for label in np.unique(labels):
        own = labels == label
        apart[own] -= np.average(apart[own], axis=0, weights=w[own])
    covariance = (apart * w[:, None]).T @ apart / w.sum()
    d = rows.shape[1]
    unit = float(np.trace(covariance)) / d or 1.0
    covariance = (1.0 - _SHRINKAGE) * covariance + _SHRINKAGE * unit * np.eye(d)
    values, vectors = np.linalg.eigh(covariance)
    whitening = (vectors / np.sqrt(values)) @ vectors.T
    return FourierFeatures.draw(
        dim=d,
        size=_MEAN_SIZE if size is None else size,
        scale=_MEAN_SCALE * math.sqrt(d),
        radial="gaussian",
        seed=seed,
        center=offset,
        whitening=whitening,
    )


def design_public_means(lower: Array, upper: Array, *, size: int | None = None, seed: int = 0) -> FourierFeatures:
    """A Gaussian kernel of one scale for class means, from public bounds: as narrow as so many features can bear.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.classifier import design_public_means
    >>> few, many = (design_public_means(np.zeros(9), np.ones(9), size=m) for m in (50, 2000))
    >>> bool(few.scale > many.scale)
    True
    """
    d, m = len(lower), _MEAN_SIZE if size is None else size
    q = min(d, _DIMENSIONS)
    kappa = min(0.9, _RESOLVED / math.sqrt(m))
    resolved = math.sqrt(_WITHIN / (q * (kappa ** (-2.0 / q) - 1.0)))
    widest = math.sqrt((1.0 - _WITHIN) / (2.0 * math.log(1.0 / _WITHIN)))
    apart = math.sqrt(2.0 * d / 3.0)  # of two rows spread over the box, in units of its half widths
    scale = apart * min(resolved, _FILLED * widest)
    inner = FourierFeatures.draw(dim=d, size=m, scale=scale, radial="gaussian", seed=seed)
    return inner.standardized(0.5 * (lower + upper), 0.5 * (upper - lower))


def design_class_mixtures(
    rows: AnyArray,
    labels: AnyArray,
    n_components: int,
    covariance_type: str,
    *,
    size: int | None = None,
    seed: int = 0,
    weights: Array | None = None,
) -> FourierFeatures:
    """A map for one mixture per class, designed from the rows about their class means: a shift changes no width.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.classifier import design_class_mixtures
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> design_class_mixtures(X, np.repeat([0, 1], 50), 1, "full", size=50).size
    50
    """
    plain = np.asarray(rows, np.float64)
    apart = plain - plain.min(0)
    for label in np.unique(labels):
        mine = labels == label
        mean = np.average(apart[mine], axis=0, weights=None if weights is None else weights[mine])
        apart[mine] -= mean.astype(np.float32)  # so that repetition and weights give the same digits
    return design_gmm(apart, n_components, covariance_type, seed, size=size, sample_weight=weights)


def classifier_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """A thousand cosines and sines."""
    return WIDTH


def _from_request(request: Request) -> tuple[EmbeddedFeatures | FourierFeatures, str]:
    request.refuse("scale", "radial", why="has all scales at once")
    request.refuse("covariance_type", why="has no covariance_type")
    if request.bounds is not None:
        means = design_public_means(*request.box(), size=request.size, seed=request.seed)
        return means, f"{means.size} features for class means, of one scale by their number; no row looked at"
    request.refuse("dim", why="needs a sample or bounds: the spread of the columns decides on the frequencies")
    return design_classifier(request.rows(), width=request.size, seed=request.seed)


register_design("classifier", size=classifier_size, units="columns", outliers=False)(_from_request)
