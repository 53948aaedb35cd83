"""What is published beside the noisy sums: attacks that told neighbours apart without looking at a single sum."""

from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.privacy import (
    InsecureNoiseWarning,
    WeakGuaranteeWarning,
    combine,
    insecure_noise,
    private_design,
    privatize,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def phi():
    return sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(1000, 2))


# -- a number of rows that depends on what is in them ---------------------------------------------


def _file(rows, path):
    pq.write_table(pa.table({"x": rows[:, 0], "y": rows[:, 1], "g": np.where(rows[:, 0] > 0, "a", "b")}), path)
    return path


@pytest.mark.filterwarnings("ignore:release number:sketchlearn.privacy.RepeatedReleaseWarning")
@pytest.mark.parametrize(
    ("options", "pick"),
    [
        ({"where": "x > 0"}, lambda s: s),
        ({"group_by": "g"}, lambda table: table["a"]),
        ({"weight_column": "w"}, lambda s: s),
        ({"on_invalid": "skip"}, lambda s: s),
    ],
)
def test_a_number_of_chosen_rows_is_not_public(rows, tmp_path, options, pick):
    """485 against 484 on neighbouring files: the exact number would tell them apart."""
    path = tmp_path / "x.parquet"
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1], "g": np.where(rows[:, 0] > 0, "a", "b"), "w": rows[:, 0] > 0})
    table = table.set_column(3, "w", table["w"].cast(pa.int64()))
    pq.write_table(table, path)
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0).with_columns(["x", "y"])
    s = pick(sl.sketch(path, phi, **options))
    for chosen in (s, sl.Sketch.from_bytes(s.to_bytes()), s + s, sl.Accumulator.of(s).sketch()):
        with pytest.raises(ValueError, match="depends on what is in them"):
            privatize(chosen, 1.0, relation="replace-one", records_per_user=2, public_map=True)
    noised = privatize(s, 1.0, public_map=True)
    assert noised.count != s.count or noised.privacy.weight_variance > 0
    declared = privatize(s, 1.0, relation="replace-one", rows=500, public_map=True)
    assert declared.count == 500
    assert declared.privacy.details["rows"] == "declared public by the releaser"
    assert "number of rows is public knowledge" in " ".join(declared.privacy.explain().split())


def test_all_rows_may_be_counted(rows, phi):
    assert privatize(sl.sketch(rows, phi), 1.0, relation="replace-one", public_map=True).count == 1000
    with pytest.raises(ValueError, match="for relation='replace-one'"):
        privatize(sl.sketch(rows, phi), 1.0, rows=1000, public_map=True)
    with pytest.raises(ValueError, match="rows must be"):
        privatize(sl.sketch(rows, phi), 1.0, relation="replace-one", rows=0, public_map=True)


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_the_mark_does_not_depend_on_the_engine(rows, tmp_path, engine):
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0).with_columns(["x", "y"])
    paths = [_file(rows[i::2], tmp_path / f"{i}.parquet") for i in range(2)]
    assert sl.sketch(str(paths[0].parent / "*.parquet"), phi, where="x > 0", engine=engine).origin.by_content
    assert not sl.sketch(str(paths[0].parent / "*.parquet"), phi, engine=engine).origin.by_content


def test_what_is_left_after_chosen_rows_were_taken_out_is_chosen(rows, phi):
    everything = sl.sketch(rows, phi)
    some = sl.sketch(rows, phi, group_by=np.where(rows[:, 0] > 0, "a", "b"))["a"]
    assert (everything - some).origin.by_content


def test_a_release_says_nothing_of_weights(rows, phi):
    """The largest weight of a row is kept in the exact sketch, to refuse with, and in no release."""
    weights = np.ones(1000, int)
    weights[7] = 3
    exact = sl.sketch(rows, phi, sample_weight=weights)
    assert exact.origin.largest == 3 * 2**16
    public = privatize(exact, 1.0, records_per_user=3, public_map=True)
    for s in (public, sl.Sketch.from_bytes(public.to_bytes()), combine([public, public], "same")):
        assert s.origin == sl.Sketch.empty(phi).origin
        assert s.effective_count == s.count
    assert b"largest" not in public.to_bytes()


