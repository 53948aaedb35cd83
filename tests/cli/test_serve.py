"""``sketchlearn serve`` with a server that handles one request and stops."""

import asyncio

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
