"""Ranges, units and labels of a table that nobody has described, with a budget."""

import json

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.privacy import Ledger, prepare, privatize_rows, selection

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
N = 60_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=N)
    table = pa.table(
        {
            "age": np.where(rng.random(N) < 0.05, np.nan, 30 + 10 * kind + 3 * rng.normal(size=N)),
            "year": 1990 + 10 * kind + rng.integers(0, 5, N),
            "clock": 1.7e9 + 3e5 * kind + 1e5 * rng.normal(size=N),
            "plan": np.array(["free", "paid", "pro"])[kind],
            "name": [f"person {i}" for i in range(N)],
        }
    )
    found = tmp_path_factory.mktemp("prepare") / "people.parquet"
    pq.write_table(table, found)
    return found


def test_bins_are_in_order_and_hold_their_values():
    rng = np.random.default_rng(0)
    values = np.sort(
        np.concatenate([rng.normal(size=2000) * 10.0 ** rng.uniform(-25, 25, 2000), [0.0, -0.0, 1.0, -1.0]])
    )
    bins = selection.bins_of(values)
    assert (np.diff(bins) >= 0).all()
    assert 0 <= bins[0] < bins[-1] < selection.ALL_BINS
    for value, number in zip(values, bins, strict=True):
        low, high = selection.edges_of(number)
        inside = 2.0**-64 <= abs(value) < 2.0**64
        assert low <= value <= high or not inside
        assert not inside or high - low <= abs(value) / 200


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("people", [1, 3])
def test_nobody_moves_a_score_further_than_is_charged_for(relation, people):
    rng = np.random.default_rng(0)
    worst = {}
    for _ in range(3000):
        rank, counts = int(rng.choice([20, 137, 500, 980])), rng.integers(0, 6, 5)
        other = counts.copy()
        for _ in range(people):
            other[rng.integers(5)] += 1
            if relation == "replace-one":
                there = np.flatnonzero(other)
                other[rng.choice(there)] -= 1
        moved = np.abs(selection.scores(counts, 0, rank) - selection.scores(other, 0, rank)).max()
        worst[rank] = max(worst.get(rank, 0), moved)
        assert moved <= selection.sensitivity(rank, relation, people)
    assert worst[500] >= 0.5 * selection.sensitivity(500, relation, people)  # the bound is not idle


def test_ranges_units_and_labels_are_found(path):
    found = prepare(path, epsilon=0.5, delta=1e-6)
    by_name = {column.name: column for column in found.columns}
    assert 20 < by_name["age"].lower < 30 < 50 < by_name["age"].upper < 62
    assert by_name["year"].lower == pytest.approx(1990.5, abs=1)
    assert by_name["year"].upper == pytest.approx(2013.5, abs=1)
    assert 1e5 < by_name["clock"].spread < 6e5
    assert by_name["plan"].values == ("free", "paid", "pro")
    assert by_name["plan"].shares == pytest.approx([0.33] * 3, abs=0.03)
    assert not by_name["name"].shown  # nobody's name is shown
    assert "person" not in found.describe() + json.dumps(found.record.to_json())
    assert found.record.epsilon == 0.5
    assert found.record.delta <= 1e-6
    assert abs(found.rows - N) < 2000
    assert len(found.units[0]) == 3 + 4


def test_parts_add_up_to_what_is_charged(path):
    for delta in (0.0, 1e-7):
        found = prepare(path, epsilon=0.5, delta=delta, columns=["age", "year", "clock"])
        if delta:
            from sketchlearn.privacy.calibration import concentrated_epsilon

            assert concentrated_epsilon(sum(part.rho for part in found.parts), delta) <= 0.5
            assert found.record.details["rho"] >= sum(part.rho for part in found.parts)
        else:
            assert 0.499 < sum(part.epsilon for part in found.parts) <= 0.5
    labels = prepare(path, epsilon=0.5, delta=1e-6, columns=["plan"])
    assert sum(part.delta for part in labels.parts) <= labels.record.delta


def test_a_map_of_these_units_needs_no_word_and_no_other_map_takes_its_record(path):
    found = prepare(path, epsilon=0.2, delta=1e-7, columns=["age", "year", "plan"])
    phi, spent = found.design(3, size=120)
    assert phi.encoder.columns == ("age", "year", "plan")
    s = sl.sketch(path, phi)
    assert (s.count, s.skipped) == (N, 0)  # missing ages are filled
    released = sl.privatize(s, 0.8, 9e-7, pilot=spent)
    assert released.privacy.epsilon == 1.0
    assert released.privacy.details["map"] == "chosen from the data by a private pilot"
    other, _ = found.design(3, size=121)
    with pytest.raises(ValueError, match="the map of this sketch does not come from it"):
        sl.privatize(sl.sketch(path, other), 0.8, 9e-7, pilot=spent)
    with pytest.raises(ValueError, match="private preparation"):
        sl.privatize(s, 0.8, 9e-7)


