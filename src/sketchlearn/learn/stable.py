"""Mixtures of heavy-tailed components in scikit-learn's shape, learned from one pass."""

from __future__ import annotations

from typing import ClassVar

from sketchlearn.accepts import choice
from sketchlearn.arrays import Array
from sketchlearn.designs.stable import default_size
from sketchlearn.learn.density import SketchedMixture
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.models.base import Model
from sketchlearn.models.mixtures import StableMixtureModel


@estimator
class CompressiveStableMixture(SketchedMixture):
    """Mixture of elliptic alpha-stable distributions learned from a sketch, for clusters with heavy tails, even without
    a variance.

    Each component has a stability alpha in (0, 2] (2 is the Gaussian, 1 the Cauchy law), a location and a scatter
    matrix S; its characteristic function is ``exp(i w·location - (w'Sw/2)^(alpha/2))``.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components. ``"auto"`` tries up to 10 and uses the number that :func:`sketchlearn.sweep` recommends
        (``sweep_`` has the table).
    scatter_type : {"full", "diag"}
        Shape of the scatter matrices.
    sketch_size : int, optional
        Number of frequencies; by default 15 per parameter of the mixture.

    Attributes
    ----------
    weights_, alphas_, locations_, scatters_ : ndarray
        The mixture.
    verdict_ : str
        Whether the model explains the data.
    reliable_, converged_ : bool
        The certificate.
    n_iter_ : int
        Rounds of the decoder.

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
    scatter_type: str = parameter(
        default="full", accepts=choice("full", "diag"),
        design="covariance_type", decode="scatter_type", sweep="scatter_type",
    )  # fmt: skip
    alphas_: Array = learned()
    locations_: Array = learned()
    scatters_: Array = learned()

    def _designed_size(self, columns: int) -> int:
        return default_size(self._components(), columns, self.scatter_type)
