"""Secure aggregation over HTTP and Flower: the noisy total of those who stay, and nothing else."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.federation import RoundError, SecureRound, contribute
from sketchlearn.federation import client as client_module
from sketchlearn.federation.flower_rounds import aggregated, answer
from sketchlearn.federation.http import Refusal
from sketchlearn.federation.rounds import STEPS, RoundStore
from sketchlearn.privacy import Ledger, rounds, sharing
from sketchlearn.privacy.rounds import PRIME, Party, Terms

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
NAMES = [f"clinic {i}" for i in range(10)]


def _rows(i):
    return np.random.default_rng(i).normal(size=(4000 + i, 2))


def _terms(honest=7):
    return Terms.new(PHI, 1.0, 1e-6, honest=honest)


def _close(total, exact, honest, came):
    """Within six standard deviations of the noise, which the record knows."""
    assert total.privacy.epsilon == 1.0
    assert total.privacy.details["parts"] == came
    assert total.privacy.details["honest"] == honest
    off = (total.sums - exact.sums).ravel()
    assert np.abs(off).max() < 6 * np.sqrt(total.privacy.sums_variance)
    assert off.std() > 0.5 * np.sqrt(total.privacy.sums_variance)  # there is noise
    assert abs(total.count - exact.count) < 6 * np.sqrt(total.privacy.weight_variance)


def _small_prime(n):
    return all(pow(a, n - 1, n) == 1 for a in (2, 3, 5, 7, 11))


def test_the_group_is_the_one_of_the_standard():
    assert PRIME.bit_length() == 2048
    assert _small_prime(PRIME)
    assert _small_prime((PRIME - 1) // 2)
    assert pow(2, (PRIME - 1) // 2, PRIME) == 1  # 2 has prime order
    for wrong in ("0", "1", f"{PRIME - 1:x}", f"{PRIME + 5:x}", "x", 5):
        with pytest.raises(ValueError, match=r"public key|base 16"):
            rounds.key_of(wrong)


def test_pairs_agree_on_a_secret_that_depends_on_the_round():
    first, second = _terms(2), _terms(2)
    a, b = Party(first, "a"), Party(first, "b")
    keys = {"a": a.public, "b": b.public}
    a.join(keys)
    b.join(keys)
    assert a._holder._seeds["b"] == b._holder._seeds["a"]
    assert a._holder._seeds["b"] != Party.from_json({**a.to_json(), "terms": second.to_json()})._holder._seeds["b"]
    with pytest.raises(ValueError, match="its own key"):
        Party(first, "a").join(keys)


def _through(store, parties, leaving=(), silent=(), again=False):
    """All messages of a round, with some who go."""
    for name, party in parties.items():
        store.post("keys", name, json.dumps({"public": party.public}).encode())
    keys = store.state()["keys"]
    for name, party in parties.items():
        store.post("pieces", name, rounds.pack_pieces(party.join(keys)))
    for i, (name, party) in enumerate(parties.items()):
        if name not in leaving:
            inbox = {u: rounds.bytes_of(text) for u, text in store.inbox(name).items()}
            body = rounds.pack_contribution(party.contribute(sl.sketch(_rows(i), PHI), inbox))
            assert store.post("sums", name, body) == "taken"
            if again:
                assert store.post("sums", name, body) == "known"
                with pytest.raises(Refusal, match="posts once"):
                    store.post("sums", name, body.replace(b"A", b"B"))
    if leaving:
        assert store.step == "sums"
        store.end_step()
    present = store.state()["present"]
    for name, party in parties.items():
        if name in present and name not in silent and store.step == "masks":
            store.post("masks", name, rounds.pack_answers(party.unmask(present)))


@pytest.mark.parametrize(("leaving", "silent"), [((), ()), (NAMES[2:5], ()), (NAMES[:1], NAMES[5:7])])
def test_nothing_is_lost_and_nothing_counts_twice(tmp_path, leaving, silent):
    store = RoundStore(tmp_path / "round.db", _terms(), holders=10, seconds=1e9)
    _through(store, {name: Party(store.terms, name) for name in NAMES}, leaving, silent, again=True)
    if store.step == "masks":
        store.end_step()
    here = [i for i, name in enumerate(NAMES) if name not in leaving]
    exact = sl.merge([sl.sketch(_rows(i), PHI) for i in here])
    _close(store.total, exact, 7, len(here))
    assert store.contributors == [NAMES[i] for i in here]
    assert not any(store.posted(step) for step in STEPS)  # nothing of the holders is kept
    store.close()


def test_too_few_holders_learn_nothing(tmp_path):
    store = RoundStore(tmp_path / "round.db", _terms(), holders=10, seconds=1e9)
    parties = {name: Party(store.terms, name) for name in NAMES}
    for name in NAMES[:6]:
        store.post("keys", name, json.dumps({"public": parties[name].public}).encode())
    assert store.end_step() == "failed"
    assert "6 of 10 holders" in store.problem
    assert store.total is None
    with pytest.raises(Refusal, match="has failed"):
        store.post("keys", "late", b"{}")
    store.close()


def test_a_server_that_was_killed_goes_on(tmp_path):
    path, terms = tmp_path / "round.db", _terms()
    store = RoundStore(path, terms, holders=10, seconds=1e9)
    parties = {name: Party(store.terms, name) for name in NAMES}
    for name, party in parties.items():
        store.post("keys", name, json.dumps({"public": party.public}).encode())
    store.close()
    store = RoundStore(path, _terms(), holders=10, seconds=1e9)  # other terms in memory, the same round in the file
    assert store.terms.nonce == terms.nonce
    assert store.step == "pieces"
    keys = store.state()["keys"]
    for name, party in parties.items():
        parties[name] = Party.from_json(json.loads(json.dumps(party.to_json())))  # holders too
        store.post("pieces", name, rounds.pack_pieces(parties[name].join(keys)))
    for i, name in enumerate(NAMES):
        parties[name] = Party.from_json(parties[name].to_json())
        inbox = {u: rounds.bytes_of(text) for u, text in store.inbox(name).items()}
        store.post("sums", name, rounds.pack_contribution(parties[name].contribute(sl.sketch(_rows(i), PHI), inbox)))
    present = store.state()["present"]
    for name in NAMES[:7]:
        store.post("masks", name, rounds.pack_answers(Party.from_json(parties[name].to_json()).unmask(present)))
    assert store.step == "masks"
    assert store.end_step() == "done"  # seven are enough
    last = rounds.pack_answers(Party.from_json(parties[NAMES[9]].to_json()).unmask(present))
    assert store.post("masks", NAMES[9], last) == "known"
    _close(store.total, sl.merge([sl.sketch(_rows(i), PHI) for i in range(10)]), 7, 10)
    with pytest.raises(ValueError, match="other terms"):
        RoundStore(path, Terms.new(PHI, 2.0, 1e-6, honest=7), holders=10, seconds=1.0)
    store.close()


def test_a_round_is_used_once():
    store = RoundStore(":memory:", _terms(2), holders=3, seconds=1e9)
    parties = {name: Party(store.terms, name) for name in "abc"}
    _through(store, parties)
    with pytest.raises(ValueError, match="used once"):
        parties["a"].contribute(sl.sketch(_rows(0), PHI), {})
    with pytest.raises(ValueError, match="given once"):
        parties["a"].unmask("abc")
    with pytest.raises(Refusal, match="too late"):
        store.post("keys", "d", json.dumps({"public": Party(store.terms, "d").public}).encode())
    store.close()


@pytest.mark.parametrize("step", STEPS[:-1])
def test_nonsense_is_refused(step):
    store = RoundStore(":memory:", _terms(2), holders=3, seconds=1e9)
    parties = {name: Party(store.terms, name) for name in "abc"}
    if step != "keys":
        for name, party in parties.items():
            store.post("keys", name, json.dumps({"public": party.public}).encode())
    if step in ("sums", "masks"):
        keys = store.state()["keys"]
        for name, party in parties.items():
            store.post("pieces", name, rounds.pack_pieces(party.join(keys)))
    if step == "masks":
        for name, party in parties.items():
            inbox = {u: rounds.bytes_of(text) for u, text in store.inbox(name).items()}
            store.post("sums", name, rounds.pack_contribution(party.contribute(sl.sketch(_rows(0), PHI), inbox)))
    short = rounds.text_of(b"x" * sharing.PIECE)
    bodies = [b"", b"[]", b"{}", b"nonsense", b'{"public": "0"}', b'{"a": "eA=="}', b'{"values": "eA==", "source": ""}']
    for body in [*bodies, json.dumps([["a", "a", short]]).encode(), b"[" * 5000]:
        with pytest.raises(Refusal, match="no message of this step"):
            store.post(step, "a", body)
    if step != "keys":
        with pytest.raises(Refusal, match="has left"):
            store.post(step, "nobody", b"{}")
    with pytest.raises(Refusal, match=r"too early|too late"):
        store.post("keys" if step != "keys" else "sums", "new", b"{}")
    assert store.step == step
    store.close()


# -- over HTTP -------------------------------------------------------------------------------------


class _Served:
    """An endpoint on a port of its own."""

    def __init__(self, app):
        import uvicorn

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="error", ws="none"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join()


def _all_at_once(url, names, go_away=(), **options):
    """Everybody takes part in a thread; some vanish before they send sums.  What became of each."""
    found = {}

    def one(i, name):
        def rows(phi):
            if name in go_away:
                raise KeyboardInterrupt
            return sl.sketch(_rows(i), phi)

        try:
            found[name] = contribute(url, name, rows, poll=0.02, timeout=60.0, **options)
        except BaseException as error:
            found[name] = error

    threads = [threading.Thread(target=one, args=(i, name)) for i, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_ten_holders_three_of_whom_go(tmp_path):
    pytest.importorskip("uvicorn")
    app = SecureRound(
        PHI, tmp_path / "round.db", epsilon=1.0, delta=1e-6, holders=10, honest=7, seconds=10.0, token="secret"
    )
    gone = NAMES[1:4]
    books = Ledger(tmp_path / "l.json", 1.0, 1e-6)
    with _Served(app) as url:
        with pytest.raises(RoundError, match="token"):
            contribute(url, "x", sl.sketch(_rows(0), PHI))
        with pytest.raises(ValueError, match=r"epsilon=1.0, not 0.5"):
            contribute(url, "x", sl.sketch(_rows(0), PHI), epsilon=0.5, token="secret")
        # those who go have shown a key and leave before the pieces
        real = client_module._Server.wait

        def wait(self, step):
            if step == "sums" and client_module.quote(self.name) in map(client_module.quote, gone):
                raise RoundError("gone")
            return real(self, step)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client_module._Server, "wait", wait)
            found = _all_at_once(url, NAMES, token="secret", ledger=None)
        here = [i for i, name in enumerate(NAMES) if name not in gone]
        _close(app.sketch, sl.merge([sl.sketch(_rows(i), PHI) for i in here]), 7, 7)
        assert all(isinstance(found[name], RoundError) == (name in gone) for name in NAMES)
        with pytest.raises(RoundError, match="late"):
            contribute(url, "late", sl.sketch(_rows(0), PHI), token="secret", ledger=books, dataset="x")
    assert not books.datasets  # nothing was sent, nothing is charged
    app.close()


def test_the_record_of_a_holder_is_charged_before_it_sends(tmp_path):
    pytest.importorskip("uvicorn")
    app = SecureRound(PHI, ":memory:", epsilon=1.0, delta=1e-6, holders=3, honest=2)
    book = Ledger(tmp_path / "l.json", 1.0, 1e-5)
    with _Served(app) as url:
        found = {}
        threads = [
            threading.Thread(
                target=lambda n=n: found.setdefault(
                    n, contribute(url, n, sl.sketch(_rows(0), PHI), poll=0.02, ledger=book, dataset=n)
                )
            )
            for n in "abc"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert app.sketch.privacy.epsilon == 1.0
    assert sorted(book.datasets) == ["a", "b", "c"]
    assert book.spent("a").epsilon == 1.0
    app.close()


def test_the_command_line_does_both_sides(tmp_path):
    pytest.importorskip("uvicorn")
    phi = tmp_path / "map.json"
    assert main(["design", "--lower=-5,-5", "--upper=5,5", "-k", "2", "-o", str(phi)]) == 0
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", _rows(i))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    given = ["--epsilon", "1", "--delta", "1e-6", "--features", str(phi), "--timeout", "60"]
    command = [sys.executable, "-m", "sketchlearn", "contribute", f"http://127.0.0.1:{port}"]
    quiet = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    holders = [subprocess.Popen([*command, f"{i}.npy", "--name", f"n{i}", *given], **quiet) for i in range(3)]
    out = tmp_path / "total.sketch"
    serve = ["serve", str(phi), "--store", str(tmp_path / "round.db"), "-o", str(out), "--port", str(port)]
    assert main([*serve, "--secure"]) == 2
    serve += ["--secure", "--holders", "3", "--honest", "2", "--epsilon", "1", "--delta", "1e-6", "--seconds", "30"]
    server = subprocess.run([sys.executable, "-m", "sketchlearn", *serve], capture_output=True, text=True, timeout=100)
    assert server.returncode == 0, server.stderr
    assert [holder.wait(60) for holder in holders] == [0, 0, 0]
    total = sl.load(out)
    assert total.privacy.epsilon == 1.0
    assert abs(total.count - 12_003) < 300
    assert "3 holders are in the total" in server.stderr


# -- Flower ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", [{}, {3: "sums", 4: "pieces", 5: "masks"}])
def test_a_grid_learns_the_total_of_the_nodes_that_stay(leaving):
    """Nodes forget everything between two questions but what their context keeps."""
    contexts = {}

    def ask(questions):
        found = {}
        for node, data in questions.items():
            asked = json.loads(data)
            if leaving.get(node) == asked["step"]:
                continue
            kept = contexts.get(node, b"")
            reply, contexts[node] = answer(asked, kept, lambda phi, i=node: sl.sketch(_rows(i), phi), {"epsilon": 1.0})
            found[node] = reply
        return found

    total, here, refused = aggregated(list(range(1, 11)), ask, _terms())
    gone = [node for node, step in leaving.items() if step != "masks"]
    assert here == tuple(node for node in range(1, 11) if node not in gone)
    assert not refused
    _close(total, sl.merge([sl.sketch(_rows(i), PHI) for i in here]), 7, len(here))
    assert not any(contexts[node] for node in range(1, 11) if node not in leaving)  # the secrets are gone


def test_a_node_refuses_other_terms():
    asked = {**SimpleNamespace(step="keys", me="1", terms=_terms().to_json()).__dict__}
    with pytest.raises(ValueError, match=r"epsilon=1.0, not 0.1"):
        answer(asked, b"", lambda phi: None, {"epsilon": 0.1})
    with pytest.raises(ValueError, match="not in the round"):
        answer({**asked, "step": "sums"}, b"", lambda phi: None, {})


def test_other_paths_and_methods_are_refused():
    app = SecureRound(PHI, ":memory:", epsilon=1.0, delta=1e-6, holders=3, honest=2)

    def ask(method, path, **headers):
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message):
            sent.append(message)

        given = [(k.encode(), v.encode()) for k, v in headers.items()]
        asyncio.run(app({"type": "http", "method": method, "path": path, "headers": given}, receive, send))
        return sent[0]["status"]

    assert ask("GET", "/round") == 200
    assert ask("GET", "/sketches") == 404
    assert ask("POST", "/round/done") == 404
    assert ask("POST", "/round/keys") == 400
    assert ask("POST", "/round/keys", holder="a") == 422
    assert ask("POST", "/round/sums", holder="a") == 425
    app.close()
