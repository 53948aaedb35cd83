"""Text is read in blocks; neither the blocks nor the first of them decide anything."""

import json

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sources import text

pa = pytest.importorskip("pyarrow")

X = np.random.default_rng(0).normal(size=(50, 2))
PHI = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)
WANT = sl.sketch(X, PHI).to_bytes()


def _csv(end="\n"):
    return "".join(f"{line}{end}" for line in ["x,y,note", *(f"{a!r},{b!r},{'n' * 40}" for a, b in X.tolist())])


def _jsonl():
    return "".join(json.dumps({"note": "n" * 40, "y": b, "x": a}) + "\n" for a, b in X.tolist())


@pytest.mark.parametrize("block", [1, 7, 64, 300, 10_000])
@pytest.mark.parametrize("kind", ["csv", "crlf", "cr", "cut", "jsonl"])
def test_blocks_of_any_size(tmp_path, monkeypatch, block, kind):
    monkeypatch.setattr(text, "_BLOCK", block)
    content = {"crlf": _csv("\r\n"), "cr": _csv("\r"), "cut": _csv()[:-1], "jsonl": _jsonl()}.get(kind, _csv())
    path = tmp_path / ("x.jsonl" if kind == "jsonl" else "x.csv")
    path.write_bytes(content.encode())
    assert sl.sketch(path, PHI, columns=["x", "y"]).to_bytes() == WANT
    with path.open("rb") as file:
        s = sl.sketch(file, PHI, columns=["x", "y"], format=path.suffix[1:])
    assert s.to_bytes() == WANT


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_BLOCK", 100)
    monkeypatch.setattr(text, "_LONGEST_LINE", 1000)
    (tmp_path / "x.csv").write_text("x,y\n" + "1" * 5000)
    with pytest.raises(sl.SourceError, match="a line is longer"):
        sl.sketch(tmp_path / "x.csv", PHI)


def test_the_first_block_decides_no_type(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_BLOCK", 30)
    rows = [[1, 2], [3, 4], [5, 6], [7.5, 8.25], [1e-3, 0]]
    (tmp_path / "x.csv").write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in rows))
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"x": a, "y": b}) + "\n" for a, b in rows))
    for name in ("x.csv", "x.jsonl"):
        assert sl.sketch(tmp_path / name, PHI) == sl.sketch(rows, PHI)


def test_json_fields_may_be_missing_or_in_another_order(tmp_path):
    (tmp_path / "0.jsonl").write_text('{"x": 1, "y": 2}\n{"y": 4}\n')
    (tmp_path / "1.jsonl").write_text('{"z": "new", "y": 6, "x": 5.5}\n\n{"x": 7, "y": null}\n')
    s = sl.sketch(tmp_path, PHI, on_invalid="skip")
    assert (s.count, s.skipped) == (2, 2)
    with pytest.raises(ValueError, match=r"row 1 of 0.jsonl\) holds NaN or a null in column 'x'"):
        sl.sketch(tmp_path, PHI)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("token", "fine"),
    [
        (2**53, True),
        (2**53 + 1, False),
        (-(2**53) - 1, False),
        (2**60, True),
        (10**20, True),
        (2**64 - 1, False),
        ("1e300", True),
        ("9007199254740993.0", True),
        ("12345678901234567890.5", True),
    ],
)
def test_integers_are_never_rounded(tmp_path, suffix, token, fine):
    body = f'{{"x": 1.5, "y": {token}}}\n' if suffix == "jsonl" else f"x,y\n1.5,{token}\n"
    (tmp_path / f"a.{suffix}").write_text(body)
    source = sl.read(tmp_path / f"a.{suffix}")
    if fine:
        assert np.concatenate(list(source))[0].tolist() == [1.5, float(token)]
    else:
        with pytest.raises(ValueError, match=f"row 0 of a.{suffix}.: column 'y' has the integer {token}"):
            list(source)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "lz4", "br"])
def test_compressed(tmp_path, suffix):
    names = {"gz": "gzip", "zst": "zstd", "br": "brotli"}
    with pa.CompressedOutputStream(str(tmp_path / f"x.csv.{suffix}"), names.get(suffix, suffix)) as out:
        out.write(_csv().encode())
    assert sl.sketch(tmp_path / f"x.csv.{suffix}", PHI, columns=["x", "y"]).to_bytes() == WANT


def test_booleans_are_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("x,y\ntrue,1\nfalse,2\n")
    (tmp_path / "x.jsonl").write_text('{"x": true, "y": 1}\n{"x": false, "y": 2}\n')
    for name in ("x.csv", "x.jsonl"):
        assert sl.sketch(tmp_path / name, PHI) == sl.sketch([[1, 1], [0, 2]], PHI)


def test_errors_in_a_stream_have_a_row(tmp_path):
    (tmp_path / "x.csv").write_text("x,y\n1,2\n3,4\n5,9007199254740993\n")
    with (tmp_path / "x.csv").open("rb") as file, pytest.raises(ValueError, match=r"row 2 \(counting from 0\)"):
        sl.sketch(file, PHI, format="csv")


@pytest.mark.parametrize(
    ("text", "encoding", "options"),
    [
        ("größe;b\n1,5;2\n-0,25;3e2\n", "utf-8", {"delimiter": ";", "decimal": ","}),
        ("größe;b\n1,5;2\n-0,25;3e2\n", "latin-1", {"decimal": ",", "encoding": "latin-1"}),
        ("größe|b\r\n1.5|2\r\n-0.25|300\r\n", "utf-16", {"delimiter": "|", "encoding": "utf-16"}),
        ("größe\tb\n1.5\t2\n-0.25\t300\n", "cp1252", {"delimiter": "tab", "encoding": "cp1252"}),
    ],
)
@pytest.mark.parametrize("open_", [False, True])
def test_text_of_other_places(tmp_path, text, encoding, options, open_):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    if open_:
        with path.open("rb") as file:
            source = sl.read(file, format="csv", **options)
            found = list(source)
    else:
        source = sl.read(path, **options)
        found = list(source)
    assert source.names == ("größe", "b")
    assert np.concatenate(found).tolist() == [[1.5, 2.0], [-0.25, 300.0]]


def test_options_of_text_that_make_no_sense(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1;2,x\n")
    with pytest.raises(ValueError, match="give delimiter=';'"):
        sl.read(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"'2\.x' in row 0"):  # where it is, as it is understood
        list(sl.read(tmp_path / "x.csv", decimal=","))
    for options, word in (
        ({"delimiter": ";;"}, "one character"), ({"decimal": "'"}, "written with"), ({"encoding": "klingon"}, "known"),
        ({"delimiter": ",", "decimal": ","}, "both"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=word):
            sl.read(tmp_path / "x.csv", **options)
    with pytest.raises(ValueError, match="delimiter doesn't apply"):
        sl.read(np.zeros((3, 2)), delimiter=";")
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n3,4\xff\n")
    with pytest.raises(sl.SourceError, match="codec can't decode"):
        list(sl.read(tmp_path / "x.csv", encoding="ascii"))


def test_a_group_column_that_is_also_a_number(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("x,k\n" + "".join(f"{i}.5,{i % 3}\n" for i in range(12)))
    table = sl.sketch(path, PHI, columns=["x", "k"], group_by="k")
    assert {label: s.count for label, s in table.items()} == {0: 4, 1: 4, 2: 4}
