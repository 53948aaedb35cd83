"""What a new user meets first: text in a frame, missing values, whole numbers that are stored as decimals."""

import numpy as np
import pandas as pd
import pytest

import sketchlearn as sl

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.normal(size=60), "kind": ["a", "b"] * 30, "income": RNG.normal(size=60)})
NUMBERS = FRAME[["age", "income"]]
GAPS = NUMBERS.assign(age=NUMBERS["age"].where(NUMBERS.index != 7))


def test_text_in_a_frame_names_the_column_and_the_remedy():
    with pytest.raises(ValueError, match=r"column 'kind' holds text.*Encoder"):
        sl.CompressiveKMeans(2).fit(FRAME)
    with pytest.raises(ValueError, match="column 'kind' holds text"):
        sl.CompressiveLinearRegression().fit(FRAME, FRAME["age"])


def test_gaps_name_the_row_and_the_column():
    model = sl.CompressiveKMeans(2, random_state=0, n_decodes=1).fit(NUMBERS)
    with pytest.raises(ValueError, match=r"row 7 .* NaN .* column 'age'; leave such rows out"):
        model.predict(GAPS)
    with pytest.raises(ValueError, match=r"row 7 .* NaN .* column 'age'.*on_invalid='skip'"):
        sl.CompressiveLinearRegression().fit(GAPS, np.arange(60.0))


@pytest.mark.parametrize("library", ["numpy", "pandas", "arrow"])
def test_whole_numbers_with_a_decimal_point_are_groups(library):
    month = np.repeat([1.0, 2.0, np.nan], 20)
    phi = sl.FourierFeatures.draw(dim=2, size=5, seed=0).with_columns(["age", "income"])
    if library == "numpy":
        table = sl.sketch(NUMBERS.to_numpy(), phi, group_by=month)
    else:
        frame = NUMBERS.assign(month=month)
        if library == "arrow":
            pa = pytest.importorskip("pyarrow")
            frame = pa.table({name: pa.array(frame[name].to_numpy()) for name in frame})
        table = sl.sketch(frame, phi, group_by="month")
    assert table.counts == {1: 20, 2: 20, None: 20}
    with pytest.raises(ValueError, match="numbers with decimals"):
        sl.sketch(NUMBERS.to_numpy(), phi, group_by=month + 0.5)


def test_rows_in_memory_get_a_call_and_a_warning_of_the_size():
    found = sl.profile(NUMBERS * [1.0, 1000.0])
    assert found.command == ("sl.sketch(data, sl.design(data, n_components=20, standardize=True))")
    assert "more than the table itself" in found.advice
    mixed = FRAME.assign(code=[f"{i // 3}" for i in range(60)])
    assert sl.profile(mixed).command == "sl.sketch(data, encoder=sl.Encoder.fit(data))"
    many = pd.DataFrame({"x": RNG.normal(size=400), "place": RNG.integers(150, size=400).astype(str)})
    assert [c.use.partition(":")[0] for c in sl.profile(many).columns] == ["number", "leave out"]


def test_alarms_are_short():
    phi = sl.design(NUMBERS, n_components=2, task="monitoring")
    days = {day: sl.sketch(NUMBERS + 3.0 * (day == "tue"), phi) for day in ("mon", "tue")}
    assert repr(sl.drift(days)).startswith("[Alarm(tue: differs: ")
