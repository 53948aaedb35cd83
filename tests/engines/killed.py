"""A pass that is killed at random moments, over and over, until it is complete; children are forked from here.

``python tests/engines/killed.py pattern folder kills options`` prints how many different positions checkpoints had.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet  # noqa: F401  imported once, before the forks

import sketchlearn as sl
from sketchlearn.engines import chunks, threads
from sketchlearn.engines.checkpoint import read_checkpoint

PHI = sl.FourierFeatures.draw(dim=4, size=100, scale=1.0, seed=0)


def forked(pattern, point, out, options):
    """A pass in another process that tells of each chunk and takes its time; its number and where it tells."""
    told, tell = os.pipe()
    child = os.fork()
    if child:
        os.close(tell)
        return child, told
    code = 1
    try:
        chunks._CHUNK_WORK, threads._GROUPED_CHUNKS = 7e6, 1  # many small ones, of some 4000 rows

        def progress(done, total):
            os.write(tell, b".")
            time.sleep(0.03)

        s = sl.sketch(
            pattern, PHI, workers=2, checkpoint=point, checkpoint_every=0.0, progress=progress, **options
        )  # fmt: skip
        s.save(out)
        code = 0
    finally:
        os._exit(code)


def run(pattern, folder, kills, options):
    """Positions of the checkpoints that were left by kills; the last pass is left alone."""
    rows, ones = np.zeros((10, 4), np.float32), np.ones(10, int)
    for more in ({}, {"sample_weight": ones, "group_by": ones}):  # loops are loaded before the forks
        sl.sketch(rows, PHI, **more)
    sl.read(pattern, **options)
    point, out = folder / "run.checkpoint", folder / "out.sketch"
    positions, rng = set(), random.Random(0)
    for _ in range(kills):
        child, told = forked(pattern, point, out, options)
        for _ in range(rng.randrange(5)):  # that many chunks, and then some
            os.read(told, 1)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        if point.exists():
            positions.add(read_checkpoint(point).rows)
        if out.exists():  # complete before it could be killed: begin again
            out.rename(folder / f"{time.monotonic_ns()}.sketch")
            point.unlink()
    child, _ = forked(pattern, point, out, options)
    assert os.waitpid(child, 0)[1] == 0
    return positions


if __name__ == "__main__":
    found = run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
    sys.stdout.write(str(len(found)))
