"""Damaged and forged files of every kind: refused in plain words, in no time, in little memory.

``python tests/fuzz.py 10000`` tries so many mutations of each kind of file under a limit of 1 GB.  Files that were
damaged (bits, cuts, noise) must be refused or hold exactly what they held.  Forged ones, whose checksums are right, may
hold anything that is possible, but reading and describing them must end in time, without a crash and without a warning.
"""

import copy
import hashlib
import json
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

import sketchlearn as sl
from sketchlearn.cli.pilot import recipe_text
from sketchlearn.engines.checkpoint import Checkpoint, read_checkpoint
from sketchlearn.files import sealed
from sketchlearn.models.loading import features_in

LIMIT, LONGEST = 2**30, 5.0
DATA = Path(__file__).parent / "sketches" / "data"
MODELS = Path(__file__).parent / "learn" / "data"
VALUES = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**40, 2**63, 2**70, 10**30, 0.5, 1e-320, 1e-40, 1e38, 1e300, 1.7e308,
    -0.0, "", "x", "9" * 400, "\x1b[31m", "a\nb", "\ud800", "=1+1", [], {}, [1] * 10, [[]], [[1.0]], {"a": 1}, [None],
    "NaN", "1e5", "../x", 10**9, -(2**63),
]  # fmt: skip


def _rows(n=40):
    return np.random.default_rng(0).normal(size=(n, 2))


def _maps():
    plain = sl.FourierFeatures.draw(dim=2, size=6, scale=1.5, radial="multiscale", seed=5, center=[1.0, -2.0])
    return [
        plain.with_columns(["x", "y"]),
        plain.standardized([0.5, 1.0], [2.0, 3.0]),
        sl.QuadraticFeatures.draw(dim=2, size=2, seed=1, variant="sphere", radius=9.0),
        sl.QuadraticFeatures.draw(dim=2, seed=0),
    ]


class Kind:
    """A kind of file: samples, how one is read, what must not change, and how it is forged."""

    def __init__(self, name, samples, read, value, describe, forge):
        self.name, self.samples, self.read, self.value = name, samples, read, value
        self.describe, self.forge = describe, forge


