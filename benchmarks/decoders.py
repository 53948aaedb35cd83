"""Every decoder of k-means side by side: sketch sizes, noise, quantised and private sketches, wrong scales, other data.

    python benchmarks/decoders.py run [--grid full] [--seeds 0:20] [--minutes 60]   # resumable: adds what is missing
    python benchmarks/decoders.py page              # tables and pictures of docs/decoder-comparison.md from the rows
    python benchmarks/decoders.py corner [--runs 1000]   # CL-AMP where it is hardest, resumable: no NaN, no overflow
    python benchmarks/decoders.py time [--most 100]      # decode time of CL-AMP and CL-OMPR against k

A row is one decoding.  RSE is the mean squared error of the centres over that of k-means on the rows (best of three
starts and of one at the true centres); success is an RSE below 1.05.  Rows are kept in benchmarks/results/decoders.csv.
"""

import argparse
import csv
import math
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.privacy import privatize

HERE = Path(__file__).resolve().parent
ROWS = HERE / "results" / "decoders.csv"
CORNER = HERE / "results" / "decoders-corner.csv"
TIMES = HERE / "results" / "decoders-time.csv"
CORNER_FIELDS = ["seed", "dim", "factor", "outcome", "rse", "ratio", "seconds"]
DOCS = HERE.parent / "docs"
FIELDS = ["family", "case", "size", "level", "decoder", "seed", "rse", "ratio", "code", "seconds"]
SIZES = (1, 1.5, 2, 3, 5, 10)
DECODERS = {
    "default": ("auto", {}),
    "CL-AMP": ("cl-amp", {}),
    "CL-OMPR": ("clompr", {}),
    "CL-OMPR, published": ("clompr", {"starts": 1}),
    "CL-OMP": ("clomp", {}),
    "splitting": ("splitting", {}),
    "sketch-and-shift": ("sketch-and-shift", {}),
    "sliding Frank-Wolfe": ("sliding-frank-wolfe", {}),
    "ADCG": ("adcg", {}),
    "thresholding": ("thresholding", {}),
    "particle flow": ("particle-flow", {}),
}
SUCCESS = 1.05


# -- data ---------------------------------------------------------------------------------------------


def clusters(rng, k, d, spread, unbalanced=False, n=10_000):
    """Rows of the literature's model, and the true centres: unit widths, centres of variance `spread`."""
    centers = rng.normal(size=(k, d)) * np.sqrt(spread)
    weights = np.exp(rng.uniform(0, np.log(20), k)) if unbalanced else np.ones(k)
    return centers[rng.choice(k, n, p=weights / weights.sum())] + rng.normal(size=(n, d)), centers


def published_scale(k, d, spread):
    """The kernel scale that Chatalic (2020) recommends: the expected smallest distance of two centres."""
    return 2 ** (1 + 1 / d) * math.gamma(1 + d / 2) ** (1 / d) * math.gamma(1 + 1 / d) * k ** (-2 / d) * spread**0.5


def published_map(k, d, spread, size, seed, factor=1.0):
    return sl.FourierFeatures.draw(
        dim=d, size=size, scale=factor * published_scale(k, d, spread), seed=seed, directions="iid", radii="iid"
    )


def designed_map(X, k, size, seed):
    return sl.design(X[:1000], n_components=k, size=max(size, 8), seed=seed)


def separated(k, d, separation=2.5):
    return (separation * k ** (1 / d)) ** 2


def shaped(rng, name, k=10, d=10, n=10_000):
    """Rows that are no round clusters of one width."""
    centers, noise = rng.normal(size=(k, d)) * 10, rng.normal(size=(n, d))
    labels = rng.integers(k, size=n)
    if name == "own widths":
        return centers[labels] + np.exp(rng.uniform(-1.15, 1.15, k))[labels][:, None] * noise
    if name == "oblong":
        axes = [np.linalg.qr(rng.normal(size=(d, d)))[0] * np.exp(rng.uniform(-1.15, 1.15, d)) for _ in range(k)]
        return centers[labels] + np.einsum("nab,nb->na", np.stack(axes)[labels], noise)
    if name == "heavy tails":
        return centers[labels] + rng.standard_t(3, (n, d))
    if name == "2 % outliers":
        X = centers[labels] + noise
        far = rng.uniform(size=n) < 0.02
        X[far] = rng.uniform(X.min(0), X.max(0), (far.sum(), d))
        return X
    return rng.uniform(-10, 10, (n, 2))  # "no clusters"


