"""Pictures and the page of the documentation, from the rows alone."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from experiments.disagreements import DISAGREEMENTS, LEARNED
from experiments.registry import ORDER, Experiment, Finding, Row, catalogue
from experiments.rows import HERE, Rows, results_path
from experiments.rulers import spaced, table

DOCS = HERE.parent / "docs"
PAGE = DOCS / "experiments.md"
PICTURES = DOCS / "images" / "experiments"
WORDS = {"reproduced": "reproduced", "partly": "partly reproduced", "not": "not reproduced", "not run": "not run"}
HEAD = """# Experiments of the literature

This page repeats experiments of the literature, each by one command. It shows what was published beside what was
measured here, whether that is flattering or not. It is generated from the results in `experiments/results/`: no
measured number was typed by hand. Each result has its setting, seed, method, version, revision and recipe.

**How to read it.**

- The *verdict* judges the published method in its published form. Where no published decoder exists, it judges ours.
- *Default* is this library with default settings.
- Brackets are 90 % intervals: bootstrap over data sets, or Wilson's interval for a rate.
- *Better* means that the 90 % interval of the median difference over common data sets excludes zero. There is no
  tolerance.
- *Cost* is the mean squared distance to the nearest centre, over the best known cost of the same data. 1 is best.
- *kd*: sizes of sketches are multiples of k·d, the number of coordinates of all centres (k clusters, d columns).
- *log KL* is the natural logarithm of the symmetrised Kullback-Leibler divergence from the truth. Lower is better.
- *ARI* is the adjusted Rand index of the labels. 1 is best.

Sections show the full version of an experiment where it was run, else the quick one. Full versions have the published
numbers of rows, but mostly fewer data sets than published: the last line of a section says how many results there are.

No data set was left out, and a run that failed counts as a failure. Claims about published curves are those of the text
around them: we read no numbers off pictures. Rules of two verdicts were changed after rows had been seen: quality per
byte allowed us a tie of 0.0005 of the cost, and CL-AMP's labels had to be better by 0.05. Both follow the general rule
now.

| name | what it is |
|---|---|
| CL-OMP, CL-OMPR | published greedy decoders, without and with replacement; one candidate per step, ×20: twenty |
| CL-AMP | published message passing; one run, flat prior |
| splitting | published decoder of mixtures, which splits components in two |
| BCD | block coordinate descent on all points from a random start |
| Lloyd, box ×1 | Lloyd's algorithm from one start, uniform in the box of the rows: a published reference |
| k-means++ ×3 | the best of three runs from plain k-means++ starts: a published reference |
| EM ×10 | the best of ten runs of expectation maximisation on the rows |

```text
make experiments                               # all quick versions, then this page
python -m experiments run NAME [--full]        # one of them; a stopped run goes on where it was
python -m experiments run NAME --only default  # measure the library's default again
python -m experiments page
```
"""


def held(experiment: Experiment) -> tuple[Rows, bool]:
    """The rows of the full version if there are any, else those of the quick one."""
    for full in (True, False):
        rows = Rows.read(results_path(experiment, full), experiment.recipe)
        if rows.rows:
            return rows, full
    return rows, False


def findings(experiment: Experiment, rows: list[Row]) -> list[Finding]:
    """What the rows say about each claim."""
    if not rows:
        return [Finding("not run", "not run") for _ in experiment.claims]
    return [claim.judge(rows) for claim in experiment.claims]


def text() -> str:
    """The whole page."""
    experiments = list(catalogue().values())
    parts = [HEAD]
    judged = {}
    for experiment in experiments:
        rows, full = held(experiment)
        judged[experiment.name] = rows, full, findings(experiment, rows.flat())
    parts += [_losses(experiments, judged), _table(experiments, judged)]
    parts += [_section(experiment, *judged[experiment.name]) for experiment in experiments]
    parts.append(f"## What was learned\n\n{LEARNED}")
    parts.append(_disagreements({name: rows.flat() for name, (rows, *_) in judged.items()}))
    return "\n".join(parts).rstrip() + "\n"


def _table(experiments: list[Experiment], judged: dict[str, tuple[Rows, bool, list[Finding]]]) -> str:
    counts = Counter(finding.code for *_, found in judged.values() for finding in found)
    total = ", ".join(f"{counts[code]} {WORDS[code]}" for code in ORDER if counts[code])
    lines = [
        "## All claims in one table\n",
        f"{sum(counts.values())} claims: {total}.\n",
    ]
    cells = [
        (
            f"**{WORDS[finding.code]}**",
            claim.says,
            finding.measured,
            finding.default or "–",
            f"[{experiment.name}](#{_anchor(experiment)})",
        )
        for experiment in experiments
        for claim, finding in zip(experiment.claims, judged[experiment.name][2], strict=True)
    ]
    lines.append(table(("verdict", "published", "measured, in published form", "default", "experiment"), cells))
    return "\n".join(lines) + "\n"


def _losses(experiments: list[Experiment], judged: dict[str, tuple[Rows, bool, list[Finding]]]) -> str:
    """Where something else is better than the library's default, from the rows."""
    found = []
    for experiment in experiments:
        rows = judged[experiment.name][0].flat()
        text = experiment.losses(rows) if rows and experiment.losses is not None else ""
        if text:
            found.append(f"- {text} ([{experiment.title.lower()}](#{_anchor(experiment)}))")
    return "\n".join(["## Where something else is better than the default\n", *found]) + "\n"


