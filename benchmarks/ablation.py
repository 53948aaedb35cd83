"""What every stage and constant of the default decoders is worth: each is taken away or changed in turn.

    python benchmarks/ablation.py run rows.jsonl [--seeds 0:2] [--suites grid,hard,...] [--only default,...]
    python benchmarks/ablation.py run rows.jsonl --constants  # every named constant of decoders/, a third and threefold
    python benchmarks/ablation.py page rows.jsonl             # docs/theory/ablation.md from the rows

Suites: `grid` is round clusters at 2 and 5 frequencies per number; `hard` the problems that mislead certificates
(benchmarks/certificate.py); `real` the tables that come with scikit-learn; `noise` clusters in a sketch with a tenth
of its power added as noise; `far` clusters and a few rows far away; `bits` clusters in a one-bit sketch; `mixtures`
overlapping Gaussians of three shapes, and two laws that are none.  A row has the cost over that of k-means on the rows
(for mixtures the exponential of what EM on the rows gains in mean log-likelihood), whether the answer was called
reliable, and the CPU seconds of decoding.  An answer is right if that ratio is below 1.05.
"""

import argparse
import ast
import importlib
import json
import math
import os
import pkgutil
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import certificate
import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from sketchlearn import decoders
from sketchlearn.decoders.kmeans import default
from sketchlearn.decoders.mixtures import default as mixtures_default

RIGHT = 1.05
NEEDED = ("greedy search", "searches", "noise weights")  # stages without which there is nothing to judge
OTHER_TASKS = (
    "lowrank", "classifier", "subspaces", "anomaly", "cca", "ica", "dictionary", "nmf", "least_squares", "description",
    "sweep", "mixtures.stable", "mixtures.moments", "mixtures.own", "families.stable", "profile", "steps.pursuit",
)  # fmt: skip
POLICIES = {"kmeans": default, "gmm": mixtures_default}
START, END = "<!-- rows: start -->\n", "<!-- rows: end -->\n"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "theory" / "ablation.md"


class Cell:
    """A sketch, what to decode from it, and a function from the model to its ratio (see the module)."""

    def __init__(self, name, sketch, k, ratio, task="kmeans", **options):
        self.name, self.sketch, self.k, self.ratio, self.task, self.options = name, sketch, k, ratio, task, options


def clusters(name, X, k, sketch):
    """A cell whose ratio is the cost of the centres over that of k-means on the rows."""
    reference = []

    def ratio(model):
        if not reference:
            reference.append(KMeans(k, n_init=5, random_state=0).fit(X).inertia_ / len(X))
        squares = (X**2).sum(1)[:, None] - 2 * X @ model.centers.T + (model.centers**2).sum(1)
        return float(squares.min(1).mean()) / reference[0]

    return Cell(name, sketch, k, ratio)


def sketched(X, k, size, seed, **options):
    return sl.sketch(X, sl.design(X[:2000], n_components=k, size=size, seed=seed, **options), progress=False)


def round_clusters(rng, k, d, separation, n=10_000):
    centers = rng.normal(size=(k, d)) * separation
    return centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def case(name, seed):
    problem = certificate.CASES[name](seed)
    k = problem.k
    phi = problem.features or sl.design(problem.X[:2000], n_components=k, size=problem.size, seed=seed)
    label = f"{name} {seed % 8}"
    return clusters(label, problem.X, k, sl.sketch(problem.X, phi, progress=False))


def grid(seed):
    for part in range(8):
        yield case("grid2", 8 * seed + part)
        if part % 2:
            yield case("grid", 8 * seed + part)


def hard(seed):
    for name in ("nested1000", "coarse", "rare", "rare_unasked", "few", "pair", "shape", "short", "nested"):
        yield case(name, seed)


def real(seed):
    for name, k in (("digits", 10), ("wine", 3), ("iris", 3), ("breast_cancer", 5), ("diabetes", 5)):
        X = getattr(datasets, f"load_{name}")().data
        X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
        yield clusters(name, X, k, sketched(X, k, None, seed))


def noise(seed):
    for k, d in ((5, 5), (10, 10)):
        rng = np.random.default_rng([seed, 7, k])
        X = round_clusters(rng, k, d, 5.0, 5000)
        s = sketched(X, k, 5 * k * d, seed)
        variance = 0.1 * float(np.mean(np.abs(s.mean) ** 2))
        error = rng.normal(size=s.sums.shape) * np.sqrt(variance / 2) * s.weight * 2.0**22
        noisy = sl.Sketch(**{**s.__dict__, "sums": s.sums + np.rint(error).astype(np.int64)}).with_noise(variance)
        yield clusters(f"{k} x {d}", X, k, noisy)


