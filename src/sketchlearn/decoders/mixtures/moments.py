"""One Gaussian from a sketch of all products of columns: its mean and covariance are those of the rows."""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.lowrank.solution import Moments
from sketchlearn.decoders.metric import widened
from sketchlearn.decoders.noise import added_variance
from sketchlearn.decoders.solution import Code, MixtureSolution, said
from sketchlearn.sketches.value import Sketch

_LOST = (
    "Not certified. Leave out rows far from all others, or nearly collinear columns: in some directions rows vary so "
    "little beside others that the component is wider than they are."
)


@decoder
def decode_gaussian_moments(
    sketch: Sketch, k: int = 1, *, rng: np.random.Generator, covariance_type: str = "full", used: int = 1
) -> MixtureSolution:
    """The normal law with the mean and the covariance of the rows.

    The covariance is divided by the number of rows less those that are `used` up by estimates.  With one more than
    there are predictors, the residual variance of their regression is unbiased.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=2))
    >>> found = sl.decode(s, 1, task="gmm", decoder="moments")
    >>> bool(np.allclose(found.covariances[0], np.cov(X.T)) and np.allclose(found.means[0], X.mean(0)))
    True
    """
    phi, _, mean, covariance, rounding = Moments.of(sketch, "one Gaussian from moments")
    if k != 1:
        raise ValueError(
            f"second moments determine only one component, not {k}: use a map of sl.design(..., task='gmm')"
        )
    count = sketch.effective_count
    covariance, lost = widened(covariance, rounding)
    covariance *= count / max(count - used, 1.0)
    shapes = {
        "full": covariance[None],
        "tied": covariance,
        "diag": np.diag(covariance)[None].copy(),
        "spherical": np.array([np.trace(covariance) / phi.dim]),
    }
    if covariance_type not in shapes:
        raise ValueError(f"covariance_type={covariance_type!r}: choose one of {', '.join(shapes)}")
    if added_variance(sketch).any():
        judged = Code.UNCERTIFIED, "one component with the moments of the sketch, to which noise was added"
    elif lost:
        judged = Code.UNDETERMINED, _LOST
    else:
        judged = Code.RELIABLE, "the sketch holds mean and covariance of the rows: one component has these"
    return MixtureSolution(
        **said("gmm", "moments", 0.0, float("nan"), judged),
        weights=np.ones(1),
        means=mean[None],
        covariances=shapes[covariance_type],
        covariance_type=covariance_type,
        deviation=float("nan"),
    )