@pytest.mark.parametrize("groups", [4, 8, 20])
def test_features_of_repeated_rows_don_t_claim_to_be_exact(groups):
    """Two different rows, 10 000 times: groups of one row, or none, know nothing of the average."""
    phi = sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, seed=0, features_per_row=40 // groups)
    rows = np.tile([[0.3, 0.2], [1.0, 1.0]], (10_000, 1))
    s = sl.sketch(rows, phi)
    plain = sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, seed=0)
    off = np.abs(s.mean - sl.sketch(rows, plain).mean) ** 2
    assert off.mean() > 0.05  # what it is wrong by
    assert s.variances.mean() > 0.3 * off.mean()
    different = np.random.default_rng(0).normal(size=(20_000, 2))
    honest = sl.sketch(different, phi)
    off = np.abs(honest.mean - sl.sketch(different, plain).mean) ** 2
    assert honest.variances.mean() < 4.0 * off.mean()


# -- known noise ----------------------------------------------------------------------------------


def test_known_noise_of_a_sum_is_not_published(rows, phi):
    """0.01 (n / (n + m))**2 tells the exact numbers of rows."""
    total = sl.sketch(rows[:300], phi).with_noise(0.01) + sl.sketch(rows[300:], phi)
    with pytest.raises(ValueError, match="depends on exact numbers of rows"):
        privatize(total, 1.0, public_map=True)
    assert privatize(total, 1.0, public_map=True, noise=0.001).noise == 0.001


# -- promises over exact data ---------------------------------------------------------------------


def test_a_verifier_with_exact_speakers_promises_nothing(rows, phi):
    background = privatize(sl.sketch(np.tile(rows, (20, 1)), phi), 5.0, 1e-6, public_map=True)
    verifier = sl.CompressiveVerifier(1, random_state=0).fit_sketch(background)
    assert sl.Model.of(verifier).privacy.epsilon == 5.0
    verifier.enroll("ann", rows)
    model = sl.Model.of(verifier)
    assert model.privacy is None
    assert "promise" not in sl.plots.report(model)


def test_a_verifier_with_private_speakers_promises_all_of_it(rows, phi):
    background = privatize(sl.sketch(np.tile(rows, (20, 1)), phi), 5.0, 1e-6, public_map=True)
    verifier = sl.CompressiveVerifier(1, random_state=0).fit_sketch(background)
    verifier.enroll("ann", privatize(sl.sketch(np.tile(rows, (5, 1)), phi), 2.0, 1e-6, public_map=True))
    assert sl.Model.of(verifier).privacy.epsilon == 7.0


@pytest.mark.filterwarnings("ignore:release number:sketchlearn.privacy.RepeatedReleaseWarning")
def test_a_report_of_a_private_model_takes_no_exact_sweep(tmp_path, seeded):
    from sketchlearn.cli import main

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2)) + np.repeat([[0, 0], [9, 9]], 10_000, axis=0)
    phi = sl.design(bounds=([-5, -5], [15, 15]), n_components=2, size=60, seed=0)
    exact = sl.sketch(X, phi)
    private = privatize(exact, 5.0, 1e-6, public_map=True)
    model = sl.Model.of(sl.CompressiveKMeans(2, random_state=0).fit_sketch(private))
    with pytest.raises(ValueError, match="would not cover the sweep"):
        sl.plots.report(model, sweep=sl.sweep(exact, [1, 2], random_state=0))
    assert "epsilon = 5" in sl.plots.report(model, sweep=sl.sweep(private, [1, 2], random_state=0))
    # the command line, with a public number of rows, where the two could not be told apart by their counts
    counted = privatize(exact, 5.0, relation="replace-one", public_map=True)
    sl.Model.of(sl.CompressiveKMeans(2, random_state=0).fit_sketch(counted)).save(tmp_path / "m.json")
    exact.save(tmp_path / "exact.sketch")
    page = tmp_path / "page.html"
    code = main(["report", str(tmp_path / "m.json"), "--sketch", str(tmp_path / "exact.sketch"), "-o", str(page)])
    assert code == 5
    assert not page.exists()


# -- weights --------------------------------------------------------------------------------------


