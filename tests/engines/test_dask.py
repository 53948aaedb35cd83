"""A pass on a Dask cluster has the bytes, the errors and the reports of a local one, also when workers die."""

import _thread
import pickle
import sys
import threading
import time

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines.base import Job
from sketchlearn.engines.checkpoint import read_checkpoint
from sketchlearn.engines.cluster import FAN, Tree
from sketchlearn.engines.partial import Task, merged, status_of, sum_part

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

from partitions import OPTIONS, PHI, READING, begun, killing_a_reader, slow, uneven, write_files  # noqa: E402


@pytest.fixture(scope="module")
def client():
    import dask

    settings = {"distributed.scheduler.allowed-failures": 10}
    if sys.platform == "linux":  # workers, and those that come after killed ones, find everything imported
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
    with dask.config.set(settings):
        distributed.utils.get_mp_context().set_forkserver_preload(
            ["distributed.nanny", "dask.dataframe", "pyarrow.dataset", "sketchlearn.engines.ready"]
        )
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        with cluster, distributed.Client(cluster) as client:
            yield client


@pytest.mark.parametrize("count", [1, 7, 64])
def test_files_have_the_same_bytes(client, tmp_path, count):
    write_files(tmp_path, uneven(count))
    seen = []
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}) if count == 7 else ({"group_by": "g"},):
        here = sl.sketch(tmp_path, PHI, **OPTIONS, **more)
        there = sl.sketch(tmp_path, PHI, engine=client, progress=lambda *r: seen.append(r), **OPTIONS, **more)
        assert there.to_bytes() == here.to_bytes()
    assert [done for done, _ in seen[:count]] == sorted(done for done, _ in seen[:count])


def test_frames_have_the_same_bytes(client, tmp_path):
    import dask.dataframe as dd

    write_files(tmp_path, [100, 0, 300, 5, 1, 0, 200])
    frame = dd.read_parquet(tmp_path)
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}):
        assert sl.sketch(frame, PHI, **OPTIONS, **more) == sl.sketch(tmp_path, PHI, **OPTIONS, **more)
    with pytest.raises(ValueError, match="has no column 'z'"):
        sl.sketch(frame, PHI, columns=["x", "z"])
    with pytest.raises(ValueError, match="not known"):
        sl.sketch(frame[["x", "y"]], PHI, sample_weight=np.ones(606))
    mapped = sl.read(frame, columns=["x", "y"]).map(_doubled)
    plain = sl.read(tmp_path, columns=["x", "y"]).map(_doubled)
    assert sl.sketch(mapped, PHI, on_invalid="skip") == sl.sketch(plain, PHI, on_invalid="skip")
    local = sl.sketch(frame, PHI, engine="threads", **OPTIONS)  # brought here, because that was asked for
    assert local == sl.sketch(frame, PHI, **OPTIONS)


def _doubled(rows):
    return rows * 2


