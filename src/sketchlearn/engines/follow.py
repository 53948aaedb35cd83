"""Folders that grow: one pass after the other over the files that are new."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Unpack

from sketchlearn.engines.append import Design, Options, Run, drawn, total_rows
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import locked
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sources import ReadOptions, Selection
from sketchlearn.sources.paths import find_files, identity


def follow_files(
    run: Run,
    data: Sequence[str],
    selection: Callable[[FeatureMap | None], Selection],
    features: FeatureMap | None = None,
    design: Design | None = None,
    options: Options | None = None,
    *,
    poll: float = 5.0,
    idle: float | None = None,
) -> Sketch | SketchTable:
    """Sketch files as they come, into the output of a run, until interrupted or nothing came for a while.

    `run`: where the result goes; it keeps its checkpoint (``keep=True``). `data`: files, globs and folders to watch;
    files count when they no longer grow. `selection`: what to read for a map (None if it is yet to be designed).
    `features`, `design`, `options`: see :func:`sketchlearn.engines.append.append`. `poll`: seconds between two looks.
    `idle`: end after so many seconds without new files. The result is of all rows so far, which are in the output
    too.
    """
    phi = run.features(features, design)
    settled = _settled(run, data, selection(phi).format)
    taken: list[str] = []
    result: Sketch | SketchTable | None = None
    quiet = time.monotonic()
    while True:
        busy = False
        try:
            new = [path for path in next(settled) if path not in taken]
            if new:
                busy = True
                taken += new
                source = run.opened(taken if len(taken) > 1 else taken[0], selection(phi))
                phi = drawn(phi, design, source)
                result = run.sketch(source, phi, options or Options())
                run.finish(result)
                run.say(f"{run.output}: {total_rows(result):,} rows from {len(taken)} files")
                quiet, busy = time.monotonic(), False
            if idle is not None and time.monotonic() - quiet > idle:
                if result is None:
                    raise ValueError(f"no file came within {idle:g} seconds")
                return result
            time.sleep(poll)
        except KeyboardInterrupt:  # the way to end it, unless it comes amidst a pass
            if busy or result is None:
                raise
            return result


def follow(
    data: str | PathLike[str] | Sequence[str | PathLike[str]],
    output: str | PathLike[str],
    features: FeatureMap | None = None,
    *,
    group_by: str | int | None = None,
    design: Design | None = None,
    poll: float = 5.0,
    idle: float | None = None,
    wait: float = 60.0,
    options: Options | None = None,
    **reading: Unpack[ReadOptions],
) -> Sketch | SketchTable:
    """Watch files and folders, and add what is new to the sketch in a file, until interrupted or idle.

    Parameters
    ----------
    data : path, glob, folder, or several
        What to watch. A file is read when it no longer grows.
    output : path
        The file of the sketch (with `group_by`, of a table of sketches). It is created if it doesn't exist. A
        checkpoint next to it says which files were read, so that the next call continues with new ones.
    features, group_by, design, wait, options, **reading
        As for :func:`sketchlearn.append`.
    poll : float
        Seconds between two looks.
    idle : float, optional
        End after so many seconds without new files; by default never.

    Returns
    -------
    Sketch or SketchTable
        Of all rows so far, which are in the output too.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(pathlib.Path(folder) / "day.npy", np.ones((10, 2)))
    ...     day = pathlib.Path(folder) / "*.npy"
    ...     sl.follow(day, pathlib.Path(folder) / "all.sketch", phi, poll=0.01, idle=0.05).count
    10
    """
    watched = [data] if isinstance(data, str | PathLike) else list(data)

    def selection(phi: FeatureMap | None) -> Selection:
        return Selection.for_map(phi, group_by=group_by, **reading)

    with locked(output, wait):
        run = Run(Path(output), group_by is not None, keep=True)
        return follow_files(
            run, [os.fsdecode(path) for path in watched], selection, features, design, options, poll=poll, idle=idle
        )


def _settled(run: Run, data: Sequence[str], format: str | None) -> Iterator[list[str]]:
    """Again and again, the files that have not changed since the look before."""
    before: set[str | None] = set()
    while True:
        try:
            found = find_files(list(data), format).paths
        except FileNotFoundError:
            found = ()
        paths = [path for path in found if not run.owns(path)]
        marks = {path: identity(path) for path in paths}
        yield [path for path in paths if marks[path] in before]
        before = set(marks.values())
