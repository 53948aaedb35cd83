"""One function reads everything that the library writes."""

import numpy as np
import pytest

import sketchlearn as sl

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from sketchlearn.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    X = np.random.default_rng(0).normal(size=(200, 2))
    np.save(path / "rows.npy", X)
    assert main(["design", str(path / "rows.npy"), "-k", "1", "-o", str(path / "map.json")]) == 0
    phi = sl.load(path / "map.json")
    sl.sketch(X, phi).save(path / "all.sketch")
    sl.sketch(X, phi, group_by=["a", "b"] * 100).save(path / "table.parquet")
    sl.CompressiveKMeans(1, random_state=0).fit_sketch(sl.sketch(X, phi)).to_model().save(path / "model.json")
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [("all.sketch", "Sketch"), ("table.parquet", "SketchTable"), ("map.json", "FeatureMap"), ("model.json", "Model")],
)
def test_each_kind(folder, name, kind):
    assert isinstance(sl.load(folder / name), getattr(sl, kind))
    assert isinstance(sl.load(str(folder / name)), getattr(sl, kind))


@pytest.mark.parametrize("data", [b"", b"nothing", b"{", b"{}", b"[1]", b'{"features": 3}', b"PAR1", b"\x00" * 64])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises((sl.SketchFileError, sl.ModelFileError)):
        sl.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        sl.load(tmp_path / "missing")


def test_damaged_models_are_called_models(folder, tmp_path):
    text = (folder / "model.json").read_text().replace('"rows": 200', '"rows": -1')
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(sl.ModelFileError, match=r"m\.json.*rows"):
        sl.load(tmp_path / "m.json")
