"""Everything that leaves the house, made of neighbouring data with the same noise: only noisy numbers may differ."""

import json
import re
import secrets
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.features import HistogramFeatures, SplitFeatures
from sketchlearn.privacy import InsecureNoiseWarning, combine, insecure_noise, privatize
from sketchlearn.privacy.continual import ContinualRelease
from sketchlearn.privacy.federated import Round, aggregate
from sketchlearn.privacy.tables import privatize_table
from sketchlearn.sketches.weights import repeated

pytestmark = pytest.mark.filterwarnings(
    "ignore:release number:sketchlearn.privacy.RepeatedReleaseWarning",
    "ignore:delta=:sketchlearn.privacy.WeakGuaranteeWarning",
)
draw = sl.FourierFeatures.draw
PHI = draw(dim=2, size=12, scale=1.0, seed=0)
MAPS = {
    "fourier": PHI,
    "one bit": draw(dim=2, size=12, scale=1.0, seed=0, quantized=True),
    "some features per row": draw(dim=2, size=12, scale=1.0, seed=0, features_per_row=3),
    "products": sl.QuadraticFeatures.draw(dim=2, radius=2.0),
    "random squares": sl.QuadraticFeatures.draw(dim=2, size=5, variant="sphere", radius=2.0),
    "histograms": HistogramFeatures.draw([-4, -4], [4, 4], cells=5),
    "two groups of columns": SplitFeatures.of(
        draw(dim=1, size=4, scale=1.0, seed=0), draw(dim=1, size=4, scale=1.0, seed=1), [0]
    ),
    "products of features": sl.EmbeddedFeatures.of(draw(dim=2, size=3, scale=1.0, seed=0)),
}
ROWS = np.random.default_rng(0).normal(size=(3000, 2))
MORE = {
    "one row more": np.vstack([ROWS, [[3.0, -3.0]]]),
    "a row far out": np.vstack([ROWS, [[1e4, -1e4]]]),
    "a row beyond all bounds": np.vstack([ROWS, [[1e30, -1e30]]]),
    "a row of NaN": np.vstack([ROWS, [[np.nan, 1.0]]]),
    "first, not last": np.vstack([[[1e4, -1e4]], ROWS]),
}


@pytest.fixture(autouse=True)
def one_noise(monkeypatch):
    """Names of releases are random by themselves; the noise is that of a seed."""
    monkeypatch.setattr(secrets, "token_hex", lambda n: "0" * 2 * n)


def made(way, rows):
    """What a way out publishes, as sketches."""
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        return way(rows)


def exact(rows, phi=PHI, **options):
    return sl.sketch(rows, phi, **{"on_invalid": "skip", **options})


def beside(s):
    """The file of a release but for its sums and its number of rows."""
    return replace(s, sums=np.zeros_like(s.sums), weight=1, squared_weights=repeated(1, 0)).to_bytes()


def same_but_for_the_sums(way, rows, scaled=True):
    first, second = made(way, ROWS), made(way, rows)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert a.privacy == b.privacy
        assert beside(a) == beside(b)
        assert (a.skipped, a.origin, a.noise, a.parts) == (b.skipped, b.origin, b.noise, b.parts)
        assert all(s.squared_weights == repeated(s.weight, 0) for s in (a, b))  # no more than the noisy number
        assert np.isinf(a.lower).all()
        assert np.isinf(a.upper).all()
    return first, second


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", MAPS)
def test_a_release_says_nothing_beside_its_sums(kind, delta, more):
    phi = MAPS[kind]
    a, b = same_but_for_the_sums(
        lambda rows: [privatize(exact(rows, phi), 1.0, delta, public_map=True)], MORE[more]
    )  # fmt: skip
    moved = exact(MORE[more], phi).sums - exact(ROWS, phi).sums
    # the noise is that of the seed, whatever the data: sums differ by what the row adds, but for rounding
    assert np.abs((b[0].sums - a[0].sums) - moved).max() <= 1


def table(rows):
    groups = [None, "a", "b"]
    return sl.sketch(rows, PHI, on_invalid="skip", group_by=[groups[i % 3] for i in range(len(rows))])


def stream(rows):
    days = ContinualRelease(PHI, 1.0, 1e-6, periods=4, public_map=True)
    out = [days.add(exact(part)) for part in np.array_split(rows, 3)]
    return [*out, days.range(1, 3), *days.nodes.values()]


def federation(rows):
    names = ["a", "b", "c"]
    agreed = Round.agreed(PHI, 1.0, 1e-6, holders=names, honest=2)
    return [aggregate(agreed, {name: exact(rows[i::3]) for i, name in enumerate(names)}, leaving=["b"])]


