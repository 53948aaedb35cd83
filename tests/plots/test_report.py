"""The report page, also in a real browser."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning

import sketchlearn as sl
from sketchlearn.models import ClusterModel

NASTY = ["age", "in</script><script>bad()</script>", "a & b", "'q\"<i>", "größe 漢"]


@pytest.fixture(scope="module")
def sketch():
    rng = np.random.default_rng(0)
    centers = 6 * rng.normal(size=(4, 5))
    X = centers[rng.choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(size=(20_000, 5))
    return sl.sketch(X, sl.design(X[:1000], n_components=6).with_columns(NASTY))


@pytest.fixture(scope="module")
def models(sketch):
    X = np.random.default_rng(1).normal(size=(3000, 4)) * [1.0, 2.0, 3.0, 4.0]
    return {
        "kmeans": sl.CompressiveKMeans(4, random_state=0).fit_sketch(sketch),
        "rough": sl.CompressiveKMeans(2, random_state=0).fit(np.random.default_rng(2).uniform(size=(5000, 3))),
        "gmm": sl.CompressiveGaussianMixture(2, covariance_type="tied", random_state=0).fit(X[:, :2]),
        "one column": sl.CompressiveKMeans(2, random_state=0).fit(X[:, :1]),
        "stable": sl.CompressiveStableMixture(1, random_state=0).fit(X[:, :2]),
        "pca": sl.CompressivePCA(3).fit(X),
        "regression": sl.CompressiveLinearRegression().fit(X[:, :3], X @ [1.0, -2.0, 0.0, 0.1]),
    }


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.text, self.links, self.scripts = [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.scripts += tag == "script"
        if "id" in given:
            self.ids.append(given["id"])
        self.links += [v for k, v in attributes if k in ("src", "href", "action", "data", "poster")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize(
    ("name", "pictures", "words"),
    [
        ("kmeans", {"map", "residual", "components"}, ["4 clusters of 20,000 rows, 5 columns", *NASTY]),
        ("rough", {"map", "residual"}, ["Near the best", "the misfit is"]),
        ("gmm", {"map", "residual"}, ["2 Gaussian components"]),
        ("one column", {"curve", "residual"}, ["column 0"]),
        ("stable", {"map", "components"}, ["alpha"]),
        ("pca", {"spectrum", "loadings"}, ["of the variance explained"]),
        ("regression", {"coefficients", "table"}, ["column 3 from 3 columns", "R²"]),
    ],
)
def test_tables_are_there_without_scripts(models, name, pictures, words):
    page = Page(sl.plots.report(models[name]))
    assert pictures <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    text = "".join(page.text)
    for word in words:
        assert word in text
    assert page.scripts == 2  # the data and the program: no name of a column became one
    assert page.links == []


def test_nothing_is_loaded_from_anywhere(models):
    page = sl.plots.report(models["kmeans"])
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a language, not an address
    assert "default-src 'none'" in page
    assert "url(" not in page.replace("url(#", "")


def test_the_page_is_the_same_every_time_and_written_whole(models, tmp_path):
    page = sl.plots.report(models["kmeans"], tmp_path / "r.html", title="Customers <1>")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
    assert page == sl.plots.report(sl.Model.of(models["kmeans"]), title="Customers <1>")
    assert "<title>Customers &lt;1&gt;</title>" in page


@pytest.mark.slow
def test_very_many_covariances_are_left_out():
    k, d = 30, 90
    rng = np.random.default_rng(0)
    mixture = sl.Mixture(np.full(k, 1 / k), rng.normal(size=(k, d)), np.repeat(np.eye(d)[None], k, 0))
    model = ClusterModel(
        rows=1000,
        columns=tuple(f"c{i}" for i in range(d)),
        centers=mixture.means,
        weights=mixture.weights,
        mixture=mixture,
    )
    assert len(sl.plots.report(model)) < 1_000_000
    many = sl.Mixture(np.full(700, 1 / 700), np.zeros((700, 300)), np.ones((700, 300)))
    columns = tuple(f"c{i}" for i in range(300))
    sl.plots.report(ClusterModel(rows=1000, columns=columns, centers=many.means, weights=many.weights, mixture=many))


def test_columns_far_from_zero_keep_their_digits():
    times = 1.7e9 + np.array([0.0, 600.0, 1200.0])
    X = times[np.random.default_rng(0).integers(3, size=9000)] + np.random.default_rng(1).normal(size=9000) * 30
    page = sl.plots.report(sl.CompressiveKMeans(3, random_state=0).fit(X[:, None]))
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    np.testing.assert_allclose(np.sort(np.ravel(data["components"]["means"])), times, atol=5)
    shown = re.findall(r">1,7\d\d,\d\d\d,\d\d\d<", page)
    assert len(set(shown)) == 3


def test_the_report_never_replaces_its_model(models, tmp_path):
    sl.Model.of(models["pca"]).save(tmp_path / "m.json")
    with pytest.raises(ValueError, match="would overwrite its model"):
        sl.plots.report(tmp_path / "m.json", tmp_path / "m.json")


def test_a_constant_predictor_has_no_t_value():
    X = np.c_[np.ones(500), np.random.default_rng(0).normal(size=500)]
    with pytest.warns(LinAlgWarning, match="collinear"):
        model = sl.CompressiveLinearRegression().fit(X, X[:, 1])
    page = sl.plots.report(model)
    assert "<td>\u2013</td>" in page
    assert "'inf'" not in page


# -- in a browser ----------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium: install Debian's package chromium to test pages")

WATCH = """<script>
window.wrong = [];
addEventListener("error", (e) => wrong.push(String(e.message)));
document.addEventListener("securitypolicyviolation", (e) => wrong.push("blocked " + e.blockedURI));
</script>"""
TRY = """<pre id="seen"></pre><script>
const seen = {};
const q = (s) => document.querySelector(s), all = (s) => [...document.querySelectorAll(s)];
try {
  seen.ready = document.documentElement.dataset.ready;
  seen.pictures = Object.fromEntries(all(".picture").map((p) => [p.id, p.querySelectorAll("path,circle,rect").length]));
  seen.theme = document.documentElement.dataset.theme;
  q("#theme").click();
  seen.other = document.documentElement.dataset.theme;
  seen.background = getComputedStyle(document.body).backgroundColor;
  const map = q("#map");
  if (map) {
    const places = () => all("#map circle").map((c) => c.getAttribute("cx")).join();
    const principal = places();
    seen.axes = all("#axis-x option").map((o) => o.textContent);
    q("#axis-x").value = "0";
    q("#axis-x").dispatchEvent(new Event("change"));
    seen.moved = principal !== places();
    seen.labels = all("#map text").map((t) => t.textContent);
    seen.shaded = all("#map canvas").length;
    q("#show-density").click(); q("#show-outlines").click();
    seen.plain = [all("#map canvas").length, all("#map g.mark path").length];
    q("#map g.mark").dispatchEvent(new PointerEvent("pointermove", { clientX: 300, clientY: 300 }));
    seen.tip = q("#map .tip").style.display + " " + q("#map .tip").textContent;
    q("#map g.mark").dispatchEvent(new Event("click"));
    seen.chosen = all("tr.chosen").map((r) => r.dataset.component);
    seen.dimmed = all("#map .dim").length;
    const column = () => all("#components tbody tr").map((r) => Number(r.cells[1].dataset.value));
    q("#components th:nth-child(2) button").click();
    seen.down = column();
    q("#components th:nth-child(2) button").click();
    seen.sorted = q("#components th:nth-child(2)").ariaSort;
    seen.up = column();
  }
  const row = q("tr[data-component]");
  if (row) {
    const before = all("tr.chosen").length;
    row.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    seen.keyboard = all("tr.chosen").length !== before || all(".dim").length > 0;
  }
  seen.focusable = all("button, select, input, [tabindex]").length;
  const create = document.createElement.bind(document);
  document.createElement = (tag) => {
    const element = create(tag);
    if (tag === "a") element.click = () => (seen.download = element.download);
    return element;
  };
  const pack = URL.createObjectURL;
  URL.createObjectURL = (blob) => { window.blob = blob; return pack(blob); };
  if (q("button[data-table]")) q("button[data-table]").click();
} catch (e) { wrong.push("test: " + e); }
Promise.resolve(window.blob ? blob.text() : "").then((text) => {
  seen.csv = text;
  seen.wrong = wrong;
  q("#seen").textContent = JSON.stringify(seen);
});
</script>"""


def browse(path, *flags):
    """The page after its scripts and ours have run."""
    command = [
        BROWSER, "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1200,1600",
        f"--user-data-dir={path.parent / 'browser'}", *(["--no-sandbox"] if os.geteuid() == 0 else []), *flags,
        path.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()


def tried(page, tmp_path, *flags):
    watched = page.replace("<head>", "<head>" + WATCH, 1).replace("</body>", TRY + "</body>", 1)
    (tmp_path / "page.html").write_text(watched, encoding="utf-8")
    dom = browse(tmp_path / "page.html", "--virtual-time-budget=3000", "--dump-dom", *flags)
    shown = Page(dom[dom.index('<pre id="seen">') :]).text
    return json.loads(shown[0])


@in_browser
def test_a_person_can_use_the_page(models, sketch, tmp_path):
    table = sl.sweep(sketch, range(1, 7), random_state=0)
    seen = tried(sl.plots.report(models["kmeans"], sweep=table), tmp_path)
    assert seen["wrong"] == []
    assert seen["ready"] == "yes"
    assert set(seen["pictures"]) == {"map", "sweep", "residual"}
    assert min(seen["pictures"].values()) > 5
    assert {seen["theme"], seen["other"]} == {"light", "dark"}
    assert seen["axes"] == ["principal component 1", *NASTY]
    assert seen["moved"]
    assert {NASTY[0], NASTY[1]} <= set(seen["labels"])
    assert seen["shaded"] == 1
    assert seen["plain"] == [0, 0]
    assert seen["tip"].startswith("block cluster 0:")
    assert NASTY[1] in seen["tip"]
    assert seen["chosen"] == ["0"]
    assert seen["dimmed"] == 3
    assert seen["down"] == sorted(seen["down"], reverse=True) == seen["up"][::-1]
    assert (seen["sorted"], seen["keyboard"], seen["download"]) == ("ascending", True, "components.csv")
    lines = seen["csv"].splitlines()
    assert len(lines) == 5
    known = "cluster,share,rows (estimated),± share,± centre"
    assert lines[0] == f'{known},age,in</script><script>bad()</script>,a & b,"\'q""<i>",größe 漢'


@in_browser
def test_downloads_hold_no_formulas(models, tmp_path):
    names = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "-5"]
    model = replace(models["kmeans"].to_model(), columns=tuple(names), named=True)
    seen = tried(sl.plots.report(model), tmp_path)
    head, first = seen["csv"].splitlines()[:2]
    assert head == "cluster,share,rows (estimated),± share,± centre,'=1+1,'+cmd|' /C calc'!A0,'-2+3,'@SUM(1),-5"
    assert all(float(cell) == float(cell) for cell in first.split(",")[1:])  # numbers stay numbers


@in_browser
@pytest.mark.parametrize("name", ["rough", "gmm", "one column", "stable", "pca", "regression"])
def test_pages_of_all_models_run_without_errors(models, name, tmp_path):
    seen = tried(sl.plots.report(models[name]), tmp_path)
    assert seen["wrong"] == []
    assert seen["ready"] == "yes"
    assert min(seen["pictures"].values()) > 1


@in_browser
def test_light_and_dark_follow_the_system(models, tmp_path):
    page = sl.plots.report(models["pca"])
    themes = []
    for flags in ([], ["--force-dark-mode"]):
        themes.append(tried(page, tmp_path, *flags)["theme"])
    assert themes == ["light", "dark"]


@in_browser
def test_the_picture_is_really_painted(models, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    (tmp_path / "page.html").write_text(sl.plots.report(models["kmeans"]), encoding="utf-8")
    browse(tmp_path / "page.html", f"--screenshot={tmp_path / 'page.png'}")
    pixels = image.imread(tmp_path / "page.png")[..., :3]
    assert len(np.unique((pixels * 255).astype(int).reshape(-1, 3), axis=0)) > 500
