"""Dictionary learning in scikit-learn's shape, learned from a sketch of quartic features."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sketchlearn.accepts import choice, real, whole
from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import spending
from sketchlearn.designs.ica import design_dictionary, dictionary_size
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.using import Inverts
from sketchlearn.models.base import Model
from sketchlearn.models.dictionary import DictionaryModel


@estimator
class CompressiveDictionaryLearning(Inverts):
    """Dictionary learning from a sketch.

    Every row combines a few of the atoms, with independent coefficients, and there may be more atoms than columns. The
    sketch holds powers of some projections of the rows, up to the fourth. The atoms follow from their fourth cumulants,
    in which normal noise has no part.

    Parameters
    ----------
    n_components : int
        Number of atoms.
    n_nonzero : int or "auto"
        Atoms in the code of a row, see `transform`. ``"auto"``: as many as there are in a row on average, rounded up.
    radius : float or "auto"
        Rows farther out than this many standard deviations are clipped, because the fourth powers of a few outliers are
        larger than those of all other rows. ``"auto"`` is ``max(10, 4 sqrt(n_features))``.
    sketch_size : int, optional
        Directions of the sketch; by default ``4 * n_components * n_features``, at least ``3 n_features**2``.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        The atoms, of length 1 and any sign; those with the largest fourth cumulants come first.
    mean_ : ndarray (n_features,)
        Mean of the rows.
    variances_, kurtosis_ : ndarray (n_components,)
        Variances and excess kurtoses of the coefficients.
    errors_ : ndarray (n_components,)
        Standard errors of the atoms, as shares of their lengths.
    noise_share_ : float
        Share of the variance of each column that the atoms do not explain.
    n_nonzero_ : int
        Atoms in the code of a row.
    reliable_, verdict_ : bool, str
        Whether the atoms explain the fourth cumulants and are known, as a yes or no and in words.

    See Also
    --------
    sketchlearn.CompressiveICA : at most as many sources as columns, and other laws.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> D = rng.normal(size=(8, 6))
    >>> X = (rng.normal(size=(50_000, 8)) * (rng.random((50_000, 8)) < 0.15)) @ D
    >>> found = sl.CompressiveDictionaryLearning(8, random_state=0).fit(X)
    >>> found.reliable_, found.n_nonzero_
    (True, 2)
    >>> cosines = np.abs(found.components_ @ D.T / np.linalg.norm(D, axis=1))
    >>> bool(cosines.max(1).min() > 0.97)
    True
    """

    task: ClassVar[str] = "dictionary"
    model: ClassVar[type[Model]] = DictionaryModel
    fewest_rows: ClassVar[int] = 2
    n_components: int = parameter(default=2, accepts=whole(), kw_only=False)
    n_nonzero: int | str = parameter(default="auto", accepts=whole() | choice("auto"))
    radius: float | str = parameter(default="auto", accepts=real() | choice("auto"))
    components_: Array = learned()
    mean_: Array = learned()
    variances_: Array = learned()
    kurtosis_: Array = learned()
    errors_: Array = learned()
    noise_share_: float = learned()
    n_components_: int = learned()
    n_nonzero_: int = learned()

    def design_features(self, request: Request) -> FeatureMap:
        """Rows are clipped where the estimator says; atoms that can't be determined are refused before the pass."""
        from sketchlearn.decoders.dictionary import check_size  # (imports SciPy)

        rows, weights = request.weighted()
        k, d = self.n_components, rows.shape[1]
        with spending():
            check_size(request.size or dictionary_size(k, d), d, k)
        radius = None if self.radius == "auto" else float(self.radius)
        phi, why = design_dictionary(rows, k, size=request.size, seed=request.seed, radius=radius, weights=weights)
        return phi.explained(why)

    def decode_sketch(self, seed: int) -> Model:
        """The atoms, and how many of them are in a code."""
        found: DictionaryModel = super().decode_sketch(seed)  # type: ignore[assignment]
        return found if self.n_nonzero == "auto" else replace(found, nonzero=float(self.n_nonzero))
