"""Commands that are killed at random points, and many at once: what they leave is old or new, never torn, never lost.

``python tests/kills.py 100`` kills each kind of command a hundred times.  Children are forked after everything is
imported, so that kills hit the work and not the imports.
"""

import contextlib
import io
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.cli.outputs import Code
from sketchlearn.cli.pilot import recipe_text
from sketchlearn.engines.append import append
from sketchlearn.models import Model

PARTS, ROWS = 20, 300
X = np.random.default_rng(0).normal(size=(PARTS * ROWS, 2))
PHI = sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, seed=0).with_columns(["x", "y"])


def forked(function, *arguments):
    """Process that runs a function and nothing after it."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with Path(os.devnull).open("w") as nowhere:
            for stream in (1, 2):
                os.dup2(nowhere.fileno(), stream)
        code = function(*arguments) or 0
    finally:
        os._exit(code)


def killed(rng, longest, function, *arguments):
    """Whether a function was killed before it was done."""
    child = forked(function, *arguments)
    time.sleep(rng.uniform(0, longest))
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def command(*arguments):
    """Exit code of a command."""
    return main([str(a) for a in arguments])


def warm(*arguments):
    """Run a command here, so that what it imports and compiles is there before anything is forked."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert command(*arguments) == 0
    Path(arguments[-1]).unlink()


def data(folder):
    """Files of rows, a map and a sketch of each part."""
    folder = Path(folder)
    for i in range(PARTS):
        rows = X[i * ROWS : (i + 1) * ROWS]
        pq.write_table(pa.table({"x": rows[:, 0], "y": rows[:, 1]}), folder / f"{i}.parquet")
        sl.sketch(rows, PHI).save(folder / f"{i}.sketch")
    (folder / "map.json").write_bytes(recipe_text(PHI))
    return folder


def parallel_appends(folder):
    """Twenty processes add a part each to one file at the same moment."""
    out = folder / "all.sketch"
    sl.sketch(X[:ROWS], PHI).save(out)
    children = [forked(lambda i=i: append(folder / f"{i}.parquet", out) and 0) for i in range(1, PARTS)]
    children += [forked(command, "sketch", folder / "0.parquet", "--append", "-o", out)]
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    whole = sl.load(out)
    assert whole == sl.sketch(np.r_[X, X[:ROWS]], PHI)
    assert all(whole.parts.knows(sl.load(folder / f"{i}.sketch")) for i in range(PARTS))
    assert sorted(p.name for p in folder.iterdir() if "all.sketch" in p.name) == ["all.sketch"]


def duration(function, *arguments):
    """Seconds that it takes when it isn't killed."""
    begin = time.monotonic()
    assert os.waitpid(forked(function, *arguments), 0)[1] == 0
    return time.monotonic() - begin


