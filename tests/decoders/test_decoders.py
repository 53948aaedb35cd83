import re
import warnings

import numpy as np
import pandas as pd
import pytest
from clusters import gaussian_clusters, mean_cost
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.decoders import DECODERS


def _relative_cost(X, centers):
    return mean_cost(X, centers) / (KMeans(len(centers), n_init=10, random_state=0).fit(X).inertia_ / len(X))


@pytest.mark.parametrize("unbalanced", [False, True])
@pytest.mark.parametrize("separation", [10, 100, 1000])
@pytest.mark.parametrize(("k", "d"), [(5, 2), (10, 10)])
def test_tuning_free_matches_kmeans(k, d, separation, unbalanced):
    X, _, _ = gaussian_clusters(k, d, separation, unbalanced=unbalanced, seed=11)
    s = sl.sketch(X, sl.design(X[:1000], n_components=k, seed=3))
    solution = sl.decode(s, k, random_state=0)
    assert _relative_cost(X, solution.centers) < 1.02
    assert solution.reliable
    assert solution.weights.sum() == pytest.approx(1.0)
    assert solution.inertia == pytest.approx(mean_cost(X, solution.centers), rel=0.05)


def test_bounds_wider_than_the_data_are_enough():
    for seed, wide in ((0, 1.0), (1, 3.0), (2, 5.0)):
        X, _, _ = gaussian_clusters(10, 5, 100, seed=seed)
        middle, half = (X.max(0) + X.min(0)) / 2, (X.max(0) - X.min(0)) / 2
        phi = sl.design(bounds=(middle - wide * half, middle + wide * half), n_components=10, seed=seed)
        solution = sl.decode(sl.sketch(X, phi), 10, random_state=0)
        assert _relative_cost(X, solution.centers) < 1.02, wide


def test_other_shapes_take_the_richer_model():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 4)) * 8
    axes = np.exp(rng.uniform(-1, 1, size=(5, 4)))
    labels = rng.integers(5, size=10_000)
    X = centers[labels] + axes[labels] * rng.normal(size=(10_000, 4))
    solution = sl.decode(sl.sketch(X, sl.design(X[:1000], n_components=5)), 5, random_state=0, n_decodes=1)
    assert "one fit of" in solution.decoder
    assert not solution.reliable
    assert solution.code in ("good", "doubtful")
    assert "the misfit is" in solution.verdict
    assert _relative_cost(X, solution.centers) < 1.02


def test_own_widths_are_certified():
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(5, 4)) * 10
    labels = rng.integers(5, size=20_000)
    X = centers[labels] + np.array([0.4, 0.7, 1.0, 1.5, 2.0])[labels][:, None] * rng.normal(size=(20_000, 4))
    solution = sl.decode(sl.sketch(X, sl.design(X[:1000], n_components=5)), 5, random_state=0)
    assert "own widths" in solution.decoder
    assert solution.reliable
    assert _relative_cost(X, solution.centers) < 1.01


@pytest.mark.parametrize("decoder", ["clompr", "clomp", "splitting"])
def test_published_decoders_work_at_a_good_scale(decoder):
    X = gaussian_clusters(4, 5, 100, seed=2)[0]
    phi = sl.design(X[:1000], n_components=4, scale="separation", radial="gaussian", size=400)
    solution = sl.decode(sl.sketch(X, phi), 4, decoder=decoder, random_state=0, replicates=2)
    assert _relative_cost(X, solution.centers) < 1.5
    assert decoder.replace("clomp", "CL-OMP").replace("Pr", "PR").lower()[:6] in solution.decoder.lower()