SHAPES = ("own widths", "oblong", "heavy tails", "2 % outliers", "no clusters")


# -- sketches by family: case, size (m / kd) and level give rows, the number of clusters and a sketch --------


def phase(case, size, level, seed):
    """Clean sketches of designed maps over the grid of the study."""
    k, d, spread = map(int, case.split(","))
    X, centers = clusters(np.random.default_rng([1, seed, k, d, spread]), k, d, spread, bool(seed % 2))
    return X, centers, k, sl.sketch(X, designed_map(X, k, int(size * k * d), seed), progress=False)


def published(case, size, level, seed):
    """The published setting: s = 2.5, adapted radii at the recommended scale (times the level)."""
    k, d = map(int, case.split(","))
    X, centers = clusters(np.random.default_rng([2, seed, k, d]), k, d, separated(k, d))
    phi = published_map(k, d, separated(k, d), int(size * k * d), seed, level or 1.0)
    return X, centers, k, sl.sketch(X, phi, progress=False)


def scale(case, size, level, seed):
    """The published setting with the scale misset by a factor."""
    return published(case, size, level, seed)


def noisy(case, size, level, seed):
    """Noise of known variance: the level is its power over that of the sketch."""
    design = case == "designed map"
    X, centers, k, s = published("10,10", size, 1.0, seed)
    if design:
        s = sl.sketch(X, designed_map(X, k, int(size * k * 10), seed), progress=False)
    variance = level * float(np.mean(np.abs(s.mean) ** 2))
    unit = 2.0**22 * s.weight * np.sqrt(variance / 2)
    sums = s.sums + np.rint(unit * np.random.default_rng([3, seed]).normal(size=s.sums.shape)).astype(np.int64)
    return X, centers, k, replace(s, sums=sums).with_noise(variance)


def quantised(case, size, level, seed):
    """One-bit features."""
    k, d, spread = map(int, case.split(","))
    X, centers = clusters(np.random.default_rng([4, seed, k, d, spread]), k, d, spread, n=20_000)
    phi = sl.design(X[:1000], n_components=k, size=int(size * k * d), seed=seed, quantized=True)
    return X, centers, k, sl.sketch(X, phi, progress=False)