def test_public_lists_and_bounds_cost_less(path):
    public = {"plan": ["free", "paid", "pro", "gold"]}
    found = prepare(path, epsilon=0.5, columns=["age", "plan"], categories=public, bounds={"age": (0, 120)})
    age, plan = found.columns
    assert plan.values == ("free", "paid", "pro", "gold")
    assert plan.shares[3] < 0.01
    assert [(part.counts, part.choices) for part in found.parts] == [(1, 2), (1, 0)]
    assert 20 < age.lower < 30 < 50 < age.upper < 62


def test_what_can_not_be_bought_is_refused(path, tmp_path):
    with pytest.raises(ValueError, match="public list"):
        prepare(path, epsilon=1.0)
    with pytest.raises(ValueError, match="too few values for this budget in column '0'"):
        prepare(np.random.default_rng(0).normal(size=(300, 4)), epsilon=0.1)
    with pytest.raises(ValueError, match="no column 'what'"):
        prepare(path, epsilon=1.0, columns=["what"])
    with pytest.raises(ValueError, match="can be read only once"):
        prepare((np.ones((5, 2)) for _ in range(3)), epsilon=1.0)
    with pytest.raises(ValueError, match="up to 3 rows"):
        prepare(np.ones((50, 2)), epsilon=1.0, user=np.arange(50), max_rows_per_user=3, records_per_user=2)
    with pytest.raises(ValueError, match="weights"):
        prepare(np.ones((50, 2)), epsilon=1.0, sample_weight=np.ones(50))


def test_nearly_constant_columns_get_a_unit(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.where(rng.random(N) < 0.995, 0.0, 5.0), rng.normal(size=N)])
    found = prepare(rows, epsilon=1.0)
    assert found.units[1][0] == 1.0
    assert "nearly all values are one" in found.describe()
    phi, _ = found.design(2, size=50)
    assert sl.sketch(rows, phi).count == N


def test_rows_of_users_are_bounded_in_every_pass(path):
    rng = np.random.default_rng(0)
    who = np.concatenate([np.zeros(N // 2, int), 1 + np.arange(N // 2)])  # one has half of the rows, all far away
    rows = np.where(who[:, None] == 0, 1e6, rng.normal(size=(N, 2)))
    s, found = privatize_rows(rows, 8.0, 1e-6, n_components=2, size=60, user=who, max_rows_per_user=2)
    assert abs(found.rows - N // 2) < 2000  # the noise of a count is about 90 rows
    assert max(column.upper for column in found.columns) < 10
    assert s.privacy.records_per_user == 2


def test_a_budget_that_does_not_hold_all_of_it_is_left_alone(path, tmp_path):
    book = Ledger(tmp_path / "l.json", 1.0, 1e-6)
    with pytest.raises(sl.BudgetError):
        privatize_rows(path, 1.5, 1e-6, columns=["age"], ledger=book, dataset="people")
    assert not book.datasets
    privatize_rows(path, 1.0, 1e-6, columns=["age"], size=50, ledger=book, dataset="people")
    assert [round(e.epsilon, 9) for e in book.account("people").entries] == [0.1, 0.9]
    assert book.left("people") < 0.11


def test_text_has_no_types(tmp_path):
    rng = np.random.default_rng(0)
    place = tmp_path / "x.csv"
    lines = [f"{v:.3f},{w}" for v, w in zip(rng.normal(size=5000) + 7, rng.integers(0, 2, 5000), strict=True)]
    place.write_text("v,w\n" + "\n".join(lines) + "\n")
    numbers = prepare(place, epsilon=5.0, delta=1e-4)
    assert [column.labels for column in numbers.columns] == [False, False]
    labels = prepare(place, epsilon=5.0, delta=1e-4, categories=["w"])
    assert labels.columns[1].values == ("0", "1")


def test_the_command_does_all_of_it_and_says_what_it_cost(path, tmp_path, capsys):
    out, book = tmp_path / "public.sketch", tmp_path / "l.json"
    command = ["privatize", str(path), "-o", str(out), "--epsilon", "1", "--delta", "1e-6", "-k", "3"]
    command += ["--columns", "age,year,plan", "--ledger", str(book), "--dataset", "people", "--budget-epsilon", "3"]
    assert main([*command, "--budget-delta", "1e-5"]) == 0
    told = capsys.readouterr().out
    for words in ("plan: 3 labels", "age: 1 count and 4 choices, rho", "epsilon = 0.1 + 0.9 = 1", "left for people"):
        assert words in told
    s = sl.load(out)
    assert s.privacy.epsilon == 1.0
    model = sl.CompressiveKMeans(3, random_state=0).fit_sketch(s)
    assert np.sort(model.cluster_centers_[:, 1]) == pytest.approx([1992, 2002, 2012], abs=2)
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["preparation"][0]["choices"] == 4
    for wrong in (["--group", "a"], ["--rows", "5"], ["--share", "2"], ["--bounds", "age=5"]):
        assert main([*command, *wrong]) == 2