@pytest.mark.parametrize("init", ["uniform", "gaussian", "sample", "k++"])
def test_every_initialisation_of_clompr(init):
    X, _, _ = gaussian_clusters(3, 3, 100, seed=5)
    s = sl.sketch(X, sl.design(X[:1000], n_components=3, scale="separation"))
    solution = sl.decode(s, 3, decoder="clompr", init=init, sample=X[:500], random_state=0)
    assert solution.centers.shape == (3, 3)
    with pytest.raises(ValueError, match="init"):
        sl.decode(s, 3, decoder="clompr", init="zeros")
    with pytest.raises(ValueError, match="sample"):
        sl.decode(s, 3, decoder="clompr", init="k++")


@pytest.mark.parametrize("decoder", DECODERS["kmeans"])
def test_every_decoder_is_repeatable_traceable_and_keeps_to_the_box(decoder):
    X, _, _ = gaussian_clusters(3, 2, 100, n=2000, seed=1)
    s = sl.sketch(X, sl.design(X, n_components=3))
    a = sl.decode(s, 3, decoder=decoder, random_state=5)
    b = sl.decode(s, 3, decoder=decoder, random_state=5, trace=False)
    np.testing.assert_array_equal(a.centers, b.centers)
    assert all({"stage", "why", "found", "accepted", "seconds"} <= set(step) for step in a.trace)
    assert a.trace
    assert not b.trace
    margin = 0.05 * (s.upper - s.lower)
    assert (a.centers >= s.lower - margin).all()
    assert (a.centers <= s.upper + margin).all()
    assert a.verdict


@pytest.mark.parametrize("k", [1, 2])
def test_few_components(k):
    X = np.random.default_rng(0).normal(size=(2000, 3)) + 5
    solution = sl.decode(sl.sketch(X, sl.design(X, n_components=k)), k, random_state=0)
    np.testing.assert_allclose(solution.weights @ solution.centers, X.mean(0), atol=0.1)


def test_constant_data():
    X = np.full((100, 2), 3.0)
    solution = sl.decode(sl.sketch(X, sl.design(X, n_components=2)), 2, random_state=0)
    np.testing.assert_allclose(solution.centers, 3.0, atol=1e-2)


def test_a_verdict_names_constant_columns_and_no_logarithm_of_negative_numbers():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(5000, 2)) + 5 * rng.integers(3, size=(5000, 1)), np.ones(5000)])
    found = sl.decode(sl.sketch(X, sl.design(X, n_components=3, seed=0)), 3, random_state=0)
    assert "Leave out column 2: it has one value only" in found.verdict
    assert "most real data" not in found.verdict
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + 5 * rng.integers(3, size=(300, 1))
    X[:3, 0] = -50
    far = sl.CompressiveKMeans(2, random_state=0).fit(X).solution_.verdict
    assert "clip column 0 (it reaches -50)" in far
    assert "logarithm" not in far


def test_a_verdict_gives_no_advice_on_columns_that_an_encoder_made():
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=4000) + 9 * rng.integers(2, size=4000), "one": np.ones(4000)}
    table = pd.DataFrame({**rows, "city": rng.choice(["A", "B"], 4000)})
    phi = sl.design(table, n_components=3, encoder=sl.Encoder.fit(table), seed=0)
    found = sl.decode(sl.sketch(table, phi), 3, random_state=0)
    assert phi.columns == ("x", "one", "city=A", "city=B", "city=other")  # no row has another city
    assert "Leave out one: it has one value only" in found.verdict
    assert "city=other" not in found.verdict


def test_more_numbers_than_the_sketch_has_give_a_warning():
    s = sl.sketch(
        np.random.default_rng(0).normal(size=(500, 2)), sl.FourierFeatures.draw(dim=2, size=9, scale=1.0, seed=0)
    )
    with pytest.warns(
        sl.DataWarning, match="7 clusters in 2 columns have 21 unknown numbers, but the sketch has only 18"
    ) as said:
        sl.decode(s, 7, n_decodes=1, random_state=0)
    assert "Ask for at most 6" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.decode(s, 6, n_decodes=1, random_state=0)