def test_a_heavy_row_is_not_one_record(rows, phi):
    """A row of weight 5 moved the sums five times as far as was claimed."""
    weights = np.ones(1000)
    weights[7] = 5
    s = sl.sketch(rows, phi, sample_weight=weights)
    for heavy in (s, sl.Sketch.from_bytes(s.to_bytes()), s + sl.sketch(rows, phi), sl.Accumulator.of(s).sketch()):
        with pytest.raises(ValueError, match="a row of weight 5"):
            privatize(heavy, 1.0, records_per_user=4, public_map=True)
    with pytest.raises(ValueError, match="a row of weight 5"):
        privatize(s, 1.0, public_map=True)
    assert privatize(s, 1.0, records_per_user=5, public_map=True).privacy.records_per_user == 5


def test_fractions_whose_sums_are_whole_are_still_fractions(phi):
    """Weights of 1/2, twice the same row each: integer sums, and squares like those of whole weights."""
    rows = np.repeat(np.random.default_rng(1).normal(size=(4, 2)), 4, axis=0)
    weights = np.tile([0.5, 0.5, 1.5, 1.5], 4)  # 1/4 + 1/4 + 9/4 + 9/4 = 5 > 4: made equal by light rows
    light = sl.sketch(np.tile(rows[:1], (64, 1)), phi, sample_weight=np.full(64, 0.25))
    total = sl.sketch(rows, phi, sample_weight=weights) + light
    assert total.weight_bits == 0
    assert total.origin.fractional
    whole = replace(total, squared_weights=-1)  # as if the squares had come out even
    with pytest.raises(ValueError, match="fractional weights"):
        privatize(whole, 1.0, records_per_user=9, public_map=True)


# -- combining ------------------------------------------------------------------------------------


def test_private_parts_together_have_their_rows(rows, phi):
    """Four parts of 1000 rows: an effective count of 4000, not of sixteen times as many."""
    parts = [privatize(sl.sketch(rows, phi), 1.0, 1e-6, relation="replace-one", public_map=True) for _ in range(1)]
    parts += [
        privatize(sl.sketch(rows + i, phi), 1.0, 1e-6, relation="replace-one", public_map=True) for i in range(1, 4)
    ]
    total = combine(parts, users="disjoint")
    assert total.count == 4000
    assert total.effective_count == 4000.0
    assert total.privacy.details["replacement"] == "stays in the same part"
    assert "is in the same part" in " ".join(total.privacy.explain().split())
    assert combine(parts, users="same").privacy.epsilon > 1.5


# -- noise from a seed ----------------------------------------------------------------------------


def test_a_seeded_pilot_marks_what_follows(rows):
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        phi, pilot = private_design(rows, bounds=([-9, -9], [9, 9]), epsilon=1.0, n_components=2, size=50)
    released = privatize(sl.sketch(rows, phi), 1.0, pilot=pilot)
    assert "NOT PRIVATE" in released.privacy.details["noise"]
    assert released.privacy.explain().startswith("WARNING")


def test_adding_records_keeps_the_mark(rows, phi):
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        seeded = privatize(sl.sketch(rows, phi), 1.0, public_map=True)
    honest = privatize(sl.sketch(rows + 1, phi), 1.0, public_map=True)
    for total in (
        combine([honest, seeded], "disjoint").privacy,
        type(honest.privacy).added([honest.privacy, seeded.privacy]),
    ):
        assert total.explain().startswith("WARNING")


# -- guarantees that protect little ---------------------------------------------------------------


def test_weak_guarantees_warn(rows, phi):
    s = sl.sketch(rows, phi)
    with pytest.warns(WeakGuaranteeWarning, match="above 1 /"):
        privatize(s, 1.0, 0.05, public_map=True)
    with pytest.warns(WeakGuaranteeWarning, match="epsilon=25"):
        privatize(sl.sketch(rows + 1, phi), 25.0, public_map=True)


# -- the same through other doors -----------------------------------------------------------------


def test_nothing_left_of_chosen_rows_is_chosen(rows, phi):
    """All rows passed a condition, or all but one: none are left, or one."""
    everything = sl.sketch(rows, phi)
    left = everything - sl.sketch(rows, phi, on_invalid="skip")
    for s in (left, left + sl.sketch(rows[:10], phi), everything - everything):
        with pytest.raises(ValueError, match="depends on what is in them"):
            privatize(s, 1.0, relation="replace-one", public_map=True)


