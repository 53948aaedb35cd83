import matplotlib as mpl
import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.profile import residual_profile

mpl.use("Agg")
import matplotlib.pyplot as plt

CENTERS = np.array([[0.0, 0.0, 0.0, 0.0], [20.0, 0.0, 0.0, 0.0], [0.0, 10.0, 0.0, 0.0]])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return CENTERS[rng.choice(3, 20_000, p=[0.5, 0.3, 0.2])] + rng.normal(size=(20_000, 4))


@pytest.fixture(scope="module")
def model(rows):
    phi = sl.design(rows[:1000], n_components=4).with_columns(["a", "b", "c", "d"])
    return sl.CompressiveKMeans(3, random_state=0).fit_sketch(sl.sketch(rows, phi))


@pytest.fixture(scope="module")
def flat(rows):
    return sl.CompressiveKMeans(3, random_state=0).fit(rows[:, :2])


def drawn(ax):
    ax.figure.canvas.draw()
    return ax


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def discs(ax):
    return ax.collections[-1].get_offsets().data


def test_centres_in_two_columns_are_where_they_are(flat):
    ax = drawn(sl.plots.centers(flat))
    np.testing.assert_allclose(discs(ax), flat.cluster_centers_)
    sizes = ax.collections[-1].get_sizes()
    assert (np.argsort(sizes) == np.argsort(flat.weights_)).all()


def test_centres_of_more_columns_keep_their_distances(model):
    # all centres lie in one plane, which the principal plane of the mixture must be
    points = discs(drawn(sl.plots.centers(model)))
    for a in range(3):
        for b in range(a):
            true = np.linalg.norm(model.cluster_centers_[a] - model.cluster_centers_[b])
            assert np.linalg.norm(points[a] - points[b]) == pytest.approx(true, rel=0.02)


def test_centres_by_name_and_of_one_column(model, rows):
    ax = drawn(sl.plots.centers(model, columns=["b", "a"], rows=rows[:100]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b", "a")
    np.testing.assert_allclose(discs(ax), model.cluster_centers_[:, [1, 0]])
    one = sl.CompressiveKMeans(2, random_state=0).fit(rows[:, :1])
    assert drawn(sl.plots.centers(one)).get_ylabel() == "weight"


def test_densities_of_the_decoded_mixture(model, rows):
    assert drawn(sl.plots.density(model, columns="a")).get_xlabel() == "a"
    ax = drawn(sl.plots.density(model, columns=["a"], rows=rows))
    x, y = ax.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.01)
    peak = x[np.argmax(y)]
    assert abs(peak) < 0.1  # 70 % of the rows are at a = 0
    assert drawn(sl.plots.density(model, columns=["a", "b"])).get_ylabel() == "b"
    assert "principal" in drawn(sl.plots.density(model)).get_xlabel()


def test_pictures_of_mixtures_of_every_kind(rows):
    for kind in ("full", "tied", "diag", "spherical"):
        gm = sl.CompressiveGaussianMixture(3, covariance_type=kind, random_state=0).fit(rows)
        np.testing.assert_allclose(discs(drawn(sl.plots.centers(gm, columns=[0, 1]))), gm.means_[:, :2])
        drawn(sl.plots.density(gm))
        drawn(sl.plots.residual(gm))
    stable = sl.CompressiveStableMixture(1, random_state=0).fit(rows[:, :1])
    drawn(sl.plots.centers(stable))
    with pytest.raises(ValueError, match="no closed form"):
        sl.plots.density(stable)


def test_residual_shows_a_missing_cluster(rows):
    phi = sl.design(rows[:1000], n_components=4)
    s = sl.sketch(rows, phi)
    right, wrong = (sl.Model.of(sl.CompressiveKMeans(k, random_state=0).fit_sketch(s)) for k in (3, 2))
    assert np.median(right.profile.misfit / right.profile.floor) < 2
    assert "misfit of the model" in labels(drawn(sl.plots.residual(right)))
    # two round components don't explain three clusters: the centres come from more, and the picture says so
    assert wrong.ratio > 100
    assert f"{wrong.mixture.n_components} components behind the 2 centres" in "".join(
        labels(drawn(sl.plots.residual(wrong)))
    )
    one = residual_profile(s, sl.decode(s, 1, decoder="clompr", random_state=0).mixture)
    assert one.misfit[0] > 100 * one.floor[0]


def test_sweep_and_spectrum(rows):
    s = sl.sketch(rows, sl.design(rows[:1000], n_components=6))
    table = sl.sweep(s, range(1, 6), random_state=0)
    ax = drawn(sl.plots.sweep(table))
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), range(1, 6))
    pca = sl.CompressivePCA(3).fit(rows)
    ax = drawn(sl.plots.spectrum(pca))
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], pca.explained_variance_)


def test_hills_of_the_landscape_are_the_clusters(flat):
    ax = drawn(sl.plots.landscape(flat.sketch_))
    mesh = ax.collections[0]
    value = mesh.get_array().reshape(mesh.get_coordinates().shape[0] - 1, -1)
    x = np.linspace(*ax.get_xlim(), value.shape[1])
    y = np.linspace(*ax.get_ylim(), value.shape[0])
    j, i = np.unravel_index(np.argmax(value), value.shape)
    heaviest = flat.cluster_centers_[np.argmax(flat.weights_)]
    assert np.linalg.norm([x[i], y[j]] - heaviest) < 1.0
    before = np.abs(value).max()
    after = np.abs(drawn(sl.plots.landscape(flat.sketch_, flat)).collections[0].get_array()).max()
    assert after < 0.05 * before  # nothing but noise is left
    first = sl.Mixture(np.array([0.5]), heaviest[None], np.ones(1))
    drawn(sl.plots.landscape(flat.sketch_, first, width=1.0))


