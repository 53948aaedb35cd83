import json

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features import Category, Number

pa = pytest.importorskip("pyarrow")
import pyarrow.csv as csv  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402


def table(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    age = np.where(kind, 60.0, 25.0) + rng.normal(size=n)
    plan = np.where(kind, "paid", "free").astype(object)
    age[::50], plan[::70] = np.nan, None
    return pa.table({"age": pa.array(age, from_pandas=True), "plan": plan.tolist(), "visits": rng.normal(size=n)})


@pytest.fixture(scope="module")
def encoder():
    return sl.Encoder.fit(table(), missing="median", indicator=True)


@pytest.fixture(scope="module")
def phi(encoder):
    return sl.design(table(), n_components=3, standardize=True, encoder=encoder)


def test_rules_come_from_the_pilot(encoder):
    assert encoder.columns == ("age", "plan", "visits")
    assert encoder.names == ("age", "age missing", "plan=free", "plan=paid", "plan=other", "visits")
    ages = table()["age"].drop_null().to_numpy()
    assert encoder.rules[0].fill == np.median(ages)
    assert sl.Encoder.fit(table(), missing={"age": 3.0}).rules[0] == Number("age", 3.0)
    assert sl.Encoder.fit(table(), columns=["plan"], categories="hash", buckets=4).rules == (
        Category("plan", buckets=4),
    )
    many = pa.table({"x": [str(i % 30) for i in range(1000)]})
    assert len(sl.Encoder.fit(many, most=5).names) == 6


@pytest.mark.parametrize("source", ["parquet", "csv", "frame", "pandas", "batches", "sqlite"])
def test_every_source_gives_the_same_sketch(encoder, phi, tmp_path, source):
    rows = table()
    expected = sl.sketch(rows, phi)
    assert (expected.count, expected.skipped) == (2000, 0)
    options = {}
    if source == "parquet":
        pq.write_table(rows, tmp_path / "x.parquet", row_group_size=300)
        data = tmp_path / "x.parquet"
    elif source == "csv":
        csv.write_csv(rows, tmp_path / "x.csv", csv.WriteOptions(quoting_style="needed"))
        data = tmp_path / "x.csv"
    elif source == "pandas":
        pytest.importorskip("pandas")
        data = rows.to_pandas()
    elif source == "sqlite":
        import sqlite3

        data = sqlite3.connect(tmp_path / "x.db", check_same_thread=False)
        data.execute("CREATE TABLE t (age REAL, plan TEXT, visits REAL)")
        data.executemany("INSERT INTO t VALUES (?, ?, ?)", list(zip(*rows.to_pydict().values(), strict=True)))
        data.commit()
        options = {"query": "SELECT * FROM t"}
    else:
        data = rows if source == "frame" else pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(100))
    assert sl.sketch(data, phi, **options) == expected
    if source == "sqlite":
        data.close()


def test_unknown_and_missing_labels():
    rule = Category("plan", ("a", "b"))
    assert [rule.place(v) for v in ("a", "b", "new", None)] == [0, 1, 2, -1]
    hashed = Category("plan", buckets=5)
    assert hashed.place("a") == hashed.place("a")
    assert hashed.place(None) == -1
    rows = sl.read(pa.table({"plan": ["new", None, "b"]}), encoder=sl.Encoder((rule,))).sample(3)
    assert rows.tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_the_recipe_travels_and_keeps_merging_safe(phi, encoder, tmp_path):
    s = sl.sketch(table(), phi)
    s.save(tmp_path / "x.sketch")
    again = sl.load(tmp_path / "x.sketch")
    assert again.features == phi
    assert again.features.encoder == encoder
    other = phi.with_encoder(sl.Encoder((Number("age", 1.0, True), *encoder.rules[1:])))
    with pytest.raises(sl.IncompatibleSketchError, match="encoder"):
        s + sl.sketch(table(), other)
    assert "encoder" not in sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3).recipe()


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"version": 2, "columns": []}, {"version": 1, "columns": []}, {"version": True, "columns": [{}]},
        {"version": 1, "columns": [{"number": "x", "fill": "1", "indicator": False}]},
        {"version": 1, "columns": [{"number": "x", "fill": 1e999, "indicator": False}]},
        {"version": 1, "columns": [{"category": "x", "values": []}]},
        {"version": 1, "columns": [{"category": "x", "values": ["a", "a"]}]},
        {"version": 1, "columns": [{"category": "x", "buckets": 10**9}]},
        {"version": 1, "columns": [{"category": "x", "buckets": 2}, {"number": "x", "fill": None, "indicator": False}]},
    ],
)  # fmt: skip
def test_recipes_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"encoder|rule|column"):
        sl.Encoder.from_json(wrong)


