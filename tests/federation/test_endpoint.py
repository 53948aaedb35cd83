"""The endpoint ends with exactly the right bytes, whatever is sent to it."""

import asyncio
import json
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.federation import Collector, Store
from sketchlearn.federation.store import Submission
from sketchlearn.sketches.record import PrivacyRecord

PHI = sl.FourierFeatures.draw(dim=3, size=50, scale=1.0, seed=0)
OTHER = sl.FourierFeatures.draw(dim=3, size=50, scale=1.0, seed=1)


def _sketch(number, phi=PHI, rows=5):
    return sl.sketch(np.random.default_rng(number).normal(size=(rows, 3)), phi)


def _ask(app, method="POST", path="/sketches", body=b"", key="k", chunks=1, **headers):
    """One request, without a server."""
    sent = []
    given = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    if key is not None:
        given.append((b"idempotency-key", key.encode()))
    pieces = [body[i * len(body) // chunks : (i + 1) * len(body) // chunks] for i in range(chunks)]

    async def receive():
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    async def talk():
        await app({"type": "http", "method": method, "path": path, "headers": given}, receive, send)

    asyncio.run(talk())
    return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def app(tmp_path):
    made = Collector(PHI, tmp_path / "sum.db", most_rows=1000)
    yield made
    made.close()


def test_sketches_are_added_once(app, tmp_path):
    one, two = _sketch(1), _sketch(2)
    assert _ask(app, body=one.to_bytes(), key="1")[0] == 201
    assert _ask(app, body=two.to_bytes(), key="2", chunks=7)[0] == 201
    assert _ask(app, body=one.to_bytes(), key="1")[0] == 200  # again
    assert _ask(app, body=one.to_bytes(), key="3")[0] == 201  # somebody else with the same rows
    assert _ask(app, body=two.to_bytes(), key="1") == (422, b'{"status": "another sketch was sent with this key"}')
    total = sl.merge([one, two, one])
    assert app.sketch.to_bytes() == total.to_bytes()
    state = json.loads(_ask(app, "GET", "/")[1])
    assert state == {"fingerprint": PHI.fingerprint, "sketches": 3, "open": True}
    empty = sl.Sketch.from_bytes(_ask(app, "GET", "/recipe")[1])
    assert empty.features == PHI
    assert empty.is_empty
    again = Store(tmp_path / "sum.db", PHI)  # what is on disk, seen by another process
    assert again.sketch == total
    assert again.submissions == 3
    again.close()
    with pytest.raises(sl.IncompatibleSketchError, match="another feature map"):
        Store(tmp_path / "sum.db", OTHER)


def test_only_the_sum_and_digests_are_kept(app, tmp_path):
    noisy = replace(_sketch(1), extra={"name": "a secret"})
    assert _ask(app, body=noisy.to_bytes(), key="my own key")[0] == 201
    assert dict(app.sketch.extra) == {}
    app.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in kept
    assert b"my own key" not in kept


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (404, {"path": "/elsewhere"}),
        (405, {"method": "GET"}),
        (400, {"key": None}),
        (400, {"key": "x" * 201}),
        (413, {"content_length": "9" * 30}),
        (413, {"content_length": "-1"}),
        (413, {"body": b"x" * 100_000, "chunks": 50}),  # says nothing of its length
        (422, {"body": b""}),
        (422, {"body": b"no sketch at all"}),
        (422, {"body": _sketch(0).to_bytes()[:-1]}),
        (422, {"body": _sketch(0).to_bytes()[:-40] + bytes(8) + _sketch(0).to_bytes()[-32:]}),
        (409, {"body": _sketch(0, OTHER).to_bytes()}),
        (422, {"body": _sketch(0, rows=1001).to_bytes()}),  # more rows than one may have
    ],
)
def test_refusals_change_nothing(app, status, options):
    before = app.sketch.to_bytes()
    assert _ask(app, **options)[0] == status
    assert app.sketch.to_bytes() == before
    assert app.submissions == 0
    assert _ask(app, body=_sketch(1).to_bytes())[0] == 201


def test_late_and_unknown_clients(tmp_path):
    app = Collector(PHI, tmp_path / "a.db", until=time.time() - 1, token="t")
    data = _sketch(1).to_bytes()
    assert _ask(app, body=data)[0] == 401
    assert _ask(app, body=data, authorization="Bearer x")[0] == 401
    assert _ask(app, body=data, authorization="Bearer t")[0] == 410
    app.close()


def test_sums_out_of_range_are_refused(tmp_path):
    store = Store(tmp_path / "a.db", PHI)
    many = _sketch(1)
    for _ in range(60):  # doubled until no more fits
        try:
            many = many + many
        except (ValueError, OverflowError):
            break
    answers = store.add(Submission(bytes([i]), b"", many) for i in range(4))
    assert "added" in answers
    assert answers[-1] == "refused"
    assert store.submissions == answers.count("added")
    store.close()


