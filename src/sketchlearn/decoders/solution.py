"""What decoding returns: one base for every task, with a result code beside the words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture

Array = npt.NDArray[np.float64]


class Code(StrEnum):
    """How a decoding ended, for programs; the verdict says it in words.

    Examples
    --------
    >>> from sketchlearn.decoders import Code
    >>> Code("misfit") is Code.MISFIT, f"{Code.RELIABLE}"
    (True, 'reliable')
    """

    RELIABLE = "reliable"
    """The misfit is what noise leaves, and the sketch determines every part of the model."""
    MISFIT = "misfit"
    """More is left than noise explains: the model is wrong, or parts of it were not found."""
    UNDETERMINED = "undetermined"
    """Noise explains the misfit, but the sketch does not determine some components."""
    UNFINISHED = "unfinished"
    """More is left than noise explains, and the decoder was still moving when it stopped."""
    UNCERTIFIED = "uncertified"
    """There is no certificate for this decoder."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """A decoded model and what is known about its quality; each task has a subclass with the model itself.

    Attributes
    ----------
    task, decoder : str
        What was asked for, and which decoder made it, by which path.
    residual : float
        Misfit of the sketch.
    noise_floor : float
        What noise alone would leave of the sketch, given the model.
    ratio : float
        residual / noise_floor: near 1 if the model explains the data down to the noise.
    code : Code
        The certificate as a code.
    verdict : str
        The same in words.
    iterations : int
        Rounds of the decoder.
    trace : list of dict
        What happened, round by round, if asked for.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> phi = sl.design(X[::5], n_components=2, seed=0)
    >>> solution = sl.decode(sl.sketch(X, phi), 2)
    >>> solution.reliable, str(solution.code), solution.centers.shape
    (True, 'reliable', (2, 2))
    """

    places: ClassVar[tuple[str, ...]] = ()
    """Fields that hold places among the rows, (k, d)."""

    task: str
    decoder: str
    residual: float
    noise_floor: float = float("nan")
    ratio: float = float("nan")
    code: Code = Code.UNCERTIFIED
    verdict: str = "not certified: this decoder has no certificate"
    iterations: int = 0
    trace: list[dict[str, Any]] = field(default_factory=list)

    @property
    def reliable(self) -> bool:
        """The certificate: whether the sketch supports the model."""
        return self.code is Code.RELIABLE

    def within(self, lower: Array | None, upper: Array | None) -> Self:
        """The solution with its places moved into the box of the rows, where there is one.

        The mean of some rows is never outside of it; where the sketch says little about a column, a decoder may be.
        """
        moved = {}
        for name in self.places:
            place = getattr(self, name)
            if lower is not None and upper is not None and lower.shape == place.shape[1:]:
                moved[name] = np.clip(place, lower, upper)
        return replace(self, **moved) if moved else self


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterSolution(Solution):
    """Centres of clusters.

    Attributes
    ----------
    mixture : Mixture
        The mixture that explains the sketch.
    centers, weights : ndarray
        Centres of the partition (k, d) and the share of each cell.
    inertia : float
        Estimated mean squared distance of a row to its centre (plain distance for medians; in units of the spread
        of each column, if the map is standardised).
    criterion : str
        ``"means"`` or ``"medians"``.
    centers_std, weights_std : ndarray (k, d), (k,), or None
        Standard errors of centres and weights from the sampling of the rows and the noise of the sketch; None where the
        model does not explain the data, so that its errors are not those of sampling.
    smallest : float
        Share of the rows that another cluster would need to be noticed, wherever it is (nan if it is not known).
    closest : float
        Distance of a pair of clusters, taken as one, that would have been noticed, at the worst cluster.
    strays : tuple
        Places far from all clusters with a few rows each: (place, rows).
    """

    places: ClassVar[tuple[str, ...]] = ("centers",)

    mixture: Mixture
    centers: Array
    weights: Array
    inertia: float
    criterion: str = "means"
    centers_std: Array | None = None
    weights_std: Array | None = None
    smallest: float = float("nan")
    closest: float = float("nan")
    strays: tuple[tuple[Array, float], ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureSolution(Solution):
    """A Gaussian mixture.

    Attributes
    ----------
    weights, means, covariances : ndarray
        The mixture; covariances in scikit-learn's shape for `covariance_type`.
    covariance_type : str
        Type of the covariances.
    deviation : float
        Relative standard deviation of the noise floor (counting correlations if the ratio is above 1.5).
    unreliable : tuple of int
        Components whose weight, place or width the sketch does not determine.
    richer : Mixture or None
        For data that no such mixture explains, the richer mixture that the model was projected from.
    means_std, weights_std : ndarray (k, d), (k,), or None
        Standard errors of means and weights, where the last step was taken in the metric of the sampling noise.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(4000, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 2000, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::4], n_components=2, task="gmm", seed=0))
    >>> solution = sl.decode(s, 2, task="gmm", covariance_type="diag", random_state=0)
    >>> solution.reliable, solution.covariances.shape
    (True, (2, 2))
    """

    places: ClassVar[tuple[str, ...]] = ("means",)

    weights: Array
    means: Array
    covariances: Array
    covariance_type: str
    deviation: float
    unreliable: tuple[int, ...] = ()
    richer: Mixture | None = None
    means_std: Array | None = None
    weights_std: Array | None = None

    @property
    def mixture(self) -> Mixture:
        """The components as a :class:`~sketchlearn.Mixture`."""
        s = self.covariances
        if self.covariance_type == "tied":
            s = np.repeat(s[None], len(self.weights), 0)
        return Mixture(self.weights, self.means, s)


@dataclass(frozen=True, eq=False, kw_only=True)
class StableSolution(Solution):
    """A mixture of elliptic stable laws.

    Attributes
    ----------
    weights, alphas, locations, scatters : ndarray
        The mixture; scatters are (k, d) or (k, d, d).
    unreliable : tuple of int
        Components with next to no weight or at the edge of what the sketch resolves.
    """

    weights: Array
    alphas: Array
    locations: Array
    scatters: Array
    unreliable: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class FamilySolution(Solution):
    """A mixture of some family of atoms.

    Attributes
    ----------
    weights, means, shapes : ndarray
        The mixture, in the units of the rows.
    facts : dict
        The shapes by name, as the family describes them.
    """

    weights: Array
    means: Array
    shapes: Array
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRankSolution(Solution):
    """A second moment ``vectors @ diag(values) @ vectors.T + isotropic * I``.

    Residual and noise floor are root mean squares of what the solution leaves of the measurements and of their
    sampling error, both relative to the measurements.  The sampling error is that of normal data with this second
    moment.

    Attributes
    ----------
    values, vectors : ndarray (r,), (dim, r)
        Eigenvalues in falling order (without the isotropic part), and orthonormal eigenvectors.
    isotropic : float
        Variance in every direction that the r eigenvectors leave over.
    mean : ndarray (dim,)
        Mean of the rows.
    resolution : float
        Eigenvalues below this can't be told from what the residual does to them.
    converged : bool
        Whether the decoder stopped because nothing changed any more.
    """

    values: Array
    vectors: Array
    isotropic: float
    mean: Array
    resolution: float
    converged: bool
