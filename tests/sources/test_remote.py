"""Files elsewhere give the bytes of files here: in memory for every run, on an S3 server where moto is installed."""

import contextlib
import functools
import http.server
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.sources import remote

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
ROWS = np.random.default_rng(0).normal(size=(1000, 2))
KINDS = ["parquet", "csv", "csv.gz", "csv.xz", "jsonl", "arrow", "npy", "h5"]


def _write(folder, kind):
    """Two files of a kind."""
    for i, rows in enumerate(np.split(ROWS, 2)):
        table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
        path = folder / f"{i}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=200)
        elif kind.startswith("csv"):
            text = "x,y\n" + "".join(f"{a!r},{b!r}\n" for a, b in rows.tolist())
            compression = {"csv": None, "csv.gz": "gzip", "csv.xz": "xz"}[kind]
            with fsspec.open(str(path), "wt", compression=compression) as file:
                file.write(text)
        elif kind == "jsonl":
            path.write_text("".join(f'{{"x": {a!r}, "y": {b!r}}}\n' for a, b in rows.tolist()))
        elif kind == "arrow":
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table, 100)
        elif kind == "npy":
            np.save(path, rows)
        else:
            h5py = pytest.importorskip("h5py")
            with h5py.File(path, "w") as file:
                file["rows"] = rows


def _upload(folder, address):
    """Copy a folder to an address."""
    from pyarrow import fs

    place = remote.place_of(address)
    place.system.create_dir(place.path)
    fs.copy_files(str(folder), place.path, destination_filesystem=place.system)


@pytest.fixture
def memory():
    yield "memory://tests"
    fsspec.filesystem("memory").rm("/", recursive=True)


