import json
import pathlib

import numpy as np
import pytest

import sketchlearn as sl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("drift")
    rng = np.random.default_rng(0)
    phi = sl.design(rng.normal(size=(500, 2)), n_components=3).with_columns(["a", "b"])
    days = [rng.normal((0.0, 0.6 * (i == 2)), 1.0, (1000, 2)) for i in range(3)]
    for i, rows in enumerate(days):
        sl.sketch(rows, phi).save(path / f"day{i}.sketch")
    groups = np.repeat(["Mon", "Tue", "Wed", "Xxx"], [1000, 1000, 1000, 1])
    sl.sketch(np.concatenate([*days, days[0][:1]]), phi, group_by=groups).save(path / "days.parquet")
    return path


def test_drift_names_the_day_and_the_column(folder, run):
    code, out, err = run("drift", *(folder / f"day{i}.sketch" for i in range(3)))
    assert (code, err) == (10, "")
    assert b"1 of 2 differ from day0" in out
    assert b"differs: b (" in out
    code, out, err = run("drift", folder / "days.parquet", "--against", "previous", "--json")
    assert code == 10
    assert "left out, with fewer than two rows: Xxx" in err
    facts = json.loads(out)
    assert [c["differs"] for c in facts["changes"]] == [False, True]
    assert facts["changes"][1]["columns"][0]["column"] == "b"
    assert run("drift", folder / "day0.sketch", folder / "day1.sketch")[0] == 0
    assert run("drift", *(folder / f"day{i}.sketch" for i in range(3)), "--min-distance", "0.9")[0] == 0


def test_groups_of_a_table_are_compared(folder, run):
    code, out, _ = run("compare", folder / "days.parquet", "--group", "Mon", "--group", "Wed", "--json")
    assert code == 10
    assert [c["column"] for c in json.loads(out)["columns"]] == ["b"]
    assert run("compare", folder / "days.parquet", "-g", "Mon", "-g", "Tue")[0] == 0
    assert run("compare", folder / "days.parquet", "-g", "Wed")[0] == 10  # with all others
    code, out, _ = run("compare", folder / "day0.sketch", folder / "day2.sketch")
    assert code == 10
    assert b"\nb (" in out


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["drift", "day0.sketch"], 4, "two sketches"),
        (["drift", "day0.sketch", "day1.sketch", "--correction", "more"], 2, "holm"),
        (["drift", "day0.sketch", "day1.sketch", "--against", "last"], 2, "previous"),
        (["compare", "day0.sketch"], 2, "--group"),
        (["compare", "day0.sketch", "-g", "Mon"], 2, "tables"),
        (["compare", "days.parquet", "-g", "Sun"], 4, "no group"),
        (["compare", "days.parquet", "-g", "Mon", "-g", "Mon"], 2, "two different groups"),
    ],
)
def test_bad_input(folder, run, monkeypatch, arguments, code, word):
    monkeypatch.chdir(folder)
    got, _, err = run(*arguments)
    assert got == code
    assert word in err


def test_compare_and_drift_print_one_schema(folder, run):
    paths = [folder / f"day{i}.sketch" for i in (0, 2)]
    one = json.loads(run("compare", *paths, "--json")[1])
    (other,) = json.loads(run("drift", *paths, "--json")[1])["changes"]
    assert one.pop("alpha") == 0.01
    assert one == other
    assert one["effect"] > 0.3
    assert one["columns"][0]["shift_error"] < 0.1


def test_a_page_says_what_moved_and_how_much(folder, run):
    paths = [folder / f"day{i}.sketch" for i in range(3)]
    code, out, err = run("drift", *paths, "-o", "drift.html")
    assert (code, err) == (10, "")
    assert b"1 of 2 differ from day0" in out
    page = pathlib.Path("drift.html").read_text()
    assert "Look at day2 first: its change is large" in page
    assert "<h2>day2: 1 column moved</h2>" in page
    assert run("drift", *paths, "-o", "drift.html", "--json")[0] == 10  # a page of ours may be replaced
    assert run("drift", *paths, "-o", paths[0])[0] == 6
    code, out, _ = run("drift", *paths[:2], "-o", "-")
    assert code == 0
    assert b"No drift" in out
    assert b"Nothing to do" in out


def test_compare_and_drift_have_one_schema(folder, run):
    one = json.loads(run("compare", folder / "day0.sketch", folder / "day2.sketch", "--json")[1])
    many = json.loads(run("drift", folder / "day0.sketch", folder / "day2.sketch", "--json")[1])["changes"][0]
    assert {**one, "alpha": None} == {**many, "alpha": None}


def test_a_change_that_is_too_small_raises_no_alarm(folder, run):
    pair = folder / "day0.sketch", folder / "day2.sketch"
    code, out, _ = run("compare", *pair, "--min-effect", "0.9")
    assert code == 0
    assert out.startswith(b"a change too small for an alarm: distance")
    _, out, _ = run("compare", *pair, "--min-effect", "0.9", "--json")
    facts = json.loads(out)
    assert (facts["significant"], facts["differs"]) == (True, False)
    assert b"too small for an alarm" in run("drift", *pair, "--min-effect", "0.9")[1]
    assert run("compare", *pair, "--min-effect", "0.1")[0] == 10
    assert run("compare", *pair, "--min-effect", "-1")[0] == 2
