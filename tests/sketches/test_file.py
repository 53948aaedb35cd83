import hashlib
import json
import os
import pickle
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sketches import file
from sketchlearn.sketches.record import PrivacyRecord

DATA = Path(__file__).parent / "data"
PHI = sl.FourierFeatures.draw(dim=2, size=6, scale=1.0, seed=5)
SKETCH = sl.sketch(np.arange(10.0).reshape(5, 2), PHI)


def _golden():
    """What tests/sketches/data/version1*.sketch hold."""
    phi = sl.FourierFeatures.draw(dim=2, size=6, scale=1.5, radial="multiscale", seed=5, center=[1.0, -2.0])
    X = np.arange(-10, 10).reshape(10, 2) / 4
    return sl.sketch(X, phi, sample_weight=np.arange(10) / 2)


@pytest.mark.parametrize("name", ["version1.sketch", "version1-embedded.sketch"])
def test_golden_files_stay_readable(name):
    loaded = sl.load(DATA / name)
    # the squares of fractional weights are not in files of version 1: the total weight stands for them
    assert loaded == replace(_golden(), squared_weights=-1)
    assert loaded.effective_count == loaded.count
    assert loaded.features.fingerprint == _golden().features.fingerprint
    np.testing.assert_allclose(loaded.mean, _golden().mean)
    assert loaded.to_bytes(embed_frequencies="embedded" in name) == (DATA / name).read_bytes()


def _signed(header: bytes, body: bytes, version: int = 1, length: int | None = None) -> bytes:
    """A file with a valid checksum whatever its content."""
    total = 24 + len(header) + len(body) + 32 if length is None else length
    data = struct.pack("<8sIIQ", file.MAGIC, version, len(header), total) + header + body
    return data + hashlib.sha256(data).digest()


def _split(data: bytes) -> tuple[dict, bytes]:
    length = struct.unpack("<8sIIQ", data[:24])[2]
    return json.loads(data[24 : 24 + length]), data[24 + length : -32]


def _corruptions(data: bytes, count: int):
    """Bit flips, truncations, extensions, overwrites, edits of the header with and without a new checksum."""
    rng = np.random.default_rng(0)
    header, body = _split(data)
    values = [None, -1, 0, 2**70, 1e308, "x", [], {}, True, [1] * 10, "9" * 5000, 0.5]
    for i in range(count):
        kind = i % 6
        raw = bytearray(data)
        if kind == 0:
            raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        elif kind == 1:
            raw = raw[: rng.integers(len(raw))]
        elif kind == 2:
            raw += rng.bytes(int(rng.integers(1, 200)))
        elif kind == 3:
            at, n = rng.integers(len(raw)), int(rng.integers(1, 30))
            noise = rng.bytes(n)
            if raw[at : at + n] == noise[: len(raw[at : at + n])]:
                continue
            raw[at : at + n] = noise
        else:
            # edits by somebody who knows the format: valid length and checksum, invalid content
            edited = json.loads(json.dumps(header))
            where = edited if rng.uniform() < 0.5 else edited["features"]
            key = str(rng.choice(sorted(where)))
            value = values[rng.integers(len(values))]
            if kind == 5:
                if rng.uniform() < 0.3:
                    where.pop(key)
                elif rng.uniform() < 0.5:
                    edited["arrays"][rng.integers(3)][rng.integers(3)] = value
                else:
                    body_cut = body[: rng.integers(len(body))]
                    yield _signed(json.dumps(edited).encode(), body_cut)
                    continue
            else:
                if where[key] == value or (key in ("seed", "skipped", "scale") and isinstance(value, int | float)):
                    continue  # a valid file of another sketch
                if key in ("center", "whitening") and value is None:
                    continue
                where[key] = value
            text = json.dumps(edited).encode()
            if text == json.dumps(header).encode():
                continue
            raw = bytearray(_signed(text, body))
        yield bytes(raw)


def test_ten_thousand_corruptions_are_all_refused():
    data = SKETCH.to_bytes()
    tested = 0
    for bad in _corruptions(data, 10_500):
        if bad == data:
            continue
        with pytest.raises(sl.SketchFileError):
            sl.Sketch.from_bytes(bad)
        tested += 1
    assert tested > 9_000