def test_a_worker_that_skips_marks_the_whole(rows, phi):
    here, there = sl.Accumulator(phi), sl.Accumulator(phi, on_invalid="skip")
    there.update(rows)
    here.merge(there)
    for s in (here.sketch(), sl.Accumulator.from_bytes(here.to_bytes()).sketch()):
        with pytest.raises(ValueError, match="depends on what is in them"):
            privatize(s, 1.0, relation="replace-one", public_map=True)


# -- where the map comes from ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:release number:sketchlearn.privacy.RepeatedReleaseWarning")
def test_only_where_nobody_knows_somebody_has_to_say_that_the_map_is_public(rows):
    given = sl.design(bounds=([-4, -4], [4, 4]), n_components=2, size=20)
    assert (
        privatize(sl.sketch(rows, given), 1.0).privacy.details["map"] == "chosen from bounds that were given as public"
    )
    other = sl.design(rows + 1, n_components=2, size=20).chosen_from("other data: a census")
    assert privatize(sl.sketch(rows, other), 1.0).privacy.details["map"] == "chosen from other data: a census"
    drawn = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
    for phi, known in (
        (sl.design(rows, n_components=2, size=20), "from a sample"),
        (drawn, "nothing says how it was chosen"),
        (given.standardized(rows.mean(0), rows.std(0)), "nothing says how it was chosen"),
        (given.with_encoder(sl.Encoder.fit(_frame(rows))), "nothing says how it was chosen"),
        (given.replace(center=rows.mean(0)), "nothing says how it was chosen"),
        (sl.FeatureMap.from_recipe(given.recipe()), "nothing says how it was chosen"),
    ):
        s = sl.sketch(_frame(rows) if phi.encoder else rows, phi)
        with pytest.raises(ValueError, match=known):
            privatize(s, 1.0)
        assert privatize(s, 1.0, public_map=True).privacy.details["map"] == "declared public by the releaser"


def test_a_map_from_an_earlier_model_is_as_public_as_the_model(rows):
    model = sl.Mixture(np.ones(1), rows.mean(0)[None], np.cov(rows.T)[None])
    s = sl.sketch(rows, sl.design(previous=model, task="gmm", n_components=1, size=30))
    with pytest.raises(ValueError, match="it was chosen from an earlier model"):
        privatize(s, 1.0)
    assert privatize(s, 1.0, public_map=True).privacy.details["map"] == "declared public by the releaser"


def _frame(rows):
    return pa.table({"x": rows[:, 0], "y": rows[:, 1]})


def test_a_map_from_these_very_rows_is_never_public(rows, tmp_path):
    """--public-map was taken as it was given, for a centre that a single row had moved."""
    from sketchlearn.cli import main

    path, out = _file(rows, tmp_path / "x.parquet"), tmp_path / "x.sketch"
    columns = ["--columns", "x,y"]
    assert main(["sketch", str(path), *columns, "-k", "2", "-o", str(out)]) == 0
    for s in (sl.load(out), sl.load(out) + sl.load(out), sl.load(out) - sl.sketch(rows[:5], sl.load(out).features)):
        with pytest.raises(ValueError, match="these very rows"):
            privatize(s, 1.0, public_map=True)
    command = ["privatize", str(out), "-o", str(tmp_path / "p.sketch"), "--epsilon", "1", "--public-map"]
    assert main(command) != 0
    assert not (tmp_path / "p.sketch").exists()


