"""A pass on Ray has the bytes and the errors of a local one, also when workers die."""

import os
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray has many

from partitions import OPTIONS, PHI, READING, begun, killing_a_reader, slow, table, uneven, write_files  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    more = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in more.items():
            patch.setenv(name, value)
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[1])]))
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
            runtime_env={"env_vars": {"PYTHONPATH": path}}, object_store_memory=200_000_000,
        )  # fmt: skip
        yield
        ray.shutdown()


@pytest.mark.parametrize("count", [1, 7, 64])
def test_files_have_the_same_bytes(tmp_path, count):
    write_files(tmp_path, uneven(count))
    seen = []
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}):
        here = sl.sketch(tmp_path, PHI, **OPTIONS, **more)
        there = sl.sketch(tmp_path, PHI, engine="ray", progress=lambda *r: seen.append(r), **OPTIONS, **more)
        assert there.to_bytes() == here.to_bytes()
    assert seen[0][0] >= 0


@pytest.mark.parametrize("count", [1, 7, 64])
def test_datasets_have_the_same_bytes(tmp_path, count):
    write_files(tmp_path, uneven(count))
    dataset = ray.data.from_arrow([table(rows, i) for i, rows in enumerate(uneven(count)) if rows])
    for more in ({}, {"group_by": "g"}, {"where": "x > 0"}) if count == 7 else ({"group_by": "g"},):
        got = sl.sketch(dataset, PHI, **OPTIONS, **more)
        assert got.to_bytes() == sl.sketch(tmp_path, PHI, **OPTIONS, **more).to_bytes()
    if count == 7:
        doubled = sl.read(dataset, columns=["x", "y"]).map(_doubled)
        here = sl.read(tmp_path, columns=["x", "y"]).map(_doubled)
        assert sl.sketch(doubled, PHI, on_invalid="skip") == sl.sketch(here, PHI, on_invalid="skip")
        assert sl.sketch(dataset, PHI, engine="threads", **OPTIONS) == sl.sketch(tmp_path, PHI, **OPTIONS)
        with pytest.raises(ValueError, match="has no column 'z'"):
            sl.sketch(dataset, PHI, columns=["x", "z"])
        with pytest.raises(ValueError, match=r"of block \d+\) holds NaN or a null in column 'y'"):
            sl.sketch(dataset, PHI, **READING)


def _doubled(rows):
    return rows * 2


def test_rows_of_this_process():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    assert sl.sketch(X, PHI, engine=ray) == sl.sketch(X, PHI)


def test_errors_name_the_row_as_threads_do(tmp_path):
    write_files(tmp_path, [5, 700, 700, 300])
    for more in ({}, {"group_by": "g"}):
        with pytest.raises(ValueError, match=r"of 001.parquet") as threads:
            sl.sketch(tmp_path, PHI, **READING, **more)
        with pytest.raises(ValueError, match=r"of 001.parquet") as there:
            sl.sketch(tmp_path, PHI, engine="ray", **READING, **more)
        assert str(there.value) == str(threads.value)


def test_a_worker_that_dies_changes_nothing(tmp_path):
    data, log = write_files(tmp_path / "data", [300] * 40), tmp_path / "log"
    source = slow(sl.read(data, group_by="g", **READING), log)
    with killing_a_reader(log, after=10) as killed:
        got = sl.sketch(source, PHI, engine="ray", on_invalid="skip")
    assert killed
    assert got.to_bytes() == sl.sketch(data, PHI, group_by="g", on_invalid="skip", **READING).to_bytes()
    assert len(begun(log)) > 40  # something was summed twice, nothing counts twice


def test_a_pass_is_resumed(tmp_path):
    data, log, point = write_files(tmp_path / "data", [300] * 20), tmp_path / "log", tmp_path / "point"

    def stop(done, total):
        if done > 3000:
            raise KeyboardInterrupt

    source = slow(sl.read(data, **READING), log, 0.02)
    with pytest.raises(KeyboardInterrupt):
        sl.sketch(source, PHI, engine="ray", on_invalid="skip", checkpoint=point, checkpoint_every=0, progress=stop)
    got = sl.sketch(data, PHI, engine="ray", checkpoint=point, **OPTIONS)
    assert got.to_bytes() == sl.sketch(data, PHI, **OPTIONS).to_bytes()
