"""Rows in a JSON file: appended, never measured twice, each with the run that measured it."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.registry import Experiment, Row, Setting, Values

HERE = Path(__file__).resolve().parent
Key = tuple[str, int, str]


def results_path(experiment: Experiment, full: bool) -> Path:
    """Where the rows of an experiment are kept."""
    return HERE / "results" / ("full" if full else "quick") / f"{experiment.name}.json"


def key_of(setting: Setting, seed: int, method: str) -> Key:
    """What makes a row the same row."""
    return json.dumps(setting, sort_keys=True), seed, method


def this_run() -> dict[str, Any]:
    """Version, revision and machine of the rows that are measured now."""
    import sketchlearn

    revision = _git("rev-parse", "--short=12", "HEAD")
    dirty = bool(_git("status", "--porcelain", "--untracked-files=no", "--", "src"))
    return {
        "version": sketchlearn.__version__,
        "revision": revision + ("+" if dirty else ""),
        "date": time.strftime("%Y-%m-%d"),
        "processor": _processor(),
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")) or os.cpu_count(),
        "python": platform.python_version(),
    }


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@dataclass
class Rows:
    """The rows of one experiment and the runs that measured them."""

    path: Path
    recipe: int
    runs: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, recipe: int) -> Rows:
        """Rows of a file; none if there is no file or if they follow another recipe."""
        found = cls(path, recipe)
        if path.exists():
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["recipe"] == recipe:
                found.runs = held["runs"]
                found.rows = {key_of(r["setting"], r["seed"], r["method"]): r for r in held["rows"]}
        return found

    def add(self, setting: Setting, seed: int, method: str, values: Values, run: dict[str, Any]) -> None:
        """Keep a row, instead of an older one if there is one."""
        if run not in self.runs:
            self.runs.append(run)
        clean = {name: _number(value) for name, value in values.items()}
        row = {"setting": setting, "seed": seed, "method": method, "run": self.runs.index(run), "values": clean}
        self.rows[key_of(setting, seed, method)] = row

    def take(self, others: Rows, wanted: set[Key], revision: str) -> None:
        """Rows of another file that are rows of this one too: if they are missing here, or of this revision there."""
        for key in wanted & others.rows.keys():
            if key not in self.rows or (others.revision(key) == revision != self.revision(key)):
                row = others.rows[key]
                self.add(row["setting"], row["seed"], row["method"], row["values"], others.runs[row["run"]])

    def revision(self, key: Key) -> str | None:
        """The revision that measured a row."""
        row = self.rows.get(key)
        return None if row is None else self.runs[row["run"]]["revision"]

    def write(self) -> None:
        """The file, complete or as it was; one row per line."""
        used = sorted({row["run"] for row in self.rows.values()})
        place = {old: new for new, old in enumerate(used)}
        rows = [{**row, "run": place[row["run"]]} for row in self.rows.values()]
        lines = ",\n".join(json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows)
        runs = ",\n".join(json.dumps(self.runs[i], ensure_ascii=False, sort_keys=True) for i in used)
        text = f'{{"recipe": {self.recipe},\n"runs": [\n{runs}\n],\n"rows": [\n{lines}\n]}}\n'
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)
        self.runs = [self.runs[i] for i in used]
        self.rows = {key_of(r["setting"], r["seed"], r["method"]): r for r in rows}

    def flat(self) -> list[Row]:
        """Rows as one dict each: setting, seed, method, values; what was not finite is infinite."""
        out = []
        for row in self.rows.values():
            values = {name: math.inf if value is None else value for name, value in row["values"].items()}
            out.append({**row["setting"], "seed": row["seed"], "method": row["method"], "run": row["run"], **values})
        return out


def _number(value: Any) -> Any:
    """Plain numbers of six digits; None for what is not finite."""
    if isinstance(value, str | bool) or value is None:
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else float(f"{number:.6g}")
