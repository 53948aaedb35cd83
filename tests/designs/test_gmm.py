import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.designs.gmm import design_gmm, parameter_count, within_metric
from sketchlearn.designs.stable import design_stable

RNG = np.random.default_rng(0)
BLOBS = RNG.normal(size=(900, 3)) + 20 * RNG.integers(3, size=(900, 1))


@pytest.mark.parametrize("kind", ["spherical", "diag", "full", "tied"])
def test_size_is_ten_frequencies_per_parameter(kind):
    phi = design_gmm(BLOBS, 4, kind)
    assert phi.size == max(10 * parameter_count(4, 3, kind), 100)
    assert (phi.whitening is None) == (kind == "spherical")


def test_recipe_holds_everything():
    phi = design_gmm(BLOBS, 4, "full", seed=5)
    again = sl.FeatureMap.from_recipe(phi.recipe())
    assert again == phi
    assert again.fingerprint == phi.fingerprint


def test_repetition_and_weights_give_the_same_bits():
    weights = np.random.default_rng(1).integers(0, 4, len(BLOBS))
    repeated = np.repeat(BLOBS, weights, axis=0)
    shuffled = repeated[np.random.default_rng(2).permutation(len(repeated))]
    for design in (lambda x, **o: design_gmm(x, 3, "full", **o), lambda x, **o: design_stable(x, 3, **o)):
        assert design(BLOBS, sample_weight=weights) == design(shuffled)


def test_metric_makes_clusters_round():
    """Within-cluster deviations 1 : 30 : 900, clusters ten deviations apart."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(2000, 3)) + 10 * rng.normal(size=(4, 3))[rng.integers(4, size=2000)]) * [1, 30, 900]
    w = np.full(len(x), 1 / len(x))
    matrix = within_metric(x - x.mean(0), w, 4, "full", 0)
    widths = np.abs(np.diag(matrix)) * [1, 30, 900]
    assert widths.max() / widths.min() < 1.5


@pytest.mark.parametrize("design", [design_gmm, design_stable])
def test_constant_and_single_rows_are_fine(design):
    for x in (np.ones((5, 2)), np.zeros((1, 1)), np.full((3, 2), 1e9)):
        assert np.isfinite(design(x, 2).frequencies).all()


@pytest.mark.parametrize("design", [design_gmm, design_stable])
def test_bad_samples_are_refused(design):
    with pytest.raises(ValueError, match="rows and columns"):
        design(np.zeros((0, 2)), 2)
    with pytest.raises(ValueError, match="row 1 of the sample"):
        design([[0.0], [np.nan]], 2)
    with pytest.raises(ValueError, match="sample_weight"):
        design([[0.0], [1.0]], 2, sample_weight=[1.0])
    with pytest.raises(ValueError, match="zero for every row"):
        design([[0.0], [1.0]], 2, sample_weight=[0.0, 0.0])
    with pytest.raises(ValueError, match="n_components"):
        design([[0.0], [1.0]], 0)
    with pytest.raises(ValueError, match="_type"):
        design([[0.0], [1.0]], 2, "oval")