def far(seed):
    for k, d in ((5, 3), (10, 8)):
        rng = np.random.default_rng([seed, 11, k])
        X = round_clusters(rng, k, d, 5.0)
        X[:5, 0] = 400.0 * rng.standard_exponential(5)
        yield clusters(f"{k} x {d}", X, k, sl.sketch(X, sl.design(X, n_components=k, seed=seed), progress=False))


def bits(seed):
    rng = np.random.default_rng([seed, 13])
    X = round_clusters(rng, 6, 4, 5.0)
    scale = sl.design(X[:2000], n_components=6, seed=seed).scale
    phi = sl.FourierFeatures.draw(dim=4, size=250, scale=scale, quantized=True, seed=seed)
    yield clusters("6 x 4", X, 6, sl.sketch(X, phi, progress=False))


def mixtures(seed):
    for kind, k, d in (("full", 4, 3), ("diag", 5, 5), ("spherical", 10, 10), ("full", 3, 4), ("diag", 3, 2)):
        rng = np.random.default_rng([seed, 17, k, d])
        turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0] if kind == "full" else np.broadcast_to(np.eye(d), (k, d, d))
        widths = np.exp(rng.uniform(-0.7, 0.7, (k, 1 if kind == "spherical" else d))) * np.ones(d)
        means, owner = 2.5 * rng.normal(size=(k, d)), rng.integers(k, size=40_000)
        steps = rng.standard_t(4, (40_000, d)) if k == 3 else rng.normal(size=(40_000, d))  # k = 3: a law that is none
        X = means[owner] + np.einsum("nab,nb->na", turns[owner], widths[owner] * steps)
        rows, fresh = X[:20_000], X[20_000:]
        phi = sl.design(rows[:2000], n_components=k, task="gmm", covariance_type=kind, seed=seed)
        reference = []

        def ratio(model, rows=rows, fresh=fresh, k=k, kind=kind, reference=reference):
            if not reference:
                em = GaussianMixture(k, covariance_type=kind, n_init=3, random_state=0).fit(rows)
                reference.append(em.score(fresh))
            return float(np.exp(reference[0] - model.mixture.log_density(fresh).mean()))

        name = f"{kind}, {k} x {d}{', t laws' * (k == 3)}"
        yield Cell(name, sl.sketch(rows, phi, progress=False), k, ratio, "gmm", covariance_type=kind)


SUITES = {f.__name__: f for f in (grid, hard, real, noise, far, bits, mixtures)}


# -- variants -----------------------------------------------------------------------------------------


class Constant:
    """A named number of a module of decoders/, and the modules that import it."""

    def __init__(self, module, name, value, words):
        self.module, self.name, self.value, self.words = module, name, value, words
        self.holders = [module]

    def __str__(self):
        return f"{self.module.__name__.removeprefix('sketchlearn.decoders.')}.{self.name}"

    def others(self):
        """A third and three times as much; of ratios near 1 and of shares near 1 what is above or below 1."""
        v = self.value
        if isinstance(v, int):
            return (max(1, round(v / 3)), 3 * v) if v else (0, 1)
        if 0.5 < v < 2.0 and v != 1.0:
            return 1.0 + (v - 1.0) / 3.0, max(1.0 + (v - 1.0) * 3.0, 0.05)
        return (v / 100.0, v * 100.0) if v < 1e-4 else (v / 3.0, v * 3.0)


def constants():
    """All named numbers of the modules that the default decoders of centres and mixtures are made of."""
    found, imports = {}, []
    for info in pkgutil.walk_packages(decoders.__path__, "sketchlearn.decoders."):
        part = info.name.removeprefix("sketchlearn.decoders.")
        if part.startswith(OTHER_TASKS) or ".published" in part:
            continue
        module = importlib.import_module(info.name)
        source = Path(module.__file__).read_text()
        lines = source.splitlines()
        body = ast.parse(source).body
        for node, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.ImportFrom) and node.module:
                imports += [(module, node.module, alias.name) for alias in node.names]
            if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple)):
                continue
            names = [t.id for t in getattr(node.targets[0], "elts", [node.targets[0]])]
            words = lines[node.end_lineno - 1].partition("#")[2].strip()
            if not words and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                words = " ".join(str(following.value.value).split())
            for name in names:
                value = getattr(module, name)
                if name.isupper() and isinstance(value, int | float) and not isinstance(value, bool):
                    found[module.__name__, name] = Constant(module, name, value, words)
    for holder, origin, name in imports:
        if (origin, name) in found:
            found[origin, name].holders.append(holder)
    return list(found.values())


