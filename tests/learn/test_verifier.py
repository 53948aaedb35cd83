import json
import pickle

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.comparison.verification import MeanSpace, log_ratio, shift_variance


@parametrize_with_checks([sl.CompressiveVerifier(n_components=1, sketch_size=20)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn(estimator, check):
    check(estimator)


class World:
    """Speakers and sessions shift the means of three components in two columns."""

    def __init__(self, seed=0, spread=0.5, session=0.2):
        self.rng = np.random.default_rng(seed)
        self.means = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
        self.spread, self.between = session, spread

    def speaker(self):
        return self.means + self.between * self.rng.normal(size=self.means.shape)

    def segment(self, speaker, n):
        moved = speaker + self.spread * self.rng.normal(size=speaker.shape)
        return moved[self.rng.integers(3, size=n)] + self.rng.normal(size=(n, 2))


@pytest.fixture(scope="module")
def verifier():
    world = World()
    parts = {(i, j): world.segment(s, 300) for i, s in enumerate([world.speaker() for _ in range(40)]) for j in (0, 1)}
    rows = np.concatenate(list(parts.values()))
    phi = sl.design(rows[::10], n_components=3, task="gmm", covariance_type="diag", size=150, seed=0)
    table = sl.SketchTable({f"{i}/{j}": sl.sketch(x, phi) for (i, j), x in parts.items()})
    found = sl.CompressiveVerifier(3, random_state=0).fit_sketch(table, {g: g.split("/")[0] for g in table})
    claimed = [world.speaker() for _ in range(15)]
    for i, s in enumerate(claimed):
        found.enroll(f"s{i}", world.segment(s, 300))
    tests = [(i, world.segment(claimed[i], 60)) for i in range(15) for _ in range(4)]
    return found, [(f"s{j}", x, i == j) for i, x in tests for j in range(15)]


def test_variances_of_speakers_and_sessions(verifier):
    found, _ = verifier
    assert found.reliable_
    # 40 speakers times 6 means: standard errors of a tenth, and of 0.01 for sessions
    assert found.between_ == pytest.approx(0.25, abs=0.1)
    assert found.session_ == pytest.approx(0.04, abs=0.025)


def test_errors_are_few_and_scores_calibrated(verifier):
    found, trials = verifier
    errors = found.evaluate(trials)
    assert errors.equal_error_rate < 0.15
    assert errors.cllr < 0.5
    misses, alarms = errors.at(0.0)
    assert abs(misses - alarms) < 0.15
    assert "equal error rate" in repr(errors)


def test_a_sketch_is_as_good_as_rows(verifier):
    found, trials = verifier
    name, rows, _ = trials[0]
    assert found.log_ratio(name, sl.sketch(rows, found.sketch_.features)) == found.log_ratio(name, rows)
    assert found.verify(name, rows) == (found.log_ratio(name, rows) > 0)
    assert not found.verify(name, rows, prior=1e-300)
    with pytest.raises(sl.IncompatibleSketchError):
        found.log_ratio(name, sl.sketch(rows, sl.FourierFeatures.draw(dim=2, size=150, seed=5)))


def test_adapted_means_are_those_of_many_rows(verifier):
    found, _ = verifier
    world = World(7, session=0.0)
    speaker = world.speaker()
    rows = world.segment(speaker, 20_000)
    model = found.enroll("long", rows).adapted("long")
    found.withdraw("long")
    order = np.linalg.norm(model.means[:, None] - speaker, axis=2).argmin(1)
    # (shifts beyond half a standard deviation are no longer linear)
    np.testing.assert_allclose(model.means, speaker[order], atol=0.25)
    same = found.space_.adapted(np.zeros(6), 100.0, found.between_)
    np.testing.assert_array_equal(same.means, found.mixture_.means)
    with pytest.raises(ValueError, match="not enrolled"):
        found.adapted("long")


def test_sessions_add_up(verifier):
    found, trials = verifier
    _, rows, _ = trials[0]
    found.enroll("twice", rows[:30]).enroll("twice", rows[30:])
    assert found.speakers_["twice"] == sl.sketch(rows, found.sketch_.features)
    assert found.log_ratio("twice", rows) > 0
    found.withdraw("twice")


# -- the pieces -----------------------------------------------------------------------------------


def test_the_space_is_that_of_finite_differences_and_draws():
    rng = np.random.default_rng(0)
    mixture = sl.Mixture(np.array([0.4, 0.6]), rng.normal(size=(2, 2)) * 2, rng.uniform(0.5, 1.5, (2, 2)))
    phi = sl.FourierFeatures.draw(dim=2, size=80, scale=1.0, seed=0)
    w = np.asarray(phi.frequencies, float)

    def sketch(means):
        return np.exp(1j * w @ means.T - 0.5 * w**2 @ mixture.covariances.T) @ mixture.weights

    space = MeanSpace.of(phi, mixture, sketch(mixture.means))
    step = 1e-5 * rng.normal(size=(2, 2))
    moved = sketch(mixture.means + step) - space.reference
    found = np.concatenate([moved.real, moved.imag]) @ space.projection
    np.testing.assert_allclose(found, space.information @ step.ravel(), rtol=1e-3, atol=1e-9)
    # statistics of rows of the mixture have the information for their covariance
    rows = mixture.sample(40_000, 0)[0]
    z = phi(rows)[:, :80] - space.reference
    scores = np.concatenate([z.real, z.imag], 1) @ space.projection
    unit = np.sqrt(np.diag(space.information))
    relative = (np.cov(scores.T) - space.information) / np.outer(unit, unit)
    assert np.abs(relative).max() < 0.1
    turn, signal = space.axes()
    np.testing.assert_allclose(np.cov((scores @ turn.T).T), np.eye(len(signal)), atol=0.1)


def test_ratio_is_that_of_normal_densities():
    rng = np.random.default_rng(0)
    signal, v, s = np.array([2.0, 0.5]), 0.3, (0.1, 0.05)
    a, b = rng.normal(size=2), rng.normal(size=2)
    expected = 0.0
    for i in range(2):
        cov = np.array([[v + s[0], v], [v, v + s[1]]]) * signal[i] + np.diag([1 / 20, 1 / 50])
        x = np.array([a[i], b[i]])
        joint = -0.5 * (x @ np.linalg.solve(cov, x) + np.log(np.linalg.det(cov)))
        expected += joint + 0.5 * sum(x[j] ** 2 / cov[j, j] + np.log(cov[j, j]) for j in range(2))
    assert log_ratio(a, b, (20, 50), signal, v, s) == pytest.approx(expected, rel=1e-12)
    assert log_ratio(a, b, (20, 50), signal, v, (s[0], s[0])) == pytest.approx(
        log_ratio(b, a, (50, 20), signal, v, (s[0], s[0])), rel=1e-12
    )


def test_variances_from_moments():
    rng = np.random.default_rng(0)
    signal = rng.uniform(1, 5, 30)
    speakers = [i for i in range(100) for _ in range(2)]
    base = np.sqrt(0.4 * signal) * rng.normal(size=(100, 30))
    values = np.repeat(base, 2, 0) + np.sqrt(0.1 * signal + 0.01) * rng.normal(size=(200, 30))
    between, session = shift_variance(values, np.full(200, 100.0), speakers, signal)
    assert between == pytest.approx(0.4, rel=0.15)
    assert session == pytest.approx(0.1, rel=0.15)
    assert shift_variance(values, np.full(200, 100.0), list(range(200)), signal)[1] == 0.0


def test_equal_error_rate_by_hand():
    assert sl.detection_errors([1, 2, 3], [-1, 0]).equal_error_rate == 0.0
    assert sl.detection_errors([0, 0], [0, 0]).equal_error_rate == 0.5
    assert sl.detection_errors([-1], [1]).equal_error_rate == 1.0
    rng = np.random.default_rng(0)
    errors = sl.detection_errors(rng.normal(2, 1, 50_000), rng.normal(0, 1, 50_000))
    assert errors.equal_error_rate == pytest.approx(0.1587, abs=0.006)  # of normal scores two deviations apart
    ratio = 2 * rng.normal(2, 1, 50_000) - 2, 2 * rng.normal(0, 1, 50_000) - 2  # their true log-ratios
    assert sl.detection_errors(*ratio).cllr < sl.detection_errors(*(3 * r for r in ratio)).cllr
    assert errors.at(1.0)[0] == pytest.approx(0.1587, abs=0.006)
    with pytest.raises(ValueError, match="at least one"):
        sl.detection_errors([], [1.0])


def test_the_curve_is_drawn(verifier):
    found, trials = verifier
    errors = found.evaluate(trials[:60])
    ax = sl.plots.detection({"ours": errors, "none": sl.detection_errors([0.0, 1.0], [0.0, 1.0])})
    assert "equal error rate" in ax.get_legend().get_texts()[0].get_text()


# -- files and words ------------------------------------------------------------------------------


def test_the_model_file(verifier, tmp_path):
    found, trials = verifier
    model = sl.Model.of(found)
    model.save(tmp_path / "m.json")
    again = sl.Model.load(tmp_path / "m.json")
    assert again == model
    name, rows, _ = trials[0]
    ratios = again.log_ratios(sl.sketch(rows, again.features))
    assert ratios[name] == pytest.approx(found.log_ratio(name, rows), rel=1e-6)
    assert len(ratios) == 15
    assert "enrolled" in sl.plots.report(again)
    assert pickle.loads(pickle.dumps(found)).log_ratio(name, rows) == found.log_ratio(name, rows)
    facts = json.loads(model.to_json())
    for change, word in [
        ({"between": -1.0}, "shifts"),
        ({"recipe": {}}, "recipe"),
        ({"speaker_rows": [1.0]}, "speaker_rows"),
    ]:
        with pytest.raises(sl.ModelFileError, match=word):
            sl.Model.from_json(json.dumps(facts | change))


def test_rows_with_speakers_and_streams():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(30), 100)
    X = rng.normal(size=(30, 2))[who] + rng.normal(size=(3000, 2))
    one = sl.CompressiveVerifier(1, sketch_size=60, random_state=0).fit(X, who)
    parts = sl.CompressiveVerifier(1, features=one.sketch_.features, random_state=0)
    parts.partial_fit(X[:1000], who[:1000]).partial_fit(X[1000:], who[1000:])
    assert parts.sketch_ == one.sketch_
    assert parts.between_ == one.between_
    alone = sl.CompressiveVerifier(1, relevance=10.0, features=one.sketch_.features, random_state=0).fit(X)
    assert alone.between_ == 0.1
    with pytest.raises(ValueError, match="group_by"):
        one.fit("rows.parquet")
    with pytest.raises(ValueError, match="who"):
        one.fit_sketch(one.sketch_, {0: "a"})
    with pytest.raises(TypeError, match="table"):
        one.fit_sketch([1])
    with pytest.raises(ValueError, match="relevance"):
        sl.CompressiveVerifier(relevance=0).fit(X)