@pytest.mark.parametrize("chunks", [1, 7, 64])
def test_arrays_have_the_same_bytes(client, chunks):
    import dask.array as da

    rng = np.random.default_rng(0)
    X, w, g = rng.normal(size=(3000, 2)).astype(np.float32), rng.random(3000) + 0.01, rng.integers(0, 4, 3000)
    X[[7, 2000]] = np.inf
    rows = da.from_array(X, chunks=(-(-3000 // chunks), 1))
    spread = {"sample_weight": da.from_array(w, chunks=700), "group_by": da.from_array(g, chunks=500)}
    for options in ({}, {"sample_weight": w, "group_by": g}, spread) if chunks == 7 else ({},):
        here = {k: np.asarray(v) for k, v in options.items()}
        got = sl.sketch(rows, PHI, on_invalid="skip", **options)
        assert got.to_bytes() == sl.sketch(X, PHI, on_invalid="skip", **here).to_bytes()
    if chunks == 7:
        with pytest.raises(
            ValueError, match=r"row 7 \(counting from 0, row 7 of partition 0\) holds infinity .* in column 0"
        ):
            sl.sketch(rows, PHI)
        with pytest.raises(ValueError, match="one value per row"):
            sl.sketch(rows, PHI, sample_weight=w[:-1])
        unknown = rows.rechunk({1: -1})[rows[:, 0] > 0]
        assert sl.sketch(unknown, PHI, on_invalid="skip") == sl.sketch(X[X[:, 0] > 0], PHI, on_invalid="skip")
        assert sl.sketch(X, PHI, engine=client, on_invalid="skip") == sl.sketch(X, PHI, on_invalid="skip")
        batches = iter(np.split(X, 30))
        assert sl.sketch(batches, PHI, engine="dask", on_invalid="skip") == sl.sketch(X, PHI, on_invalid="skip")


def test_errors_name_the_row_as_threads_do(client, tmp_path):
    write_files(tmp_path, [5, 700, 700, 300])
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}):
        with pytest.raises(ValueError, match=r"of 001.parquet|of those that pass") as threads:
            sl.sketch(tmp_path, PHI, **READING, **more)
        with pytest.raises(ValueError, match=r"of 001.parquet|of those that pass") as cluster:
            sl.sketch(tmp_path, PHI, engine=client, **READING, **more)
        assert str(cluster.value) == str(threads.value)
    (tmp_path / "002.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(sl.SourceError, match=r"002.parquet"):
        sl.sketch(tmp_path, PHI, engine=client, **READING)


def test_a_worker_that_dies_changes_nothing(client, tmp_path):
    data, log = write_files(tmp_path / "data", [300] * 24), tmp_path / "log"
    source = slow(sl.read(data, group_by="g", **READING), log)
    with killing_a_reader(log, after=6) as killed:
        got = sl.sketch(source, PHI, engine=client, on_invalid="skip")
    assert killed
    assert got.to_bytes() == sl.sketch(data, PHI, group_by="g", on_invalid="skip", **READING).to_bytes()
    assert len(begun(log)) > 24  # something was summed twice, nothing counts twice


def test_interruption_cancels_and_checkpoints_resume(client, tmp_path):
    data, log, point = tmp_path / "data", tmp_path / "log", tmp_path / "point"
    write_files(data, [300] * 30)
    here = sl.sketch(data, PHI, **OPTIONS)
    source = slow(sl.read(data, **READING), log)

    def interrupt():
        while not point.exists():
            time.sleep(0.01)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        sl.sketch(source, PHI, engine=client, on_invalid="skip", checkpoint=point, checkpoint_every=0.2)
    saved = read_checkpoint(point)
    assert 0 < saved.rows < 9000
    seen = []
    got = sl.sketch(
        data, PHI, engine=client, checkpoint=point, progress=lambda *r: seen.append(r), **OPTIONS
    )  # the names of the files are the same: slow reading is no other data
    assert got.to_bytes() == here.to_bytes()
    assert seen[0][0] > saved.rows
    assert read_checkpoint(point).rows == 9000


def test_a_local_checkpoint_is_resumed_in_the_middle_of_a_file(client, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i in range(3):
        rows = np.random.default_rng(i).normal(size=(500, 2))
        np.savetxt(data / f"{i}.csv", rows, delimiter=",", header="x,y", comments="")
    here = sl.sketch(data, PHI)
    point = tmp_path / "point"
    from sketchlearn.engines.checkpoint import Checkpoint

    source = sl.read(data)
    begun, _ = Checkpoint.begin(point, source, PHI, {**source.settings, "on_invalid": "raise"}, 30.0)
    rows = np.concatenate([np.asarray(b) for b in source])
    begun.save(701, sl.sketch(rows[:701], PHI))
    assert sl.sketch(data, PHI, engine=client, checkpoint=point).to_bytes() == here.to_bytes()


def test_traffic_is_small_and_holds_no_rows(tmp_path):
    phi = sl.FourierFeatures.draw(dim=10, size=10_000, scale=1.0, seed=0)
    X = np.random.default_rng(0).normal(size=(400, 10))
    np.save(tmp_path / "x.npy", X)
    source = sl.read([str(tmp_path / "x.npy")])
    task = Task.of(Job(source, phi)).to_bytes()
    outcome = sum_part(task, 0, source.parts[0])
    out = len(task) + len(pickle.dumps(source.parts[0]))
    back = len(pickle.dumps(outcome)) + len(pickle.dumps(status_of(outcome)))
    assert out < 5_000
    assert back < 1_000_000
    assert merged(outcome).sums[None].sketch() == sl.sketch(X, phi)
    with pytest.raises(RuntimeError, match="count twice"):
        merged(outcome, outcome)


@pytest.mark.parametrize("leaves", [0, 1, 2, FAN - 1, FAN, FAN + 1, 300, 5000])
def test_trees_merge_everything_once(leaves):
    merges = []

    def merge(*lists):
        merges.append(len(lists))
        return [x for part in lists for x in part]

    tree = Tree(merge)
    for i in range(leaves):
        tree.add([i])
    assert (tree.root() or []) == list(range(leaves))
    assert max(merges, default=0) <= FAN
    assert len(merges) <= leaves / (FAN - 1) + 4


@pytest.mark.parametrize("cluster", [False, True])
def test_users_are_shuffled_together(client, cluster):
    import dask.dataframe as dd
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["x", "y"]).assign(u=rng.zipf(1.3, 3000) % 300)
    phi = sl.FourierFeatures.draw(dim=2, size=12, scale=1.0, seed=0).with_columns(["x", "y"])
    want = sl.sketch(frame, phi, user="u", max_rows_per_user=2)
    pieces = dd.from_pandas(frame.sample(frac=1.0, random_state=0), npartitions=7)
    engine = client if cluster else "threads"
    assert sl.sketch(pieces, phi, user="u", max_rows_per_user=2, engine=engine).to_bytes() == want.to_bytes()