def published(rows):
    when = np.datetime64("2024-05-01") + np.arange(len(rows)) * 4 // len(rows)
    with sl.Store(":memory:") as store:
        store.ingest(rows, PHI, time=when, every="1d", on_invalid="skip")
        public = store.publish("days", epsilon=1.0, delta=1e-6, periods=4, first="2024-05-01", public_map=True)
        public.advance("2024-05-05")
        assert public.facts()["done"] == 4
        return [public.sketch(), *public.timeline().values()]


def bounded(rows):
    s = exact(rows, user=np.arange(len(rows)) // 2, max_rows_per_user=1)
    return [privatize(s, 1.0, 1e-6, public_map=True)]


WAYS = {
    "table, groups listed": lambda rows: list(
        privatize_table(table(rows), 1.0, 1e-6, groups=["a", "b", "c"], public_map=True).values()
    ),
    "table, groups chosen": lambda rows: list(privatize_table(table(rows), 1.0, 1e-6, public_map=True).values()),
    "union of a table": lambda rows: [privatize_table(table(rows), 1.0, 1e-6, public_map=True).union()],
    "stream": stream,
    "secure aggregation": federation,
    "store": published,
    "rows of users": bounded,
    "part of the rows": lambda rows: [
        privatize(exact(rows[:2000]) + exact(rows[2000:]) - exact(rows[:10]), 1.0, public_map=True)
    ],
    "combined": lambda rows: [
        combine([privatize(exact(rows[i::2]), 1.0, 1e-6, public_map=True) for i in (0, 1)], users)
        for users in ("disjoint", "same")
    ],
    "public number of rows": lambda rows: [
        privatize(exact(rows), 1.0, relation="replace-one", rows=3000, public_map=True)
    ],
}


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_out_says_anything_beside_its_sums(way, more):
    first, _ = same_but_for_the_sums(WAYS[way], MORE[more])
    assert all(s.privacy is not None for s in first)


LEARNED = {
    "kmeans": lambda s: sl.CompressiveKMeans(2, random_state=0).fit_sketch(s),
    "gmm": lambda s: sl.CompressiveGaussianMixture(2, random_state=0).fit_sketch(s),
}


@pytest.mark.parametrize("kind", LEARNED)
def test_what_is_learned_is_a_function_of_the_file(kind, seeded):
    """Model, report and words of a release are those of its file: nothing of the exact sketch is behind them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2)) + np.repeat([[0, 0], [9, 9]], 10_000, axis=0)
    phi = sl.design(bounds=([-5, -5], [15, 15]), n_components=2, size=60, seed=0)
    source = sl.sketch(X, phi)
    public = privatize(source, 5.0, 1e-6)
    files = []
    for s in (public, sl.Sketch.from_bytes(public.to_bytes())):
        model = LEARNED[kind](s)
        kept = sl.Model.of(model)
        assert kept.privacy.epsilon == 5.0
        facts = {k: v for k, v in json.loads(kept.to_json()).items() if k not in ("trace", "seal")}
        words = json.dumps(facts, sort_keys=True), sl.plots.report(model), kept.explain(), s.privacy.explain()
        files.append([re.sub(r"\(\d+\.\d+ s\)", "", text) for text in words])  # how long a stage took
    assert files[0] == files[1]
    for exactly in ("20000", "20,000"):
        assert not any(exactly in text for text in files[0])


def test_the_command_line_says_nothing_beside_its_sums(tmp_path, capsys):
    """What `privatize` prints, and what `info` prints of the release, of neighbouring files."""
    said = []
    design = tmp_path / "map.json"
    assert main(["design", "--lower=-5,-5", "--upper=5,5", "-k", "2", "-o", str(design)]) == 0
    capsys.readouterr()
    for i, rows in enumerate((ROWS, MORE["one row more"])):
        folder = tmp_path / str(i)
        folder.mkdir()
        np.save(folder / "x.npy", rows)
        there = [str(folder / name) for name in ("x.npy", "exact.sketch", "public.sketch")]
        assert main(["sketch", there[0], "--features", str(design), "-o", there[1]]) == 0
        capsys.readouterr()
        assert main(["privatize", there[1], "-f", str(design), "--epsilon", "1", "-o", there[2]]) == 0
        out = capsys.readouterr()
        assert main(["info", there[2], "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        s = sl.load(there[2])
        noisy = {k for k, v in facts.items() if v == s.count}
        told = {k: v for k, v in facts.items() if k not in noisy}
        said.append([text.replace(str(folder), "") for text in (out.out, out.err)] + [sorted(told)])
    assert said[0] == said[1]
