import _thread
import logging
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl

PHI = sl.FourierFeatures.draw(dim=4, size=50, scale=1.0, seed=0)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 3000),
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 5),
    batch=st.integers(1, 700),
    order=st.sampled_from(["C", "F"]),
)
def test_bytes_do_not_depend_on_how_the_rows_come(n, seed, workers, batch, order):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * rng.choice([0.1, 1.0, 1e4], size=(n, 1))
    want = sl.sketch(X, PHI, workers=1).to_bytes()
    shuffled = np.array(X[rng.permutation(n)], order=order)
    assert sl.sketch(shuffled, PHI, workers=workers).to_bytes() == want
    cuts = np.sort(rng.integers(0, n + 1, size=n // batch))
    assert sl.sketch(iter(np.split(X, cuts)), PHI, workers=workers).to_bytes() == want


def test_float32_and_float64_agree_on_equal_values():
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    assert sl.sketch(X, PHI) == sl.sketch(X.astype(np.float64), PHI)
    integers = np.arange(40).reshape(10, 4)
    assert sl.sketch(integers, PHI) == sl.sketch(integers.astype(float), PHI)
    assert sl.sketch(integers.tolist(), PHI) == sl.sketch(integers.astype(np.float16), PHI)
    assert sl.sketch(integers.astype(">f8"), PHI) == sl.sketch(integers, PHI)


def test_memory_maps_are_read_in_blocks(tmp_path):
    """A sparse file of 800 MB: resident memory must not follow it."""
    script = textwrap.dedent(
        """
        import resource, sys
        import numpy as np, sketchlearn as sl
        phi = sl.FourierFeatures.draw(dim=100, size=1, scale=1.0, seed=0)
        sl.sketch(np.zeros((1000, 100), np.float32), phi)
        X = np.memmap(sys.argv[1], np.float32, "r", shape=(2_000_000, 100))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        s = sl.sketch(X, phi)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert s.count == 2_000_000 and (s.sums[1] == 0).all()
        print((after - before) // 1024)
        """
    )
    path = tmp_path / "sparse.bin"
    with path.open("wb") as f:
        f.truncate(800_000_000)
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 200


def test_generators_of_unknown_length_with_weights():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(1000, 4)), rng.integers(0, 3, 1000)

    def batches():
        for i in range(0, 1000, 37):
            yield X[i : i + 37], w[i : i + 37]

    assert sl.sketch(batches(), PHI) == sl.sketch(X, PHI, sample_weight=w)


def test_invalid_rows():
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    X[17_003, 2] = np.nan
    X[19_000, 0] = np.inf
    with pytest.raises(ValueError, match="row 17003 "):
        sl.sketch(X, PHI)
    with pytest.raises(ValueError, match="row 17003 "):
        sl.sketch(iter(np.array_split(X, 31)), PHI, workers=4)
    s = sl.sketch(X, PHI, on_invalid="skip")
    assert s.skipped == 2
    assert s.count == 19_998
    assert (s + s).skipped == 4
    assert "2 invalid rows" in repr(s)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((3, 5)), "5 columns"),
        (np.zeros(3), "reshape"),
        (np.zeros((0, 4)), "no rows"),
        ([], "two dimensions"),
        (iter([]), "no rows"),
        (np.array([["a", "b", "c", "d"]]), "real numbers"),
        (np.array([["a", 1, 2, 3]], object), "not numbers"),
        (np.zeros((2, 4), complex), "real numbers"),
        (iter([np.zeros((2, 4)), np.zeros((2, 3))]), "3 columns in batch 1"),
    ],
)
def test_bad_data_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        sl.sketch(data, PHI)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1, 2], "one number per row"), ([1, -1, 1], "row 1"), ([1, np.nan, 1], "row 1"), ([1, 1, 1e-9], "grid")],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        sl.sketch(np.zeros((3, 4)), PHI, sample_weight=weights)


def test_other_bad_arguments():
    with pytest.raises(TypeError, match="feature map"):
        sl.sketch(np.zeros((3, 4)), "fourier")
    with pytest.raises(ValueError, match="workers"):
        sl.sketch(np.zeros((3, 4)), PHI, workers=0)
    with pytest.raises(ValueError, match="on_invalid"):
        sl.sketch(np.zeros((3, 4)), PHI, on_invalid="drop")
    with pytest.raises(TypeError, match="can't read rows"):
        sl.sketch(5, PHI)
    with pytest.raises(OverflowError, match="too large"):
        sl.sketch(np.zeros((1, 4)), PHI, sample_weight=[1e30])


def test_zero_weights_are_absent_rows():
    X = np.random.default_rng(0).normal(size=(50, 4))
    w = np.ones(50)
    w[10:] = 0
    X[20] = 1e6
    assert sl.sketch(X, PHI, sample_weight=w) == sl.sketch(X[:10], PHI)


def test_errors_of_the_reader_come_through():
    def broken():
        yield np.zeros((10, 4))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        sl.sketch(broken(), PHI)
    assert not [t for t in threading.enumerate() if t.name.startswith("sketchlearn")]


def test_progress_is_reported_to_the_end():
    seen = []
    sl.sketch(np.zeros((100_000, 4)), PHI, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (100_000, 100_000)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    sl.sketch((np.zeros((10, 4)) for _ in range(5)), PHI, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (50, None)


def test_a_bar_can_be_forced(capfd):
    sl.sketch(np.zeros((1000, 4)), PHI, progress=True)
    assert capfd.readouterr().out == ""


def test_ctrl_c_stops_cleanly():
    def endless():
        for i in range(10**9):
            if i == 50:
                _thread.interrupt_main()
            yield np.zeros((1000, 4))

    with pytest.raises(KeyboardInterrupt):
        sl.sketch(endless(), PHI)
    assert not [t for t in threading.enumerate() if t.name.startswith("sketchlearn")]


def test_concurrent_passes_from_many_threads():
    X = np.random.default_rng(0).normal(size=(5000, 4))
    want = sl.sketch(X, PHI)
    results = []
    threads = [threading.Thread(target=lambda: results.append(sl.sketch(X, PHI, workers=2))) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(r == want for r in results)
    assert len(results) == 6


def test_nothing_is_logged_when_nothing_is_compiled(caplog):
    with caplog.at_level(logging.WARNING, logger="sketchlearn"):
        sl.sketch(np.zeros((10, 4)), PHI)
    assert not caplog.records
