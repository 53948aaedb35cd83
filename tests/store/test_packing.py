"""Packed sums come back as they were, and add up as they would have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketchlearn.store.packing import Packed, add_into, pack, unpack

SUMS = st.integers(0, 2**32).flatmap(
    lambda seed: st.lists(st.integers(0, 62), min_size=1, max_size=12).map(
        lambda bits: np.stack(
            [np.random.default_rng([seed, i]).integers(-(2**b), 2**b, 5, endpoint=True) for i, b in enumerate(bits)]
        )
    )
)


@given(SUMS)
def test_sums_come_back(sums):
    packed = pack(sums)
    assert np.array_equal(unpack(packed, 5), sums)
    assert np.array_equal(unpack(Packed.of(packed.strings()), 5), sums)


@pytest.mark.parametrize("bits", range(63))
def test_the_ends_of_the_range_fit(bits):
    sums = np.array([[2**bits, -(2**bits)], [2**bits - 1, -(2**bits) - 1], [0, 2**bits - 1]])
    assert np.array_equal(unpack(pack(sums), 2), sums)


def test_a_cell_takes_as_few_bytes_as_its_largest_sum_needs():
    assert np.diff(pack(np.array([[127, -128], [128, 0], [-(2**31), 0], [2**31, 0]])).offsets).tolist() == [2, 4, 8, 10]


@given(SUMS, st.integers(0, 2**32))
def test_cells_add_up_by_key_and_weight(sums, seed):
    sums = sums >> 24  # products with the weights stay in range
    rng = np.random.default_rng(seed)
    codes, factors = rng.integers(0, 4, len(sums)), rng.integers(0, 2**16, len(sums))
    for weights in (None, factors):
        out, expected = np.zeros((4, 5), np.int64), np.zeros((4, 5), np.int64)
        add_into(out, pack(sums), codes, weights)
        np.add.at(expected, codes, sums if weights is None else sums * weights[:, None])
        assert np.array_equal(out, expected)


def test_damage_is_noticed():
    with pytest.raises(ValueError, match="can't hold 5 sums"):
        unpack(Packed.of([b"1234567"]), 5)
