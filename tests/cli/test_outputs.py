"""Where results go: nothing foreign is replaced, links stay links, and names of columns are never obeyed."""

import json
import os

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.words import printable

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2000, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 1000, axis=0)


@pytest.fixture
def made(tmp_path):
    phi = sl.design(X, n_components=2, seed=0)
    sl.sketch(X, phi).save(tmp_path / "s.sketch")
    (tmp_path / "map.json").write_text(json.dumps({"features": phi.recipe()}))
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "west.parquet")
    (tmp_path / "notes.json").write_text('{"mine": 1}')
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "photo.png").write_bytes(b"GIF89a")
    return tmp_path


@pytest.mark.parametrize("foreign", ["west.parquet", "notes.json", "notes.txt"])
@pytest.mark.parametrize(
    "command",
    [
        ["learn", "kmeans", "s.sketch", "-k", "2"],
        ["merge", "s.sketch", "s.sketch"],
        ["design", "west.parquet", "-k", "2"],
        ["sketch", "west.parquet", "-f", "map.json"],
    ],
)
def test_a_foreign_file_is_never_replaced(run, made, foreign, command):
    before = (made / foreign).read_bytes()
    code, _, err = run(*command, "-o", foreign)
    assert code == 6
    assert "choose another output, or remove it" in err
    assert (made / foreign).read_bytes() == before


@pytest.mark.parametrize("kind", ["png", "svg", "pdf", "jpg", "webp"])
def test_a_foreign_picture_is_never_replaced(run, made, kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    assert run("learn", "kmeans", "s.sketch", "-k", "2", "-o", "model.json")[0] == 0
    photo = made / f"photo.{kind}"
    figure = plt.figure(figsize=(1, 1))
    figure.savefig(photo)
    plt.close(figure)
    before = photo.read_bytes()
    assert run("plot", "centers", "model.json", "-o", photo.name)[0] == 6
    assert photo.read_bytes() == before
    for _ in range(2):
        assert run("plot", "centers", "model.json", "-o", f"new.{kind}")[0] == 0


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_that_others_may_not_read_stays_so(run, made):
    (made / "s.sketch").chmod(0o600)
    assert run("sketch", "west.parquet", "--append", "--force", "-c", "a,b", "-o", "s.sketch")[0] == 0
    assert (made / "s.sketch").stat().st_mode & 0o777 == 0o600


def test_own_results_are_replaced(run, made):
    for _ in range(2):
        assert run("learn", "kmeans", "s.sketch", "-k", "2", "-o", "model.json")[0] == 0
        assert run("report", "model.json", "-o", "page.html")[0] == 0
        assert run("merge", "s.sketch", "-o", "m.sketch")[0] == 0
        assert run("design", "west.parquet", "-k", "2", "-o", "d.json")[0] == 0
        assert run("sketch", "west.parquet", "--group-by", "a", "-c", "a,b", "-k", "1", "-o", "t.parquet")[0] in (0, 4)


def test_links_stay_links(run, made):
    (made / "real").mkdir()
    (made / "link.json").symlink_to(made / "real" / "model.json")
    assert run("learn", "kmeans", "s.sketch", "-k", "2", "-o", "link.json")[0] == 0
    assert (made / "link.json").is_symlink()
    assert sl.Model.load(made / "real" / "model.json").size == 2


def test_links_that_lead_nowhere(run, made):
    (made / "loop.json").symlink_to(made / "loop.json")
    (made / "far.json").symlink_to(made / "no folder" / "x.json")
    for name, words in (("loop.json", "leads to itself"), ("far.json", "which isn't there")):
        code, _, err = run("learn", "kmeans", "s.sketch", "-k", "2", "-o", name)
        assert code == 6
        assert words in err


def test_names_are_shown_and_not_obeyed(run, made):
    name = "a\x1b[31m\x07"
    pq.write_table(pa.table({name: X[:, 0], "b": X[:, 1]}), made / "odd.parquet")
    code, out, err = run("sketch", "odd.parquet", "-o", "odd.sketch")
    assert code == 0
    for command in (
        ["info", "odd.sketch"],
        ["learn", "kmeans", "odd.sketch", "-k", "2", "-o", "odd.json"],
        ["info", "odd.json"],
    ):
        code, out, err = run(*command)
        assert code == 0
        assert "\x1b" not in out.decode() + err
        assert "\x07" not in out.decode() + err
    assert "\x1b" not in run("sketch", "odd.parquet", "-c", f"{name},no", "-o", "x")[2]


def test_printable_keeps_words():
    assert printable("größe\t1\n") == "größe\t1\n"
    assert printable("\x1b]0;x\x07") == "\\x1b]0;x\\x07"


def test_names_stay_on_their_line(run, tmp_path):
    phi = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0).with_columns(["a\nrows  9", "b\x1b[2J"])
    X = np.random.default_rng(0).normal(size=(60, 2))
    sl.sketch(X, phi).save(tmp_path / "s")
    sl.sketch(X, phi, group_by=["x\ny", "\x1b]0;t\x07"] * 30).save(tmp_path / "t")
    model = sl.CompressiveKMeans(2, random_state=0, features=phi).fit_sketch(sl.sketch(X, phi))
    sl.Model.of(model).save(tmp_path / "m")
    for name in "stm":
        code, out, err = run("info", name)
        assert code == 0, err
        text = out.decode()
        assert "\x1b" not in text
        assert "\\n" in text
        assert not any(line.startswith("rows  9") for line in text.splitlines())


def test_pictures_and_tables_of_odd_names(run, tmp_path):
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0).with_columns(
        ["$\\frac{$\x1b[2J", "price $ (in $)"]
    )
    X = np.random.default_rng(0).normal(size=(60, 2))
    sl.sketch(X, phi, group_by=["x\ny", "$_$\x1b]0;t\x07"] * 30).save(tmp_path / "t.parquet")
    model = sl.CompressiveKMeans(2, random_state=0, features=phi).fit_sketch(sl.sketch(X, phi))
    sl.Model.of(model).save(tmp_path / "m.json")
    for command in (
        ["plot", "drift", "t.parquet", "-o", "d.svg"],
        ["plot", "centers", "m.json", "-o", "c.svg"],
        ["drift", "t.parquet", "--against", "rest"],
    ):
        code, out, err = run(*command)
        assert code == 0, err
        assert "\x1b" not in out.decode() + err
    assert r"x\ny  " in out.decode()
