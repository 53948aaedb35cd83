"""Independent components in scikit-learn's shape, learned from a sketch of quartic features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sketchlearn.accepts import NOTHING, choice, real, whole
from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import spending
from sketchlearn.designs.ica import design_ica
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.quartic import quartic
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.using import Inverts
from sketchlearn.models.base import Model
from sketchlearn.models.ica import ICAModel


@estimator
class CompressiveICA(Inverts):
    """Independent component analysis from a sketch.

    Rows are linear mixtures of independent sources. The sketch holds powers of a few projections of the rows, up to the
    fourth. The mixing follows from their fourth cumulants, weighted by their precision.

    Parameters
    ----------
    n_components : int, "auto" or None
        Number of sources to keep, those farthest from normal first. ``"auto"`` keeps those that are significantly not
        normal; None keeps as many as there are columns.
    radius : float or "auto"
        Rows farther out than this many standard deviations are clipped, because the fourth powers of a few outliers are
        larger than those of all other rows. ``"auto"`` is ``max(5, 2 sqrt(n_features))``.
    sketch_size : int, optional
        Directions of the sketch; by default ``3 n_features**2``.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Unmixing: centred rows times its transpose are the sources, of variance 1.
    mixing_ : ndarray (n_features, n_components)
        What each source adds to the rows.
    mean_ : ndarray (n_features,)
        Mean of the rows.
    kurtosis_, kurtosis_std_ : ndarray (n_components,)
        Excess kurtosis of the sources, and standard errors.
    n_sources_ : int
        Number of sources that are significantly not normal.
    leakage_ : float
        Expected root mean square share of another source in an estimated one.
    reliable_, verdict_ : bool, str
        Whether the rows are such a mixture and the sources are separated, as a yes or no and in words.

    See Also
    --------
    sketchlearn.QuarticFeatures : the sketch behind it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> S = np.column_stack([rng.uniform(-1, 1, 20_000), rng.laplace(size=20_000)])
    >>> X = S @ np.array([[1.0, 0.5], [0.3, 1.0]])
    >>> ica = sl.CompressiveICA(random_state=0).fit(X)
    >>> ica.n_sources_, ica.reliable_
    (2, True)
    >>> found = ica.transform(X)
    >>> bool(np.abs(np.corrcoef(found.T, S.T)[:2, 2:]).max(1).min() > 0.999)
    True
    """

    task: ClassVar[str] = "ica"
    model: ClassVar[type[Model]] = ICAModel
    fewest_rows: ClassVar[int] = 2
    n_components: int | str | None = parameter(default=None, accepts=whole() | choice("auto") | NOTHING, kw_only=False)
    radius: float | str = parameter(default="auto", accepts=real() | choice("auto"))
    components_: Array = learned()
    mixing_: Array = learned()
    mean_: Array = learned()
    kurtosis_: Array = learned()
    n_components_: int = learned()

    # -- learning ------------------------------------------------------------------------------

    def design_request(self) -> dict[str, Any]:
        """Coordinates in which the pilot is about independent, whatever the number of components."""
        return {"task": self.task, "n_components": 1}

    def design_features(self, request: Request) -> FeatureMap:
        """Rows are clipped where the estimator says; what the budget does not allow is refused before the pass."""
        from sketchlearn.decoders.ica import affordable, fewest_directions  # (imports SciPy)

        columns = request.weighted()[0].shape[1]
        with spending():
            affordable(fewest_directions(columns), columns)
        if self.radius == "auto":
            return super().design_features(request)
        rows, weights = request.weighted()
        phi, why = design_ica(rows, size=request.size, seed=request.seed, radius=float(self.radius), weights=weights)
        return phi.explained(why)

    def decode_sketch(self, seed: int) -> Model:
        """All sources, of which those that are wanted are kept."""
        dim, k = quartic(self.sketch_.features, "independent component analysis").dim, self.n_components
        if isinstance(k, int | np.integer) and k > dim:
            raise ValueError(f"n_components={k} must be between 1 and n_features={dim}")
        found = self._decoded(dim, seed)
        if k is None:
            return found
        return found.of_first(max(found.n_sources, 1) if isinstance(k, str) else int(k))
