"""Uses the library as its users do, for their type checker: ``mypy --strict`` where only the wheel is installed.

Not collected by pytest; ``make package`` and a workflow check it.
"""

from typing import assert_type

import numpy as np

import sketchlearn as sl


def use() -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    phi = sl.design(rows[:500], n_components=2)
    s = sl.Sketch.empty(phi)
    assert_type(s, sl.Sketch)
    assert_type(s + s, sl.Sketch)
    assert_type(s - s, sl.Sketch)
    assert_type(s.count, int | float)
    assert_type(s.to_bytes(), bytes)
    found = sl.compare(s, s)
    assert_type(found.p_value, float)
    assert_type(found.differs(alpha=0.01), bool)
    model = sl.CompressiveKMeans(2, random_state=0).fit_sketch(s)
    assert_type(model, sl.CompressiveKMeans)
    sl.load("missing.sketch").save("copy.sketch")
    sl.design(rows, n_components="two")  # type: ignore[call-overload]


if __name__ == "__main__":
    use()
