"""A few of the attacks; ``make trust`` runs them all, with servers that are killed."""

import pytest

pytest.importorskip("typer")
import attacks


def test_hostile_fields():
    assert attacks.hostile_fields(100) > 50


def test_links(tmp_path):
    assert attacks.links(tmp_path) == 10
