"""A pass through Spark Connect, whose server is another process, has the bytes of a local one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import sketchlearn as sl

pq = pytest.importorskip("pyarrow.parquet")
pyspark = pytest.importorskip("pyspark")
pytest.importorskip("grpc_status")
pytestmark = pytest.mark.filterwarnings("ignore")  # Spark has many

from partitions import OPTIONS, PHI, READING, uneven, write_files  # noqa: E402


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    home, place, port = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("server"), _free_port()
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[1])]))
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2, "spark.sql.files.maxPartitionBytes": 1000,
        "spark.sql.files.openCostInBytes": 1000,
    }  # fmt: skip
    told = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(
            [home / "bin" / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
             "--master", "local[2]", *told, "spark-internal"], stdout=log, stderr=log, cwd=place,
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path,
                 "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        try:
            # the client waits for the server by itself
            session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
            yield session
            session.stop()
        finally:
            server.terminate()
            server.wait(60)


@pytest.mark.parametrize("count", [1, 7, 64])
def test_frames_have_the_same_bytes(spark, tmp_path, count):
    assert "connect" in type(spark).__module__
    write_files(tmp_path, uneven(count))
    frame = spark.read.parquet(str(tmp_path))
    if count != 64:
        frame = frame.repartition(count)
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}) if count == 7 else ({"group_by": "g"},):
        got = sl.sketch(frame, PHI, **OPTIONS, **more)
        assert got.to_bytes() == sl.sketch(tmp_path, PHI, **OPTIONS, **more).to_bytes()
    if count == 7:
        with pytest.raises(ValueError, match=r"of partition \d+\) holds NaN or a null in column 'y'"):
            sl.sketch(frame, PHI, **READING)


@pytest.mark.parametrize("engine", ["the session", "spark"])
def test_files_have_the_same_bytes(spark, tmp_path, engine):
    write_files(tmp_path, uneven(20))
    got = sl.sketch(tmp_path, PHI, engine=spark if engine == "the session" else engine, group_by="g", **OPTIONS)
    assert got.to_bytes() == sl.sketch(tmp_path, PHI, group_by="g", **OPTIONS).to_bytes()


def test_sketches_as_a_column(spark, tmp_path):
    from sketchlearn.engines.spark import register_functions, sketch_groups

    write_files(tmp_path, [300, 200, 100])
    here = sl.sketch(tmp_path, PHI, group_by="g", **OPTIONS)
    table = sketch_groups(spark.read.parquet(str(tmp_path)), PHI, "g", **OPTIONS)
    assert {row["group"]: sl.Sketch.from_bytes(bytes(row["sketch"])) for row in table.collect()} == dict(here)
    register_functions(spark)
    table.createOrReplaceTempView("sketches")
    whole = spark.sql("SELECT sketch_merge(sketch) AS s, sketch_count(sketch_merge(sketch)) AS n FROM sketches").first()
    assert (bytes(whole["s"]), whole["n"]) == (here.union().to_bytes(), here.union().count)
