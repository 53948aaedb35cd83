"""Flower: the sum is exactly that of the nodes that took part, simulated and with real processes on loopback."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.federation.flower import added_up

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
ROOT = Path(__file__).parents[2]


def _rows(node):
    return np.random.default_rng(node).normal(size=(20 + node, 2))


def _reply(node, data, error=False):
    return SimpleNamespace(
        metadata=SimpleNamespace(src_node_id=node),
        has_error=lambda: error,
        content={"sketch": {"bytes": data}},
    )


def test_every_node_counts_once():
    one, two = sl.sketch(_rows(1), PHI), sl.sketch(_rows(2), PHI)
    other = sl.sketch(_rows(3), sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=1))
    replies = [
        _reply(1, one.to_bytes()),
        _reply(1, one.to_bytes()),  # twice
        _reply(2, two.to_bytes()),
        _reply(3, other.to_bytes()),
        _reply(4, b"nonsense"),
        _reply(5, b"", error=True),
        _reply(99, one.to_bytes()),  # was never asked
    ]
    got = added_up(PHI, range(1, 7), replies)
    assert got.sketch.to_bytes() == (one + two).to_bytes()
    assert got.nodes == (1, 2)
    assert got.missing == (5, 6)
    assert sorted(got.refused) == [3, 4]
    with pytest.raises(RuntimeError, match="2 nodes have answered, 3 are needed"):
        added_up(PHI, range(1, 7), replies, fewest=3)


def _environment():
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH")]
    return {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"],
    }  # fmt: skip


_SIMULATION = """
import sys
import numpy as np
import sketchlearn as sl
from flwr.simulation import run_simulation
from sketchlearn.federation.flower import client_app, server_app

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)

def rows(context):
    node = int(context.node_config["partition-id"])
    if node % 10 == 3:
        raise OSError("this node has dropped out")
    return np.random.default_rng(node).normal(size=(20 + node, 2))

def finish(collected):
    print("DONE", len(collected.nodes), len(collected.missing), len(collected.refused))
    collected.sketch.save(sys.argv[1])

if __name__ == "__main__":
    run_simulation(
        server_app(PHI, finish, fewest=45), client_app(rows), num_supernodes=50,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
"""


def test_fifty_simulated_clients_one_of_ten_dropping_out(tmp_path):
    pytest.importorskip("flwr")
    (tmp_path / "simulation.py").write_text(_SIMULATION)
    done = subprocess.run(
        [sys.executable, "simulation.py", "total.sketch"],
        cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert "DONE 45 5 0" in done.stdout, done.stdout + done.stderr
    took_part = [sl.sketch(_rows(node), PHI) for node in range(50) if node % 10 != 3]
    assert (tmp_path / "total.sketch").read_bytes() == sl.merge(took_part).to_bytes()


def _free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def test_real_processes_on_loopback(tmp_path):
    pytest.importorskip("flwr")
    link, one, two = _free_ports(3)
    bin_, env = Path(sys.executable).parent, {**_environment(), "FLWR_HOME": str(tmp_path / "flwr")}
    (tmp_path / "flwr").mkdir()
    (tmp_path / "flwr" / "config.toml").write_text(
        f'[superlink.loopback]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    log = (tmp_path / "log").open("w")
    processes = []

    def start(*command):
        made = subprocess.Popen(list(map(str, command)), cwd=tmp_path, env=env, stdout=log, stderr=log)
        processes.append(made)

    try:
        start(
            bin_ / "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", link,
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        for number, port in enumerate((one, two)):
            start(
                bin_ / "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{link}",
                "--host", "127.0.0.1", "--port", port, "--node-config", f"partition-id={number}",
            )  # fmt: skip
        app, total = ROOT / "examples" / "flower", tmp_path / "total.sketch"
        end = time.monotonic() + 300
        asked = None
        while not total.exists() and time.monotonic() < end:
            if asked is None or asked.returncode:
                asked = subprocess.run(
                    [bin_ / "flwr", "run", app, "loopback", "--run-config", f"output='{total}' nodes=2"],
                    cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200, check=False,
                )  # fmt: skip
            time.sleep(1)
        assert total.exists(), (asked.stdout + asked.stderr if asked else "") + (tmp_path / "log").read_text()
        got = sl.load(total)
        phi = got.features
        assert got == sl.merge([sl.sketch(np.random.default_rng(i).normal(size=(1000, 2)), phi) for i in (0, 1)])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
        log.close()