def appends(folder, kills, rng):
    """Killed and run again until it is done: every part is in once."""
    out, scratch = folder / "all.sketch", folder / "scratch.sketch"
    how = ("--append", "--checkpoint-every", 0.01, "-o")
    for path in (out, scratch):
        path.write_bytes(sl.Sketch.empty(PHI).to_bytes())
    longest = duration(command, "sketch", folder / "0.parquet", *how, scratch)
    done = part = 0
    while done < kills:
        arguments = ("sketch", folder / f"{part % PARTS}.parquet", *how, out)
        done += killed(rng, 1.1 * longest, command, *arguments)
        got = sl.load(out).count
        assert got in (part * ROWS, (part + 1) * ROWS), f"{got} rows after part {part}"
        if got > part * ROWS:
            part += 1
            Path(f"{out}.checkpoint").unlink(missing_ok=True)  # the operator sees that it is done
    whole = np.tile(X, (part // PARTS + 1, 1))[: part * ROWS]
    assert sl.load(out).count == part * ROWS
    assert part == 0 or np.array_equal(sl.load(out).sums, sl.sketch(whole, PHI).sums)
    return done


def follows(folder, kills, rng):
    """A folder that is followed, killed and followed again: the output is of some files, each once, then of all."""
    inbox, out = folder / "in", folder / "followed.sketch"
    inbox.mkdir()
    last = min(PARTS, kills)
    watch = ("sketch", inbox, "--format", "parquet", "--follow", "--poll", 0.005, "-f", folder / "map.json", "-o", out)
    done = arrived = 0
    while done < kills or arrived < last:
        if arrived < last and arrived <= last * done // kills:
            (folder / f"{arrived}.parquet").rename(inbox / f"{arrived:02}.parquet")
            arrived += 1
        done += killed(rng, 0.4, command, *watch)
        if out.exists():
            got = sl.load(out)
            assert got.count % ROWS == 0
            assert np.array_equal(got.sums, sl.sketch(X[: got.count], PHI).sums)
    assert os.waitpid(forked(command, *watch, "--idle", 0.3), 0)[1] == 0
    assert sl.load(out) == sl.sketch(X[: last * ROWS], PHI)
    for i in range(last):
        (inbox / f"{i:02}.parquet").rename(folder / f"{i}.parquet")
    return done


def night(folder, day):
    """The nightly job of the documentation: sketch the day, add up the days before, compare; 0 for an alarm too."""
    out = folder / f"{day:02}.day"
    code = command("sketch", folder / f"{day}.parquet", "-f", folder / "map.json", "-o", out)
    before = [folder / f"{i:02}.day" for i in range(day)]
    if code or not before:
        return code
    code = command("merge", *before, "-o", folder / "before") or command("compare", folder / "before", out)
    return 0 if code == Code.DIFFERENT else code


def nightly(folder, kills, rng):
    """Every night is killed and run again until it is done: the files have the bytes of nights that nobody killed."""
    expected = [sl.sketch(folder / f"{day}.parquet", PHI).to_bytes() for day in range(PARTS)]
    done = day = 0
    while done < kills:
        out, longest = folder / f"{day % PARTS:02}.day", duration(night, folder, day % PARTS)
        out.unlink()
        while killed(rng, longest, night, folder, day % PARTS):
            done += 1
            assert not out.exists() or out.read_bytes() == expected[day % PARTS]
        assert out.read_bytes() == expected[day % PARTS]
        before = folder / "before"
        assert day == 0 or np.array_equal(sl.load(before).sums, sl.sketch(X[: day % PARTS * ROWS], PHI).sums)
        day += 1
    return done


def replaced(folder, kills, rng, arguments, out, old, check):
    """A command that replaces its output leaves the old one or the new one."""
    longest = duration(command, *arguments, folder / "scratch")
    (folder / "scratch").unlink()
    seen = []
    while len(seen) < kills:
        out.write_bytes(old)
        if killed(rng, 1.1 * longest, command, *arguments, out):
            seen.append(out.read_bytes() != old)
            assert out.read_bytes() == old or check(out.read_bytes()), out
    return len(seen), sum(seen)


def run(kills, seed=0):
    """All kinds of commands; a line for each."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = data(name)
        warm("sketch", folder / "0.parquet", "-f", folder / "map.json", "-o", folder / "first")
        parallel_appends(folder)
        yield f"{PARTS} parallel appends: exact"
        (folder / "all.sketch").unlink()
        yield f"append: {appends(folder, kills, rng)} kills"
        yield f"follow: {follows(folder, kills, rng)} kills"
        yield f"nightly: {nightly(folder, kills, rng)} kills, every file as without"
        whole = sl.sketch(X, PHI)
        old = sl.sketch(X[:7], PHI).to_bytes()
        sketches = [folder / f"{i}.sketch" for i in range(PARTS)]
        new = replaced(
            folder, kills, rng, ("merge", *sketches, "-o"), folder / "merged.sketch", old,
            lambda content: sl.Sketch.from_bytes(content) == whole,
        )  # fmt: skip
        yield f"merge: {new[0]} kills, {new[1]} of them after the output was replaced"
        Model.of(sl.CompressiveKMeans(n_clusters=2, features=PHI, random_state=0).fit_sketch(whole)).save(
            folder / "model.json"
        )
        warm("report", folder / "model.json", "-o", folder / "first")
        page = b'<!doctype html>\n<meta name="generator" content="sketchlearn">\n<p>old'
        new = replaced(
            folder, kills, rng, ("report", folder / "model.json", "-o"), folder / "page.html", page,
            lambda content: content.rstrip().endswith(b"</html>"),
        )  # fmt: skip
        yield f"report: {new[0]} kills, {new[1]} of them after the output was replaced"
        left = [p.name for p in folder.iterdir() if p.suffix == ".tmp"]
        yield f"temporary files left by killed processes: {len(left)}"


if __name__ == "__main__":
    for line in run(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
