"""The shared checks, over all estimators and sources."""

import json
import pickle

import numpy as np
import pytest
from learn_checks import CASES, NAMES, SOURCES, assert_same_model, assert_same_sketch, given, sketches
from sklearn.base import clone

import sketchlearn as sl
from sketchlearn.decoders.registry import DECODERS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
each = pytest.mark.parametrize("name", list(CASES))


@pytest.fixture(scope="module")
def fitted():
    return {name: case.fit(case.make(), "array", case.rows(), None) for name, case in CASES.items()}


@each
@pytest.mark.parametrize("source", SOURCES)
def test_all_sources_give_the_same_sketch_and_model(fitted, name, source, tmp_path):
    case, X = CASES[name], CASES[name].rows()
    found = case.fit(case.make(), source, X, tmp_path)
    assert sum(s.count for s in sketches(found)) == len(X)
    assert_same_sketch(case, found, fitted[name])
    assert_same_model(case, found, fitted[name])
    named = source not in ("array", "generator", "memmap")
    expected = NAMES[:2] if case.supervised else NAMES
    assert list(getattr(found, "feature_names_in_", [])) == (expected if named else [])
    assert found.n_features_in_ == len(expected)


@each
def test_the_order_of_rows_does_not_matter(fitted, name):
    case = CASES[name]
    turned = case.fit(case.make(), "array", case.rows()[::-1].copy(), None)
    if case.exact:
        for a, b in zip(sketches(turned), sketches(fitted[name]), strict=True):
            assert a.to_bytes() == b.to_bytes()
    assert_same_sketch(case, turned, fitted[name])
    assert_same_model(case, turned, fitted[name])


@each
@pytest.mark.parametrize("source", ["array", "frame", "path", "generator"])
def test_batches_are_decoded_when_asked_for(fitted, name, source, tmp_path):
    case, X = CASES[name], CASES[name].rows()
    stream = case.make(features=fitted[name].sketch_.features)

    def add(part, folder):
        if source in ("array", "frame"):
            return stream.partial_fit(*case.split(given(source, part, folder)))
        return stream.partial_fit(given(source, part, folder), -1 if case.supervised else None)

    for i, part in enumerate(np.array_split(X, 3)):
        add(part, tmp_path / str(i))
    assert case.attribute not in vars(stream)
    assert "solution_" not in vars(stream)
    assert_same_sketch(case, stream, fitted[name])
    assert_same_model(case, stream, fitted[name])
    assert case.attribute in vars(stream)
    before = stream.solution_
    add(X, tmp_path / "more")
    assert "solution_" not in vars(stream)
    assert stream.solution_ is not before


@each
def test_sketches_give_the_same_and_their_names(fitted, name):
    case, sketch = CASES[name], fitted[name].sketch_
    again = case.make().fit_sketch(sketch)
    np.testing.assert_array_equal(getattr(again, case.attribute), getattr(fitted[name], case.attribute))
    assert not hasattr(again, "feature_names_in_")
    named = case.sketch(case.rows(), sketch.features.with_columns(case.columns))
    again.fit_sketch(named)
    assert list(again.feature_names_in_) == (NAMES[:2] if case.supervised else NAMES)
    again.fit_sketch(sketch)
    assert not hasattr(again, "feature_names_in_")
    with pytest.raises(TypeError, match="Sketch"):
        case.make().fit_sketch(case.rows())


@each
def test_other_features_are_refused(fitted, name):
    case, sketch = CASES[name], fitted[name].sketch_
    other = sketch.features.with_columns(["x", "y", "z"][: sketch.features.dim])
    with pytest.raises(sl.IncompatibleSketchError, match="another feature map"):
        case.make(features=other).fit_sketch(sketch)
    with pytest.raises(ValueError, match=f"features are for {sketch.features.dim} columns"):
        case.fit(case.make(features=sketch.features), "array", case.rows()[:, [0, 0, 1, 2]], None)
    assert case.fit(case.make(features=sketch.features), "array", case.rows(), None).sketch_ == sketch


@each
def test_the_verdict_is_there(fitted, name):
    found = fitted[name]
    assert found.reliable_ is found.solution_.reliable
    assert found.verdict_ == found.solution_.verdict
    assert found.solution_.task == found.task
    fresh = CASES[name].make()
    for attribute in ("reliable_", "verdict_", "solution_", CASES[name].attribute):
        with pytest.raises(AttributeError, match="call fit"):
            getattr(fresh, attribute)


