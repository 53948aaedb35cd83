"""Experiments measure, judge and draw; their rows are kept and the page is made from them."""

import json
import math

import numpy as np
import pytest

from experiments import page, rivals, rulers
from experiments.disagreements import DISAGREEMENTS
from experiments.private_rivals import laplace_pca, private_lloyd, wishart_pca
from experiments.registry import ORDER, Cell, Claim, Experiment, Finding, catalogue
from experiments.rows import Rows, key_of, results_path
from experiments.runner import missing, run

EXPERIMENTS = catalogue()
# first cells that are smaller than those of the quick versions, and the methods that are measured in them
SMALL = {
    "frequency-law": {"n": 3000},
    "initialisation": {"n": 1000},
    "large-n": {"n": 2000},
    "gmm-em": {"n": 1000},
    "private-kmeans": {"n": 5000, "size": 4},
    "stable": {"n": 5000, "size": 15},
    "coreset": {"n": 2000, "size": 200},
    "quality-per-byte": {"bytes": 8000},
    "hadamard": {"d": 16},
    "kernel-scale": {"factor": 1},
    "phase-kmeans": {"size": 3},
    "nsr": {"size": 4, "nsr": 1e-4},
    "one-bit": {"size": 4},
    "pca": {"size": 2},
    "speakers": {"size": 100},
    "private-large": {"n": 5000, "size": 4},
    "background-large": {"n": 200_000},
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_smallest_cell_gives_finite_rows(name):
    experiment = EXPERIMENTS[name]
    setting = {**next(iter(experiment.cells(False))).setting, **SMALL.get(name, {})}
    names = experiment.methods(setting)
    chosen = tuple(dict.fromkeys([names[0], names[-1]]))
    found = dict(experiment.measure(setting, 0, chosen))
    assert set(found) == set(chosen)
    for values in found.values():
        assert values
        assert all(math.isfinite(float(v)) for v in values.values())
    json.dumps(setting)


def test_every_experiment_has_its_place():
    assert sorted(e.rank for e in EXPERIMENTS.values()) == list(range(len(EXPERIMENTS)))
    assert len(EXPERIMENTS) >= 16


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_name_their_source_and_judge_without_rows(name):
    experiment = EXPERIMENTS[name]
    assert experiment.claims
    for claim in experiment.claims:
        assert claim.source
        assert claim.says
    assert [f.code for f in page.findings(experiment, [])] == ["not run"] * len(experiment.claims)


def test_results_follow_their_recipes():
    for experiment in EXPERIMENTS.values():
        for full in (False, True):
            path = results_path(experiment, full)
            if not path.exists():
                continue
            held = json.loads(path.read_text(encoding="utf-8"))
            assert held["recipe"] == experiment.recipe
            known = {
                key_of(cell.setting, seed, method)
                for cell in experiment.cells(full)
                for seed in range(cell.seeds)
                for method in experiment.methods(cell.setting)
            }
            for row in held["rows"]:
                assert key_of(row["setting"], row["seed"], row["method"]) in known
                assert held["runs"][row["run"]]["version"]


def test_the_page_is_what_the_rows_say():
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


def test_pictures_are_drawn_from_the_rows():
    import matplotlib.pyplot as plt

    for experiment in EXPERIMENTS.values():
        rows, _ = page.held(experiment)
        if rows.rows:
            figure = plt.figure(figsize=experiment.size)
            experiment.draw(rows.flat(), figure)
            assert figure.axes
            plt.close(figure)


LONGEST = 170
"""Characters in a cell of the first table: two lines of a column on a wide screen, three on a laptop."""


def test_the_first_table_is_short():
    for experiment in EXPERIMENTS.values():
        rows, _ = page.held(experiment)
        for claim, finding in zip(experiment.claims, page.findings(experiment, rows.flat()), strict=True):
            assert max(map(len, (claim.says, finding.measured, finding.default))) <= LONGEST, claim


def test_losses_and_disagreements_come_from_the_rows():
    every = {name: page.held(experiment)[0].flat() for name, experiment in EXPERIMENTS.items()}
    nothing: dict = {name: [] for name in EXPERIMENTS}
    for claim, _, here in DISAGREEMENTS:
        if not isinstance(here, str):
            assert here(every) != here(nothing), claim
    for experiment in EXPERIMENTS.values():
        if experiment.losses is not None:
            # the published rows with the default's measurements made much worse: something else is better
            worse = [
                {**row, **{name: sign for name, sign in BAD.items() if name in row}}
                if row["method"] == "default"
                else row
                for row in every[experiment.name]
            ]
            assert experiment.losses(worse), experiment.name


BAD = {"rse": 9.0, "seconds": 9e9, "log_kl": 9.0, "ari": 0.0, "energy": 0.0, "excess": 9.0, "eer": 0.9, "alpha": 9.0}


# -- rows and runs ---------------------------------------------------------------------------------------------------


def toy(calls, recipe=1):
    def measure(setting, seed, methods):
        for method in methods:
            calls.append((setting["x"], seed, method))
            yield method, {"value": setting["x"] + seed, "bad": math.inf, "seconds": 0.5}

    def judge(rows):
        return Finding("reproduced", f"{len(rows)} rows") if rows else Finding("not run", "")

    return Experiment(
        name="toy", title="Toy", rank=99, about="", cells=lambda full: [Cell({"x": x}, 2) for x in (1, 2)],
        methods=lambda setting: ("other", "default"), measure=measure, claims=(Claim("a", "b", judge),),
        draw=lambda rows, figure: None, recipe=recipe,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.runner.results_path", lambda experiment, full: tmp_path / "toy.json")
    return tmp_path


def test_a_full_run_takes_over_the_rows_of_the_quick_one(tmp_path, monkeypatch):
    paths = {full: tmp_path / f"{full}.json" for full in (False, True)}
    monkeypatch.setattr("experiments.runner.results_path", lambda experiment, full: paths[full])
    calls = []
    experiment = toy(calls)
    run_toy(experiment, monkeypatch, seeds=1)
    calls.clear()
    run_toy(experiment, monkeypatch, full=True)
    assert {seed for _, seed, _ in calls} == {1}
    quick, full = (Rows.read(path, 1) for path in paths.values())
    assert len(full.rows) == 2 * len(quick.rows) == 8
    assert all(full.rows[key]["values"] == row["values"] for key, row in quick.rows.items())


def run_toy(experiment, monkeypatch, **options):
    monkeypatch.setattr("experiments.runner.catalogue", lambda: {"toy": experiment})
    return run(experiment, **options)


def test_a_run_measures_what_is_missing(folder, monkeypatch):
    calls = []
    experiment = toy(calls)
    assert run_toy(experiment, monkeypatch, seeds=1) == 0
    assert calls == [(x, 0, m) for x in (1, 2) for m in ("other", "default")]
    calls.clear()
    run_toy(experiment, monkeypatch)
    assert calls == [(x, 1, m) for x in (1, 2) for m in ("other", "default")]
    calls.clear()
    run_toy(experiment, monkeypatch)
    assert not calls
    rows = Rows.read(folder / "toy.json", 1)
    assert len(rows.rows) == 8
    assert all(math.isinf(row["bad"]) for row in rows.flat())


def test_some_methods_are_measured_again_once_a_revision(folder, monkeypatch):
    calls = []
    experiment = toy(calls)
    run_toy(experiment, monkeypatch)
    calls.clear()
    about = {"version": "9", "revision": "other", "date": "", "processor": "", "threads": 1, "python": ""}
    monkeypatch.setattr("experiments.runner.this_run", lambda: about)
    run_toy(experiment, monkeypatch, only=("default",))
    assert calls == [(x, seed, "default") for seed in (0, 1) for x in (1, 2)]
    calls.clear()
    run_toy(experiment, monkeypatch, only=("default",))
    assert not calls
    rows = Rows.read(folder / "toy.json", 1)
    revisions = {(row["method"], rows.runs[row["run"]]["revision"] == "other") for row in rows.rows.values()}
    assert revisions == {("other", False), ("default", True)}


def test_the_default_is_measured_again_wherever_it_decodes():
    for experiment in EXPERIMENTS.values():
        cells = list(experiment.cells(False))
        assert any(experiment.own(c.setting, m) for c in cells for m in experiment.methods(c.setting)), experiment.name


def test_another_recipe_begins_anew(folder, monkeypatch):
    calls = []
    run_toy(toy(calls), monkeypatch)
    again = toy(calls, recipe=2)
    assert len(missing(again, Rows.read(folder / "toy.json", 2), False, (), None)) == 4
    run_toy(again, monkeypatch, seeds=1)
    assert len(Rows.read(folder / "toy.json", 2).rows) == 4


def test_a_stopped_run_keeps_what_it_has(folder, monkeypatch):
    calls = []
    left = run_toy(toy(calls), monkeypatch, minutes=0)
    assert left == 3
    assert len(Rows.read(folder / "toy.json", 1).rows) == 2


# -- rulers ----------------------------------------------------------------------------------------------------------


def test_intervals():
    assert rulers.interval([1.0, 1.0, 1.0]) == (1.0, 1.0, 1.0)
    middle, low, high = rulers.interval(range(101))
    assert low < middle == 50 < high
    rate, low, high = rulers.wilson(9, 10)
    assert low < rate < high <= 1
    assert rulers.shown([]) == "not run"
    assert rulers.number(3e-7) == "3.0·10⁻⁷"
    assert rulers.number(math.inf) == "∞"


@pytest.mark.parametrize(
    ("parts", "code"),
    [((True, True), "reproduced"), ((True, False), "partly"), ((False,), "not"), ((True, None), "not run")],
)
def test_verdicts(parts, code):
    assert rulers.verdict(*parts) == code
    assert code in ORDER


def test_divergence_of_normal_laws():
    from sketchlearn import Mixture

    one, other = (Mixture(np.ones(1), np.array([[mean, 0.0]]), np.ones((1, 2))) for mean in (0.0, 2.0))
    # symmetrised: the squared distance of the means, 4; the error of the mean over 50 000 draws is 0.02
    assert abs(math.exp(rulers.log_symmetric_kl(one, other, 0)) - 4.0) < 0.1
    full = Mixture(np.ones(1), np.array([[2.0, 0.0]]), np.eye(2)[None])
    assert np.allclose(rulers._log_density(other, np.ones((3, 2))), full.log_density(np.ones((3, 2))))


def test_references_are_ordered():
    from sketchlearn.datasets import clusters

    data = clusters(2000, 10, 10, seed=0)
    best = rulers.best_cost(data.rows, 10, data.centers)
    assert best <= rulers.plus_plus_cost(data.rows, 10, 0) * (1 + 1e-9)
    assert best <= rulers.box_cost(data.rows, 10, 0) * (1 + 1e-9)
    assert abs(best - 10) < 0.5  # unit variance in ten columns


# -- rivals ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(4000, 3)) + np.repeat([[0.0, 0, 0], [9, 0, 0]], 2000, axis=0)


def test_coresets_weigh_as_much_as_the_rows(rows):
    rng = np.random.default_rng(0)
    whole = rivals.Coreset(rows, np.ones(len(rows)))
    for core in (
        rivals.uniform_sample(rows, 400, 0),
        rivals.lightweight_coreset(rows, 400, 0),
        rivals.sensitivity_coreset(whole, 400, 2, rng),
        rivals.coreset_tree(rows, 400, 2, 0)[0],
        rivals.small_coreset_tree(rows, 400, 2, 0),
    ):
        assert len(core.rows) <= 400
        # weights are unbiased, with a spread of a few per cent for four hundred rows
        assert abs(core.weights.sum() / len(rows) - 1) < 0.3
        centers = rivals.solve(core, 2, 0)
        assert np.abs(np.sort(centers[:, 0]) - [0, 9]).max() < 0.6


def test_clustering_features_keep_counts_and_mean(rows):
    core = rivals.birch(rows, 50, 0)
    assert len(core.rows) <= 50
    assert core.weights.sum() == len(rows)
    assert np.allclose(core.weights @ core.rows / len(rows), rows.mean(0))


def test_weighted_em_counts_a_weight_as_rows(rows):
    some = rivals.Coreset(rows[::4], np.ones(1000))
    twice = rivals.Coreset(np.concatenate([rows[::4], rows[::4]]), np.full(2000, 0.5))
    one, two = (rivals.weighted_em(core, 2, 0) for core in (some, twice))
    assert np.allclose(np.sort(one[1][:, 0]), np.sort(two[1][:, 0]), atol=0.05)


def test_private_rivals_with_a_large_budget_are_near_the_truth(rows):
    second = rows.T @ rows / len(rows)
    best = np.linalg.eigh(second)[1][:, -1]
    for function in (laplace_pca, wishart_pca):
        assert abs(function(rows, 1, 1e6, 100.0, 0)[:, 0] @ best) > 0.99
    centers = private_lloyd(rows, 2, 1e6, 13.0, 0)
    assert rulers.mean_cost(rows, centers) < 2 * rulers.mean_cost(
        rows, rivals.solve(rivals.Coreset(rows, np.ones(4000)), 2, 0)
    )
