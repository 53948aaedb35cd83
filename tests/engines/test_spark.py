"""A pass on Spark has the bytes and the errors of a local one, also when workers die; sketches live as a column."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines.checkpoint import Checkpoint

pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pyspark = pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("ignore")  # Spark has many

from partitions import OPTIONS, PHI, READING, begun, killing_a_reader, slow, uneven, write_files  # noqa: E402


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[1])]))
        more = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
        for name, value in more.items():
            patch.setenv(name, value)
        session = (
            SparkSession.builder.master("local[2,6]")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.files.maxPartitionBytes", "1000")
            .config("spark.sql.files.openCostInBytes", "1000")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.mark.parametrize("count", [1, 7, 64])
def test_files_have_the_same_bytes(spark, tmp_path, count):
    write_files(tmp_path, uneven(count))
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}) if count == 7 else ({"group_by": "g"},):
        here = sl.sketch(tmp_path, PHI, **OPTIONS, **more)
        assert sl.sketch(tmp_path, PHI, engine=spark, **OPTIONS, **more).to_bytes() == here.to_bytes()


@pytest.mark.parametrize("count", [1, 7, 64])
def test_frames_have_the_same_bytes(spark, tmp_path, count):
    write_files(tmp_path, uneven(count))
    frame = spark.read.parquet(str(tmp_path))
    if count != 64:
        frame = frame.repartition(count)
    seen = []
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}) if count == 7 else ({"group_by": "g"},):
        got = sl.sketch(frame, PHI, progress=lambda *r: seen.append(r), **OPTIONS, **more)
        assert got.to_bytes() == sl.sketch(tmp_path, PHI, **OPTIONS, **more).to_bytes()
    assert seen
    if count == 7:
        assert sl.sketch(frame, PHI, engine="threads", **OPTIONS) == sl.sketch(tmp_path, PHI, **OPTIONS)
        odd = frame.withColumnRenamed("x", "a `b`.c")
        got = sl.sketch(odd, PHI, **{**OPTIONS, "columns": ["a `b`.c", "y"]})
        assert got == sl.sketch(tmp_path, PHI, **OPTIONS)
        with pytest.raises(ValueError, match="has no column 'z'"):
            sl.sketch(frame, PHI, columns=["x", "z"])
        with pytest.raises(ValueError, match=r"of partition \d+\) holds NaN or a null in column 'y'"):
            sl.sketch(frame, PHI, **READING)


@pytest.mark.parametrize("key", ["whole", "number", "text"])
def test_users_are_shuffled_together(spark, key):
    """Zeros of both signs are one user, and so are NaN and null."""
    rng = np.random.default_rng(0)
    u = rng.zipf(1.3, 3000) % 300
    zero = np.where(rng.random(3000) < 0.5, -0.0, 0.0)
    keys = {"whole": u, "number": np.where(u == 1, zero, np.where(u == 2, np.nan, u))}
    frame = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["x", "y"])
    frame["u. `r"] = keys.get(key, np.array([f"user {v}" for v in u], object))
    there = spark.createDataFrame(frame.sample(frac=1.0, random_state=0)).repartition(7)
    if key == "number":
        from pyspark.sql import functions as F

        name = F.col("`u. ``r`")
        there = there.withColumn("u. `r", F.when(F.isnan(name) & (F.col("x") > 0), None).otherwise(name))
    phi = sl.FourierFeatures.draw(dim=2, size=12, scale=1.0, seed=0).with_columns(["x", "y"])
    for more in ({}, {"where": "x > 0"}):
        bound = {"user": "u. `r", "max_rows_per_user": 2, **more}
        want = sl.sketch(frame, phi, **bound)
        for engine in ("auto", "threads"):
            got = sl.sketch(there, phi, engine=engine, **bound)
            assert got.to_bytes() == want.to_bytes()
    assert want.origin.rows_per_user == got.origin.rows_per_user == 2
    with pytest.raises(ValueError, match="user"):
        sl.sketch(there, phi, user=u, max_rows_per_user=2)


def test_errors_name_the_row_as_threads_do(spark, tmp_path):
    write_files(tmp_path, [5, 700, 700, 300])
    with pytest.raises(ValueError, match=r"of 001.parquet") as threads:
        sl.sketch(tmp_path, PHI, **READING)
    with pytest.raises(ValueError, match=r"of 001.parquet") as there:
        sl.sketch(tmp_path, PHI, engine="spark", **READING)
    assert str(there.value) == str(threads.value)


def test_a_worker_that_dies_changes_nothing(spark, tmp_path):
    data, log = write_files(tmp_path / "data", [300] * 24), tmp_path / "log"
    source = slow(sl.read(data, group_by="g", **READING), log)
    with killing_a_reader(log, after=10) as killed:
        got = sl.sketch(source, PHI, engine=spark, on_invalid="skip")
    assert killed
    assert got.to_bytes() == sl.sketch(data, PHI, group_by="g", on_invalid="skip", **READING).to_bytes()
    assert len(begun(log)) > 24


def test_sketches_as_a_column(spark, tmp_path):
    from sketchlearn.engines.spark import register_functions, sketch_groups

    write_files(tmp_path, [300, 200, 100])
    here = sl.sketch(tmp_path, PHI, group_by="g", **OPTIONS)
    table = sketch_groups(spark.read.parquet(str(tmp_path)), PHI, "g", **OPTIONS)
    rows = table.collect()
    assert {row["group"]: sl.Sketch.from_bytes(bytes(row["sketch"])) for row in rows} == dict(here)
    assert {row["group"]: row["count"] for row in rows} == here.counts
    register_functions(spark)
    table.createOrReplaceTempView("sketches")
    whole = spark.sql("SELECT sketch_merge(sketch) AS s, sketch_count(sketch_merge(sketch)) AS n FROM sketches").first()
    assert bytes(whole["s"]) == here.union().to_bytes()
    assert whole["n"] == here.union().count


def test_a_pass_is_resumed(spark, tmp_path):
    data, point = write_files(tmp_path / "data", [300] * 5), tmp_path / "point"

    source = sl.read(data, **READING)
    begun, _ = Checkpoint.begin(point, source, PHI, {**source.settings, "on_invalid": "skip"}, 30.0)
    rows = pq.read_table(data)
    begun.save(701, sl.sketch(rows.slice(0, 701), PHI, **OPTIONS))  # in the middle of a file
    got = sl.sketch(data, PHI, engine="spark", checkpoint=point, **OPTIONS)
    assert got.to_bytes() == sl.sketch(data, PHI, **OPTIONS).to_bytes()
