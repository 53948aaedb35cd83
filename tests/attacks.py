"""Two servers on one store, hostile fields, links and a full disk: what they leave is right or refused, never lost.

``python tests/attacks.py 20`` starts two servers on one file and kills one of them twenty times while clients send;
then it forges fields of sketches, writes through links, and fills a file system.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np

import sketchlearn as sl
from sketchlearn.engines.append import append
from sketchlearn.federation import Store
from sketchlearn.federation.store import Submission
from sketchlearn.privacy import Ledger
from sketchlearn.sketches.record import PrivacyRecord

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
ROWS = 10


def _sketch(number):
    return sl.sketch(np.random.default_rng(number).normal(size=(ROWS, 2)), PHI, workers=1)


def _port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _server(folder, port):
    command = [sys.executable, "-m", "sketchlearn", "serve", "map.sketch", "-s", "sum.db", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    started = subprocess.Popen(
        [*command, "-o", f"{port}.sketch"], cwd=folder, env=environment, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return started
        time.sleep(0.05)
    raise TimeoutError("the server did not start")


def _post(port, key, body):
    line = HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(line):
        line.request("POST", "/sketches", body, {"Idempotency-Key": key})
        return line.getresponse().status


def two_servers(folder, kills, seed=0):
    """Clients send to either of two servers, of which one is killed and restarted; each sketch is in the sum once."""
    sl.Sketch.empty(PHI).save(folder / "map.sketch")
    ports = [_port(), _port()]
    servers = [_server(folder, port) for port in ports]
    rng, sent, done = np.random.default_rng(seed), [], []

    def client(number):
        which, until = number % 2, time.monotonic() + 120
        while time.monotonic() < until:
            try:
                status = _post(ports[which], str(number), bodies[number])
            except (OSError, HTTPException):  # no answer: send it again, to the other one
                which, status = 1 - which, 0
                time.sleep(0.02)
            if status in (200, 201):
                return number
        raise TimeoutError(f"sketch {number} got no answer")

    try:
        for kill in range(kills):
            numbers = range(10 * kill, 10 * kill + 10)
            bodies = {number: _sketch(number).to_bytes() for number in numbers}
            sent += numbers
            with ThreadPoolExecutor(10) as pool:
                answers = [pool.submit(client, number) for number in numbers]
                time.sleep(float(rng.uniform(0, 0.05)))
                servers[1].send_signal(signal.SIGKILL if kill % 2 else signal.SIGTERM)
                servers[1].wait()
                done += [answer.result() for answer in answers]
            if kill % 2 == 0:  # ended by SIGTERM: its file is there
                sl.load(folder / f"{ports[1]}.sketch")
            servers[1] = _server(folder, ports[1])
        for server in servers:
            server.send_signal(signal.SIGTERM)
            server.wait()
    finally:
        for server in servers:
            server.kill()
            server.wait()
    total = sl.merge(_sketch(number) for number in sent)
    store = Store(folder / "sum.db", PHI)
    assert store.submissions == len(sent) == len(done)
    assert store.sketch == total
    store.close()
    for port in ports:
        assert sl.load(folder / f"{port}.sketch") == total
    return len(sent)


def hostile_fields(count, seed=0):
    """Sketches with fields that no pass over rows leaves, in all combinations: refused, or within their bounds."""
    rng, refused = np.random.default_rng(seed), 0
    for _ in range(count):
        size = int(rng.integers(0, 64))
        record = PrivacyRecord("gaussian", 1.0, 0.0, "add-remove", 1, float(10.0 ** rng.integers(0, 40)), 1.0, "0")
        fields = {
            "sums": rng.integers(-(2**size) if size < 63 else -(2**63), 2 ** min(size, 62), PHI.sums_shape),
            "noise": float(rng.choice([0.0, 1e-9, 1.0, 10.0 ** rng.integers(0, 300)])),
            "weight_bits": int(rng.choice([0, 1, 16, 17, 40, 62])),
            "weight": int(2 ** rng.integers(0, 62)),
            "skipped": int(2 ** rng.integers(0, 62)),
            "squared_weights": int(rng.choice([-1, 1, 2**40])),
            "privacy": record,
        }
        chosen = {name: value for name, value in fields.items() if rng.random() < 0.4}
        try:
            body = replace(_sketch(0), **chosen).to_bytes()
            made = Submission.of("k", body, PHI, most_rows=1000).sketch
        except (ValueError, OverflowError):
            refused += 1
            continue
        assert made.count + made.skipped <= 1000
        assert not made.noise
        assert made.privacy is None
        assert np.abs(made.mean).max() <= 1 + 1e-5
        (_sketch(1) + made + made).to_bytes()
    return refused


def links(folder):
    """A link and its target are one output and one budget, also for many processes at once."""
    target, link = folder / "all.sketch", folder / "link.sketch"
    link.symlink_to(target)
    append(np.ones((ROWS, 2)), target, PHI)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: append(np.full((ROWS, 2), float(i)), (target, link)[i % 2]), range(8)))
    assert link.is_symlink()
    assert sl.load(target).count == 9 * ROWS
    ledger, linked = folder / "ledger.json", folder / "linked.json"
    linked.symlink_to(ledger)
    Ledger(ledger, epsilon=1.0)

    def spend(number):
        try:
            Ledger((ledger, linked)[number % 2], epsilon=1.0).spend("x", 0.1, what="a look")
        except sl.BudgetError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        spent = sum(pool.map(spend, range(30)))
    assert spent == 10, spent
    assert linked.is_symlink()
    return spent


def full_disk(folder):
    """Every output on a file system without space: exit code 6, one line, and the old file stays."""
    import resource

    from sketchlearn.cli import main

    rows = np.random.default_rng(0).normal(size=(500, 2))
    np.save(folder / "rows.npy", rows)
    sl.Sketch.empty(PHI).save(folder / "map.sketch")
    sl.sketch(rows, PHI).save(folder / "old.sketch")
    old = (folder / "old.sketch").read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    commands = [
        ["sketch", "rows.npy", "-f", "map.sketch", "-o", "old.sketch"],
        ["merge", "old.sketch", "old.sketch", "-o", "new.sketch"],
        ["learn", "kmeans", "old.sketch", "-k", "1", "-o", "model.json"],
    ]
    os.chdir(folder)
    codes = []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        contextlib.redirect_stdout(nowhere),
    ):
        for command in commands:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))  # no file gets longer than 64 bytes
            codes.append(main(command))
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert codes == [6] * len(commands), codes
    assert (folder / "old.sketch").read_bytes() == old
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]
    return len(codes)


def run(kills, seed=0):
    """All attacks; a line for each."""
    with tempfile.TemporaryDirectory() as name:
        yield f"two servers: {two_servers(Path(name), kills, seed)} sketches, {kills} stops and kills, each once"
    yield f"hostile fields: {hostile_fields(100 * kills, seed)} of {100 * kills} refused, the others within bounds"
    with tempfile.TemporaryDirectory() as name:
        yield f"links: {links(Path(name))} spendings of 0.1 from a budget of 1"
    with tempfile.TemporaryDirectory() as name:
        home = Path.cwd()
        try:
            yield f"full disk: {full_disk(Path(name))} commands, exit code 6"
        finally:
            os.chdir(home)


if __name__ == "__main__":
    for line in run(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