def test_the_landscape_equals_the_sum_over_frequencies(flat):
    s = flat.sketch_
    w = s.features.frequencies
    mesh = drawn(sl.plots.landscape(s, width=0.5)).collections[0]
    corners = np.asarray(mesh.get_coordinates())
    places = (corners[1:, 1:] + corners[:-1, :-1]) / 2
    values = np.asarray(mesh.get_array()).reshape(places.shape[:2])
    for i, j in ((30, 7), (0, 0), (100, 150)):
        atom = np.exp(1j * w @ places[i, j] - 0.125 * (w * w).sum(1))
        expected = (s.mean * atom.conj()).sum().real / np.linalg.norm(atom)
        assert values[i, j] == pytest.approx(expected, abs=1e-4 * np.abs(values).max())


def test_the_landscape_of_a_standardised_map(rows):
    unit = np.array([1.0, 1e4])
    phi = sl.design(rows[:1000, :2], n_components=4)
    pictures = []
    for X, f in ((rows[:, :2], phi), (rows[:, :2] * unit, phi.standardized([0, 0], unit))):
        s = sl.sketch(X, f)
        ax = drawn(sl.plots.landscape(s, sl.CompressiveKMeans(3, random_state=0).fit_sketch(s), remove=False))
        pictures.append((ax.collections[0].get_array(), np.array([ax.get_xlim(), ax.get_ylim()])))
    np.testing.assert_allclose(pictures[1][0], pictures[0][0], atol=0.01 * np.abs(pictures[0][0]).max())
    np.testing.assert_allclose(pictures[1][1], pictures[0][1] * unit[:, None], rtol=0.01)


def test_the_landscape_of_more_columns_needs_a_plane(model):
    with pytest.raises(ValueError, match="choose them with columns"):
        sl.plots.landscape(model.sketch_)
    assert drawn(sl.plots.landscape(model.sketch_, columns=["a", "b"])).get_xlabel() == "a"
    drawn(sl.plots.landscape(model.sketch_, model, remove=False))


def test_drift_marks_what_changed(rows):
    phi = sl.design(rows[:1000], n_components=3)
    days = {f"day {i}": sl.sketch(rows[3000 * i : 3000 * (i + 1)] + (i == 4), phi) for i in range(6)}
    ax = drawn(sl.plots.drift(days, alpha=1e-4))
    names = [t.get_text() for t in ax.get_legend().get_texts()]
    assert names == ["what noise gives", "no alarm", "differs"]
    assert len(ax.collections[-1].get_offsets()) == 1
    found = [c for c in sl.plots.changes(days, against="previous") if c.p_value < 1e-4]
    assert [c.label for c in found] == ["day 4", "day 5"]
    assert max(sl.plots.changes(days, against="rest"), key=lambda c: c.distance).label == "day 4"
    table = sl.SketchTable({3: days["day 4"], 1: days["day 0"], 2: days["day 1"]})
    assert [c.label for c in sl.plots.changes(table)] == ["2", "3"]


def test_given_axes_are_drawn_on(model):
    _, axes = plt.subplots(1, 2)
    assert sl.plots.centers(model, ax=axes[0]) is axes[0]
    assert sl.plots.residual(model, ax=axes[1]) is axes[1]
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda m, s: sl.plots.centers("missing.json"), FileNotFoundError, "missing"),
        (lambda m, s: sl.plots.centers(3), TypeError, "CompressivePCA"),
        (lambda m, s: sl.plots.centers(m, columns=["nope"]), ValueError, "no column 'nope'"),
        (lambda m, s: sl.plots.centers(m, columns=["a", "b"], rows=np.zeros((5, 1))), ValueError, "4 columns"),
        (lambda m, s: sl.plots.drift(sl.plots.changes([s, s]), labels=["x"]), ValueError, "labels already"),
        (lambda m, s: sl.plots.spectrum(m), ValueError, "PCA"),
        (lambda m, s: sl.plots.sweep(3), TypeError, "sl.sweep"),
        (lambda m, s: sl.plots.drift([s]), ValueError, "two sketches"),
        (lambda m, s: sl.plots.drift([s, s], labels=["a"]), ValueError, "2 sketches and 1 labels"),
        (lambda m, s: sl.plots.drift([s, s], against="last"), ValueError, "'previous'"),
        (lambda m, s: sl.plots.landscape(s, columns=["a"]), ValueError, "two columns"),
        (lambda m, s: sl.plots.landscape(s, columns=["a", "b"], width=-1), ValueError, "width"),
    ],
)
def test_bad_input(model, call, error, word):
    with pytest.raises(error, match=word):
        call(model, model.sketch_)


def test_models_without_components(rows):
    pca = sl.CompressivePCA(2).fit(rows)
    with pytest.raises(ValueError, match="no components"):
        sl.plots.centers(pca)
    with pytest.raises(ValueError, match="no profile"):
        sl.plots.residual(pca)
    with pytest.raises(TypeError, match="Fourier"):
        sl.plots.landscape(pca.sketch_)


@pytest.mark.slow
def test_a_long_quiet_sequence_raises_few_alarms():
    rng = np.random.default_rng(5)
    phi = sl.design(rng.exponential(size=(1000, 3)), n_components=3, size=100)
    found = sl.plots.changes([sl.sketch(rng.exponential(size=(300, 3)), phi) for _ in range(201)], against="previous")
    p = np.array([change.p_value for change in found])
    # neighbours share a sketch, so every other one is independent: 100 of them, at most 4 standard deviations off
    assert abs((p[::2] < 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 100)
    assert abs((p[1::2] < 0.5).mean() - 0.5) < 4 * np.sqrt(0.25 / 100)
