"""Few rows, far rows, tiny numbers: errors in words, no certificate where there can be none."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as sl

RNG = np.random.default_rng(0)
BLOBS = np.r_[RNG.normal(size=(300, 2)), RNG.normal(size=(300, 2)) + 8]

pytestmark = pytest.mark.filterwarnings("ignore::sketchlearn.exceptions.DataWarning")  # that is their point


def _fitted(estimator, X):
    with warnings.catch_warnings():  # that it is not certified is what is tested; any other warning is an error
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X)


def _both(k):
    return sl.CompressiveKMeans(k, random_state=0), sl.CompressiveGaussianMixture(k, random_state=0)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 8)])
def test_no_more_rows_than_columns(n, d):
    X = np.random.default_rng(n + d).normal(size=(n, d))
    for estimator in _both(2):
        found = _fitted(estimator, X)
        assert not found.reliable_
        assert np.isfinite(found.solution_.mixture.means).all()


def test_a_few_rows_give_no_certificate():
    for X, k in ((np.array([[0.0], [1.0], [5.0]]), 2), (BLOBS[:1], 1), (BLOBS[[0, 1, 400]], 2)):
        for estimator in _both(k):
            found = _fitted(estimator, X)
            assert not found.reliable_
            assert found.verdict_.startswith(("Not certified", "Undetermined", "Doubtful", "Misfit"))
    s = sl.sketch(BLOBS, sl.design(BLOBS, n_components=2))
    assert sl.decode(s, 2, random_state=0).reliable  # and many rows do


def test_one_row_far_out_among_blobs():
    X = BLOBS.copy()
    X[0, 0] = 1e9
    for estimator in _both(2):
        assert np.isfinite(_fitted(estimator, X).solution_.mixture.means).all()


@pytest.mark.parametrize("value", [1e300, 1.7e308, 1e80])
def test_rows_beyond_all_numbers_are_named(value, tmp_path):
    X = BLOBS.copy()
    X[7, 0] = value
    for estimator in (*_both(2), sl.CompressivePCA(1)) if value > 1e100 else _both(2):
        with pytest.raises(ValueError, match=r"row 7 .* lies too far out"):
            estimator.fit(X)
    # a pilot leaves them out, as it leaves out NaN
    phi = sl.design(X, n_components=2)
    assert phi == sl.design(np.delete(X, 7, 0), n_components=2)
    s = sl.sketch(X, phi, on_invalid="skip")
    assert (s.count, s.skipped) == (599, 1)
    assert np.abs(sl.read(X).sample(1000)).max() < 100


def test_rows_beyond_all_numbers_on_the_command_line(tmp_path, monkeypatch, capfd):
    pytest.importorskip("typer")
    from sketchlearn.cli import main

    X = BLOBS.copy()
    X[7, 0] = 1e300
    np.save(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    assert main(["sketch", "x.npy", "-k", "2", "-o", "s"]) == 4
    assert "row 7" in capfd.readouterr()[1]
    assert main(["sketch", "x.npy", "-k", "2", "--skip-invalid", "-o", "s"]) == 0
    assert "Warning" not in capfd.readouterr()[1]


@pytest.mark.parametrize(("scale", "words"), [(1e-310, "differ by"), (1e-40, "differ by"), (1e100, "beyond")])
def test_units_that_no_float32_can_hold(scale, words):
    for estimator in _both(2):
        with pytest.raises(ValueError, match=f"{words} .*scale the data"):
            estimator.fit(BLOBS * scale)
    with pytest.raises(ValueError, match="must lie between"):
        sl.design(bounds=([0.0], [1e300]), n_components=2)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_units_that_float32_can_hold(scale):
    found = sl.CompressiveKMeans(2, random_state=0).fit(BLOBS * scale)
    assert found.reliable_
    assert np.sort(found.cluster_centers_[:, 0] / scale).round() == pytest.approx([0, 8])


def test_comparing_a_few_rows():
    phi = sl.design(BLOBS, n_components=3)
    for n in (2, 3, 5):
        few, others, same = sl.sketch(BLOBS[:n], phi), sl.sketch(BLOBS[n : 2 * n], phi), sl.sketch(np.ones((n, 2)), phi)
        for a, b in ((few, others), (same, same), (few, same), (few, sl.sketch(BLOBS, phi))):
            assert 0 <= sl.compare(a, b).p_value <= 1


def test_large_quadratic_features_have_finite_errors():
    X = BLOBS.copy()
    X[7, 0] = 1e80
    for phi in (sl.QuadraticFeatures.draw(dim=2), sl.QuadraticFeatures.draw(dim=2, size=2, variant="sphere")):
        s = sl.sketch(X, phi)
        assert np.isfinite(s.noise_level)
        assert "noise level" in repr(s)
