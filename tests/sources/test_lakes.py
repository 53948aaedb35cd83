"""Tables with snapshots: the rows of one, and sketches that follow from one to the next."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines.incremental import update

pa = pytest.importorskip("pyarrow")

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
COLUMNS = {"columns": ["x", "y"]}


def _table(seed, rows=300):
    x, y = np.random.default_rng(seed).normal(size=(2, rows))
    return pa.table({"x": x, "y": y, "day": ["mon", "tue", "w d"] * (rows // 3)})


def _same_sums(a, b):
    """Equal but for the box, which subtraction doesn't shrink."""
    assert a.features == b.features
    assert (a.count, a.skipped, a.squared_weights) == (b.count, b.skipped, b.squared_weights)
    np.testing.assert_array_equal(a.sums, b.sums)
    assert (a.lower <= b.lower).all()
    assert (a.upper >= b.upper).all()


@pytest.mark.parametrize("partitions", [None, ["day"]])
def test_delta(tmp_path, partitions):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "a table")
    deltalake.write_deltalake(path, _table(0), partition_by=partitions)
    first = deltalake.DeltaTable(path)
    here = sl.sketch(_table(0), PHI, group_by="day", **COLUMNS)
    assert sl.sketch(first, PHI, group_by="day", **COLUMNS).to_bytes() == here.to_bytes()
    before = sl.sketch(first, PHI, **COLUMNS)
    assert before.to_bytes() == here.union().to_bytes()
    deltalake.write_deltalake(path, _table(1), mode="append", partition_by=partitions)
    grown = update(before, deltalake.DeltaTable(path), since=0, **COLUMNS)
    assert grown.to_bytes() == sl.sketch(deltalake.DeltaTable(path), PHI, **COLUMNS).to_bytes()
    deltalake.DeltaTable(path).delete("day = 'mon'")  # files are removed, or rewritten without the rows
    table = deltalake.DeltaTable(path)
    _same_sums(update(grown, table, since=1, **COLUMNS), sl.sketch(table, PHI, **COLUMNS))
    _same_sums(update(before, table, since=0, **COLUMNS), sl.sketch(table, PHI, **COLUMNS))
    groups = update(here, table, since=0, group_by="day", **COLUMNS)
    _same_sums(groups["tue"], sl.sketch(table, PHI, where="day == tue", **COLUMNS))
    assert groups["mon"].count == 0
    assert update(grown, table, since=table.version(), **COLUMNS) == grown
    engine = sl.sketch(table, PHI, engine="processes", workers=2, **COLUMNS)
    assert engine == sl.sketch(table, PHI, **COLUMNS)
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(sl.SourceError, match="not there any more"):
        update(grown, table, since=1, **COLUMNS)
    with pytest.raises(TypeError, match="Delta Lake or Iceberg"):
        update(grown, path, since=1)


@pytest.mark.filterwarnings("ignore")  # of pyiceberg
def test_iceberg(tmp_path):
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    pytest.importorskip("sqlalchemy")
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=_table(0).schema)
    with pytest.raises(ValueError, match="no files"):
        sl.sketch(table, PHI, **COLUMNS)
    table.append(_table(0))
    first = table.current_snapshot().snapshot_id
    before = sl.sketch(table, PHI, **COLUMNS)
    assert before.to_bytes() == sl.sketch(_table(0), PHI, **COLUMNS).to_bytes()
    table.append(_table(1))
    second = table.current_snapshot().snapshot_id
    grown = update(before, table, since=first, **COLUMNS)
    assert grown.to_bytes() == sl.sketch(table, PHI, **COLUMNS).to_bytes()
    table.delete("day == 'mon'")
    _same_sums(update(grown, table, since=second, **COLUMNS), sl.sketch(table, PHI, **COLUMNS))