def test_too_many_clusters_give_no_error_bars_that_mean_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) + 5 * rng.integers(3, size=(5000, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = sl.decode(sl.sketch(X, sl.design(X, n_components=5, seed=0)), 50, random_state=0)
    assert not re.search(r"e\+\d+ cluster", found.verdict)


def test_sweep_takes_one_number():
    X, _, _ = gaussian_clusters(3, 2, 100, seed=3)
    s = sl.sketch(X, sl.design(X, n_components=4, seed=0))
    assert sl.sweep(s, 3, random_state=0).column("k").tolist() == [3]


def test_sweep_finds_the_number_of_clusters():
    X, _, _ = gaussian_clusters(6, 4, 100, seed=3)
    s = sl.sketch(X, sl.design(X[:1000], n_components=10))
    table = sl.sweep(s, range(2, 10), random_state=0)
    assert table.recommended == 6
    assert table.column("k").tolist() == list(range(2, 10))
    assert (np.diff(table.column("residual")[:5]) < 0).all()
    assert "recommended: 6" in repr(table)
    inertia = dict(zip(table.column("k"), table.column("inertia"), strict=True))[6]
    km = KMeans(6, n_init=10, random_state=0).fit(X)
    assert inertia == pytest.approx(km.inertia_ / len(X), rel=0.02)
    for bad in ([], [0], [10**9]):
        with pytest.raises(ValueError, match=r"."):
            sl.sweep(s, bad)
    with pytest.raises(ValueError, match="task"):
        sl.sweep(s, [2], task="regression")


@pytest.mark.parametrize("seed", range(2))
def test_sweep_finds_the_number_of_clusters_with_heavy_tails(seed):
    rng = np.random.default_rng(seed)
    X = 5 * rng.normal(size=(4, 4))[rng.integers(4, size=20_000)] + rng.standard_t(4, size=(20_000, 4))
    table = sl.sweep(sl.sketch(X, sl.design(X[:2000], n_components=6)), range(2, 7), random_state=0)
    assert table.column("ratio").min() > 1.5  # no k explains such data
    assert abs(table.recommended - 4) <= 1
    assert "not certified" in table.reason


def test_options_that_a_decoder_lacks_or_needs_are_named():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    s = sl.sketch(rows, sl.design(rows, n_components=2, task="gmm"))
    wrong = [
        ({"covariances": 1.0}, "decoder='auto' of task='gmm' has no option 'covariances': decoder='known' has"),
        ({"stop": True}, "'auto' of task='gmm' has no option 'stop': decoder='clompr' has"),
        ({"tries": 3}, "there are covariance_type, start, starts, rounds, project"),
        ({"decoder": "known"}, "decoder='known' of task='gmm' needs covariances="),
        ({"task": "kmeans", "decoder": "clompr", "stop": True}, "there are criterion, replacement, init"),
    ]
    for options, message in wrong:
        with pytest.raises(TypeError, match=re.escape(message)):
            sl.decode(s, 2, **{"task": "gmm"} | options)
    with pytest.raises(ValueError, match="stop must be True or False, got stop='no'"):
        sl.decode(s, 2, task="gmm", decoder="clompr", stop="no")


def test_options_of_two_bit_sketches_are_checked_too():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    s = sl.sketch(rows, sl.design(rows, n_components=2, quantized=True))
    with pytest.raises(ValueError, match="n_decodes must be a positive integer or None, got n_decodes=0"):
        sl.decode(s, 2, n_decodes=0)


def test_decoders_that_pass_all_options_on_check_them_themselves(monkeypatch):
    monkeypatch.setattr(DECODERS["kmeans"], "_known", dict(DECODERS["kmeans"]._known))
    given = []
    DECODERS["kmeans"].add("own", lambda *args, **options: given.append(options["depth"]))
    rows = np.random.default_rng(0).normal(size=(300, 2))
    sl.decode(sl.sketch(rows, sl.design(rows, n_components=2)), 2, decoder="own", depth=3)
    assert given == [3]
