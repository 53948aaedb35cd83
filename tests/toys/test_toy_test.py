"""A test of one's own in the certificate."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.certificate import TESTS, Finding, register_test


@pytest.fixture
def fewest_rows():
    """No cluster may have fewer than 1000 rows."""

    @register_test
    def fewest(exam):
        problem = exam.tangent.problem
        rows = problem.n * float(problem.state.weights.min())
        return Finding("fewest rows", 1000.0 / rows, 1.0, f"1000 rows over the {rows:.0f} of the smallest cluster")

    yield fewest
    TESTS.remove(fewest)


@pytest.mark.parametrize(("rows", "reliable"), [(2000, True), (500, False)])
def test_it_decides_and_is_named(fewest_rows, rows, reliable):
    X = np.random.default_rng(0).normal(size=(3000 + rows, 2)) + np.repeat([[0.0], [9.0]], [3000, rows], axis=0)
    solution = sl.decode(sl.sketch(X, sl.design(X, n_components=2, seed=0)), 2, random_state=0)
    assert solution.reliable == reliable
    assert any("fewest rows" in step["found"] for step in solution.trace) == (not reliable)
