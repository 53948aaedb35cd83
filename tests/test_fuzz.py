"""A few hundred damaged and forged files of each kind; ``make trust`` tries ten thousand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sketchlearn as sl

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
SCRIPT = Path(__file__).parent / "fuzz.py"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory and time as on Linux")
def test_damaged_and_forged_files_of_every_kind_are_refused():
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    done = subprocess.run([sys.executable, SCRIPT, "300"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert names[:-1] == ["sketch", "map", "model", "table", "checkpoint"]