def private(case, size, level, seed):
    """Released sketches of 100 000 rows: the level is epsilon, delta is 1e-6."""
    k, d, spread = map(int, case.split(","))
    X, centers = clusters(np.random.default_rng([5, seed, k, d, spread]), k, d, spread, n=100_000)
    s = sl.sketch(X, designed_map(X, k, int(size * k * d), seed), progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X, centers, k, privatize(s, epsilon=level, delta=1e-6, public_map=True)


def shapes(case, size, level, seed):
    """Data outside the model."""
    X = shaped(np.random.default_rng([6, seed, SHAPES.index(case)]), case)
    k, d = 10, X.shape[1]
    return X, None, k, sl.sketch(X, designed_map(X, k, int(size * k * d), seed), progress=False)


FAMILIES = {f.__name__: f for f in (published, noisy, phase, scale, quantised, private, shapes)}
LEVELS = (1e-4, 1e-3, 1e-2, 1e-1)


def cells(grid):
    """(family, case, size, level) of the reduced or the full grid."""
    full = grid == "full"
    yield from (("published", "10,10", m, 1.0) for m in SIZES)
    yield from (("noisy", case, m, level) for case in ("published map", "designed map") for m in (4, 10)
                for level in LEVELS)  # fmt: skip
    problems = [(5, 2), (10, 10), (20, 10), (10, 50), (50, 10)] if full else [(5, 2), (10, 10)]
    for k, d in problems:
        for spread in (10, 100, 1000) if full else (10, 100):
            yield from (("phase", f"{k},{d},{spread}", m, 0.0) for m in SIZES)
    yield from (("scale", "10,10", m, f) for m in ((2, 5, 10) if full else (5,)) for f in (0.25, 0.5, 2.0, 4.0))
    yield from (("quantised", "10,10,100", m, 0.0) for m in (SIZES if full else (2, 5, 10)))
    yield from (("private", "10,10,100", m, e) for m in ((2, 5, 10) if full else (5,)) for e in (0.1, 1.0))
    yield from (("shapes", name, 10, 0.0) for name in SHAPES)
    if full:
        yield from (("published", case, m, 1.0) for case in ("20,60", "50,10", "100,10") for m in SIZES)


# -- running ------------------------------------------------------------------------------------------


def read():
    return [
        {**row, **{name: float(row[name]) for name in ("size", "level", "rse", "ratio", "seconds")},
         "seed": int(row["seed"])}
        for row in kept(ROWS)
    ]  # fmt: skip


def kept(path):
    """Rows of a file as they are."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def key(row):
    return row["family"], row["case"], float(row["size"]), float(row["level"]), row["decoder"], int(row["seed"])


def cost(X, centers):
    best = np.full(len(X), np.inf)
    for c in centers:
        np.minimum(best, ((X - c) ** 2).sum(1), out=best)
    return float(best.mean())


def reference(X, k, centers):
    """Mean squared error of k-means on the rows."""
    found = KMeans(k, n_init=3, random_state=0).fit(X).inertia_
    if centers is not None:
        found = min(found, KMeans(k, init=centers, n_init=1).fit(X).inertia_)
    return found / len(X)


def run(arguments):
    ROWS.parent.mkdir(exist_ok=True)
    done = {key(row) for row in read()}
    first, last = map(int, arguments.seeds.split(":"))
    stop = time.monotonic() + 60 * arguments.minutes
    chosen = arguments.decoders.split(";") if arguments.decoders else list(DECODERS)
    for seed in range(first, last):
        for family, case, size, level in cells(arguments.grid):
            if arguments.families and family not in arguments.families.split(","):
                continue
            left = [n for n in chosen if (family, case, float(size), float(level), n, seed) not in done]
            if not left:
                continue
            X, centers, k, sketch = FAMILIES[family](case, size, level, seed)
            least = reference(X, k, centers)
            for name in left:
                row = measured(X, least, k, sketch, name, seed)
                append({"family": family, "case": case, "size": size, "level": level, "seed": seed, **row})
            if time.monotonic() > stop:
                return


def measured(X, least, k, sketch, name, seed):
    decoder, options = DECODERS[name]
    start = time.process_time()
    try:
        found = sl.decode(sketch, k, decoder=decoder, random_state=seed, **options)
    except ValueError:  # the sketch holds nothing, and says so
        return {"decoder": name, "rse": "inf", "ratio": "nan", "code": "refused", "seconds": "nan"}
    seconds = time.process_time() - start
    rse = cost(X, found.centers) / least
    return {"decoder": name, "rse": f"{rse:.5g}", "ratio": f"{found.ratio:.4g}", "code": str(found.code),
            "seconds": f"{seconds:.3f}"}  # fmt: skip


def append(row, path=ROWS, fields=FIELDS):
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields)
        if new:
            writer.writeheader()
        writer.writerow(row)


# -- the page -----------------------------------------------------------------------------------------


def groups(rows, *names):
    out = {}
    for row in rows:
        out.setdefault(tuple(row[n] for n in names), []).append(row)
    return out


def success(rows):
    return sum(r["rse"] < SUCCESS for r in rows) / len(rows)


def median(rows, name="rse"):
    return float(np.median([r[name] for r in rows]))


def shown(value):
    return "refused" if not np.isfinite(value) else f"{value:.3f}" if value < 10 else f"{value:.3g}"


def table(rows, across, label, cell):
    """Decoders down, values of a field across."""
    values = sorted({r[across] for r in rows}) if not isinstance(rows[0][across], str) else list(
        dict.fromkeys(r[across] for r in rows))  # fmt: skip
    by = groups(rows, "decoder", across)
    lines = ["| decoder | " + " | ".join(label(v) for v in values) + " |", "|---" * (len(values) + 1) + "|"]
    for name in DECODERS:
        if any((name, v) in by for v in values):
            lines.append(
                f"| {name} | " + " | ".join(cell(by[name, v]) if (name, v) in by else "" for v in values) + " |"
            )
    return "\n".join(lines)


def both(rows):
    return f"{shown(median(rows))} ({success(rows):.0%})"


def sections(rows):
    """The generated parts of the page by name."""
    part = {family: [r for r in rows if r["family"] == family] for family in FAMILIES}

    def size(v):
        return f"{v:g}kd"

    counts = [len(some) for some in groups(part["published"], "decoder", "size").values()]
    runs = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"
    at = [r for r in part["published"] if r["case"] == "10,10"]
    yield "published", f"{runs} data sets for each size.\n\n" + table(at, "size", size, both)
    text = []
    for case in dict.fromkeys(r["case"] for r in part["noisy"]):
        for m in (4, 10):
            some = [r for r in part["noisy"] if r["case"] == case and r["size"] == m]
            if some:
                text.append(f"*{case}, {m}kd*\n\n" + table(some, "level", lambda v: f"{v:g}", both))
    yield "noisy", "\n\n".join(text)
    text = []
    for case in dict.fromkeys(r["case"] for r in part["phase"]):
        k, d, spread = case.split(",")
        some = [r for r in part["phase"] if r["case"] == case]
        text.append(f"*k = {k}, d = {d}, centres of variance {spread}*\n\n" + table(some, "size", size, both))
    yield "phase", "\n\n".join(text)
    at = [r for r in part["published"] if r["case"] == "10,10"]
    for r in part["scale"]:
        if r["size"] == 5:
            at = [*at, r]
    at = [r for r in at if r["size"] == 5]
    yield "scale", table(at, "level", lambda v: f"scale × {v:g}", both)
    yield "quantised", table(part["quantised"], "size", size, both)
    yield "private", table([r for r in part["private"] if r["size"] == 5], "level", lambda v: f"ε = {v:g}", both)
    yield "shapes", table(part["shapes"], "case", str, lambda some: shown(median(some)))
    yield "time", table([r for r in at if r["level"] == 1.0], "size", lambda v: "seconds at " + size(v),
                        lambda some: f"{median(some, 'seconds'):.2f}")  # fmt: skip
    worst = groups([r for r in rows if np.isfinite(r["rse"])], "family", "case", "size", "level")
    lines = ["| setting | default | best other | RSE of it |", "|---|---|---|---|"]
    for cell, some in worst.items():
        by = {name: some_ for (name,), some_ in groups(some, "decoder").items()}
        if "default" not in by or len(by) < 2:
            continue
        own = median(by["default"])
        name = min((n for n in by if n != "default"), key=lambda n: median(by[n]))
        if own > 1.02 * median(by[name]):
            family, case, m, level = cell
            where = f"{family}, {case}, {m:g}kd" + (f", {level:g}" if level else "")
            lines.append(f"| {where} | {shown(own)} | {name} | {shown(median(by[name]))} |")
    yield "growth", growth()
    yield "corner", corner_counts()
    yield "coverage", coverage(rows)
    yield "losses", "\n".join(lines) if len(lines) > 2 else "None."


def page(arguments):
    rows = read()
    path = DOCS / "decoder-comparison.md"
    text = path.read_text()
    for name, body in sections(rows):
        begin, end = f"<!-- {name}: from the rows -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + begin + "\n\n" + body + "\n\n" + end + rest.split(end)[1]
    path.write_text(text)
    pictures(rows)


def pictures(rows):
    """Success against size, a line a decoder."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wanted = [("published", "10,10", "published setting, k = d = 10")]
    wanted += [("phase", c, "k = {}, d = {}, variance {}".format(*c.split(","))) for c in
               dict.fromkeys(r["case"] for r in rows if r["family"] == "phase")]  # fmt: skip
    columns = 3 if len(wanted) > 4 else 2
    lines = -(-len(wanted) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4.2 * columns, 3 * lines + 1), squeeze=False, sharex=True, sharey=True
    )
    colours = plt.get_cmap("tab20").colors
    for axis, (family, case, title) in zip(axes.flat, wanted, strict=False):
        some = groups([r for r in rows if (r["family"], r["case"]) == (family, case)], "decoder", "size")
        for i, name in enumerate(DECODERS):
            line = [(m, success(some[name, m])) for m in SIZES if (name, m) in some]
            if line:
                heavy = name in ("default", "CL-AMP")
                axis.plot(*zip(*line, strict=True), "o-", label=name, color=colours[i], lw=2.5 if heavy else 1, ms=3)
        axis.set(title=title, xscale="log", ylim=(-0.05, 1.05))
        axis.set_xticks(SIZES, [f"{m:g}" for m in SIZES])
        axis.minorticks_off()
    for axis in axes.flat[len(wanted) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel("m / kd")
    for axis in axes[:, 0]:
        axis.set_ylabel("success")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(DOCS / "images" / "decoders-phase.png", dpi=80)


# -- CL-AMP alone -------------------------------------------------------------------------------------


def corner(arguments):
    """Scale misset by 4 either way, k = 50, m = kd: warnings are errors, every result is finite and has a verdict.

    One row a run is kept, and runs that have one are not done again.
    """
    done = {int(row["seed"]) for row in kept(CORNER)}
    stop = time.monotonic() + 60 * arguments.minutes
    for seed in range(arguments.start, arguments.start + arguments.runs):
        if time.monotonic() > stop:
            break
        if seed not in done:
            append(cornered(seed), CORNER, CORNER_FIELDS)
    rows = kept(CORNER)
    counts = {name: sum(r["outcome"] == name for r in rows) for name in dict.fromkeys(r["outcome"] for r in rows)}
    bad = sum(n for name, n in counts.items() if name not in ("found", "flagged", "flagged, found", "refused"))
    print(f"{len(rows)} runs: {bad} with a warning, a number that is not finite or a wrong verdict; "
          + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))  # fmt: skip


