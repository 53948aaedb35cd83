"""Mixtures of heavy-tailed components in scikit-learn's shape, learned from one pass."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sketchlearn.atoms.stable import sample_stable, stable_log_density
from sketchlearn.decoders.stable import decode_stable
from sketchlearn.designs.stable import default_size, design_stable
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.base import SketchedMixture
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]


class CompressiveStableMixture(SketchedMixture):
    """Mixture of elliptic alpha-stable laws learned from a sketch: clusters with heavy tails, even without variance.

    Each component has a stability alpha in (0, 2] (2 is the Gaussian, 1 the Cauchy law), a location and a scatter
    matrix S; its characteristic function is ``exp(i w·location - (w'Sw/2)^(alpha/2))``.

    Parameters
    ----------
    n_components : int
        Number of components.
    scatter_type : {"full", "diag"}
        Shape of the scatter matrices.
    sketch_size : int, optional
        Number of frequencies; by default 15 per parameter of the mixture.
    features : FeatureMap, optional
        Map to sketch with; by default one is designed from a pilot of at most 2000 rows.
    random_state : int, RandomState or None
        Seed of pilot, frequencies and decoder.

    Attributes
    ----------
    weights_, alphas_, locations_, scatters_ : ndarray
        The mixture.
    sketch_ : Sketch
        What was learned from.
    solution_ : StableSolution
        Misfit, noise floor, verdict and more.
    verdict_ : str
        Whether the model explains the data.
    converged_ : bool
        The certificate.
    n_iter_ : int
        Rounds of the decoder.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.stable import CompressiveStableMixture
    >>> X = np.random.default_rng(0).standard_cauchy(size=(20_000, 1)) + np.repeat([[5.0], [50.0]], 10_000, axis=0)
    >>> model = CompressiveStableMixture(2, random_state=0).fit(X)
    >>> np.sort(model.locations_[:, 0]).round(0), model.alphas_.round(1)
    (array([ 5., 50.]), array([1., 1.]))
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        scatter_type: str = "full",
        sketch_size: int | None = None,
        features: FeatureMap | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.scatter_type = scatter_type
        self.sketch_size = sketch_size
        self.features = features
        self.random_state = random_state

    def sample(self, n_samples: int = 1) -> tuple[Array, npt.NDArray[np.intp]]:
        """New rows from the model, and their components."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples}: ask for at least one row")
        random = check_random_state(self.random_state)
        rng = np.random.default_rng(random.randint(2**31 - 1))
        numbers = random.multinomial(n_samples, self.weights_)
        rows = [
            sample_stable(int(c), float(self.alphas_[l]), self.locations_[l], self.scatters_[l], rng)
            for l, c in enumerate(numbers)
        ]
        return np.concatenate(rows), np.repeat(np.arange(len(numbers)), numbers)

    # -- pieces ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.scatter_type not in ("full", "diag"):
            raise ValueError(f"scatter_type={self.scatter_type!r}: choose 'full' or 'diag'")

    def _default_size(self, columns: int) -> int:
        return default_size(int(self.n_components), columns, self.scatter_type)

    def _design(self, rows: npt.NDArray[Any], seed: int, size: int | None, weights: Array | None) -> FeatureMap:
        return design_stable(rows, self.n_components, self.scatter_type, seed, size=size, sample_weight=weights)

    def _learn(self, sketch: Sketch, random: np.random.RandomState, more: bool) -> None:
        rng = np.random.default_rng(random.randint(2**31 - 1))
        solution = decode_stable(sketch, int(self.n_components), self.scatter_type, rng=rng)
        self.sketch_, self.features_, self.solution_ = sketch, sketch.features, solution
        self.weights_, self.alphas_ = solution.weights, solution.alphas
        self.locations_, self.scatters_ = solution.locations, solution.scatters
        self.verdict_, self.converged_, self.n_iter_ = solution.verdict, solution.reliable, solution.iterations
        if solution.unreliable:
            warnings.warn(solution.verdict, ConvergenceWarning, stacklevel=3)

    def _weighted_log_densities(self, X: Array) -> Array:
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights_)
        return np.stack(
            [
                stable_log_density(X, float(self.alphas_[l]), self.locations_[l], self.scatters_[l]) + log_weights[l]
                for l in range(len(self.weights_))
            ],
            1,
        )