def stages(task):
    """The lists of stages of a decoder by name, of which any but the first and the last of mixtures may be left out."""
    module = POLICIES[task]
    return {name: getattr(module, name) for name in ("POLICY", "AFTERWARDS") if hasattr(module, name)}


def changes(cell, variant):
    """What a variant puts elsewhere: (module, name, value)."""
    if isinstance(variant, tuple):
        constant, value = variant
        return [(holder, constant.name, value) for holder in constant.holders]
    left_out = variant.removeprefix("without ")
    return [
        (POLICIES[cell.task], name, tuple(stage for stage in policy if stage.name != left_out))
        for name, policy in stages(cell.task).items()
    ]


def decoded(cell, seed, variant):
    """The model of a variant: "default", "without STAGE", or a pair of a constant and its other value."""
    new = changes(cell, variant)
    old = [(module, name, getattr(module, name)) for module, name, _ in new]
    try:
        for module, name, value in new:
            setattr(module, name, value)
        return sl.decode(cell.sketch, cell.k, task=cell.task, random_state=seed, **cell.options)
    finally:
        for module, name, value in old:
            setattr(module, name, value)


def variants(arguments, task):
    """What is run of a task: names and variants."""
    if arguments.constants:
        pairs = [(c, value) for c in constants() for value in c.others() if value != c.value]
        every = {"default": "default"} | {f"{c} = {value:.6g}": (c, value) for c, value in pairs}
    else:
        names = [stage.name for policy in stages(task).values() for stage in policy if stage.name not in NEEDED]
        every = {name: name for name in ["default", *(f"without {name}" for name in names)]}
    only = [name for name in arguments.only.split(",") if name]
    return {name: v for name, v in every.items() if not only or any(name.startswith(o) for o in only)}


def run(arguments):
    path = Path(arguments.rows)
    known = [json.loads(line) for line in path.open()] if path.exists() else []
    done = {(r["suite"], r["seed"], r["case"], r["variant"]) for r in known}
    first, last = map(int, arguments.seeds.split(":"))
    for seed in range(first, last):
        for suite in arguments.suites.split(","):
            for cell in SUITES[suite](seed):
                if not any(f"{suite}:{cell.name}".startswith(c) for c in arguments.cells.split(";")):
                    continue
                for name, variant in variants(arguments, cell.task).items():
                    if (suite, seed, cell.name, name) in done:
                        continue
                    row = {"suite": suite, "seed": seed, "case": cell.name, "variant": name, "version": sl.__version__}
                    begin = time.process_time()
                    try:
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            model = decoded(cell, seed, variant)
                        row["seconds"] = time.process_time() - begin
                        row |= {"rse": cell.ratio(model), "reliable": model.reliable}
                        row["stages"] = [step["stage"] for step in model.trace]
                    except Exception as error:  # a value that can't be is a finding, too
                        row |= {"rse": math.inf, "reliable": False, "stages": [], "error": repr(error), "seconds": 0.0}
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")


# -- the page -----------------------------------------------------------------------------------------


def compared(rows, name):
    """Rows of a variant, each with the row of the default on the same cell."""
    base = {(r["suite"], r["seed"], r["case"]): r for r in rows if r["variant"] == "default"}
    pairs = [(base.get((r["suite"], r["seed"], r["case"])), r) for r in rows if r["variant"] == name]
    return [(b, r) for b, r in pairs if b is not None and math.isfinite(r["rse"])]


def summary(pairs, side):
    """Right and reliable answers, geometric mean of the ratio among those right with both, mean seconds."""
    own = [pair[side] for pair in pairs]
    both = [pair[side]["rse"] for pair in pairs if max(r["rse"] for r in pair) < 2.0]
    ratio = float(np.exp(np.mean(np.log(both)))) if both else math.nan
    right, sure = sum(r["rse"] < RIGHT for r in own), sum(r["reliable"] for r in own)
    return right, sure, ratio, float(np.mean([r["seconds"] for r in own]))


