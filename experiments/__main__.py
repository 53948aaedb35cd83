"""Command line: list, run, page, check."""

from __future__ import annotations

import argparse
import os
import sys
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is loaded: seconds are those of one thread

from experiments.registry import Experiment, catalogue
from experiments.rows import Rows, results_path
from experiments.runner import missing, run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="names, rows measured and rows missing")
    runs = verbs.add_parser("run", help="measure what is missing")
    runs.add_argument("names", nargs="*", help="experiments")
    runs.add_argument("--all", action="store_true", help="all of them")
    runs.add_argument("--full", action="store_true", help="published sizes: hours")
    runs.add_argument("--only", default="", help="methods to measure again, separated by commas, e.g. default")
    runs.add_argument("--seeds", type=int, help="data sets of every cell, at most those of the experiment")
    runs.add_argument("--jobs", type=int, default=1, help="processes")
    runs.add_argument("--minutes", type=float, help="stop after so many; a later run goes on")
    page = verbs.add_parser("page", help="pictures and the page of the documentation, from the rows")
    page.add_argument("--check", action="store_true", help="write nothing; fail if the page does not match the rows")
    return parser


def _chosen(names: list[str], everything: bool) -> list[Experiment]:
    known = catalogue()
    if everything:
        return list(known.values())
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise SystemExit(f"give names of experiments, or --all; there are {', '.join(known)}")
    return [known[name] for name in names]


def _list() -> None:
    for experiment in catalogue().values():
        parts = []
        for full in (False, True):
            rows = Rows.read(results_path(experiment, full), experiment.recipe)
            left = sum(len(methods) for *_, methods in missing(experiment, rows, full, (), None))
            parts.append(f"{'full' if full else 'quick'} {len(rows.rows):>5} rows, {left:>5} missing")
        print(f"{experiment.name:<18} {';  '.join(parts)}")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 if all went well."""
    given = _parser().parse_args(arguments)
    if given.verb == "list":
        _list()
        return 0
    if given.verb == "page":
        from experiments.page import check, write

        return check() if given.check else write()
    only = tuple(name.strip() for name in given.only.split(",") if name.strip())
    for experiment in _chosen(given.names, given.all):
        start, cpu = time.monotonic(), time.process_time()
        left = run(experiment, full=given.full, only=only, seeds=given.seeds, jobs=given.jobs, minutes=given.minutes)
        state = "complete" if not left else f"{left} cells left"
        seconds, used = time.monotonic() - start, time.process_time() - cpu
        print(f"{experiment.name}: {state}; {seconds:.0f} s, {used:.0f} s of this process", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
