"""Threads that don't fight: one for every small product, and more only for work that is independent.

Decoders make thousands of products of small matrices.  A BLAS that shares each of them out among all cores spends
its time waking threads and waiting for one that the system has put aside.  So decoders hold the BLAS to one thread
(:func:`single_blas_thread`) and run in parallel what has nothing to do with each other, fits from several starts for
example (:func:`in_parallel`), on no more threads than the process may use cores.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import threadpoolctl

T = TypeVar("T")
R = TypeVar("R")

_TRIES = 100  # to hold the BLAS to one thread, where others set limits at the same moment

_workers: ContextVar[int | None] = ContextVar("workers", default=None)


def available_cores(root: str = "/sys/fs/cgroup") -> int:
    """Cores that this process may use: by its affinity, and by the quota of its container.

    Examples
    --------
    >>> from sketchlearn.threads import available_cores
    >>> available_cores() >= 1
    True
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota(root))))


def _quota(root: str) -> float:
    """Cores that the control group grants, by either version of its files; infinity if it grants all."""
    try:
        quota, period = Path(root, "cpu.max").read_text().split()
        return float(quota) / float(period) if quota != "max" else math.inf
    except (OSError, ValueError):
        pass
    try:
        granted = float(Path(root, "cpu/cpu.cfs_quota_us").read_text())
        return granted / float(Path(root, "cpu/cpu.cfs_period_us").read_text()) if granted > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


class _SingleThread:
    """Holds the BLAS to one thread; may be entered again inside, and from several threads at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._held: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._held = _surely_held_to_one()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _nobody_in_control()
                self._held.restore_original_limits()
                _nobody_in_control()


def _nobody_in_control() -> None:
    """Let this thread set the limit.

    threadpoolctl 3.7 and later give the limit of a shared pool to the first thread that sets it, for as long as that
    thread lives; what others set is ignored.
    """
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


def _surely_held_to_one() -> Any:
    """Another thread may take control between two lines of this one: look whether the limit is there."""
    for _ in range(_TRIES):
        _nobody_in_control()
        held = _held_to_one()
        if all(library.get_num_threads() == 1 for library in _controller().select(user_api="blas").lib_controllers):
            break
    return held


def _held_to_one() -> Any:
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    # looking through the loaded libraries takes milliseconds, setting a limit microseconds: look once, when both
    # copies of the BLAS (NumPy's and SciPy's) are there
    import scipy.linalg  # noqa: F401

    return threadpoolctl.ThreadpoolController()


single_blas_thread = _SingleThread()
"""``with single_blas_thread:`` holds the BLAS to one thread and then gives back what was set before.

The limit of most BLAS is one for the whole process: where blocks of several threads overlap, the first sets it and the
last gives it back.  Sums in products depend on the number of threads, so nobody may change it while a decoder runs.
"""


@contextmanager
def limited(workers: int | None) -> Iterator[None]:
    """Inside, :func:`in_parallel` takes at most so many threads; None for all cores.

    Examples
    --------
    >>> from sketchlearn.threads import in_parallel, limited
    >>> with limited(1):
    ...     in_parallel(abs, [-1, -2])
    [1, 2]
    """
    token = _workers.set(_workers.get() if workers is None else workers)
    try:
        yield
    finally:
        _workers.reset(token)


def in_parallel(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``[function(x) for x in items]`` on as many threads as there are cores, or as :func:`limited` allows.

    Inside one of the threads there is no more to share out: nested calls run one after the other.  What was set with
    context variables counts in the threads too.

    Examples
    --------
    >>> from sketchlearn.threads import in_parallel
    >>> in_parallel(lambda x: x * x, range(4))
    [0, 1, 4, 9]
    """
    work = list(items)
    threads = min(len(work), _workers.get() or available_cores())
    if threads <= 1:
        return [function(x) for x in work]

    def alone(x: T) -> R:
        with limited(1), _held_to_one():  # (some BLAS have a limit for each thread)
            return function(x)

    contexts = [copy_context() for _ in work]  # (two threads can't be in one)
    with single_blas_thread, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda context, x: context.run(alone, x), contexts, work))
