"""How a feature map is chosen."""

from sketchlearn.designs import (  # noqa: F401  # each registers its tasks
    anomaly,
    classifier,
    gmm,
    ica,
    kmeans,
    monitoring,
    pca,
    stable,
    subspaces,
)
from sketchlearn.designs.front import design
from sketchlearn.designs.independence import design_independence
from sketchlearn.designs.request import Request, find, positive, register_design, tasks
from sketchlearn.designs.scale import RULES

__all__ = ["RULES", "Request", "default_size", "design", "design_independence", "register_design", "tasks"]


def default_size(n_components: int, dim: int, task: str = "kmeans", *, covariance_type: str | None = None) -> int:
    """Number of features that :func:`sketchlearn.design` takes for a pilot sample if none is asked for.

    Ten per coordinate of the centres for k-means (twice that for a map from bounds or a guessed scale), ten per
    parameter of a mixture, fifteen of a stable one, all products of up to 5000 columns for principal components and
    ``8 * n_components * dim`` of more; a hundred at least, except for quadratic features.

    Examples
    --------
    >>> from sketchlearn.designs import default_size
    >>> default_size(10, 3), default_size(10, 3, "gmm"), default_size(2, 3, "pca")
    (300, 1000, 6)
    """
    return find(task).size(positive(n_components, "n_components"), positive(dim, "dim"), covariance_type)
