"""The literature's guarantees for a given map: isometry, Lipschitz constants, sampling errors, sketch sizes.

Compressive learning is guaranteed to work if the map nearly keeps the distances between models (a restricted isometry)
and if the models are separated (Gribonval, Blanchard, Keriven and Traonmilin 2021).  What can be computed for one map
is here; what can't is said where it is missing.  Nothing in the library depends on it.

Examples
--------
>>> import sketchlearn as sl
>>> from sketchlearn import theory
>>> phi = sl.FourierFeatures.draw(dim=5, size=50 * 5 * 5, scale=1.0, radial="gaussian", seed=0)
>>> found = theory.isometry(phi, 5, pairs=20, seed=0)
>>> 0.8 < found.lower < 1 < found.upper < 1.25
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features.fourier import FourierFeatures

__all__ = [
    "Isometry", "SketchSize", "isometry", "largest_scale", "lipschitz", "required_separation", "risk_bound",
    "sampling_error", "sketch_sizes",
]  # fmt: skip


KINDS = ("independent", "all moved", "one moved")
"""Pairs of models: two drawn independently, all centres moved a little, one centre moved a little."""
_REFERENCE = 5000  # frequencies that stand for the whole law: squared distances to about two per cent
_STEPS = 0.02, 1.0  # how far centres are moved, in kernel scales
_TRIES = 1000  # attempts to place a centre away from the others before the ball is widened


@dataclass(frozen=True, eq=False)
class Isometry:
    """How a map changes distances between models.

    Attributes
    ----------
    ratios : ndarray (n,)
        Squared distance of two sketches over that of the whole law of frequencies, for each sampled pair.
    kinds : tuple of str
        The kind of each pair.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.theory import Isometry
    >>> found = Isometry(np.array([0.8, 1.1]), ("independent", "one moved"))
    >>> found.lower, found.upper, round(found.constant, 1)
    (0.8, 1.1, 0.2)
    """

    ratios: Array
    kinds: tuple[str, ...]

    @property
    def lower(self) -> float:
        """Smallest ratio."""
        return float(self.ratios.min())

    @property
    def upper(self) -> float:
        """Largest ratio."""
        return float(self.ratios.max())

    @property
    def constant(self) -> float:
        """The isometry constant is at least this: pairs are sampled, not searched for."""
        return max(1.0 - self.lower, self.upper - 1.0)

    def of_kind(self, kind: str) -> Isometry:
        """The pairs of one kind.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.theory import Isometry
        >>> Isometry(np.array([0.8, 1.1]), ("independent", "one moved")).of_kind("one moved").ratios
        array([1.1])
        """
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r}: choose one of {', '.join(KINDS)}")
        chosen = [i for i, name in enumerate(self.kinds) if name == kind]
        return Isometry(self.ratios[chosen], (kind,) * len(chosen))


def required_separation(n_components: int, scale: float) -> float:
    """Smallest distance of two centres that the guarantees for k-means ask for: ``8 scale sqrt(log(e k))``.

    Gribonval et al. (2021), Table 1 (twice ``4 s sqrt(log(e k))``).

    Examples
    --------
    >>> from sketchlearn.theory import required_separation
    >>> round(required_separation(10, 1.0), 1)
    14.5
    """
    return 8.0 * scale * math.sqrt(math.log(math.e * n_components))


def largest_scale(n_components: int, separation: float) -> float:
    """Largest kernel scale for which the guarantees cover centres that far apart.

    Examples
    --------
    >>> from sketchlearn.theory import largest_scale, required_separation
    >>> round(largest_scale(10, required_separation(10, 2.0)), 6)
    2.0
    """
    return separation / (8.0 * math.sqrt(math.log(math.e * n_components)))


def lipschitz(features: FourierFeatures) -> float:
    """Largest change of a sketch, in root mean square over its features, as a row moves by one unit.

    The largest singular value of the frequencies, weighted as the guarantees weight them, over the root of their
    number.  It bounds the bias of rows that are not at their centres (Gribonval et al. 2021, eq. 35).

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.theory import lipschitz
    >>> phi = sl.FourierFeatures.draw(dim=4, size=4000, scale=2.0, radial="gaussian", seed=0)
    >>> round(lipschitz(phi), 1)
    0.5
    """
    weighted = features.frequencies / features.importance_weights[:, None]
    return float(np.linalg.norm(weighted, 2) / math.sqrt(features.size))


def sampling_error(count: float, confidence: float = 0.95) -> float:
    """Bound of the distance between the sketch of n rows and that of their law, in root mean square over features.

    ``(1 + sqrt(2 log(1 / (1 - confidence)))) / sqrt(n)`` for features of modulus 1 (Hoeffding's inequality for
    vectors; Keriven 2017, eq. 6.31).

    Examples
    --------
    >>> from sketchlearn.theory import sampling_error
    >>> round(sampling_error(10_000), 3)
    0.034
    """
    if not count > 0 or not 0 < confidence < 1:
        raise ValueError(f"count={count!r} must be positive and confidence={confidence!r} between 0 and 1")
    return (1.0 + math.sqrt(2.0 * math.log(1.0 / (1.0 - confidence)))) / math.sqrt(count)


def risk_bound(
    risk: float,
    count: float,
    *,
    constant: float,
    lipschitz: float,
    task: str = "kmedians",
    slack: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """The guaranteed cost of an ideal decoder.

    With C the constant of the lower restricted isometry, L the Lipschitz constant, R the best cost and e the sampling
    error: ``(1 + (2 + slack) C L) R + (2 + slack) C e`` for k-medians, ``R + (2 + slack) C (L sqrt(R) + e)`` for
    k-means (Gribonval et al. 2021, eq. 24, 33 and 35).  No text gives a number for C, so it has to be assumed.

    Parameters
    ----------
    risk : float
        The best cost that there is.
    count : float
        Number of rows.
    constant, lipschitz : float
        C (an assumption) and L (:func:`lipschitz`).
    task : {"kmeans", "kmedians"}
        Which cost.
    slack : float
        By which the decoder misses the smallest misfit, relatively; 0 for an ideal one.  No decoder is proven to have
        a finite one.
    confidence : float
        Probability with which the bound holds.

    Examples
    --------
    >>> from sketchlearn.theory import risk_bound
    >>> round(risk_bound(1.0, 10**6, constant=1.0, lipschitz=0.5), 2)
    2.01
    """
    error = sampling_error(count, confidence)
    if task == "kmedians":
        return (1.0 + (2.0 + slack) * constant * lipschitz) * risk + (2.0 + slack) * constant * error
    if task == "kmeans":
        return risk + (2.0 + slack) * constant * (lipschitz * math.sqrt(risk) + error)
    raise ValueError(f"task={task!r}: choose 'kmeans' or 'kmedians'")


@dataclass(frozen=True)
class SketchSize:
    """A number of features, and who asks for it.

    Attributes
    ----------
    source, formula : str
        The publication or measurement, and what it says.
    size : int
        The formula with every unknown constant set to 1.
    proven : bool
        Whether it is a theorem about an ideal decoder; otherwise it was measured with a real one.

    Examples
    --------
    >>> from sketchlearn.theory import SketchSize
    >>> SketchSize("a paper", "kd", 100, proven=True).size
    100
    """

    source: str
    formula: str
    size: int
    proven: bool


def sketch_sizes(n_components: int, dim: int, *, task: str = "kmeans", radius: float = 10.0) -> list[SketchSize]:
    """Sketch sizes that theorems ask for, and those that were seen to work.

    Parameters
    ----------
    n_components, dim : int
        Components and columns.
    task : {"kmeans", "gmm", "pca"}
        What is learned.
    radius : float
        Largest distance of a centre from the origin over the half of the required separation.

    Returns
    -------
    list of SketchSize

    Examples
    --------
    >>> from sketchlearn.theory import sketch_sizes
    >>> for s in sketch_sizes(10, 10):
    ...     print(f"{s.size:>8} {'proven' if s.proven else 'measured'}")
       86251 proven
       10000 proven
        1000 measured
         200 measured
    """
    k, d = n_components, dim
    logs = math.log(math.e * k * d * radius) * math.log(math.e * k) ** 2
    theory = "Gribonval et al. 2021, Table 1"
    if task == "kmeans":
        return [
            SketchSize(theory, "k² d log(ekdR/ε) log²(ek)", math.ceil(k * k * d * logs), True),
            SketchSize("Keriven 2017, Table 6.1", "k² d², logarithms left out", k * k * d * d, True),
            SketchSize("CL-OMPR, as published", "10 kd", 10 * k * d, False),
            SketchSize("the default decoder", "2 kd", 2 * k * d, False),
        ]
    if task == "gmm":
        return [
            SketchSize(theory + ", one known covariance", "k² d log(ekdR) log²(ek)", math.ceil(k * k * d * logs), True),
            SketchSize("Keriven 2017, section 5.4, diagonal covariances", "10 kd", 10 * k * d, False),
        ]
    if task == "pca":
        return [
            SketchSize(theory, "kd", k * d, True),
            SketchSize("rank k exactly", "2 kd", 2 * k * d, False),
            SketchSize("spectra like 1/j", "8 kd", 8 * k * d, False),
        ]
    raise ValueError(f"task={task!r}: choose 'kmeans', 'gmm' or 'pca'")


def isometry(
    features: FourierFeatures,
    n_components: int,
    *,
    pairs: int = 100,
    separation: float | None = None,
    seed: int = 0,
) -> Isometry:
    """Sample how a map changes distances between mixtures of separated points.

    The squared distance of the sketches of two mixtures, over its mean for the law of the frequencies, which is taken
    from a large map of the same recipe.  The guarantees ask for ratios between ``1 - delta`` and ``1 + delta`` for
    *all* pairs; a sample only shows that delta can't be smaller.

    Parameters
    ----------
    features : FourierFeatures
        The map.
    n_components : int
        Points of each mixture.
    pairs : int
        How many pairs of each kind (see :data:`sketchlearn.theory.KINDS`).
    separation : float, optional
        Smallest distance of two points of a mixture; what the guarantees ask for by default.
    seed : int
        Of the mixtures.

    Returns
    -------
    Isometry

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.theory import isometry
    >>> small, large = (
    ...     isometry(sl.FourierFeatures.draw(dim=3, size=m, scale=1.0, radial="gaussian", seed=0), 3, pairs=20)
    ...     for m in (30, 900)
    ... )
    >>> large.constant < small.constant
    True
    """
    if n_components < 1 or pairs < 1:
        raise ValueError(f"n_components={n_components!r} and pairs={pairs!r} must be positive")
    rng = np.random.default_rng(seed)
    apart = required_separation(n_components, features.scale) if separation is None else separation
    reference = replace(
        features, size=_REFERENCE, seed=features.seed + 1, directions="orthogonal", radii="stratified",
        features_per_row=None, quantized=False,
    )  # fmt: skip
    ratios, kinds = [], []
    for kind in KINDS:
        for _ in range(pairs):
            points = _separated(n_components, features.dim, apart, rng)
            weights = rng.dirichlet(np.ones(n_components))
            if kind == "independent":
                others, masses = (
                    _separated(n_components, features.dim, apart, rng),
                    rng.dirichlet(np.ones(n_components)),
                )
            else:
                step = features.scale * math.exp(rng.uniform(*np.log(_STEPS)))
                moves = rng.standard_normal(points.shape)
                moves *= step / np.linalg.norm(moves, axis=1, keepdims=True)
                if kind == "one moved":
                    moves[1:] = 0.0
                others, masses = points + moves, weights
            ratios.append(
                _squared(features, points, weights, others, masses)
                / _squared(reference, points, weights, others, masses)
            )
            kinds.append(kind)
    return Isometry(np.array(ratios), tuple(kinds))


def _separated(k: int, d: int, apart: float, rng: np.random.Generator) -> Array:
    """Points of pairwise distance at least `apart`, in a ball that is widened until they fit."""
    radius = apart
    points: list[Array] = []
    tries = 0
    while len(points) < k:
        direction = rng.standard_normal(d)
        candidate = direction / np.linalg.norm(direction) * radius * rng.uniform() ** (1.0 / d)
        if all(np.linalg.norm(candidate - point) >= apart for point in points):
            points.append(candidate)
        tries += 1
        if tries % _TRIES == 0:
            radius *= 1.5
    return np.array(points)


def _squared(features: FourierFeatures, points: Array, weights: Array, others: Array, masses: Array) -> float:
    """Mean squared modulus of the difference of two sketches of weighted points."""
    both = np.concatenate([points, others])
    signed = np.concatenate([weights, -masses])
    difference = np.exp(1j * (both @ features.frequencies.T)).T @ signed / features.importance_weights
    return float(np.mean(np.abs(difference) ** 2))
