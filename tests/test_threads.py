"""Threads: the BLAS is held to one and given back, independent work is shared out, limits are respected."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import sketchlearn as sl
from sketchlearn.decoders import device
from sketchlearn.threads import available_cores, in_parallel, limited, single_blas_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_the_container_limits_the_cores(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cores(str(tmp_path)) == (8 if cores is None else cores)


def test_the_blas_gets_its_threads_back():
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with single_blas_thread:
            assert blas_threads() == {1}
            with single_blas_thread:
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_overlapping_blocks_of_two_threads_leave_nothing_behind():
    entered, leave = threading.Event(), threading.Event()

    def other():
        with single_blas_thread:
            entered.set()
            leave.wait(10)

    before = blas_threads()
    with single_blas_thread:
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
        assert blas_threads() == {1}
    leave.set()
    thread.join()
    assert blas_threads() == before
    with single_blas_thread:
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_the_limit_holds_until_the_last_thread_has_left():
    """Sums in products depend on the number of threads: it must not change while somebody decodes."""
    entered, leave, left = threading.Event(), threading.Event(), threading.Event()

    def first():
        with single_blas_thread:
            entered.set()
            leave.wait(10)
        left.set()

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        thread = threading.Thread(target=first)
        thread.start()
        entered.wait(10)
        with single_blas_thread:
            leave.set()
            left.wait(10)
            assert blas_threads() == {1}
        thread.join()
        assert blas_threads() == before


def test_the_limit_holds_after_another_thread_has_set_one():
    """threadpoolctl 3.7 gives the limit to one thread for as long as it lives."""
    done, end = threading.Event(), threading.Event()

    def server():
        with single_blas_thread:
            pass
        threadpool_limits(2, "blas")
        done.set()
        end.wait(10)

    thread = threading.Thread(target=server)
    thread.start()
    done.wait(10)
    try:
        with single_blas_thread:
            assert blas_threads() == {1}
    finally:
        end.set()
        thread.join()


def test_an_error_inside_gives_the_threads_back():
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(ValueError, match="inside"), single_blas_thread:
            raise ValueError("inside")
        assert blas_threads() == before


def test_results_come_in_order_and_errors_come_through(monkeypatch):
    monkeypatch.setattr("sketchlearn.threads.available_cores", lambda: 4)
    assert in_parallel(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda x: 1 // x, [1, 0])


def test_never_more_threads_than_allowed_not_even_nested(monkeypatch):
    monkeypatch.setattr("sketchlearn.threads.available_cores", lambda: 3)
    lock, running, most = threading.Lock(), [0], [0]

    def inner(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        np.linalg.svd(np.ones((60, 60)))
        with lock:
            running[0] -= 1

    in_parallel(lambda _: in_parallel(inner, range(4)), range(6))
    assert 1 <= most[0] <= 3
    most[0] = 0
    with limited(1):
        in_parallel(inner, range(6))
    assert most[0] == 1


def test_the_callers_limit_reaches_inner_calls(monkeypatch):
    monkeypatch.setattr("sketchlearn.threads.available_cores", lambda: 8)
    names = set()
    with limited(2):
        in_parallel(lambda _: names.add(threading.get_ident()), range(50))
        with limited(None):
            in_parallel(lambda _: names.add(threading.get_ident()), range(50))
    assert len(names) <= 4  # two pools of two


def test_the_limit_holds_if_another_thread_takes_control_at_the_same_moment(monkeypatch):
    """It sets its own limit after this thread has asked for control, and before it uses it."""
    from sketchlearn import threads

    real, others, end = threads._nobody_in_control, [], threading.Event()

    def server(done):
        threadpool_limits(2, "blas")
        done.set()
        end.wait(10)

    def between():
        real()
        if not others:
            done = threading.Event()
            others.append(threading.Thread(target=server, args=(done,)))
            others[0].start()
            done.wait(10)

    monkeypatch.setattr(threads, "_nobody_in_control", between)
    try:
        with single_blas_thread:
            assert blas_threads() == {1}
    finally:
        end.set()
        others[0].join()


def test_bits_of_a_model_depend_on_the_threads_of_the_blas_and_on_nothing_else():
    """Decoded with several cores, under load and beside other decoders: one answer, the last bit included."""
    rng = np.random.default_rng(0)
    centers = 8.0 * np.eye(3)
    X = rng.normal(size=(1500, 3)) + centers[rng.integers(3, size=1500)]
    kinds = {
        "means": lambda: sl.CompressiveGaussianMixture(3, covariance_type="diag", random_state=0),
        "skewed": lambda: sl.CompressiveKMeans(5, random_state=0),
        "sources": lambda: sl.CompressiveICA(random_state=0),
    }
    for name, make in kinds.items():
        fitted = make().fit(np.exp(X / 4.0) if name == "skewed" else X)

        def bits(make=make, sketch=fitted.sketch_):
            found = make().fit_sketch(sketch).solution_
            return [value.tobytes() for value in vars(found).values() if isinstance(value, np.ndarray)]

        alone = bits()
        for cores in (1, 5):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sketchlearn.threads.available_cores", lambda cores=cores: cores)
                with threadpool_limits(2, "blas"):
                    assert bits() == alone, (name, cores)
        with ThreadPoolExecutor(3) as pool:
            assert all(found == alone for found in pool.map(lambda _: bits(), range(3))), name


def test_what_is_set_for_a_block_counts_in_its_threads(monkeypatch):
    monkeypatch.setattr("sketchlearn.decoders.device.devices", list)
    monkeypatch.setattr("sketchlearn.threads.available_cores", lambda: 2)
    with sl.decoding_engine("gpu"):
        assert in_parallel(lambda _: device.asked(), range(3)) == [True] * 3
    assert in_parallel(lambda _: device.asked(), range(3)) == [False] * 3
