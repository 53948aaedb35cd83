"""A decoder returns its model, which tells how it was found."""

import json
from dataclasses import replace

import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.models import ClusterModel, GaussianMixtureModel

TRACE = (
    {"stage": "greedy search", "found": "misfit 3.1", "why": "always first", "seconds": 0.25, "accepted": False},
    {"stage": "own widths", "found": "misfit 1.0", "why": "rejected", "seconds": 1.5, "accepted": True, "tests": 3},
)


@pytest.fixture(scope="module")
def rows():
    return gaussian_clusters(3, 2, 400, n=3000, seed=0)[0]


def test_decoders_return_what_estimators_show(rows):
    km = sl.CompressiveKMeans(3, random_state=0).fit(rows)
    assert type(km.solution_) is ClusterModel
    found = sl.decode(km.sketch_, 3, random_state=0)
    assert type(found) is ClusterModel
    assert (found.rows, found.columns, found.named) == (3000, ("column 0", "column 1"), False)
    np.testing.assert_array_equal(km.solution_.predict(rows), km.predict(rows))
    np.testing.assert_array_equal(km.solution_.transform(rows), km.transform(rows))
    assert km.inertia_ == pytest.approx(km.solution_.inertia * 3000)
    for name, field in ClusterModel.attributes.items():
        assert getattr(km, name) is getattr(km.solution_, field) or name == "inertia_"
    again = sl.Model.from_json(found.to_json())
    np.testing.assert_array_equal(again.predict(rows), found.predict(rows))


def test_densities_are_those_of_scipy(rows):
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 2, 2))
    shapes = {
        "spherical": rng.uniform(1, 2, 3),
        "diag": rng.uniform(1, 2, (3, 2)),
        "full": a @ a.swapaxes(1, 2) + np.eye(2),
        "tied": a[0] @ a[0].T + np.eye(2),
    }
    weights = np.array([0.2, 0.3, 0.5])
    for far in (1.0, 1e7):  # means that are many widths apart lose no digits
        means = far * rng.normal(size=(3, 2))
        for kind, s in shapes.items():
            model = GaussianMixtureModel(weights=weights, means=means, covariances=s, covariance_type=kind)
            full = model.mixture.full_covariances()
            X = means[rng.integers(3, size=50)] + rng.normal(size=(50, 2))
            parts = [w * multivariate_normal(m, c).pdf(X) for w, m, c in zip(weights, means, full, strict=True)]
            np.testing.assert_allclose(model.row_scores(X), np.log(np.sum(parts, 0)), rtol=1e-7, atol=1e-7)
            shares = np.transpose(parts) / np.sum(parts, 0)[:, None]
            np.testing.assert_allclose(model.probabilities(X), shares, atol=1e-7)
            if kind == "full":
                np.testing.assert_allclose(model.precisions @ full, np.eye(2)[None].repeat(3, 0), atol=1e-9)


def test_decisions_are_told_in_order():
    model = ClusterModel(centers=np.zeros((1, 1)), weights=np.ones(1), decoder="mine", verdict="reliable", trace=TRACE)
    assert model.explain().splitlines() == [
        "mine: reliable",
        "1. greedy search (0.25 s). Why: always first. Found: misfit 3.1",
        "2. own widths (1.50 s). Why: rejected. Found: misfit 1.0; accepted; tests 3",
    ]
    rounds = ClusterModel(centers=np.zeros((1, 1)), weights=np.ones(1), trace=[{"residual": 0.123456, "rounds": 2}])
    assert rounds.explain().splitlines()[1] == "1. round; residual 0.1235; rounds 2"
    assert "No decisions were recorded" in ClusterModel(centers=np.zeros((1, 1)), weights=np.ones(1)).explain()


def test_files_keep_decisions_but_no_times():
    model = ClusterModel(rows=1, columns=("x",), centers=np.zeros((1, 1)), weights=np.ones(1), trace=TRACE)
    stored = json.loads(model.to_json())
    assert [record["stage"] for record in stored["trace"]] == ["greedy search", "own widths"]
    assert "seconds" not in str(stored["trace"])
    again = sl.Model.from_json(model.to_json())
    assert again.explain().splitlines()[1] == "1. greedy search. Why: always first. Found: misfit 3.1"
    assert again == model
    stored.pop("checksum")
    for wrong in (3, [3], [{"found": "x"}], [{"stage": "x", "why": 3}]):
        with pytest.raises(sl.ModelFileError, match="trace"):
            sl.Model.from_json(json.dumps(stored | {"trace": wrong}))
    with pytest.raises(sl.ModelFileError, match="'code' is 'fine'"):
        sl.Model.from_json(json.dumps(stored | {"code": "fine"}))


def test_the_report_folds_decisions():
    plain = ClusterModel(rows=1, columns=("x",), centers=np.zeros((1, 1)), weights=np.ones(1))
    page = sl.plots.report(replace(plain, trace=[{"stage": "<b>", "why": "done"}]))
    assert "<details><summary>How the decoder came to this</summary><p>1. &lt;b&gt;. Why: done</p></details>" in page
    assert "<details>" not in sl.plots.report(plain)


def test_tiny_weights_do_not_inflate_rows(rows):
    weights = np.full(len(rows), 2.0**-20)
    km = sl.CompressiveKMeans(3, random_state=0).fit(rows, sample_weight=weights)
    assert km.to_model().rows == pytest.approx(weights.sum())
    assert km.inertia_ == pytest.approx(-km.score(rows, sample_weight=weights), rel=0.1)