def test_a_crash_in_the_middle_leaves_sum_and_keys_together(tmp_path, monkeypatch):
    store = Store(tmp_path / "a.db", PHI)
    store.add([Submission.of("1", _sketch(1).to_bytes(), PHI)])

    class Crashing:
        def __init__(self, file):
            self._file = file

        def execute(self, text, *values):
            if text.startswith("INSERT OR REPLACE"):
                raise sqlite3.OperationalError("disk full")
            return self._file.execute(text, *values)

        def __getattr__(self, name):
            return getattr(self._file, name)

        def __enter__(self):
            return self._file.__enter__()

        def __exit__(self, *error):
            return self._file.__exit__(*error)

    real = store._file
    monkeypatch.setattr(store, "_file", Crashing(real))
    with pytest.raises(sqlite3.OperationalError):
        store.add([Submission.of("2", _sketch(2).to_bytes(), PHI)])
    monkeypatch.setattr(store, "_file", real)
    assert store.sketch == _sketch(1)
    assert store.submissions == 1
    assert store.add([Submission.of("2", _sketch(2).to_bytes(), PHI)]) == ["added"]
    store.close()


def test_two_servers_on_one_file_lose_nothing(tmp_path):
    """Workers of one server, or an old and a new one during a restart."""
    apps = [Collector(PHI, tmp_path / "a.db") for _ in range(2)]
    sent = [_sketch(i) for i in range(10)]
    for i, sketch in enumerate(sent):
        assert _ask(apps[i % 2], body=sketch.to_bytes(), key=str(i))[0] == 201
    total = sl.merge(sent)
    for app in apps:
        assert app.sketch.to_bytes() == total.to_bytes()
        assert app.submissions == 10
        assert json.loads(_ask(app, "GET", "/")[1])["sketches"] == 10
    assert _ask(apps[1], body=sent[0].to_bytes(), key="0")[0] == 200  # which the other one took
    assert _ask(apps[1], body=sent[1].to_bytes(), key="0")[0] == 422
    for app in apps:
        app.close()
    again = Store(tmp_path / "a.db", PHI)
    assert again.sketch.to_bytes() == total.to_bytes()
    again.close()


def _added(arguments):
    path, which = arguments
    store = Store(path, PHI)
    for i in range(5):
        assert store.add([Submission.of(f"{which} {i}", _sketch(5 * which + i).to_bytes(), PHI)]) == ["added"]
    store.close()


def test_processes_that_open_and_write_at_once_lose_nothing(tmp_path):
    path = str(tmp_path / "a.db")
    with ThreadPoolExecutor(6) as pool:  # SQLite locks by connection: threads meet each other as processes do
        list(pool.map(_added, [(path, i) for i in range(6)]))
    store = Store(path, PHI)
    assert store.submissions == 30
    assert store.sketch == sl.merge(_sketch(i) for i in range(30))
    store.close()


def test_a_store_belongs_to_its_map_from_the_first_server_on(tmp_path):
    first = Store(tmp_path / "a.db", PHI)
    with pytest.raises(sl.IncompatibleSketchError, match="another feature map"):
        Store(tmp_path / "a.db", OTHER)
    first.close()


def _hostile(**fields):
    """A sketch that no pass over rows leaves, with a valid checksum."""
    return replace(_sketch(0, rows=1), **fields).to_bytes()


@pytest.mark.parametrize(
    "body",
    [
        _hostile(noise=1e30, sums=np.full(PHI.sums_shape, 2**60)),
        _hostile(noise=1e-9),
        _hostile(weight_bits=40),
        _hostile(skipped=1000),
        _hostile(privacy=PrivacyRecord("gaussian", 1.0, 0.0, "add-remove", 1, 1e30, 1.0, "0")),
    ],
)
def test_fields_of_a_sketch_do_not_switch_checks_off(app, body):
    assert _ask(app, body=_sketch(1).to_bytes(), key="1")[0] == 201
    status, text = _ask(app, body=body, key="2")
    assert status == 422, text
    assert _ask(app, body=_sketch(3).to_bytes(), key="3")[0] == 201
    assert app.sketch == _sketch(1) + _sketch(3)


def test_known_noise_is_taken_up_to_the_limit_that_was_set(tmp_path):
    app = Collector(PHI, tmp_path / "a.db", most_noise=0.01)
    assert _ask(app, body=_sketch(1).with_noise(0.01).to_bytes(), key="1")[0] == 201
    assert _ask(app, body=_sketch(2).with_noise(0.02).to_bytes(), key="2")[0] == 422
    assert app.sketch == _sketch(1).with_noise(0.01)
    app.close()