def _anchor(experiment: Experiment) -> str:
    kept = [c if c.isalnum() or c == "-" else "-" if c == " " else "" for c in experiment.title.lower()]
    return "".join(kept)


def _section(experiment: Experiment, rows: Rows, full: bool, found: list[Finding]) -> str:
    flat = rows.flat()
    lost = experiment.losses(flat) if flat and experiment.losses is not None else ""
    lines = [f"## {experiment.title}\n", *([lost + "\n"] if lost else []), experiment.about + "\n"]
    if not flat:
        return "\n".join([*lines, f"Not run yet: `python -m experiments run {experiment.name}`.\n"])
    lines.append(f"![{experiment.title}](images/experiments/{experiment.name}.png)\n")
    for claim, finding in zip(experiment.claims, found, strict=True):
        lines.append(
            f"- **{WORDS[finding.code].capitalize()}**: {claim.says} (*{claim.source}*). Here: {finding.measured}."
        )
        if finding.default:
            lines[-1] += f" Default: {finding.default}."
    lines.append("")
    if experiment.learned is not None:
        lines += [part + "\n" for part in experiment.learned(flat)]
    if experiment.assumed:
        assumed = "; ".join(f"{name}: {value}" for name, value in experiment.assumed.items())
        lines.append(f"Assumed where no text gives the setting, or changed: {assumed}.\n")
    lines.append(_provenance(experiment, rows, full))
    return "\n".join(lines)


def _provenance(experiment: Experiment, rows: Rows, full: bool) -> str:
    counts = Counter((name, method) for name, _, method in rows.rows).values()
    sets = str(max(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    seconds = sum(row.get("seconds", 0.0) for row in rows.flat())
    wanted = sum(cell.seeds * len(experiment.methods(cell.setting)) for cell in experiment.cells(full))
    share = f" of {spaced(wanted)}" if wanted > len(rows.rows) else ""
    versions = sorted({run["version"] for run in rows.runs})
    revisions = sorted({f"{run['revision']} ({run['date']})" for run in rows.runs})
    machines = sorted({run["processor"] for run in rows.runs})
    runs = f"version {', '.join(versions)}, revisions {', '.join(revisions)}, on {' and '.join(machines)}"
    flag = " --full" if full else ""
    return (
        f"`python -m experiments run {experiment.name}{flag}`: {spaced(len(rows.rows))}{share} results, "
        f"{sets} data sets per cell, {seconds:.0f} CPU seconds of the methods; recipe {experiment.recipe}, {runs}.\n"
    )


def _disagreements(every: dict[str, list[Row]]) -> str:
    cells = [(claim, against, here if isinstance(here, str) else here(every)) for claim, against, here in DISAGREEMENTS]
    about = "With each other, with the theory or with what was measured; beside it what the rows show."
    return f"## Where publications disagree\n\n{about}\n\n{table(('claim', 'against it', 'here'), cells)}\n"


def pictures(folder: Path = PICTURES) -> None:
    """One picture for each experiment that has rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for experiment in catalogue().values():
        rows, _ = held(experiment)
        if rows.rows:
            figure = plt.figure(figsize=experiment.size)
            experiment.draw(rows.flat(), figure)
            figure.savefig(folder / f"{experiment.name}.png", dpi=80, metadata={"Software": None})
            plt.close(figure)


def write() -> int:
    """Write page and pictures."""
    PAGE.write_text(text(), encoding="utf-8")
    pictures()
    return 0


def check() -> int:
    """1 if the page is not what the rows give."""
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text():
        return 0
    print("docs/experiments.md does not match the rows: run python -m experiments page", file=sys.stderr)
    return 1
