import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.privacy import ContinualRelease, Ledger, privatize
from sketchlearn.privacy.continual import _cover

PHI = sl.FourierFeatures.draw(dim=1, size=10, scale=1.0, seed=0)
DAYS = [sl.sketch(np.full((100 * (i + 1), 1), 0.1 * i), PHI) for i in range(13)]


@given(st.integers(0, 300), st.integers(1, 300))
def test_any_run_of_days_is_a_few_whole_nodes(first, length):
    nodes = list(_cover(first, first + length))
    days = [day for level, number in nodes for day in range((number - 1) * 2**level, number * 2**level)]
    assert days == list(range(first, first + length))
    assert len(nodes) <= 2 * (length.bit_length() + 1)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_range_has_the_noise_that_it_claims(delta):
    stream = ContinualRelease(PHI, 5.0, delta, periods=16, public_map=True)
    for day in DAYS:
        so_far = stream.add(day)
    assert so_far == stream.range(0, 13)
    for first, last in ((0, 13), (0, 8), (3, 4), (1, 12), (5, 13)):
        s, exact = stream.range(first, last), sl.merge(DAYS[first:last])
        record = s.privacy
        assert (record.epsilon, record.delta) == (5.0, delta)
        assert np.abs((s.sums - exact.sums).astype(float)).max() < 20 * math.sqrt(record.sums_variance)
        node = stream.range(0, 1).privacy.sums_variance
        assert record.sums_variance == pytest.approx(node * len(list(_cover(first, last))))


def test_noise_grows_with_the_logarithm_of_the_days():
    """A day in 1024 released by the tree has sqrt(11) times the noise of one release."""
    stream = ContinualRelease(PHI, 1.0, 1e-6, periods=1024, public_map=True)
    single = privatize(DAYS[0], 1.0, 1e-6, mechanism="gaussian", public_map=True).privacy.sums_variance
    assert stream.levels == 11
    stream.add(DAYS[0])
    assert stream.range(0, 1).privacy.sums_variance == pytest.approx(11 * single, rel=1e-6)


def test_a_row_moves_the_whole_tree_no_further_than_was_counted():
    """The vector of all nodes with and without one row, without noise: one node per level, whatever the day."""
    for day in range(8):
        nodes = [n for n in {node for last in range(1, 9) for node in _all_nodes(last)} if _holds(n, day)]
        assert len(nodes) == ContinualRelease(PHI, 1.0, periods=8, public_map=True).levels


def _all_nodes(done):
    return [(level, done >> level) for level in range(4) if done % 2**level == 0]


def _holds(node, day):
    level, number = node
    return (number - 1) * 2**level <= day < number * 2**level


def test_the_budget_is_spent_at_the_beginning(tmp_path):
    book = Ledger(tmp_path / "book.json", epsilon=1.0)
    stream = ContinualRelease(PHI, 0.75, periods=4, public_map=True, ledger=book, dataset="people")
    assert book.left("people") == 0.25
    for day in DAYS[:4]:
        stream.add(day)
    assert book.left("people") == 0.25
    with pytest.raises(ValueError, match="all 4 periods are over"):
        stream.add(DAYS[4])
    with pytest.raises(sl.BudgetError):
        ContinualRelease(PHI, 0.75, periods=4, public_map=True, ledger=book, dataset="people")


def test_what_is_refused():
    with pytest.raises(ValueError, match="periods must be"):
        ContinualRelease(PHI, 1.0, periods=0, public_map=True)
    with pytest.raises(ValueError, match="confirm it with public_map=True"):
        ContinualRelease(PHI, 1.0, periods=4)
    stream = ContinualRelease(PHI, 1.0, periods=4, public_map=True)
    with pytest.raises(ValueError, match="there are 0"):
        stream.range(0, 1)
    with pytest.raises(ValueError, match="already private"):
        stream.add(privatize(DAYS[0], 1.0, public_map=True))
    with pytest.raises(sl.IncompatibleSketchError):
        stream.add(sl.sketch([[0.0]], sl.FourierFeatures.draw(dim=1, size=10, scale=1.0, seed=1)))
    assert stream.done == 0
