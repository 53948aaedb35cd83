"""The page of a store: what it refuses, and that it works in a real browser."""

import shutil
import socket
import threading
import time

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.store.web import make_app, serve

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 2400
    X = rng.normal(size=(n, 2)) + rng.choice([-6.0, 6.0], size=(n, 1))
    day = np.arange(n) // 400
    X[day >= 4, 1] += 1.0
    phi = sl.design(X, n_components=3).with_columns(["a", "b"])
    made = sl.Store(tmp_path_factory.mktemp("page") / "s.duckdb")
    shops = {"shop": np.array(["x", "y", "z"])[rng.integers(0, 3, n)].tolist()}
    made.ingest(X, phi, time=np.datetime64("2024-05-01") + day, every="1d", group_by=shops)
    return made


@pytest.fixture
def client(store):
    return TestClient(make_app(store), base_url="http://127.0.0.1:8001")


def test_answers_are_what_the_library_says(store, client):
    found = client.get("/api/timeline", params={"dataset": "main"}).json()
    assert [p["rows"] for p in found["periods"]] == [400] * 6
    assert [c["period"] for c in found["changes"]] == ["2024-05-05"]
    assert found["changes"][0]["columns"][0].startswith("b")
    sketch = client.get("/api/sketch", params={"where": "shop = x"}).content
    assert sl.Sketch.from_bytes(sketch) == store.query(where={"shop": "x"}).sketch()
    assert sl.Model.from_json(client.get("/api/model", params={"k": "2"}).content).size == 2
    page = client.get("/api/report", params={"k": "2", "where": "shop = x"})
    assert page.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "2 clusters where shop = x" in page.text
    assert "default-src 'none'" in page.text
    assert "from 1 to 50" in client.get("/api/report", params={"k": "many"}).json()["error"]
    clusters = client.get("/api/clusters", params={"k": "2"}).json()["periods"]
    assert [sorted(c["id"] for c in p["clusters"]) for p in clusters] == [[0, 1]] * 6
    apart = {"since": "2024-05-01", "until": "2024-05-03", "since2": "2024-05-05"}
    assert client.get("/api/compare", params=apart).json()["p"] < 1e-6
    assert {g["group"] for g in client.get("/api/groups", params={"by": "shop"}).json()["groups"]} == {"x", "y", "z"}
    wrong = client.get("/api/timeline", params={"since": "yesterday"})
    assert wrong.status_code == 400
    assert "is not a time" in wrong.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_origins_are_refused(client, headers):
    for path in ("/", "/api/datasets", "/api/sketch"):
        assert client.get(path, headers=headers).status_code == 403


def test_nothing_can_be_changed_and_nothing_comes_from_outside(client):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/api/datasets").status_code == 405
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/", "/style.css", "/app.js"):
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text


def test_a_token_guards_everything_but_the_empty_page(store):
    client = TestClient(make_app(store, token="secret"), base_url="http://localhost", follow_redirects=False)
    assert client.get("/api/datasets").status_code == 401
    assert client.get("/api/datasets", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/api/datasets", headers={"authorization": "Bearer secret"}).status_code == 200
    assert client.post("/login", data={"token": "wrong"}).status_code == 403
    assert client.post("/login", data={"token": "secret"}).status_code == 303
    assert client.get("/api/datasets").status_code == 200


def test_an_open_address_needs_a_token(store, monkeypatch):
    monkeypatch.delenv("SKETCHLEARN_TOKEN", raising=False)
    with pytest.raises(ValueError, match="set SKETCHLEARN_TOKEN"):
        serve(store, "0.0.0.0")


@pytest.mark.slow
def test_the_page_works_in_a_browser_by_keyboard(store):
    sync = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("no browser here: install Debian's package chromium")
    import uvicorn

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(make_app(store), host="127.0.0.1", port=port, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        with sync.sync_playwright() as play:
            browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = browser.new_page(color_scheme="dark")
            asked, said = [], []
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector("#timeline svg", timeout=60_000)
            assert page.locator("#timeline rect").count() == 6
            assert "2024-05-05" in page.locator("#changes").inner_text()
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            page.focus("#clusters-form input[name=k]")
            page.keyboard.press("Control+A")
            page.keyboard.type("2")
            page.keyboard.press("Enter")
            page.wait_for_selector("#clusters circle", timeout=60_000)
            with page.expect_download(timeout=60_000) as given:
                page.press("#report", "Enter")
            assert given.value.suggested_filename == "report.html"
            assert "k=2" in given.value.url
            page.focus("#clusters-form input[name=k]")
            page.keyboard.press("Tab")
            page.keyboard.press("Tab")
            page.keyboard.press("ArrowLeft")
            assert "2024-05-05" in page.locator("#when").inner_text()
            page.focus("#compare-form input[name=since2]")
            page.fill("#selection input[name=until]", "2024-05-03")
            page.fill("#compare-form input[name=since2]", "2024-05-05")
            page.press("#compare-form input[name=since2]", "Enter")
            sync.expect(page.locator("#verdict")).to_contain_text("They differ", timeout=60_000)
            page.press("#groups-form select", "Tab")
            page.keyboard.press("Enter")
            page.wait_for_selector("#groups circle", timeout=60_000)
            assert page.locator("#groups circle").count() == 3
            page.press("#theme", "Enter")
            assert page.evaluate("document.documentElement.dataset.theme") == "light"
            assert said == []
            assert all(url.startswith((f"http://127.0.0.1:{port}/", "data:")) for url in asked)
            browser.close()
    finally:
        server.should_exit = True
        thread.join(10)