def cornered(seed):
    """One run in the corner, as a row."""
    rng = np.random.default_rng([7, seed])
    k, d, factor = 50, int(rng.choice([2, 5, 10])), float(rng.choice([0.25, 4.0]))
    X, centers = clusters(rng, k, d, float(rng.choice([separated(k, d), 100.0])), bool(seed % 2), 5000)
    s = sl.sketch(X, published_map(k, d, separated(k, d), k * d, seed, factor), progress=False)
    row = {"seed": seed, "dim": d, "factor": factor, "rse": "inf", "ratio": "nan"}
    start = time.process_time()
    try:
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            found = sl.decode(s, k, decoder="cl-amp", random_state=seed)
    except ValueError as error:
        return row | {"outcome": "refused" if "no information" in str(error) else f"error: {error}"}
    except (FloatingPointError, Warning) as error:
        return row | {"outcome": f"warning: {error}"}
    rse = cost(X, found.centers) / cost(X, centers)
    row |= {"rse": f"{rse:.4g}", "ratio": f"{found.ratio:.4g}", "seconds": f"{time.process_time() - start:.2f}"}
    if not (np.isfinite(found.centers).all() and np.isfinite(found.ratio) and np.isfinite(found.inertia)):
        return row | {"outcome": "not finite"}
    if found.reliable:
        return row | {"outcome": "found" if rse < SUCCESS else "wrong verdict"}
    return row | {"outcome": "flagged, found" if rse < SUCCESS else "flagged"}


