import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.decoders.subspaces.decode import principal_angles, subspaces_problem
from sketchlearn.decoders.subspaces.errors import tangent
from sketchlearn.decoders.subspaces.flats import Flats, misfit
from sketchlearn.decoders.subspaces.rows import k_subspaces
from sketchlearn.designs.subspaces import design_subspaces


@parametrize_with_checks([sl.CompressiveSubspaces(sketch_size=60)])  # fewer features: the rows of the checks are few
def test_scikit_learn(estimator, check):
    check(estimator)


def union(n=8000, d=5, k=3, dim=2, noise=0.05, seed=0, hard=False):
    """Rows near random subspaces; hard: uniform and stretched coordinates, unequal shares."""
    rng = np.random.default_rng(seed)
    bases = np.linalg.qr(rng.normal(size=(k, d, dim)))[0]
    share = np.linspace(3, 1, k) if hard else np.ones(k)
    owner = rng.choice(k, n, p=share / share.sum())
    inside = rng.uniform(-1.7, 1.7, (n, dim)) * np.linspace(1.5, 0.5, dim) if hard else rng.normal(size=(n, dim))
    return np.einsum("ndr,nr->nd", bases[owner], inside) + noise * rng.normal(size=(n, d)), owner, bases


def largest_angles(found, true):
    angles = np.array([[principal_angles(a, b)[0] for b in true] for a in found])
    return angles[linear_sum_assignment(angles)]


@pytest.fixture(scope="module")
def fitted():
    X, owner, bases = union()
    return X, owner, bases, sl.CompressiveSubspaces(3, 2, random_state=0).fit(X)


# -- the pieces -----------------------------------------------------------------------------------


def some_flats(g=2, c=2, d=4, r=2, offsets=False, seed=0):
    rng = np.random.default_rng(seed)
    return Flats(
        rng.normal(size=(g, c)), rng.normal(size=(g, d, r)) / 2, rng.normal(size=(g, c, r)),
        np.eye(r) + 0.1 * rng.normal(size=(g, c, r, r)), np.array([-3.0]), rng.normal(size=(g, d)) if offsets else None,
    )  # fmt: skip


@pytest.mark.parametrize("offsets", [False, True])
def test_gradient_is_that_of_finite_differences(offsets):
    X, _, _ = union(500, d=4)
    problem = subspaces_problem(sl.sketch(X, design_subspaces(X, 3, size=60)), 2)
    flats = some_flats(offsets=offsets)

    def objective(v):
        return misfit(problem, flats.from_vector(v))

    x = flats.vector()
    _, gradient = objective(x)
    rng = np.random.default_rng(1)
    for _ in range(5):
        step = rng.normal(size=len(x))
        slope = (objective(x + 1e-3 * step)[0] - objective(x - 1e-3 * step)[0]) / 2e-3
        assert gradient @ step == pytest.approx(slope, rel=5e-3, abs=1e-3 * np.linalg.norm(gradient))


def test_characteristic_function_and_tangent_are_those_of_draws():
    flats = some_flats().orthonormal()
    X = flats.draw(200_000, np.random.default_rng(0))[0]
    phi = sl.FourierFeatures.draw(dim=4, size=30, scale=1.5, seed=0)
    w = phi.operator(dtype=np.float64).frequencies()
    columns, model = tangent(w, flats)
    np.testing.assert_allclose(sl.sketch(X, phi).mean, model, atol=5 / np.sqrt(200_000))
    # turning the first subspace by a small angle in its first direction across moves the sketch along a column
    across = np.linalg.svd(flats.bases[0])[0][:, 2]
    bases = flats.bases.copy()
    bases[0, :, 1] += 1e-4 * across
    turned = tangent(w, replace(flats, bases=bases))[1]
    np.testing.assert_allclose((turned - model) / 1e-4, columns[:, 1], atol=1e-3)


def test_k_subspaces_on_rows():
    X, owner, bases = union(2000, noise=0.01)
    found, labels, left = k_subspaces(X, 3, 2, np.random.default_rng(0))
    assert largest_angles(found, bases).max() < 0.5
    assert left == pytest.approx(3 * 0.01**2, rel=0.3)
    assert len(set(zip(labels.tolist(), owner.tolist(), strict=True))) < 9