def test_untrusted_headers_can_not_allocate(tmp_path):
    header, body = _split(SKETCH.to_bytes())
    bombs = [
        {"arrays": [["sums", "<i8", [2, 2**40]], ["lower", "<f8", [2]], ["upper", "<f8", [2]]]},
        {"features": {**header["features"], "size": 2**39, "dim": 2**39}},
        {"arrays": [["sums", "<i8", [0, 2**62]], *header["arrays"][1:]]},
    ]
    for bomb in bombs:
        data = _signed(json.dumps({**header, **bomb}).encode(), body)
        tracemalloc.start()
        with pytest.raises(sl.SketchFileError):
            sl.Sketch.from_bytes(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * len(data) + 100_000
    deep = _signed(b"[" * 100_000 + b"]" * 100_000, b"")
    with pytest.raises(sl.SketchFileError):
        sl.Sketch.from_bytes(deep)


def test_valid_file_of_another_seed_is_caught_by_the_fingerprint():
    header, body = _split(SKETCH.to_bytes())
    header["features"]["seed"] = 6
    forged = sl.Sketch.from_bytes(_signed(json.dumps(header).encode(), body))
    with pytest.raises(sl.SketchFileError, match="fingerprint"):
        _ = forged.features.frequencies


def test_foreign_and_future_files_have_their_own_words(tmp_path):
    path = tmp_path / "a.sketch"
    path.write_bytes(b"PAR1 something else")  # (as tables of sketches begin)
    with pytest.raises(sl.SketchFileError, match="not a table of sketches"):
        sl.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(sl.SketchFileError, match="not a sketch"):
        sl.load(path)
    path.write_bytes(b"")
    with pytest.raises(sl.SketchFileError, match="not a sketch"):
        sl.load(path)
    header, body = _split(SKETCH.to_bytes())
    path.write_bytes(_signed(json.dumps(header).encode(), body, version=7))
    with pytest.raises(sl.SketchFileError, match="version 7"):
        sl.load(path)
    path.write_bytes(SKETCH.to_bytes()[:-1])
    with pytest.raises(sl.SketchFileError, match="truncated"):
        sl.load(path)
    with pytest.raises(FileNotFoundError):
        sl.load(tmp_path / "missing.sketch")


def test_writing_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "a.sketch"
    SKETCH.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        sl.sketch([[1.0, 2.0]], PHI).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_embedded_frequencies_are_used_and_checked(tmp_path):
    data = SKETCH.to_bytes(embed_frequencies=True)
    assert len(data) > len(SKETCH.to_bytes())
    loaded = sl.Sketch.from_bytes(data)
    assert loaded == SKETCH
    np.testing.assert_array_equal(loaded.features.frequencies, PHI.frequencies)
    header, body = _split(data)
    broken = bytearray(body)
    broken[-1] ^= 1
    with pytest.raises(sl.SketchFileError, match="fingerprint"):
        sl.Sketch.from_bytes(_signed(json.dumps(header).encode(), bytes(broken)))


# -- version 2 -------------------------------------------------------------------------------------


def _golden2():
    """What tests/sketches/data/version2.sketch holds."""
    return replace(_golden(), extra={"note": "from a later version", "levels": [1, {"a": None}]})


def _golden2_private():
    """What tests/sketches/data/version2-private.sketch holds: noise has pushed an average beyond 1."""
    record = PrivacyRecord("discrete-gaussian", 1.5, 1e-6, "add-remove", 1, 3.0e12, 16.0, "0.1.0", {"seed": None})
    sums = np.array(SKETCH.sums)
    sums[0, 3] = 7 << 22
    nowhere = np.full(2, np.inf)
    return sl.Sketch(PHI, sums, 5, 0, -nowhere, nowhere, privacy=record)


@pytest.mark.parametrize(("name", "make"), [("version2", _golden2), ("version2-private", _golden2_private)])
def test_golden_files_of_version_2_stay_readable(name, make):
    data = (DATA / f"{name}.sketch").read_bytes()
    loaded = sl.load(DATA / f"{name}.sketch")
    assert loaded == make()
    assert loaded.squared_weights == make().squared_weights
    assert loaded.to_bytes() == data
    assert struct.unpack("<8sIIQ", data[:24])[1] == 2


def test_what_version_1_can_hold_is_written_as_version_1():
    whole = sl.sketch(np.arange(10.0).reshape(5, 2), PHI, sample_weight=[1, 2, 3, 0, 5])
    fractional = sl.sketch(np.arange(10.0).reshape(5, 2), PHI, sample_weight=[1, 2.5, 3, 0, 5])
    versions = [
        struct.unpack("<8sIIQ", s.to_bytes()[:24])[1]
        for s in (whole, fractional, replace(whole, extra={"a": 1}), fractional - fractional)
    ]
    assert versions == [2, 2, 2, 1]


def test_a_file_says_where_its_map_comes_from():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    phi = sl.design(rows, n_components=2, size=20, seed=3)
    bare = sl.FeatureMap.from_recipe(phi.recipe())
    told, untold = sl.sketch(rows, phi), sl.sketch(rows, bare)
    assert sl.Sketch.from_bytes(untold.to_bytes()).features.words == {}
    assert untold.to_bytes()[8] == 1  # nothing to say: the bytes of version 1
    read = sl.Sketch.from_bytes(told.to_bytes())
    assert read.features.words == phi.words
    assert read.features.purpose == "kmeans with n_components=2, from 300 pilot rows; size=20, seed=3"
    assert read.summary()["designed for"] == read.features.purpose
    assert read.to_bytes() == told.to_bytes()
    # the words are no part of the value; a sum keeps those on which all agree, in any order
    assert read == untold
    assert hash(read) == hash(untold)
    assert (read + told).features.words == phi.words
    assert (read + sl.Sketch.empty(bare)).features.words == phi.words
    assert (read + untold).to_bytes() == (untold + read).to_bytes()
    assert (read + untold).features.words == {}
    there, here = sl.Accumulator.of(untold), sl.Accumulator.of(read)
    here.merge(there)
    assert here.sketch().to_bytes() == (read + untold).to_bytes()
    own = sl.sketch(rows)  # the rows of its own pass are a sample for others
    again = sl.Sketch.from_bytes(own.to_bytes())
    assert again.features.provenance == "a sample"
    assert again.summary()["chosen from"] == own.summary()["chosen from"] == "these rows"
    assert (own + again).to_bytes() == (again + own).to_bytes()


@pytest.mark.parametrize("words", ["kmeans", {"who": "me"}, {"reason": 3}])
def test_words_about_the_map_are_texts(words):
    told = replace(sl.sketch([[1.0]], sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)), extra={"map": words})
    with pytest.raises(sl.SketchFileError, match="where the map comes from"):
        sl.Sketch.from_bytes(told.to_bytes())


