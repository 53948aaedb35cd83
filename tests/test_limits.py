"""Small files that ask for much, and numbers that are none."""

import json
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn import limits
from sketchlearn.files import check_seal, sealed
from sketchlearn.limits import LimitError

PHI = sl.FourierFeatures.draw(dim=2, size=6, scale=1.0, seed=5)
X = np.random.default_rng(0).normal(size=(50, 2))


def _peak(function, error):
    _ = sl.Model, sl.SketchTable  # imported before it is counted
    tracemalloc.start()
    with pytest.raises(error) as caught:
        function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, str(caught.value)


def test_a_small_model_can_not_ask_for_many_names():
    facts = {
        "format": "sketchlearn.model", "version": 1, "task": "regression", "rows": 5, "coefficients": [1.0],
        "intercept": 0.0, "predictors": ["a"], "target": "b", "n_columns": 10**8,
    }  # fmt: skip
    peak, words = _peak(lambda: sl.Model.from_json(json.dumps(facts)), sl.ModelFileError)
    assert peak < 10**6
    assert "100,000,000 columns" in words


def test_a_small_recipe_can_not_ask_for_a_large_map():
    recipe = {**PHI.recipe(), "dim": 10**6, "size": 10**6}
    large = sl.FeatureMap.from_recipe(recipe)
    for use in (large.random_array, lambda: large.summer, lambda: large.fingerprint):
        peak, words = _peak(use, LimitError)
        assert peak < 10**6
        assert limits.VARIABLE in words
    wide = sl.FeatureMap.from_recipe({**sl.QuadraticFeatures.draw(dim=2).recipe(), "dim": 10**6, "size": 500000500000})
    assert _peak(lambda: wide.summer, LimitError)[0] < 10**6


def test_a_sketch_of_megabytes_can_not_ask_for_a_map_of_gigabytes():
    n = 50_000
    sums, box = np.zeros((2, n), np.int64), np.zeros(n)
    phi = sl.FeatureMap.from_recipe({**PHI.recipe(), "dim": n, "size": n, "center": None}).expecting("0" * 32)
    data = replace(
        sl.Sketch.empty(PHI), features=phi, sums=sums, lower=box, upper=box, weight=5, squared_weights=-1
    ).to_bytes()
    s = sl.Sketch.from_bytes(data)
    assert _peak(lambda: s.features.random_array(), LimitError)[0] < 10**6
    assert "50000" in repr(s)


def test_the_limit_can_be_raised_and_lowered(monkeypatch):
    monkeypatch.setenv(limits.VARIABLE, "1k")
    with pytest.raises(LimitError, match="drawing a map of 200 features for 3 columns would take"):
        sl.FourierFeatures.draw(dim=3, size=200).random_array()
    monkeypatch.setenv(limits.VARIABLE, "1 MiB")
    assert sl.FourierFeatures.draw(dim=3, size=200).random_array().shape == (200, 3)
    monkeypatch.setenv(limits.VARIABLE, "much")
    with pytest.raises(LimitError, match="write for example 8GB"):
        limits.memory_limit()


def test_tables_that_unpack_to_much_more_are_refused(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = sl.SketchTable({"a": sl.sketch(X, PHI)}).to_arrow()
    blob = table.column("sketch")[0].as_py() + bytes(2**20)  # one large blob that every group has
    many = pa.table({"group": [f"g{i}" for i in range(300)], "sketch": [blob] * 300})
    sink = pa.BufferOutputStream()
    pq.write_table(many.replace_schema_metadata({b"sketchlearn.table": b"1"}), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    assert len(data) < 40_000
    monkeypatch.setenv(limits.VARIABLE, "20 MB")
    with pytest.raises(sl.SketchFileError, match="no table of sketches is compressed"):
        sl.SketchTable.from_bytes(data)


def test_groups_of_a_table_share_their_map():
    pytest.importorskip("pyarrow")
    table = sl.sketch(X, PHI, group_by=np.arange(50) % 5)
    back = sl.SketchTable.from_bytes(table.to_bytes())
    assert len({id(s.features) for s in back.values()}) == 1
    assert back == table


def test_labels_and_values_that_were_changed_are_refused():
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = sl.sketch(X, PHI, group_by=["a", "b"] * 25).to_arrow()
    swapped = table.set_column(0, "group", pa.array(["b", "a"])).replace_schema_metadata(table.schema.metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(swapped, sink)
    with pytest.raises(sl.SketchFileError, match="checksum of the groups"):
        sl.SketchTable.from_bytes(sink.getvalue().to_pybytes())
    check_seal(json.loads(json.dumps(sealed({"a": [1.5, 1e300, "ü\ud800"]}))))
    with pytest.raises(sl.SketchFileError, match="remove the field 'checksum'"):
        check_seal({**sealed({"a": 1}), "a": 2})


def test_info_looks_before_it_reads(tmp_path):
    pytest.importorskip("typer")
    for name, start in (("a", b""), ("b", b'{"features": '), ("c", b"\x89SKETCH\n" + struct.pack("<IIQ", 1, 16, 99))):
        with (tmp_path / name).open("wb") as file:
            file.write(start)
            file.truncate(3 * 2**30)
    script = (
        "from sketchlearn.cli import main\n"
        "codes = [int(main(['info', name])) for name in 'abc']\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(codes, int(peak.split()[1]) < 2**20)"
    )
    environment = {"PYTHONPATH": str(Path(sl.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[5, 4, 5] True\n", done.stderr


@pytest.mark.parametrize("scale", [1e308, 1e300, 1e45, 1e-45, 1e-308])
def test_scales_beyond_float32_are_refused_in_words(scale):
    phi = sl.FourierFeatures.draw(dim=2, size=6, scale=scale, seed=0)
    with pytest.raises(ValueError, match=r"scale=.* float32"):
        sl.sketch(X, phi)


def test_embedded_numbers_must_be_numbers():
    wrong = np.array(PHI.random_array())
    wrong[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        PHI.with_random_array(wrong)
    forged = object.__new__(type(PHI))
    forged.__dict__.update(PHI.replace(_embedded=wrong).__dict__)
    s = replace(sl.sketch(X, PHI), features=forged)
    with pytest.raises(sl.SketchFileError, match="NaN"):
        sl.Sketch.from_bytes(s.to_bytes(embed_frequencies=True))
