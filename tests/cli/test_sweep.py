import json
import subprocess
import sys

import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.decoders import Code
from sketchlearn.decoders.sweep import Sweep, SweepRow

VERBS = ["design", "sketch", "merge", "subtract", "info", "compare", "drift", "sweep", "learn", "plot", "report"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep")
    X = gaussian_clusters(3, 2, 200, n=3000, seed=0)[0]
    sl.sketch(X, sl.design(X[:1000], n_components=5)).save(path / "all.sketch")
    return path


def test_table_and_recommendation(folder, run):
    code, out, err = run("sweep", folder / "all.sketch", "-k", "1:5")
    assert code == 0, err
    assert b"recommended: 3 (the smallest number that the criterion supports; the fit with k = 3 is certified)" in out
    facts = json.loads(run("sweep", folder / "all.sketch", "-k", "2,3", "--json")[1])
    assert facts["recommended"] == 3
    assert [row["k"] for row in facts["rows"]] == [2, 3]
    assert [row["code"] for row in facts["rows"]] == ["misfit", "reliable"]
    for wrong in (["-k", "0:3"], ["--task", "pca"], ["--covariance", "round"]):
        assert run("sweep", folder / "all.sketch", *wrong)[0] == 2


def test_a_sweep_and_a_decoding_give_the_same_verdict(folder):
    s = sl.load(folder / "all.sketch")
    table = sl.sweep(s, range(1, 6), random_state=0)
    for row in table:
        assert (row.code == Code.RELIABLE) == sl.decode(s, row.k, random_state=0).reliable


def test_a_report_never_recommends_more_than_what_is_certified():
    rows = tuple(SweepRow(k, 1.0, 9.0 / k, 1.0, 0.0, Code.MISFIT) for k in (2, 4, 10))
    table = Sweep(rows, 10, "a weak reason", ())
    assert table.knowing(4).recommended == 4
    assert "certified" in table.knowing(4).reason
    assert table.knowing(3).recommended == 10  # was not tried
    X = gaussian_clusters(2, 2, 200, n=2000, seed=0)[0]
    km = sl.CompressiveKMeans(2, random_state=0).fit(X)
    assert km.reliable_
    page = sl.plots.report(km, sweep=table)
    assert "Recommended: 2 " in page


def test_help_loads_no_library_of_numbers():
    code = (
        "import sys; from sketchlearn.cli import main\n"
        f"for verb in {VERBS!r} + ['predict', 'demo', 'warmup']:\n    assert main([verb, '--help']) == 0, verb\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'numba', 'matplotlib', 'rich', 'pydantic'} & {*sys.modules}\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_wide_tables_are_whole():
    names = [f"column {i}" for i in range(300)]
    from sketchlearn.models import ClusterModel

    model = ClusterModel(rows=10, columns=tuple(names), centers=np.zeros((2, 300)), weights=np.array([0.5, 0.5]))
    page = sl.plots.report(model)
    assert all(f">{name}</button>" in page for name in names)
    assert "scroll to the right" in page
