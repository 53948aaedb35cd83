"""A release that ends without a word before its n-th line, for every n: nothing is lost, no release lacks its entry.

A program of its own, small enough to be forked hundreds of times: ``python tests/privacy/killed.py folder``.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

import sketchlearn as sl
from sketchlearn.privacy import Ledger, ledger, mechanism, noise, privatize, release

# where a release and an entry are made; what computes the size of the noise before that has thousands of lines
ROOMS = tuple(module.__file__ for module in (ledger, release, mechanism, noise, tempfile))
ASKED = {"relation": "replace-one", "public_map": True}


def die_at(n):
    """Kill this process at the n-th line that it runs in the rooms where releases and ledgers are made."""
    left = n

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(ROOMS):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def killed(n, sketch, path, out):
    """Whether a release was killed at its n-th line; it would have been written to a file."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            die_at(n)
            noisy = privatize(sketch, 1.0, ledger=Ledger(path), dataset="people", **ASKED)
            out.write_bytes(noisy.sums.tobytes())
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    done = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
    assert done or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)
    return not done


def run(folder):
    """Numbers of kills, of entries and of releases that they left."""
    for heavy in ("sklearn", "polars", "pandas"):  # OpenDP imports them where they are installed
        sys.modules[heavy] = None
    sketch = sl.sketch([[1.0]], sl.FourierFeatures.draw(dim=1, size=2, scale=1.0, seed=0))
    privatize(sketch, 1.0, **ASKED)  # everything is imported before the forks
    os.fsync = lambda handle: None  # what a killed process has written stays: only a power failure asks for it
    first = folder / "first.json"
    Ledger(first, epsilon=10.0).spend("people", 0.5, what="before", relation="replace-one")
    n = with_entry = with_release = 0
    going_on = True
    while going_on:
        n += 1
        path, out = folder / f"{n}.json", folder / f"{n}.done"
        path.write_bytes(first.read_bytes())
        going_on = killed(n, sketch, path, out)
        kept = Ledger(path).datasets["people"].entries  # readable, and nothing lost
        assert kept[0].what == "before"
        assert len(kept) in (1, 2)
        assert len(kept) == 2 or not out.exists(), f"a release without an entry, killed at line {n}"
        with_entry += len(kept) == 2
        with_release += out.exists()
        Ledger(path).spend("people", 0.5, what="after", relation="replace-one")  # nobody holds the lock
        assert Ledger(path).datasets["people"].entries[-1].what == "after"
    return n, with_entry, with_release


if __name__ == "__main__":
    sys.stdout.write(" ".join(map(str, run(Path(sys.argv[1])))))
