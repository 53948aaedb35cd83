"""Pictures and the page of the documentation, from the rows alone."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from experiments.disagreements import DISAGREEMENTS, LEARNED
from experiments.registry import ORDER, Experiment, Finding, Row, catalogue
from experiments.rows import HERE, Rows, results_path

DOCS = HERE.parent / "docs"
PAGE = DOCS / "experiments.md"
PICTURES = DOCS / "images" / "experiments"
HEAD = """# Experiments of the literature

This page repeats experiments of the literature. Each of them is one command. It compares the published sentence or
table with our measurement, whether that is flattering or not. *Verdict* judges the published method in its published
form. The column *default* is this library with default settings. Intervals are 90 % intervals (bootstrap over data
sets, Wilson's interval for rates). No data set was left out, and a run that failed counts as a failure. We didn't read
numbers off published curves, so claims about curves are those of the text around them.

A method is better than another if the 90 % interval of the median difference over common data sets excludes zero. There
is no tolerance. Two verdicts had rules of their own, which were changed after rows had been seen: quality per byte
allowed us a tie of 0.0005 of the cost, and CL-AMP's labels had to be better by 0.05. Both follow the general rule now.

Costs are divided by the best known cost, sizes are multiples of k·d, and RSE is the mean squared error of the centres
divided by that of k-means on the rows. The page is generated from the results in `experiments/results/`. Each result
has its setting, seed, method, version and revision. No measured number on this page was typed by hand.

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
    parts.append(_table(experiments, judged))
    parts += [_section(experiment, *judged[experiment.name]) for experiment in experiments]
    parts.append(f"## What was learned\n\n{LEARNED}")
    parts.append(_disagreements())
    return "\n".join(parts).rstrip() + "\n"


def _table(experiments: list[Experiment], judged: dict[str, tuple[Rows, bool, list[Finding]]]) -> str:
    counts = Counter(finding.code for *_, found in judged.values() for finding in found)
    total = ", ".join(f"{counts[code]} {code}" for code in ORDER if counts[code])
    lines = [
        "## All claims in one table\n",
        f"{sum(counts.values())} claims: {total}.\n",
        "| experiment | published | measured, in published form | default | verdict |",
        "|---|---|---|---|---|",
    ]
    for experiment in experiments:
        for claim, finding in zip(experiment.claims, judged[experiment.name][2], strict=True):
            lines.append(
                f"| [{experiment.name}](#{_anchor(experiment)}) | {claim.says} ({claim.source}) | {finding.measured} "
                f"| {finding.default or '–'} | **{finding.code}** |"
            )
    return "\n".join(lines) + "\n"


def _anchor(experiment: Experiment) -> str:
    kept = [c if c.isalnum() or c == "-" else "-" if c == " " else "" for c in experiment.title.lower()]
    return "".join(kept)


def _section(experiment: Experiment, rows: Rows, full: bool, found: list[Finding]) -> str:
    lines = [f"## {experiment.title}\n", experiment.about + "\n"]
    flat = rows.flat()
    if not flat:
        return "\n".join([*lines, f"Not run yet: `python -m experiments run {experiment.name}`.\n"])
    lines.append(f"![{experiment.title}](images/experiments/{experiment.name}.png)\n")
    for claim, finding in zip(experiment.claims, found, strict=True):
        lines.append(f"- *{claim.source}*: {claim.says}. **{finding.code.capitalize()}**: {finding.measured}.")
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
    runs = "; ".join(
        sorted({f"version {r['version']} at {r['revision']}, {r['date']}, {r['processor']}" for r in rows.runs})
    )
    flag = " --full" if full else ""
    return (
        f"`python -m experiments run {experiment.name}{flag}`: {len(rows.rows)} rows, {sets} data sets a cell, "
        f"{seconds:.0f} CPU seconds of the methods; {runs}.\n"
    )


def _disagreements() -> str:
    lines = [
        "## Where publications disagree\n",
        "With each other, with the theory or with what was measured, and what was done about it here.\n",
        "| claim | against it | here |",
        "|---|---|---|",
    ]
    lines += [f"| {claim} | {against} | {here} |" for claim, against, here in DISAGREEMENTS]
    return "\n".join(lines) + "\n"


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