@pytest.mark.filterwarnings("ignore:release number:sketchlearn.privacy.RepeatedReleaseWarning")
def test_a_map_file_says_where_the_map_comes_from(rows, tmp_path):
    from sketchlearn.cli import main
    from sketchlearn.cli.inputs import read_features

    path, phi = _file(rows, tmp_path / "x.parquet"), tmp_path / "map.json"
    assert main(["design", "--lower=-4,-4", "--upper=4,4", "--columns", "x,y", "-k", "2", "-o", str(phi)]) == 0
    assert read_features(str(phi)).provenance == "public bounds"
    exact, out = tmp_path / "x.sketch", tmp_path / "p.sketch"
    assert main(["sketch", str(path), "-f", str(phi), "-o", str(exact)]) == 0
    assert main(["privatize", str(exact), "-o", str(out), "--epsilon", "1"]) == 0
    assert sl.load(out).privacy.details["map"] == "chosen from bounds that were given as public"
    untold = replace(sl.load(exact), features=sl.load(exact).features.with_words({}))  # of an earlier version
    untold.save(exact)
    out.unlink()
    command = ["privatize", str(exact), "-o", str(out), "--epsilon", "1"]
    assert main(command) != 0  # nothing says how the map was chosen
    assert main([*command, "--features", str(phi)]) == 0
    assert sl.load(out).privacy.details["map"] == "chosen from bounds that were given as public"
    other = tmp_path / "other.json"
    assert main(["design", "--lower=-5,-4", "--upper=4,4", "--columns", "x,y", "-k", "2", "-o", str(other)]) == 0
    assert main([*command, "--features", str(other)]) != 0
    census = ["design", str(path), "--columns", "x,y", "-k", "2", "--other-data", "a census", "-o", str(phi)]
    assert main(census) == 0
    assert read_features(str(phi)).provenance == "other data: a census"


@pytest.mark.parametrize("rolled", [False, True])
def test_a_store_knows_that_a_map_is_from_its_own_rows(rows, rolled):
    """A query of a store forgot it, and --public-map was taken as it was given."""
    own = sl.sketch(rows)
    assert own.origin.own_map
    day = np.repeat(np.array(["2024-05-01", "2024-05-02"], "M8[s]"), 500)
    with sl.Store(":memory:") as store:
        store.ingest(rows, own.features, time=day, every="1d")
        if rolled:
            store.rollup("1mo", older_than="1d")
        for s in (store.query().sketch(), store.query(since="2024-05-01").sketch()):
            with pytest.raises(ValueError, match="these very rows"):
                privatize(s, 1.0, public_map=True)
    other = sl.design(bounds=([-4, -4], [4, 4]), n_components=2, size=20)
    with sl.Store(":memory:") as store:
        store.ingest(rows, other, time=day, every="1d")
        assert privatize(store.query().sketch(), 1.0, public_map=True).privacy.epsilon == 1.0


# -- exact numbers beside a release -----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:release number:sketchlearn.privacy.RepeatedReleaseWarning")
def test_a_model_that_starts_from_an_exact_one_promises_nothing(seeded):
    """Exact centres, given as a start, came back under the promise of the release."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2)) + np.repeat([[0, 0], [9, 9]], 10_000, axis=0)
    phi = sl.design(bounds=([-5, -5], [15, 15]), n_components=2, size=60, seed=0)
    exact = sl.sketch(X, phi)
    private, again = (privatize(exact, 5.0, 1e-6, public_map=True) for _ in range(2))
    fitted = sl.CompressiveKMeans(2, random_state=0).fit_sketch(exact)
    for start in (fitted, sl.Model.of(fitted), fitted.cluster_centers_):
        assert sl.decode(private, 2, start=start, random_state=0).privacy is None
        model = sl.Model.of(sl.CompressiveKMeans(2, start=start, random_state=0).fit_sketch(private))
        assert model.privacy is None
        assert "promise" not in sl.plots.report(model)
    warm = sl.CompressiveGaussianMixture(2, warm_start=True, random_state=0).fit_sketch(exact)
    assert sl.Model.of(warm.fit_sketch(private)).privacy is None
    before = sl.decode(again, 2, random_state=0)
    assert sl.decode(private, 2, start=before, random_state=0).privacy.epsilon == 10.0


def test_synthetic_rows_take_no_exact_columns_beside_a_release(rows, seeded):
    from sketchlearn.features import HistogramFeatures

    phi = sl.design(bounds=([-5, -5], [5, 5]), n_components=2, size=60, seed=0)
    many = np.tile(rows, (20, 1))
    columns = sl.sketch(many, HistogramFeatures.draw([-5, -5], [5, 5], cells=8))
    exact = sl.sketch(many, phi)
    private = privatize(exact, 5.0, 1e-6, public_map=True)
    for pair in ((private, columns), (exact, privatize(columns, 5.0, 1e-6, public_map=True))):
        with pytest.raises(ValueError, match="private and the other is exact"):
            sl.synthesize(pair[0], 10, columns=pair[1], random_state=0)
