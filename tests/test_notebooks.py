"""What notebooks show: tables with everything that the text says, and nothing that a name could smuggle in."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.models import Column, Table

ROWS = np.random.default_rng(0).normal(size=(2000, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 1000, axis=0)
PHI = sl.design(ROWS, n_components=4).with_columns(["<b>", "y"])


@pytest.fixture(scope="module")
def shown():
    sketch = sl.sketch(ROWS, PHI)
    days = {"<i>": sl.sketch(ROWS[::2], PHI), "b": sl.sketch(ROWS[1::2] + 2.0, PHI)}
    model = sl.CompressiveKMeans(2, random_state=0).fit_sketch(sketch).to_model()
    return {
        "sketch": (sketch, "2,000"),
        "table of sketches": (sl.SketchTable(days), "1,000"),
        "model": (model, "2 clusters of 2,000 rows"),
        "table": (model.table(), "&lt;b&gt;"),
        "sweep": (sl.sweep(sketch, range(1, 4), random_state=0), "Recommended: 2"),
        "comparison": (sl.compare(*days.values()), "p-value"),
        "alarm": (sl.drift(days)[0], "differs"),
    }


@pytest.mark.parametrize("what", ["sketch", "table of sketches", "model", "table", "sweep", "comparison", "alarm"])
def test_values_are_tables(shown, what):
    value, word = shown[what]
    page = value._repr_html_()
    assert page.startswith("<table>")
    assert word in page
    assert "<b>" not in page
    assert "<i>" not in page


def test_long_tables_say_what_is_left_out():
    table = Table("t", "T", tuple(Column(f"c{j}", list(range(40))) for j in range(20)))
    page = table._repr_html_()
    assert page.count("<tr>") == 31
    assert "And 10 more rows and 6 more columns." in page