# -- on loopback -----------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    uvicorn = pytest.importorskip("uvicorn")
    app = Collector(PHI, tmp_path / "sum.db", body_timeout=1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield app, port
    server.should_exit = True
    thread.join()
    app.close()


async def _post(stream, key, body):
    """One request over a connection that stays open: (reader, writer)."""
    reader, writer = stream
    writer.write(b"POST /sketches HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n" % (
        key.encode(), len(body)))  # fmt: skip
    writer.write(body)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    await reader.readexactly(length)
    return int(head.split()[1])


def crowd(port, jobs, clients):
    """Statuses of (key, body) jobs that so many clients send at the same time."""

    async def client(mine, answers):
        stream = None
        for key, body in mine:
            for _ in range(100):
                try:
                    stream = stream or await asyncio.open_connection("127.0.0.1", port)
                    status = await _post(stream, key, body)
                    if status != 503:
                        break
                    await asyncio.sleep(0.05)
                except (OSError, asyncio.IncompleteReadError):
                    pass
                if stream is not None:
                    stream[1].close()
                stream = None
            answers.append(status)
            if status in (408, 413):
                stream[1].close()
                stream = None
        if stream is not None:
            stream[1].close()

    async def loris(head_only):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if head_only:
            writer.write(b"POST /sketches HTTP/1.1\r\nHost:")
        else:
            writer.write(b"POST /sketches HTTP/1.1\r\nHost: x\r\nIdempotency-Key: l\r\nContent-Length: 100\r\n\r\nabc")
        await writer.drain()
        status = None if head_only else int((await reader.readuntil(b"\r\n")).split()[1])
        return status, writer

    async def all_of_them():
        answers = []
        slow = [asyncio.create_task(loris(i % 2 == 0)) for i in range(10)]
        await asyncio.gather(*(client(jobs[i::clients], answers) for i in range(clients)))
        for status, writer in await asyncio.gather(*slow):
            assert status in (None, 408)
            writer.close()
        return answers

    return asyncio.run(all_of_them())


def workload(count, seed=0):
    """Submissions with 10 % duplicates, 5 % corrupt and 1 % hostile ones, and the sum that they must have."""
    rng = np.random.default_rng(seed)
    pool = [_sketch(i) for i in range(50)]
    jobs, total, expected = [], sl.Accumulator(PHI), dict.fromkeys((200, 201, 409, 413, 422), 0)
    for number in range(count):
        sketch, kind = pool[rng.integers(len(pool))], rng.random()
        data = sketch.to_bytes()
        if kind < 0.05:
            cut = bytearray(data)
            cut[rng.integers(len(cut))] ^= 1 << rng.integers(8)
            jobs.append((f"bad {number}", bytes(cut)))
            expected[422] += 1
        elif kind < 0.055:
            jobs.append((f"wrong {number}", _sketch(number, OTHER).to_bytes()))
            expected[409] += 1
        elif kind < 0.06:
            jobs.append((f"large {number}", bytes(60_000)))
            expected[413] += 1
        else:
            jobs.append((f"good {number}", data))
            expected[201] += 1
            total.merge(sl.Accumulator.of(sketch))
            if rng.random() < 0.1:
                jobs.append((f"good {number}", data))
                expected[200] += 1
    order = rng.permutation(len(jobs))
    return [jobs[i] for i in order], total.sketch(), expected


def test_a_crowd_of_clients(served):
    app, port = served
    jobs, total, expected = workload(400)
    answers = crowd(port, jobs, clients=40)
    assert {status: answers.count(status) for status in expected} == expected
    assert app.sketch.to_bytes() == total.to_bytes()


def test_health_is_open_and_the_sum_has_a_token_of_its_own(app, tmp_path):
    assert _ask(app, "GET", "/health", key=None) == (200, b'{"status": "ok"}')
    status, body = _ask(app, "GET", "/sum", key=None)
    assert status == 403
    assert b"without a token for readers" in body
    with_readers = Collector(PHI, tmp_path / "other.db", token="send", read_token="read")
    one = _sketch(1)
    assert _ask(with_readers, body=one.to_bytes(), authorization="Bearer send")[0] == 201
    assert _ask(with_readers, "GET", "/health", key=None)[0] == 200
    for wrong in ({}, {"authorization": "Bearer send"}):
        assert _ask(with_readers, "GET", "/sum", key=None, **wrong)[0] == 401
    status, body = _ask(with_readers, "GET", "/sum", key=None, authorization="Bearer read")
    assert status == 200
    assert sl.Sketch.from_bytes(body).sums.tolist() == one.sums.tolist()
    with_readers.close()
