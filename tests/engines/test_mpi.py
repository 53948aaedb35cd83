"""Ranks of MPI give the bytes and the errors of a local pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sketchlearn as sl

pytest.importorskip("mpi4py")
pytest.importorskip("pyarrow")
from partitions import OPTIONS, PHI, READING, uneven, write_files

_SCRIPT = """
import sys
from mpi4py import MPI
import sketchlearn as sl
from partitions import OPTIONS, PHI, READING

data, out = sys.argv[1:]
for name, options in (("plain", {}), ("groups", {"group_by": "g"})):
    got = sl.sketch(data, PHI, engine=MPI.COMM_WORLD, progress=False, **OPTIONS, **options)
    got.save(f"{out}/{name}-{MPI.COMM_WORLD.rank}")
try:
    sl.sketch(data, PHI, engine="mpi", progress=False, **READING)
except ValueError as error:
    open(f"{out}/error-{MPI.COMM_WORLD.rank}", "w").write(str(error))
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_all_ranks_get_the_bytes_of_a_local_pass(tmp_path, ranks):
    data = write_files(tmp_path / "data", uneven(7))
    (tmp_path / "script.py").write_text(_SCRIPT)
    mpiexec = Path(sys.executable).parent / "mpiexec"
    path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    subprocess.run(
        [str(mpiexec if mpiexec.exists() else "mpiexec"), "-n", str(ranks), sys.executable, "script.py", data, "."],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}, check=True, timeout=300,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"of 00\d.parquet") as fault:
        sl.sketch(data, PHI, **READING)
    for rank in range(ranks):
        assert (tmp_path / f"plain-{rank}").read_bytes() == sl.sketch(data, PHI, **OPTIONS).to_bytes()
        assert sl.SketchTable.load(tmp_path / f"groups-{rank}") == sl.sketch(data, PHI, group_by="g", **OPTIONS)
        assert (tmp_path / f"error-{rank}").read_text() == str(fault.value)
