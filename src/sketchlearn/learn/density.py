"""What estimators of mixtures share: scores and labels from the densities of components."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from sketchlearn.accepts import NOTHING, choice, whole
from sketchlearn.arrays import Array, Index
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.rows import checked_weights
from sketchlearn.learn.using import HasProbabilities, ScoresRows

_FEWEST_FEATURES, _FEATURES_PER_ROW = 200, 4


@estimator
class SketchedMixture(DensityMixin, HasProbabilities, ScoresRows):  # type: ignore[misc]
    """A mixture learned from a sketch; subclasses say how it is designed and evaluated."""

    most: ClassVar[int] = 10
    n_components: int | str = parameter(default=1, accepts=whole() | choice("auto"), kw_only=False)
    sketch_size: int | None = parameter(default=None, accepts=whole(2) | NOTHING)
    weights_: Array = learned()
    converged_: bool = learned()
    n_iter_: int = learned()

    # -- learning ----------------------------------------------------------------------------

    def default_size(self, columns: int, rows: float | None) -> int | None:
        """A sketch need not be much larger than the data: a few features per row, if there are few rows."""
        if rows is None:
            return None
        most = max(_FEWEST_FEATURES, _FEATURES_PER_ROW * int(np.ceil(rows)))
        return min(self._designed_size(columns), most)

    @abstractmethod
    def _designed_size(self, columns: int) -> int:
        """Number of frequencies for so many columns."""

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Index:
        """Fit, and the component of each row.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.r_[np.random.default_rng(0).normal(size=(500, 1)), np.random.default_rng(1).normal(9, 1, (500, 1))]
        >>> labels = CompressiveGaussianMixture(2, random_state=0).fit_predict(X)
        >>> bool(labels[0] != labels[-1])
        True
        """
        return self.fit(X, y, sample_weight).predict(X)

    # -- using -------------------------------------------------------------------------------

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-density of the rows, weighted if asked for.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> round(CompressiveGaussianMixture(random_state=0).fit(X).score(X), 1)
        -1.4
        """
        log = self.score_samples(X)
        return float(np.average(log, weights=checked_weights(sample_weight, len(log))))

    def sample(self, n_samples: int = 1) -> tuple[Array, Index]:
        """New rows from the model, and their components.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> rows, components = CompressiveGaussianMixture(random_state=0).fit(X).sample(7)
        >>> rows.shape, components.shape
        ((7, 2), (7,))
        """
        check_is_fitted(self)
        whole().check("n_samples", n_samples)
        rows, components = self.solution_.sample(int(n_samples), self.random_state)
        return rows, components