def stage_table(rows, suites, names):
    """A line a variant, a cell a suite: what changes without it."""
    yield "| without | " + " | ".join(suites) + " |"
    yield "|---|" + "---|" * len(suites)
    for name in names:
        cells = []
        for suite in suites:
            pairs = [pair for pair in compared(rows, name) if pair[1]["suite"] == suite]
            if not pairs:
                cells.append("")
                continue
            before, after = summary(pairs, 0), summary(pairs, 1)
            parts = []
            if after[0] != before[0]:
                parts.append(f"right {before[0]} to {after[0]} of {len(pairs)}")
            if after[1] != before[1]:
                parts.append(f"reliable {before[1]} to {after[1]}")
            if abs(math.log(after[2] / before[2])) > 5e-4:
                parts.append(f"ratio {before[2]:.4f} to {after[2]:.4f}")
            if abs(after[3] - before[3]) > 0.1 * before[3] + 0.005:
                parts.append(f"{before[3]:.2g} to {after[3]:.2g} s")
            cells.append(", ".join(parts) or "no change")
        yield f"| {name.removeprefix('without ')} | " + " | ".join(cells) + " |"


def constant_table(rows):
    """A line for each constant that changes an answer: value, what it is, and what a third and three times of it do."""
    lines, silent = [], 0
    for constant in constants():
        cells = []
        for value in constant.others():
            pairs = compared(rows, f"{constant} = {value:.6g}")
            if not pairs:
                continue
            before, after = summary(pairs, 0), summary(pairs, 1)
            worst = max(math.log(r["rse"] / b["rse"]) for b, r in pairs)
            parts = [f"right {before[0]} to {after[0]}"] * (before[0] != after[0])
            parts += [f"reliable {before[1]} to {after[1]}"] * (before[1] != after[1])
            parts += [f"worst ratio {100 * worst:+.1f} %"] * (worst > 2e-3)
            cells.append(", ".join(parts) or "no change")
        if all(cell == "no change" for cell in cells):
            silent += bool(cells)
        else:
            shown = f"{constant.value:.4g}" if isinstance(constant.value, float) else str(constant.value)
            lines.append(f"| `{constant}` | {shown} | {constant.words} | {' | '.join(cells)} |")
    if lines:
        yield f"{silent} other constants change no answer by these factors, here: they are budgets and rounding, or not"
        yield "reached on small problems."
        yield ""
        yield "| constant | value | what it is | a third | three times |"
        yield "|---|---|---|---|---|"
        yield from lines


def page(arguments):
    rows = [json.loads(line) for line in Path(arguments.rows).read_text().splitlines()]
    suites = [suite for suite in SUITES if any(r["suite"] == suite for r in rows)]
    seeds = sorted({r["seed"] for r in rows})
    text = PAGE.read_text() if PAGE.exists() else START + END
    first, last = text.index(START) + len(START), text.index(END)
    problems = sum(r["variant"] == "default" for r in rows)
    lines = [f"{problems} problems (seeds {', '.join(map(str, seeds))}).", ""]
    for task, part in (("kmeans", [s for s in suites if s != "mixtures"]), ("gmm", ["mixtures"])):
        names = [f"without {stage.name}" for policy in stages(task).values() for stage in policy]
        known = [name for name in names if any(r["variant"] == name for r in rows)]
        if known:
            lines += [f"### Stages of {'k-means' if task == 'kmeans' else 'mixtures'}", ""]
            lines += [*stage_table(rows, part, known), ""]
    found = list(constant_table(rows))
    if len(found) > 2:
        cells = sorted({r["case"] for r in rows if "=" in r["variant"]})
        lines += ["### Constants", "", f"On {len(cells)} small problems ({'; '.join(cells)}).", "", *found, ""]
    PAGE.write_text(text[:first] + "\n" + "\n".join(lines) + text[last:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for function in (run, page):
        command = commands.add_parser(function.__name__)
        command.add_argument("rows", help="file of results, one JSON object per line")
        command.set_defaults(function=function)
        if function is run:
            command.add_argument("--seeds", default="0:2")
            command.add_argument("--suites", default=",".join(SUITES))
            command.add_argument("--only", default="", help="beginnings of names of variants")
            command.add_argument("--cells", default="", help="beginnings of SUITE:CELL, with semicolons between")
            command.add_argument("--constants", action="store_true")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
