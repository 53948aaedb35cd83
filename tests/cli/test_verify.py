import json

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("verify")
    rng = np.random.default_rng(0)
    voices = rng.normal(size=(20, 2))
    rows = {f"v{i}": v + rng.normal(size=(100, 2)) for i, v in enumerate(voices)}
    phi = sl.design(np.concatenate(list(rows.values())), task="gmm", n_components=1, covariance_type="diag", size=60)
    sl.SketchTable({name: sl.sketch(x, phi) for name, x in rows.items()}).save(path / "background.parquet")
    people = {"ann": np.array([3.0, 0.0]), "bob": np.array([-3.0, 0.0])}
    sl.SketchTable({n: sl.sketch(v + rng.normal(size=(100, 2)), phi) for n, v in people.items()}).save(
        path / "people.parquet"
    )
    sl.sketch(people["ann"] + rng.normal(size=(50, 2)), phi).save(path / "test.sketch")
    sl.sketch(rng.normal(size=(50, 2)), sl.FourierFeatures.draw(dim=2, size=60, seed=5)).save(path / "other.sketch")
    X = rng.normal(size=(1000, 2))
    sl.sketch(X, sl.design(X, task="anomaly", size=40)).save(path / "usual.sketch")
    return path


@pytest.fixture(scope="module")
def model(folder):
    target = folder / "model.json"
    arguments = ["learn", "verifier", folder / "background.parquet", "-k", "1", "--enroll", folder / "people.parquet"]
    assert main([str(a) for a in (*arguments, "-o", target)]) == 0
    return target


def test_claims_are_accepted_and_rejected(folder, model, run):
    code, out, err = run("verify", model, folder / "test.sketch", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["accepted"] == {"ann": True, "bob": False}
    assert facts["log_ratios"]["ann"] > 0 > facts["log_ratios"]["bob"]
    code, out, _ = run("verify", model, folder / "test.sketch", "--claim", "ann")
    assert code == 0
    assert b"accepted" in out
    code, out, _ = run("verify", model, folder / "test.sketch", "--claim", "bob")
    assert code == 10
    assert b"rejected" in out


def test_what_cannot_be_verified(folder, model, run):
    for arguments, word in [
        ((model, folder / "test.sketch", "--claim", "eve"), "ann"),
        ((model, folder / "other.sketch"), "feature map"),
        ((model, folder / "people.parquet"), "one segment"),
        ((model, folder / "test.sketch", "--prior", "2"), "--prior"),
    ]:
        code, _, err = run("verify", *arguments)
        assert code not in (0, 1, 10)
        assert word in err


def test_anomalies_of_a_sketch(folder, run):
    target = folder / "anomaly.json"
    code, _, err = run("learn", "anomaly", folder / "usual.sketch", "--contamination", "0.01", "-o", target)
    assert code == 0, err
    np.savetxt(folder / "new.csv", [[0.0, 0.0], [9.0, 9.0]], delimiter=",", header="a,b", comments="")
    code, out, err = run("predict", target, folder / "new.csv", "-o", "-")
    assert code == 0, err
    assert [line.split(",")[-1] for line in out.decode().strip().splitlines()[1:]] == ["false", "true"]
    code, _, err = run("learn", "anomaly", folder / "test.sketch", "-o", folder / "no.json")
    assert code == 2
    assert "--task anomaly" in err