# -- the estimator --------------------------------------------------------------------------------


def test_finds_subspaces_and_knows_its_errors(fitted):
    X, owner, bases, found = fitted
    assert found.reliable_, found.verdict_
    angles = largest_angles(found.bases_, bases)
    assert angles.max() < 3 * found.angles_std_.max() < 3.0
    np.testing.assert_allclose(found.weights_.sum(), 1.0)
    np.testing.assert_allclose(found.weights_, 1 / 3, atol=0.05)
    np.testing.assert_allclose(found.variances_, 1.0, atol=0.2)
    labels = found.predict(X)
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (labels, owner), 1)
    assert pairs[linear_sum_assignment(-pairs)].sum() / len(X) > 0.95
    assert found.transform(X).shape == (len(X), 2)
    assert -found.score(X) < 5 * 0.05**2


def test_any_law_inside_and_unequal_shares():
    X, _, bases = union(8000, d=6, k=2, hard=True, seed=3)
    found = sl.CompressiveSubspaces(2, 2, random_state=0).fit(X)
    assert largest_angles(found.bases_, bases).mean() < 2.0
    assert found.weights_[0] == pytest.approx(0.75, abs=0.05)


def test_one_subspace_is_pca_without_a_mean():
    X, _, _ = union(4000, d=6, k=1)
    found = sl.CompressiveSubspaces(1, 2, random_state=0).fit(X)
    axes = np.linalg.eigh(X.T @ X)[1][:, -2:]
    assert principal_angles(found.bases_[0], axes)[0] < 1.0


def test_doubt_is_said():
    rng = np.random.default_rng(0)
    near = np.linalg.qr(np.stack([np.eye(4)[:, :2], np.eye(4)[:, :2] + 0.05 * np.eye(4)[:, 2:]]))[0]  # 3 degrees apart
    X = np.einsum("ndr,nr->nd", near[rng.integers(2, size=2000)], rng.normal(size=(2000, 2)))
    close = sl.CompressiveSubspaces(2, 2, random_state=0).fit(X + 0.1 * rng.normal(size=X.shape))
    assert not close.reliable_
    few = sl.CompressiveSubspaces(2, 1, random_state=0).fit(union(4000, d=4, k=4, dim=1)[0])  # two too few
    assert not few.reliable_
    assert "Not certified" in few.verdict_


def test_sketches_merge_subtract_and_stream(fitted):
    X, _, _, found = fitted
    phi = found.sketch_.features
    parts = sl.sketch(X[:3000], phi) + sl.sketch(X[3000:], phi)
    again = sl.CompressiveSubspaces(3, 2, random_state=0).fit_sketch(parts)
    np.testing.assert_array_equal(again.bases_, found.bases_)
    streamed = sl.CompressiveSubspaces(3, 2, features=phi, random_state=0)
    streamed.partial_fit(X[:5000]).partial_fit(X[5000:])
    np.testing.assert_array_equal(streamed.bases_, found.bases_)
    assert (parts - sl.sketch(X[:3000], phi)).count == 5000


def test_the_model_file(fitted, tmp_path):
    X, _, _, found = fitted
    model = sl.Model.of(found)
    model.save(tmp_path / "m.json")
    again = sl.Model.load(tmp_path / "m.json")
    assert again == model
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(X), found.predict(X))
    assert len(again.table()) == 6
    assert "subspace" in sl.plots.report(again)
    assert again.parts().covariance == pytest.approx(X.T @ X / len(X), abs=0.1)
    facts = json.loads(model.to_json())
    facts.pop("seal", None)
    bent = [[[2.0 * v for v in row] for row in basis] for basis in facts["bases"]]
    for change, word in [({"bases": bent}, "orthonormal"), ({"noise_variance": -1.0}, "negative")]:
        with pytest.raises(sl.ModelFileError, match=word):
            sl.Model.from_json(json.dumps(facts | change))


def test_bad_numbers():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for bad in ({"dim": 0}, {"dim": True}, {"n_subspaces": 1.5}, {"dim": 3}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sl.CompressiveSubspaces(**bad).fit(X)
    with pytest.raises(TypeError, match="Fourier"):
        sl.CompressiveSubspaces().fit_sketch(sl.sketch(X, sl.QuadraticFeatures.draw(dim=2)))
