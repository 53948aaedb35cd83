import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main

pd = pytest.importorskip("pandas")


def run(*arguments):
    return main([str(a) for a in arguments])


def test_users_from_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2000, 2)), columns=["x", "y"]).assign(u=rng.integers(0, 300, 2000))
    frame.to_parquet(tmp_path / "x.parquet")
    phi = sl.FourierFeatures.draw(dim=2, size=12, scale=1.0, seed=0).with_columns(["x", "y"])
    sl.Sketch.empty(phi).save(tmp_path / "map.sketch")
    out, public = tmp_path / "out.sketch", tmp_path / "public.sketch"
    common = ["sketch", tmp_path / "x.parquet", "-o", out, "--features", tmp_path / "map.sketch", "--user", "u"]
    assert run(*common, "--max-rows-per-user", 2) == 0
    assert sl.load(out).to_bytes() == sl.sketch(frame, phi, user="u", max_rows_per_user=2).to_bytes()
    assert run("privatize", out, "-o", public, "--epsilon", 1, "--public-map") == 0
    said = capsys.readouterr()
    assert "no ledger" in said.err
    assert "up to 2 rows" in " ".join(said.out.split())
    assert sl.load(public).privacy.records_per_user == 2
    assert run(*common) == 2
    assert run(*common[:-2], "--max-rows-per-user", 2) == 2
    assert run(*common, "--max-rows-per-user", 2, "--append") == 2


def test_tables_from_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    phi = sl.FourierFeatures.draw(dim=2, size=12, scale=1.0, seed=0)
    table = sl.sketch(rng.normal(size=(4000, 2)), phi, group_by=["a"] * 2500 + ["b"] * 1499 + ["c"])
    table.save(tmp_path / "exact.parquet")
    out = tmp_path / "public.parquet"
    common = ["privatize", tmp_path / "exact.parquet", "-o", out, "--epsilon", 1, "--public-map"]
    assert run(*common, "--delta", 1e-6) == 0
    assert sl.SketchTable.load(out).groups == ["a", "b"]
    assert "one guarantee for all" in capsys.readouterr().out
    assert run(*common, "--group", "a", "--group", "z") == 0
    assert sl.SketchTable.load(out).groups == ["a", "z"]
    assert run(*common, "--relation", "replace-one", "--delta", 1e-6) == 2
