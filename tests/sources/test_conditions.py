import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl
from sketchlearn.sources.conditions import parse_condition

START = dt.datetime(2024, 1, 1)
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(100)]
TABLE = pa.table(
    {
        "x": np.arange(100.0),
        "country": ["DE", "FR", "US", None] * 25,
        "day": DAYS,
        "time": pa.array([START + dt.timedelta(hours=12 * i) for i in range(100)], pa.timestamp("us")),
        "zoned": pa.array([START + dt.timedelta(hours=i) for i in range(100)], pa.timestamp("us", "UTC")),
        "text day": [str(d) for d in DAYS],
    }
)
X, COUNTRY = np.arange(100), np.array(["DE", "FR", "US", ""] * 25)
CASES = [
    ("x >= 10 and x < 20", (X >= 10) & (X < 20)),
    ("x < 5 or x > 95", (X < 5) | (X > 95)),
    ("x < 5 OR x > 95 AND country = DE", (X < 5) | (X > 95) & (COUNTRY == "DE")),
    ("(x < 5 or x > 90) and country != 'DE'", ((X < 5) | (X > 90)) & (COUNTRY != "DE") & (COUNTRY != "")),
    ("x between 10 and 12 or x = 50", np.isin(X, [10, 11, 12, 50])),
    ("x not between 10 and 98", (X < 10) | (X > 98)),
    ("country in (DE, FR) and x < 9", np.isin(COUNTRY, ["DE", "FR"]) & (X < 9)),
    ("not country in (DE, FR) and x < 9", ~np.isin(COUNTRY, ["DE", "FR"]) & (X < 9)),
    ("country is null and x < 9", (COUNTRY == "") & (X < 9)),
    ("country is not null and x < 9", (COUNTRY != "") & (X < 9)),
    ("day >= 2024-03-01", np.array([d >= dt.date(2024, 3, 1) for d in DAYS])),
    ("day between 2024-01-03 and 2024-01-05", np.isin(X, [2, 3, 4])),
    ("day in (2024-01-03, 2024-01-09)", np.isin(X, [2, 8])),
    ("time < 2024-01-02T12:00", X < 3),
    ("time < '2024-01-02 12:00'", X < 3),
    ("zoned <= 2024-01-01T03:00", X < 4),
    ("zoned <= 2024-01-01T05:00+02:00", X < 4),
    ('"text day" < 2024-01-03', X < 2),
]


@pytest.mark.parametrize("kind", ["parquet", "frame", "csv"])
@pytest.mark.parametrize(("text", "expected"), CASES, ids=[c[0] for c in CASES])
def test_rows_that_pass(tmp_path, kind, text, expected):
    if kind == "parquet":
        pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=7)
        data = tmp_path / "x.parquet"
    elif kind == "csv":
        csv.write_csv(TABLE, tmp_path / "x.csv")
        data = tmp_path / "x.csv"
    else:
        data = TABLE
    rows = np.concatenate([*sl.read(data, columns=["x"], where=text), np.empty((0, 1))])
    assert rows[:, 0].tolist() == X[expected].tolist()


def test_columns_of_arrays_by_number():
    rows = np.arange(12.0).reshape(6, 2)
    found = np.concatenate(list(sl.read(rows, where="0 < 3 or (1 > 8 and not 0 = 10)")))
    assert found[:, 0].tolist() == [0.0, 2.0, 8.0]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x > 1 and", "a column is missing"),
        ("x > 1 or y", "no comparison after 'y'"),
        ("(x > 1 and y < 2", "not closed"),
        ("x between 1", "joined by 'and'"),
        ("x > 1 and y in 3", "parentheses"),
        ("x > 1 and y = 'open", "can't be read"),
        ("x > 1 and y < 2)", "unexpected text"),
    ],
)
def test_what_can_not_be_read_is_said(text, word):
    with pytest.raises(ValueError, match="where=") as error:
        parse_condition(text)
    assert word in str(error.value)


def test_what_is_no_date_is_said():
    with pytest.raises(ValueError, match="holds dates, and 'soon' is not a date"):
        list(sl.read(TABLE, columns=["x"], where="day > soon"))
