"""Tables are described as they are, and the suggested command runs."""

import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl


def people(rows=400):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "row": np.arange(rows),
            "id": [f"p{i}" for i in range(rows)],
            "age": [None if i % 10 == 0 else float(x) for i, x in enumerate(rng.normal(40, 10, rows))],
            "income, net": rng.normal(30_000, 9000, rows),
            "plan": rng.choice(["free", "paid"], rows).tolist(),
            "nothing": pa.nulls(rows, pa.float64()),
            "same": np.ones(rows),
            "born": pa.array(np.arange(rows), pa.int32()).cast(pa.date32()),
            "lists": [[1.0]] * rows,
        }
    )


def test_columns_are_told_apart():
    found = sl.profile(people())
    assert found.rows == 400
    assert [c.use for c in found.columns] == [
        "leave out: numbers the rows", "leave out: nearly every row has its own value", "number", "number", "category",
        "leave out: no value", "leave out: one value only", "leave out: a date (a group or a time bucket?)",
        "leave out: list<item: double> is neither number nor category",
    ]  # fmt: skip
    assert found.columns[2].missing == pytest.approx(0.1)
    assert found.suggested == ("age", "income, net", "plan")
    assert found.standardize
    assert found.encoder.dim == 5
    assert found.size == sl.designs.default_size(20, 5) if hasattr(sl, "designs") else found.size > 0
    assert found._repr_html_().count("<tr>") == 10


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_suggested_command_runs(suffix, tmp_path, monkeypatch, capsys):
    from sketchlearn.cli import main

    monkeypatch.chdir(tmp_path)
    table = people().drop_columns(["lists"])
    path = f"people.{suffix}"
    pq.write_table(table, path) if suffix == "parquet" else pc.write_csv(table, path)
    assert main(["profile", path]) == 0
    command = capsys.readouterr().out.splitlines()[-1].strip()
    assert main(shlex.split(command)[1:]) == 0
    made = sl.load("all.sketch")
    assert made.count == 400
    assert made.features.encoder.columns == ("age", "income, net", "plan")


def test_arrays_and_tables_without_columns_to_sketch():
    found = sl.profile(np.random.default_rng(1).normal(size=(300, 2)))
    assert found.suggested == ("0", "1")
    assert found.encoder is None
    assert not found.standardize
    nothing = sl.profile(pa.table({"id": [f"x{i}" for i in range(100)]}))
    assert (nothing.suggested, nothing.command) == ((), "")
    assert "No column" in str(nothing)


def test_identifiers_are_left_out_by_encoders_with_a_warning():
    table = people().select(["id", "age", "plan"])
    with pytest.warns(sl.DataWarning, match="'id': left out as identifiers"):
        assert sl.Encoder.fit(table).columns == ("age", "plan")
    assert sl.Encoder.fit(table, columns=["id", "age"]).columns == ("id", "age")  # who names them gets them
