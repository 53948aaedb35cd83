"""Processes that die, and processes that write at the same time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "killed.py"


@pytest.mark.slow
def test_killed_and_concurrent_ingests_lose_nothing_and_add_nothing_twice(place):
    kills = 8
    found = subprocess.run(
        [sys.executable, SCRIPT, str(kills), *([place] if place.startswith("postgres") else [])],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    hit, _, states = found.stdout.partition(" were killed before they were done; files that were in: ")
    assert 0 < int(hit) <= kills
    assert len(json.loads(states)) > 1  # kills hit between the transactions, not before the first one