def times(arguments):
    """Seconds of decoding in the published setting at 2kd, d = 10, 1000 k rows; a row each, resumable."""
    done = {(int(r["k"]), r["decoder"], int(r["seed"])) for r in kept(TIMES)}
    names = {"CL-AMP": ("cl-amp", {}, 100), "CL-OMPR, published": ("clompr", {"starts": 1}, 50)}
    for seed in range(arguments.seeds):
        for k in (k for k in (10, 25, 50, 100) if k <= arguments.most):
            left = {name: v for name, v in names.items() if k <= v[2] and (k, name, seed) not in done}
            if not left:
                continue
            X, centers = clusters(np.random.default_rng([8, seed, k]), k, 10, separated(k, 10), n=1000 * k)
            s = sl.sketch(X, published_map(k, 10, separated(k, 10), 20 * k, seed), progress=False)
            sl.decode(s, 2, decoder="cl-amp", rounds=1, restarts=1)  # compiled before the clock runs
            for name, (decoder, options, _) in left.items():
                start = time.process_time()
                found = sl.decode(s, k, decoder=decoder, random_state=seed, **options)
                seconds = time.process_time() - start
                rse = cost(X, found.centers) / cost(X, centers)
                row = {"k": k, "decoder": name, "seed": seed, "rse": f"{rse:.5g}", "seconds": f"{seconds:.3f}"}
                append(row, TIMES, list(row))
    print(growth())