def test_numbers_of_arrays_are_filled_too():
    encoder = sl.Encoder((Number("a", 1.0), Number("b", None, True)))
    rows = np.array([[np.nan, 2.0], [3.0, np.nan]])
    assert sl.read(rows, encoder=encoder).names == ("a", "b", "b missing")
    np.testing.assert_array_equal(next(iter(sl.read(rows, encoder=encoder))), [[1, 2, 0], [3, np.nan, 1]])
    with pytest.raises(ValueError, match="categories"):
        sl.read(rows, encoder=sl.Encoder((Number("a"), Category("b", ("x",)))))


def test_learning_and_labelling(phi, tmp_path):
    km = sl.CompressiveKMeans(2, features=phi, random_state=0).fit(table())
    labels = km.predict(table().to_pandas() if hasattr(table(), "to_pandas") else table())
    kinds = np.array([v == "paid" for v in table()["plan"].to_pylist()])
    known = np.array([v is not None for v in table()["plan"].to_pylist()])
    agree = np.mean(labels[known] == kinds[known])
    assert max(agree, 1 - agree) > 0.95
    model = sl.Model.of(km)
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    assert np.array_equal(again.predict(table().to_pandas()), labels)
    from sketchlearn.learn.predictions import predictions

    pq.write_table(table(), tmp_path / "x.parquet")
    found = np.concatenate([batch["cluster"] for batch in predictions(again, tmp_path / "x.parquet")])
    assert np.array_equal(found, labels)
    damaged = json.loads(again.to_json())
    damaged["sketch"]["encoder"]["version"] = 9
    with pytest.raises(sl.ModelFileError, match="encoder version"):
        sl.Model.from_json(json.dumps(damaged))


def test_a_category_may_have_any_name():
    """Names of encoded columns never collide: not with the column of all others, not with other columns."""
    given = pa.table({
        "plan": ["other", "any other", "free"] * 4, "age": [1.0, None, 3.0] * 4, "age missing": [1.0, 2.0, 3.0] * 4,
        "plan=free": [1.0] * 12,
    })  # fmt: skip
    encoder = sl.Encoder.fit(given, indicator=True)
    assert encoder.names == (
        "plan=any other", "plan=free", "plan=other", "plan=any any other", "age", "age missing", "age missing (2)",
        "plan=free (2)",
    )  # fmt: skip
    rows = sl.read(given, encoder=encoder).sample(12)
    np.testing.assert_array_equal(rows[:3, :4], [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    strange = pa.table({"plan": ["paid"], "age": [1.0], "age missing": [1.0], "plan=free": [1.0]})
    np.testing.assert_array_equal(sl.read(strange, encoder=encoder).sample(1)[0, :4], [0, 0, 0, 1])
    assert sl.Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder


@pytest.mark.parametrize("values", [[30, 10, 20], [3.0, 1.0, 2.0], [True, False, True], ["c", "a", "b"]])
def test_categoricals_are_categories_whatever_they_hold(values):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"code": pd.Categorical(values * 5), "x": np.arange(15.0)})
    encoder = sl.Encoder.fit(frame)
    assert isinstance(encoder.rules[0], Category)
    assert len(encoder.rules[0].values) == len(set(values))
    rows = sl.read(frame, encoder=encoder).sample(15)
    assert rows[:, -2].sum() == 0  # none of them is another one
    # the same labels stored otherwise: plain, or with a gap, which makes floats of integers
    plain = pd.DataFrame({"code": values * 5, "x": np.arange(15.0)})
    np.testing.assert_array_equal(sl.read(plain, encoder=encoder).sample(15), rows)
    whole = not isinstance(values[0], str | bool)
    gap = [np.nan, *map(float, (values * 5)[1:])] if whole else [None, *(values * 5)[1:]]
    gaps = pd.DataFrame({"code": gap, "x": np.arange(15.0)})
    np.testing.assert_array_equal(sl.read(gaps, encoder=encoder).sample(15)[1:], rows[1:])
