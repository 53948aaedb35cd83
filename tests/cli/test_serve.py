"""``sketchlearn serve`` with a server that handles one request and stops."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main

uvicorn = pytest.importorskip("uvicorn")


def test_serve_writes_the_sum_when_it_stops(tmp_path, monkeypatch):
    phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=0)
    sent = sl.sketch(np.ones((5, 2)), phi)
    sl.Sketch.empty(phi).save(tmp_path / "map.sketch")
    monkeypatch.setenv("SKETCHLEARN_TOKEN", "secret")
    statuses = []

    def run(app, host, port, **options):
        assert (host, port) == ("127.0.0.1", 8123)
        for token in (b"Bearer secret", b"Bearer guess"):
            headers = [(b"idempotency-key", b"1"), (b"authorization", token)]
            scope = {"type": "http", "method": "POST", "path": "/sketches", "headers": headers}

            async def receive():
                return {"type": "http.request", "body": sent.to_bytes()}

            async def send(message):
                statuses.append(message.get("status"))

            asyncio.run(app(scope, receive, send))

    monkeypatch.setattr(uvicorn, "run", run)
    store, output = tmp_path / "sum.db", tmp_path / "sum.sketch"
    assert main(["serve", str(tmp_path / "map.sketch"), "-s", str(store), "-o", str(output), "--port", "8123"]) == 0
    assert statuses[::2] == [201, 401]
    assert output.read_bytes() == sent.to_bytes()


def test_serve_takes_a_map_and_no_files_of_others(tmp_path, monkeypatch, capsys):
    phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=0)
    (tmp_path / "map.json").write_text(json.dumps({"features": phi.recipe()}))
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE customers (name)")
        shop.commit()
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr(uvicorn, "run", lambda *args, **options: None)
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "map.json", "-s", "sum.db", "-o", "sum.sketch"]) == 0
    for store, output, code in (("shop.db", "s.sketch", 5), ("rows.csv", "s.sketch", 5), ("sum.db", "rows.csv", 6)):
        before = {name: (tmp_path / name).read_bytes() for name in ("shop.db", "rows.csv")}
        assert main(["serve", "map.json", "-s", store, "-o", output]) == code
        assert "choose another output" in capsys.readouterr().err
        assert {name: (tmp_path / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_writes_the_sum_however_it_is_stopped(tmp_path, number):
    phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=0)
    sent = sl.sketch(np.ones((5, 2)), phi)
    sl.Sketch.empty(phi).save(tmp_path / "map.sketch")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "sketchlearn", "serve", "map.sketch", "-s", "sum.db", "-o", "sum.sketch", "--port"]
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    server = subprocess.Popen([*command, str(port)], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as line:
                body = sent.to_bytes()
                head = (
                    f"POST /sketches HTTP/1.1\r\nHost: x\r\nIdempotency-Key: 1\r\nContent-Length: {len(body)}\r\n\r\n"
                )
                line.sendall(head.encode() + body)
                assert line.recv(100).split()[1] in (b"200", b"201")
                break
            time.sleep(0.05)
        server.send_signal(number)
        _, said = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode in ((0, 130) if number == signal.SIGINT else (0,)), said  # by version of the server
    assert (tmp_path / "sum.sketch").read_bytes() == sent.to_bytes()
