"""Kills at random points and parallel appends; ``make trust`` does many more of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sketchlearn as sl

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
SCRIPT = Path(__file__).parents[1] / "kills.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_killed_and_parallel_commands_lose_nothing():
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, SCRIPT, "10"], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:3] == ["20 parallel appends: exact", "append: 10 kills", "follow: 10 kills"]
    assert said[3].startswith("nightly: ")