def growth():
    """Table of time and success against k."""
    by = groups(kept(TIMES), "decoder", "k")
    ks = sorted({k for _, k in by}, key=int)
    lines = ["| decoder | " + " | ".join(f"k = {k}" for k in ks) + " |", "|---" * (len(ks) + 1) + "|"]
    for name in dict.fromkeys(n for n, _ in by):
        cells_ = []
        for k in ks:
            some = by.get((name, k), [])
            found = sum(float(r["rse"]) < SUCCESS for r in some)
            cells_.append(f"{median_of(some, 'seconds'):.2f} s ({found} of {len(some)})" if some else "")
        lines.append(f"| {name} | " + " | ".join(cells_) + " |")
    return "\n".join(lines)


def median_of(rows, name):
    return float(np.median([float(r[name]) for r in rows]))


def corner_counts():
    """What became of the runs in the corner."""
    rows = kept(CORNER)
    lines = ["| d | scale | runs | found | failed, and said so | wrong verdict, NaN, overflow, warning | seconds |"]
    lines.append("|---" * 7 + "|")
    for (d, factor), some in sorted(groups(rows, "dim", "factor").items(), key=lambda g: (int(g[0][0]), g[0][1])):
        found = sum(r["outcome"] == "found" for r in some)
        flagged = sum(r["outcome"] in ("flagged", "flagged, found", "refused") for r in some)
        seconds = [r for r in some if r["seconds"]]
        bad, middle = len(some) - found - flagged, median_of(seconds, "seconds")
        lines.append(f"| {d} | × {float(factor):g} | {len(some)} | {found} | {flagged} | {bad} | {middle:.2f} |")
    return f"{len(rows)} runs.\n\n" + "\n".join(lines)


def coverage(rows):
    """Which cells were run, with how many data sets."""
    lines = ["| part | cases | sizes | levels | data sets per cell, of each decoder |", "|---|---|---|---|---|"]
    for (family,), some in groups(rows, "family").items():
        each = groups(some, "decoder", "case", "size", "level")
        sizes, levels = (sorted({r[name] for r in some}) for name in ("size", "level"))
        low, high = min(map(len, each.values())), max(map(len, each.values()))
        complete = len(each) == len(DECODERS) * len(groups(some, "case", "size", "level"))
        cases = "; ".join(dict.fromkeys(r["case"] for r in some))
        numbers = [", ".join(f"{v:g}" for v in values) for values in (sizes, levels)]
        empty = "" if complete else ", some cells empty"
        lines.append(f"| {family} | {cases} | {' | '.join(numbers)} | {low} to {high}{empty} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("run", run), ("page", page), ("corner", corner), ("time", times)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        if name == "run":
            command.add_argument("--grid", choices=("reduced", "full"), default="reduced")
            command.add_argument("--seeds", default="0:3")
            command.add_argument("--minutes", type=float, default=1e9)
            command.add_argument("--families", default="")
            command.add_argument("--decoders", default="")
        if name == "corner":
            command.add_argument("--runs", type=int, default=1000)
            command.add_argument("--start", type=int, default=0)
            command.add_argument("--minutes", type=float, default=1e9)
        if name == "time":
            command.add_argument("--most", type=int, default=100)
            command.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
