"""Nodes that release their own sketches: all of them count, noise adds up, and the record says so."""

from types import SimpleNamespace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.federation import Collector, Store
from sketchlearn.federation.flower import added_up
from sketchlearn.federation.store import Submission
from sketchlearn.privacy import privatize

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
ROWS = [np.random.default_rng(node).normal(size=(1000 + node, 2)) for node in range(5)]


@pytest.fixture
def released():
    return [privatize(sl.sketch(rows, PHI), 1.0, 1e-6, public_map=True) for rows in ROWS]


def check(total, released, nodes):
    assert np.array_equal(total.sums, sum(s.sums for s in released[:nodes]))
    assert total.count == sum(s.count for s in released[:nodes])
    assert total.privacy.epsilon == 1.0
    assert total.privacy.sums_variance == pytest.approx(nodes * released[0].privacy.sums_variance)
    assert total.privacy.details["parts"] == nodes


def test_all_nodes_of_a_store_count(tmp_path, released):
    """One of five counted, and four were refused in silence."""
    store = Store(tmp_path / "x.db", PHI, users="disjoint")
    for node, s in enumerate(released):
        assert store.add([Submission.of(str(node), s.to_bytes(), PHI, private=True)]) == ["added"]
    check(store.sketch, released, 5)
    store.close()
    again = Store(tmp_path / "x.db", PHI, users="disjoint")
    check(again.sketch, released, 5)
    assert again.add([Submission.of("0", released[0].to_bytes(), PHI, private=True)]) == ["duplicate"]
    assert again.add([Submission.of("exact", sl.sketch(ROWS[0], PHI).to_bytes(), PHI)]) == ["refused"]
    check(again.sketch, released, 5)
    again.close()


def test_without_a_word_about_people_a_second_one_is_refused(tmp_path, released):
    store = Store(tmp_path / "x.db", PHI)
    both = [Submission.of(str(node), s.to_bytes(), PHI, private=True) for node, s in enumerate(released[:2])]
    assert store.add(both) == ["added", "refused"]
    with pytest.raises(ValueError, match="users="):
        Submission.of("0", released[0].to_bytes(), PHI)
    store.close()
    with pytest.raises(ValueError, match="users="):
        Collector(PHI, tmp_path / "y.db", users="some")


def _reply(node, data):
    content = {"sketch": {"bytes": data}}
    return SimpleNamespace(metadata=SimpleNamespace(src_node_id=node), has_error=lambda: False, content=content)


def test_all_nodes_of_a_grid_count(released):
    replies = [_reply(node, s.to_bytes()) for node, s in enumerate(released[:4])]
    found = added_up(PHI, range(5), replies, users="disjoint")
    check(found.sketch, released, 4)
    assert found.nodes == (0, 1, 2, 3)
    assert found.missing == (4,)
    assert not found.refused
    silent = added_up(PHI, range(5), replies)
    assert len(silent.refused) == 3
    assert "users='disjoint'" in silent.refused[1]