def _edited(rng, tree):
    """JSON with one or two values replaced, left out or moved, anywhere in it."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 3))):
        at, key = tree, None
        while True:
            keys = sorted(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            if isinstance(at[key], dict | list) and rng.uniform() < 0.7:
                at = at[key]
                continue
            choice = rng.uniform()
            if choice < 0.15:
                del at[key]
            elif choice < 0.25 and isinstance(at, list):
                at.append(copy.deepcopy(at[key]))
            elif choice < 0.4 and isinstance(at[key], int | float) and not isinstance(at[key], bool):
                at[key] = at[key] * float(rng.choice([-1.0, 1e-300, 1e-12, 1e12, 1e150])) + rng.integers(-1, 2)
            else:
                at[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
            break
    return tree


def _signed_sketch(rng, data):
    length = struct.unpack("<8sIIQ", data[:24])[2]
    header, body = json.loads(data[24 : 24 + length]), bytearray(data[24 + length : -32])
    if rng.uniform() < 0.3 and body:
        for _ in range(int(rng.integers(1, 9))):
            body[rng.integers(len(body))] ^= 1 << rng.integers(8)
    else:
        header = _edited(rng, header)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    version = struct.unpack("<8sIIQ", data[:24])[1]
    made = struct.pack("<8sIIQ", data[:8], version, len(text), 24 + len(text) + len(body) + 32) + text + bytes(body)
    return made + hashlib.sha256(made).digest()


def _signed_point(rng, data):
    magic, version, length = struct.unpack("<8sII", data[:16])
    text = json.dumps(_edited(rng, json.loads(data[16 : 16 + length]))).encode("utf-8", "surrogatepass")
    body = data[16 + length : -32]
    if rng.uniform() < 0.3:
        text, body = data[16 : 16 + length], damaged(rng, body)
    made = struct.pack("<8sII", magic, version, len(text)) + text + body
    return made + hashlib.sha256(made).digest()


def _signed_json(rng, data):
    facts = _edited(rng, {k: v for k, v in json.loads(data).items() if k != "checksum"})
    return json.dumps(sealed(facts) if rng.uniform() < 0.5 else facts).encode("utf-8", "surrogatepass")


def _signed_table(rng, data):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(data))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    which = rng.uniform()
    if which < 0.5:
        i = int(rng.integers(len(columns["sketch"])))
        columns["sketch"][i] = _signed_sketch(rng, columns["sketch"][i])
    elif which < 0.7:
        columns["group"] = [float(i) for i in range(len(columns["group"]))]
    elif which < 0.8:
        columns["group"] = [{"a": i} for i in range(len(columns["group"]))]
    else:
        columns = {name: values * 50 for name, values in columns.items()}
        columns["group"] = list(range(len(columns["group"])))
    metadata = {k: v for k, v in table.schema.metadata.items() if k != b"sketchlearn.checksum"}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def damaged(rng, data):
    """Bits, cuts, noise, repetitions: what disks, networks and editors do."""
    raw, kind = bytearray(data), rng.integers(6)
    at = int(rng.integers(len(raw)))
    if kind == 0:
        raw[at] ^= 1 << rng.integers(8)
    elif kind == 1:
        raw = raw[:at]
    elif kind == 2:
        raw += rng.bytes(int(rng.integers(1, 200)))
    elif kind == 3:
        raw[at : at + int(rng.integers(1, 30))] = rng.bytes(int(rng.integers(1, 30)))
    elif kind == 4:
        raw[at:at] = raw[at : at + int(rng.integers(1, 100))]
    else:
        digits = [i for i, c in enumerate(raw) if 48 <= c < 58]
        if digits:
            raw[digits[rng.integers(len(digits))]] = 48 + int(rng.integers(10))
    return bytes(raw)


def _used(phi):
    """The map at work, if it is small, and its refusal to work if it asks for too much."""
    text = repr(phi) + phi.describe() + phi.recipe_json()
    phi.random_array()
    if phi.dim * phi.size < 10_000:
        repr(sl.sketch(np.ones((3, phi.dim)), phi, on_invalid="skip", workers=1, progress=False))
    return text


def kinds(folder):
    """All kinds of files."""
    X = _rows()
    sketches = [sl.sketch(X, phi, sample_weight=np.arange(40) / 8) for phi in _maps()]
    sketches += [(sketches[0].tracked() + sketches[0]) - sketches[0], sl.load(DATA / "version2-private.sketch")]
    blobs = [s.to_bytes(embed_frequencies=i % 2 == 0) for i, s in enumerate(sketches)]
    yield Kind("sketch", blobs, sl.Sketch.from_bytes, lambda s: s.to_bytes(), repr, _signed_sketch)

    maps = [recipe_text(phi) for phi in _maps()]
    yield Kind("map", maps, lambda data: features_in(data, "map.json"), lambda m: m.recipe_json(), _used, _signed_json)

    texts = [sl.Model.load(path).to_json().encode() for path in sorted(MODELS.glob("version1-*.json"))]
    yield Kind("model", texts, lambda data: sl.Model.from_json(data), lambda m: m.to_json(), _page, _signed_json)

    tables = [
        sl.sketch(X, _maps()[0], group_by=[f"group {i % 3}" for i in range(40)]),
        sl.sketch(X, _maps()[2], group_by=np.arange(40) % 2),
    ]
    blobs = [table.to_bytes() for table in tables]
    yield Kind("table", blobs, sl.SketchTable.from_bytes, lambda t: {k: s.to_bytes() for k, s in t.items()}, repr,
               _signed_table)  # fmt: skip

    path, data = folder / "x.checkpoint", folder / "x.npy"
    np.save(data, X)
    points = []
    for value in (sketches[0], tables[0]):
        settings = {"on_invalid": "raise", **({} if value is sketches[0] else {"group_by": "g"})}
        point = Checkpoint(path, settings, 1.0, [f"{data} 1 2"])
        point.save(20, value)
        points.append(path.read_bytes())

    def read(content):
        path.write_bytes(content)
        return read_checkpoint(path)

    def value(point):
        return point.rows, point.files, point.settings, point.result, point.sketch.to_bytes()

    yield Kind("checkpoint", points, read, value, repr, _signed_point)


def _page(model):
    return repr(model) + str(model.summary()) + model.to_json() + sl.plots.report(model)


class TooSlowError(Exception):
    """A file took longer than it may."""


def _alarm(*_):
    raise TooSlowError


def fuzz(kind, mutations, seed=0):
    """So many mutations of one kind: (refused, the same, forged and read, slowest in seconds)."""
    rng = np.random.default_rng(seed)
    refused = same = read = 0
    slowest = 0.0
    signal.signal(signal.SIGPROF, _alarm)  # of the processor: machines that tests run on are busy
    truth = [kind.value(kind.read(sample)) for sample in kind.samples]
    for i in range(mutations):
        which = int(rng.integers(len(kind.samples)))
        forged = i % 2 == 1
        content = (kind.forge if forged else damaged)(rng, kind.samples[which])
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    found = kind.read(content)
                except (sl.SketchFileError, sl.ModelFileError, sl.IncompatibleSketchError):
                    refused += 1
                    continue
                if not forged:
                    assert kind.value(found) == truth[which], "a changed value was accepted"
                    same += 1
                    continue
                read += 1
                with suppress(ValueError):  # refused, in words, when it is put to work
                    kind.describe(found)
        except BaseException:
            (Path(tempfile.gettempdir()) / f"sketchlearn-fuzz-{kind.name}-{seed}-{i}").write_bytes(content)
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, time.process_time() - begin)
    return refused, same, read, slowest


def main(mutations, only=None, seed=0):
    """All kinds, a line for each."""
    os.environ["SKETCHLEARN_MEMORY_LIMIT"] = "64MB"  # of redrawn maps, so that none takes its time
    sl.sketch(_rows(), _maps()[0])  # what is imported and compiled is not what the limit is about
    with tempfile.TemporaryDirectory() as folder:
        made = list(kinds(Path(folder)))
        pages = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (pages + LIMIT, pages + LIMIT))
        for kind in made:
            if only in (None, kind.name):
                refused, same, read, slowest = fuzz(kind, mutations, seed)
                assert slowest < LONGEST
                told = f"{refused} refused, {same} the same, {read} forged and read, slowest {slowest:.2f} s"
                yield f"{kind.name}: {mutations} mutations, {told}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield f"peak memory {peak:.2f} GB"


if __name__ == "__main__":
    given = [*sys.argv[1:], "10000"][0]
    for line in main(int(given), *sys.argv[2:3]):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
