"""An earlier model as a beginning: numbers of clusters are kept, and a wrong model does no harm."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.models.start import as_centers, as_mixture

RNG = np.random.default_rng(11)
PLACES = RNG.normal(size=(6, 3)) * 10
PHI = sl.design(np.repeat(PLACES, 50, 0) + RNG.normal(size=(300, 3)), n_components=6, seed=0)


def sketch_of(places, n=6000, phi=PHI):
    return sl.sketch(places[RNG.integers(0, len(places), n)] + RNG.normal(size=(n, 3)), phi)


@pytest.mark.parametrize("options", [{"task": "kmeans"}, {"task": "kmedians"}, {"task": "gmm"}])
def test_component_i_is_the_one_that_was_component_i(options):
    before = sl.decode(sketch_of(PLACES), 6, random_state=0, **options)
    moved = as_centers(before, 3) + 0.5
    after = sl.decode(sketch_of(moved), 6, random_state=1, start=before, **options)
    assert after.reliable
    assert np.abs(as_centers(after, 3) - moved).max() < 0.5
    shuffled = as_centers(before, 3)[[3, 0, 5, 1, 4, 2]]
    given = shuffled if options["task"] != "gmm" else (np.ones(6), shuffled, np.ones(6))
    again = sl.decode(sketch_of(PLACES), 6, random_state=1, start=given, **options)
    assert np.abs(as_centers(again, 3) - shuffled).max() < 0.5


def test_a_wrong_start_is_left_behind():
    wrong = np.tile(PLACES[:1], (6, 1)) + 0.01 * RNG.normal(size=(6, 3))
    found = sl.decode(sketch_of(PLACES), 6, random_state=0, start=wrong)
    assert found.reliable
    far = np.linalg.norm(found.centers[:, None] - PLACES, axis=2).min(0).max()
    assert far < 0.5


def test_another_number_of_centres_is_a_start_too():
    for start in (PLACES[:2], np.concatenate([PLACES, PLACES + 3])):
        assert sl.decode(sketch_of(PLACES), 6, random_state=0, start=start).reliable


def test_estimators_and_mixtures_begin_with_models():
    s = sketch_of(PLACES)
    km = sl.CompressiveKMeans(6, random_state=0).fit_sketch(s)
    gm = sl.CompressiveGaussianMixture(6, start=km, random_state=0).fit_sketch(s)
    assert np.abs(gm.means_ - km.cluster_centers_).max() < 0.5
    again = sl.CompressiveKMeans(6, start=gm, random_state=3).fit_sketch(s)
    assert np.abs(again.cluster_centers_ - gm.means_).max() < 0.5
    assert as_mixture(km, 3).n_components >= 6


def test_a_one_bit_sketch_keeps_numbers_too():
    phi = sl.FourierFeatures.draw(dim=3, size=1200, scale=3.0, seed=0, quantized=True)
    found = sl.decode(sketch_of(PLACES, 20_000, phi), 6, random_state=0, start=PLACES)
    assert np.abs(found.centers - PLACES).max() < 0.5


def test_what_is_no_start_is_named():
    s = sketch_of(PLACES)
    with pytest.raises(ValueError, match=r"decoder='clompr' of task='kmeans' can't start from an earlier model"):
        sl.decode(s, 6, decoder="clompr", start=PLACES)
    with pytest.raises(ValueError, match=r"shape \(k, 3\), got shape \(6, 2\)"):
        sl.decode(s, 6, start=PLACES[:, :2])
    with pytest.raises(TypeError, match="centres must be numbers"):
        sl.decode(s, 6, start=object())
    with pytest.raises(TypeError, match="mixture must be"):
        sl.decode(s, 6, task="gmm", start=PLACES)
    with pytest.raises(ValueError, match="start must be centres, a model with some or None"):
        sl.CompressiveKMeans(6, start="yesterday").fit(PLACES)