@pytest.fixture(scope="module")
def bucket():
    pytest.importorskip("moto")
    pytest.importorskip("flask")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        more = {
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            for name, value in more.items():
                patch.setenv(name, value)
            from pyarrow import fs

            system, _ = fs.FileSystem.from_uri("s3://rows?region=us-east-1&allow_bucket_creation=true")
            system.create_dir("rows")
            yield "s3://rows"
    finally:
        server.kill()
        server.wait()


def _same_bytes(tmp_path, root, kind, **options):
    _write(tmp_path, kind)
    _upload(tmp_path, f"{root}/{kind}")
    here = sl.sketch(tmp_path, PHI)
    assert sl.sketch(f"{root}/{kind}", PHI, **options).to_bytes() == here.to_bytes()
    assert sl.sketch(f"{root}/{kind}/*.{kind}", PHI, **options) == here
    assert sl.sketch([f"{root}/{kind}/{i}.{kind}" for i in (0, 1)], PHI, **options) == here


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_in_memory(tmp_path, memory, kind):
    _same_bytes(tmp_path, memory, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_on_s3(tmp_path, bucket, kind):
    _same_bytes(tmp_path, bucket, kind)


@pytest.mark.parametrize("store", ["memory", "bucket"])
def test_zarr(tmp_path, store, request):
    zarr = pytest.importorskip("zarr")
    root = request.getfixturevalue(store)
    zarr.save_array(str(tmp_path / "a.zarr"), ROWS)
    _upload(tmp_path / "a.zarr", f"{root}/a.zarr")
    assert sl.sketch(f"{root}/a.zarr", PHI) == sl.sketch(ROWS, PHI)


def test_partitioned_folders_and_patterns(tmp_path, memory):
    import pyarrow.dataset as ds

    table = pa.table({"x": ROWS[:, 0], "y": ROWS[:, 1], "day": ["mon", "tue"] * 500})
    ds.write_dataset(table, tmp_path / "t", format="parquet", partitioning=["day"], partitioning_flavor="hive")
    (tmp_path / "t" / "_SUCCESS").touch()
    _upload(tmp_path, memory)
    here = sl.sketch(tmp_path / "t", PHI, columns=["x", "y"], group_by="day")
    assert sl.sketch(f"{memory}/t", PHI, columns=["x", "y"], group_by="day").to_bytes() == here.to_bytes()
    some = sl.sketch(f"{memory}/**/day=m*/*.parquet", PHI, columns=["x", "y"])
    assert some == here["mon"]
    for wrong in (f"{memory}/none.parquet", f"{memory}/t/*.csv"):
        with pytest.raises(FileNotFoundError, match=r"no such file|no file matches"):
            sl.read(wrong)
    with pytest.raises(sl.SourceError, match=r"can't be read"):
        sl.read("nowhere://at/all.parquet")
    _upload_empty(f"{memory}/x.db")
    with pytest.raises(sl.SourceError, match="file of this machine"):
        sl.read(f"{memory}/x.db", query="SELECT 1")
    address = (tmp_path / "t").as_uri()
    assert sl.sketch(address, PHI, columns=["x", "y"], group_by="day") == here


def _upload_empty(address):
    place = remote.place_of(address)
    with place.system.open_output_stream(place.path) as file:
        file.write(b"")


@pytest.mark.parametrize("store", ["memory", "bucket"])
def test_a_pass_is_resumed(tmp_path, store, request):
    root = request.getfixturevalue(store)
    data, point = tmp_path / "data", tmp_path / "point"
    data.mkdir()
    _write(data, "parquet")
    _upload(data, f"{root}/data")
    source = sl.read(f"{root}/data")
    begun, _ = Checkpoint.begin(point, source, PHI, {**source.settings, "on_invalid": "raise"}, 30.0)
    begun.save(301, sl.sketch(ROWS[:301], PHI))  # in the middle of a row group
    assert sl.sketch(f"{root}/data", PHI, checkpoint=point).to_bytes() == sl.sketch(ROWS, PHI).to_bytes()
    more = pa.table({"x": ROWS[:, 0] + 1, "y": ROWS[:, 1]})
    pq.write_table(more, data / "2.parquet")
    _put(data / "2.parquet", f"{root}/data/2.parquet")
    total = sl.sketch(f"{root}/data", PHI, checkpoint=point)
    assert total == sl.sketch(data, PHI)
    _put(data / "2.parquet", f"{root}/data/0.parquet")  # another file under the old name
    with pytest.raises(ValueError, match="has changed or is missing"):
        sl.sketch(f"{root}/data", PHI, checkpoint=point)


def _put(path, address):
    place = remote.place_of(address)
    with place.system.open_output_stream(place.path) as file:
        file.write(path.read_bytes())


def test_web_servers(tmp_path):
    pytest.importorskip("aiohttp")
    _write(tmp_path, "csv")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        got = sl.sketch([f"{address}/0.csv", f"{address}/1.csv"], PHI)
        assert got.to_bytes() == sl.sketch(tmp_path, PHI).to_bytes()
        with pytest.raises(FileNotFoundError, match="no such file"):
            sl.read(f"{address}/2.csv")
        server.shutdown()


@contextlib.contextmanager
def _engine(name):
    """An engine with workers of its own, begun after the credentials were set."""
    if name == "dask":
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
        with cluster, distributed.Client(cluster) as client:
            yield client
    elif name == "ray":
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
        yield name
        ray.shutdown()
    elif name == "spark":
        sql = pytest.importorskip("pyspark.sql")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
            session.sparkContext.setLogLevel("OFF")
            yield session
            session.stop()
    else:
        if name == "mpi":
            pytest.importorskip("mpi4py")
        yield name


@pytest.mark.filterwarnings("ignore")  # of Ray and Spark
@pytest.mark.parametrize("name", ["processes", "dask", "ray", "spark", "mpi"])
def test_s3_on_every_engine_and_resumed(tmp_path, bucket, name):
    data, point = tmp_path / "data", tmp_path / "point"
    data.mkdir()
    _write(data, "parquet")
    address = f"{bucket}/{name}"
    _upload(data, address)
    source = sl.read(address)
    begun, _ = Checkpoint.begin(point, source, PHI, {**source.settings, "on_invalid": "raise"}, 30.0)
    begun.save(701, sl.sketch(ROWS[:701], PHI))  # in the middle of a row group of the second object
    with _engine(name) as engine:
        options = {"engine": engine, **({"workers": 2} if name == "processes" else {})}
        whole = sl.sketch(address, PHI, **options)
        resumed = sl.sketch(address, PHI, checkpoint=point, **options)
    assert whole.to_bytes() == resumed.to_bytes() == sl.sketch(ROWS, PHI).to_bytes()