def test_a_release_does_not_tell_of_pilot_rows():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    noisy = sl.privatize(sl.sketch(rows, sl.design(rows + 1, n_components=2, size=20)), 1.0, public_map=True)
    assert b"pilot" not in noisy.to_bytes()
    assert sl.Sketch.from_bytes(noisy.to_bytes()).features.words == {}


def test_unknown_optional_fields_are_kept():
    a, b = replace(SKETCH, extra={"unit": "mm", "day": 1}), replace(SKETCH, extra={"unit": "mm", "day": 2})
    for s in (a, sl.Sketch.from_bytes(a.to_bytes()), pickle.loads(pickle.dumps(a)), a + sl.Sketch.empty(PHI)):
        assert s == a
        assert s.extra == {"unit": "mm", "day": 1}
    assert (a + b).extra == {"unit": "mm"}  # what they don't agree on can't be said of both
    assert a != SKETCH
    assert "unit" in repr(a)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"squared_weights": 5}, "digits"),
        ({"squared_weights": "-5"}, "digits"),
        ({"squared_weights": "0"}, "squares"),
        ({"squared_weights": "9" * 50}, "squares"),
        ({"optional": [1]}, "object"),
        ({"optional": {"a": float("nan")}}, "NaN"),
        ({"privacy": {}}, "privacy record"),
        ({"privacy": {"epsilon": -1}}, "privacy record"),
        ({"mandatory": 1}, "fields of a sketch"),
        ({"weight": 0}, "squares"),
        ({"skipped": None}, "whole numbers"),
    ],
)
def test_corruptions_of_version_2_are_refused(edit, message):
    header, body = _split((DATA / "version2.sketch").read_bytes())
    with pytest.raises(sl.SketchFileError, match=message):
        sl.Sketch.from_bytes(_signed(json.dumps({**header, **edit}).encode(), body, version=2))
    with pytest.raises(sl.SketchFileError):
        sl.Sketch.from_bytes(_signed(json.dumps({**header, **edit}).encode(), body, version=1))


def test_random_corruptions_of_version_2_are_refused():
    for name in ("version2.sketch", "version2-private.sketch"):
        data = (DATA / name).read_bytes()
        rng = np.random.default_rng(0)
        for _ in range(500):
            bad = bytearray(data)
            bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
            with pytest.raises(sl.SketchFileError):
                sl.Sketch.from_bytes(bytes(bad))


def test_only_a_release_may_be_without_box_or_beyond_what_rows_can_do():
    header, body = _split(_golden2_private().to_bytes())
    for sums in (body, SKETCH.sums.tobytes() + body[-32:]):  # an average beyond 1, an infinite box
        with pytest.raises(sl.SketchFileError, match=r"no rows can have|not a box"):
            sl.Sketch.from_bytes(_signed(json.dumps({**header, "privacy": None}).encode(), sums, version=2))