@each
def test_pickles_clones_and_inputs(fitted, name):
    case, found, X = CASES[name], fitted[name], CASES[name].rows()
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(getattr(again, case.attribute), getattr(found, case.attribute))
    assert again.to_model() == found.to_model()
    stale = pickle.loads(pickle.dumps(clone(found).partial_fit(*case.split(X))))
    assert getattr(stale, case.attribute).shape == getattr(found, case.attribute).shape
    fresh = clone(found)
    assert not hasattr(fresh, "sketch_")
    assert fresh.get_params() == found.get_params()
    before = X.copy()
    weights = np.full(len(X), 0.25)
    case.fit(fresh, "array", X, None, sample_weight=weights)
    np.testing.assert_array_equal(X, before)
    assert (weights == 0.25).all()


@each
def test_tiny_weights_are_weights(name):
    case, X = CASES[name], CASES[name].rows()
    weights = 1.0 + np.random.default_rng(1).integers(3, size=len(X))
    plain = case.fit(case.make(), "array", X, None, sample_weight=weights)
    tiny = case.fit(case.make(), "array", X, None, sample_weight=weights * 2.0**-20)
    ours, theirs = (np.sort(np.abs(getattr(m, case.attribute)), 0) for m in (tiny, plain))
    if case.attribute == "class_counts_":  # which are sums of weights
        ours, theirs = ours / ours.sum(), theirs / theirs.sum()
    np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=0.05)
    for a, b in zip(sketches(tiny), sketches(plain), strict=True):
        np.testing.assert_allclose(a.mean, b.mean, atol=1e-12)
    halves = case.make(features=plain.sketch_.features)
    for part in (slice(0, 700), slice(700, None)):
        halves.partial_fit(*case.split(X[part]), sample_weight=weights[part] * 2.0**-20)
    for a, b in zip(sketches(halves), sketches(plain), strict=True):
        np.testing.assert_allclose(a.mean, b.mean, atol=1e-12)


@each
def test_workers_and_progress(fitted, name):
    case, seen = CASES[name], []
    found = case.fit(
        case.make(n_jobs=2, progress=lambda done, total: seen.append((done, total))), "array", case.rows(), None
    )
    assert seen[-1] == (1500, 1500)
    assert found.sketch_ == fitted[name].sketch_
    with pytest.raises(ValueError, match="n_jobs"):
        case.fit(case.make(n_jobs=0), "array", case.rows(), None)


@each
def test_models_are_what_was_learned(fitted, name, tmp_path):
    case, found = CASES[name], fitted[name]
    model = sl.Model.of(found)
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    assert type(again) is type(model)
    assert json.loads(model.to_json())["code"] == str(found.solution_.code)
    assert (again.reliable, again.verdict) == (found.reliable_, found.verdict_)
    assert len(again.table()) == again.size
    assert again.table().text().count("\n") == again.size
    assert set(again.summary()) >= {"verdict", "reliable", "decoder", "code"}
    if hasattr(found, "predict"):
        new = case.inputs(case.rows(200, seed=5))
        np.testing.assert_allclose(again.predict(new), found.predict(new), rtol=1e-12)


@each
def test_bad_arguments_are_refused_alike(name, tmp_path):
    case, X = CASES[name], CASES[name].rows(50)
    if case.takes("decoder"):
        with pytest.raises(ValueError, match="decoder='magic'"):
            case.fit(case.make(decoder="magic"), "array", X, None)
    for size in (0, True, 1.5) if case.takes("sketch_size") else ():
        with pytest.raises(ValueError, match="sketch_size"):
            case.fit(case.make(sketch_size=size), "array", X, None)
    for weights, word in [(np.zeros(50), "zero"), (-np.ones(50), "non-negative"), (np.ones(3), "shape")]:
        with pytest.raises(ValueError, match=word):
            case.fit(case.make(), "array", X, None, sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight is for rows in memory"):
        case.make().fit(iter([X]), -1 if case.supervised else None, sample_weight=np.ones(50))
    with pytest.raises(FileNotFoundError):
        case.make().fit(tmp_path / "missing.parquet", "a" if case.supervised else None)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.takes("decoder")])
def test_decoders_of_others_can_be_named(fitted, name):
    case, found = CASES[name], fitted[name]
    decoders = DECODERS[found.task]
    calls = []

    def mine(sketch, k, *, rng, trace, **options):
        calls.append(k)
        return decoders[decoders.default](sketch, k, rng=rng, trace=trace, **options)

    decoders.add("mine", mine)
    try:
        again = case.make(decoder="mine").fit_sketch(found.sketch_)
    finally:
        del decoders._known["mine"]
    assert calls
    np.testing.assert_array_equal(getattr(again, case.attribute), getattr(found, case.attribute))
