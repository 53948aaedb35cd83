import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 2000), groups=st.integers(1, 40), seed=st.integers(0, 2**32), weighted=st.booleans())
def test_groups_are_the_sketches_of_their_rows(n, groups, seed, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * rng.choice([1.0, 1e4], size=(n, 1))
    X[rng.random(n) < 0.02] = np.nan
    g = rng.integers(groups, size=n)
    w = rng.choice([0.0, 1.0, 2.5], size=n) if weighted else None
    table = sl.sketch(X, PHI, group_by=g, sample_weight=w, on_invalid="skip", workers=2)
    for k in np.unique(g):
        one = sl.sketch(X[g == k], PHI, sample_weight=None if w is None else w[g == k], on_invalid="skip")
        assert table[int(k)] == one
    assert table.union() == sl.sketch(X, PHI, sample_weight=w, on_invalid="skip")


@pytest.mark.parametrize("tier", ["plain", "vector"])
def test_other_kernels_sum_runs_alike(tier, monkeypatch):
    from sketchlearn.kernels import tiers

    rng = np.random.default_rng(0)
    X, g = rng.normal(size=(500, 2)), rng.integers(5, size=500)
    want = sl.sketch(X, PHI, group_by=g)
    monkeypatch.setenv("SKETCHLEARN_KERNEL", tier)
    monkeypatch.setattr(tiers, "_active", None)
    assert sl.sketch(X, sl.FeatureMap.from_recipe(PHI.recipe()), group_by=g) == want
    monkeypatch.setattr(tiers, "_active", None)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", None, "a"],
        [1, 2, 3, 1],
        [True, False, True, True],
        [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None, None],
    ],
)
def test_tables_travel(tmp_path, labels):
    X = np.random.default_rng(0).normal(size=(4, 2))
    table = sl.sketch(X, PHI, group_by=np.array(labels, object))
    table.save(tmp_path / "t.parquet")
    assert sl.SketchTable.load(tmp_path / "t.parquet") == table
    assert hash(sl.SketchTable.from_bytes(table.to_bytes())) == hash(table)
    assert sum(pq.read_table(tmp_path / "t.parquet").column("count").to_pylist()) == 4
    shuffled = sl.sketch(X[::-1], PHI, group_by=np.array(labels[::-1], object))
    assert shuffled.to_bytes() == table.to_bytes()


def test_unions_and_sums():
    X = np.arange(12.0).reshape(6, 2)
    table = sl.sketch(X, PHI, group_by=[1, 2, 3, 1, 2, 3])
    assert table.union([1, 3, 1]) == sl.sketch(X[[0, 2, 3, 5]], PHI)
    assert table.union(lambda k: k > 1).count == 4
    both = table + sl.sketch(X, PHI, group_by=[3, 3, 3, 4, 4, 4])
    assert both.counts == {1: 2, 2: 2, 3: 5, 4: 3}
    with pytest.raises(KeyError, match="no group 9"):
        table.union([9])
    with pytest.raises(ValueError, match="no group was chosen"):
        table.union([])


def test_bad_tables_are_refused(tmp_path):
    s = sl.sketch([[0.0, 0.0]], PHI)
    other = sl.sketch([[0.0]], sl.FourierFeatures.draw(dim=1, size=3, scale=1.0, seed=0))
    for content, error, message in [
        ({}, ValueError, "at least one"),
        ({1: s, "a": s}, ValueError, "one type"),
        ({1.5: s}, ValueError, "type float"),
        ({1: s, 2: other}, sl.IncompatibleSketchError, "group 2"),
        ({1: 5}, TypeError, "not a sketch"),
    ]:
        with pytest.raises(error, match=message):
            sl.SketchTable(content)
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "y.parquet")
    table = sl.SketchTable({"a": s}).to_arrow()
    pq.write_table(table.replace_schema_metadata({"sketchlearn.table": "2"}), tmp_path / "z.parquet")
    pq.write_table(pa.concat_tables([table, table]), tmp_path / "w.parquet")
    for name in "xyzw":
        with pytest.raises(sl.SketchFileError, match=f"{name}.parquet"):
            sl.SketchTable.load(tmp_path / f"{name}.parquet")


def test_too_many_groups_are_refused_in_time(monkeypatch):
    from sketchlearn.engines import threads

    monkeypatch.setattr(threads, "_GROUPED_BYTES", 2**16)
    with pytest.raises(ValueError, match="coarser"):
        sl.sketch(np.zeros((1000, 2)), PHI, group_by=np.arange(1000))
