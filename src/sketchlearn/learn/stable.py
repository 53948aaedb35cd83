"""Mixtures of heavy-tailed components in scikit-learn's shape, learned from one pass."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sketchlearn.decoders.families import sample_stable, stable_log_density
from sketchlearn.decoders.solution import StableSolution
from sketchlearn.designs.stable import default_size
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.density import SketchedMixture
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.mixtures import StableMixtureModel
from sketchlearn.learn.rows import as_random_state

Array = npt.NDArray[np.float64]


class CompressiveStableMixture(SketchedMixture):
    """Mixture of elliptic alpha-stable laws learned from a sketch: clusters with heavy tails, even without variance.

    Each component has a stability alpha in (0, 2] (2 is the Gaussian, 1 the Cauchy law), a location and a scatter
    matrix S; its characteristic function is ``exp(i w·location - (w'Sw/2)^(alpha/2))``.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components; ``"auto"`` tries up to 10 and takes what :func:`sketchlearn.sweep` recommends
        (``sweep_`` has the table).
    scatter_type : {"full", "diag"}
        Shape of the scatter matrices.
    sketch_size : int, optional
        Number of frequencies; by default 15 per parameter of the mixture.
    features : FeatureMap, optional
        Map to sketch with; by default one is designed from a pilot of at most 2000 rows.
    decoder : str
        Name of a decoder of this task, see :func:`sketchlearn.decode`.
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, Generator, RandomState or None
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
    reliable_, converged_ : bool
        The certificate.
    n_iter_ : int
        Rounds of the decoder.
    n_features_in_, feature_names_in_
        Number of columns, and their names if they have any.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.stable import CompressiveStableMixture
    >>> X = np.random.default_rng(0).standard_cauchy(size=(20_000, 1)) + np.repeat([[5.0], [50.0]], 10_000, axis=0)
    >>> model = CompressiveStableMixture(2, random_state=0).fit(X)
    >>> np.sort(model.locations_[:, 0]).round(0), model.alphas_.round(1)
    (array([ 5., 50.]), array([1., 1.]))
    """

    task: ClassVar[str] = "stable"
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = StableMixtureModel
    learned: ClassVar[tuple[str, ...]] = (*SketchedMixture.learned, "alphas_", "locations_", "scatters_")
    alphas_: Array
    locations_: Array
    scatters_: Array

    def __init__(
        self,
        n_components: int | str = 1,
        *,
        scatter_type: str = "full",
        sketch_size: int | None = None,
        features: FeatureMap | None = None,
        decoder: str = "auto",
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.scatter_type = scatter_type
        self.sketch_size = sketch_size
        self.features = features
        self.decoder = decoder
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

    def sample(self, n_samples: int = 1) -> tuple[Array, npt.NDArray[np.intp]]:
        """New rows from the model, and their components."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples}: ask for at least one row")
        random = as_random_state(self.random_state)
        rng = np.random.default_rng(random.randint(2**31 - 1))
        numbers = random.multinomial(n_samples, self.weights_)
        rows = [
            sample_stable(int(c), float(self.alphas_[l]), self.locations_[l], self.scatters_[l], rng)
            for l, c in enumerate(numbers)
        ]
        return np.concatenate(rows), np.repeat(np.arange(len(numbers)), numbers)

    # -- pieces ------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """Scatter matrices are full or diagonal."""
        super().check_parameters()
        if self.scatter_type not in ("full", "diag"):
            raise ValueError(f"scatter_type={self.scatter_type!r}: choose 'full' or 'diag'")

    def _designed_size(self, columns: int) -> int:
        return default_size(self._components(), columns, self.scatter_type)

    def design_request(self) -> dict[str, Any]:
        """The shape of the scatter matrices."""
        return {**super().design_request(), "covariance_type": self.scatter_type}

    def decode_options(self) -> dict[str, Any]:
        """The shape of the scatter matrices."""
        return {"scatter_type": self.scatter_type}

    def sweep_options(self) -> dict[str, Any]:
        """Other numbers of components of the same shape."""
        return {"scatter_type": self.scatter_type}

    def set_learned(self, solution: StableSolution) -> None:
        """The mixture."""
        self.alphas_, self.locations_, self.scatters_ = solution.alphas, solution.locations, solution.scatters
        super().set_learned(solution)

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
