"""``sketchlearn ledger``: show what was spent of a privacy budget, and what is left."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from sketchlearn.cli.options import Json, verb
from sketchlearn.cli.outputs import emit

GROUP = "Show a ledger of privacy budgets."


@verb("ledger show budget.json")
def show(path: Annotated[str, typer.Argument(help="A ledger written by privatize.")], as_json: Json = False) -> None:
    """Show what was spent on each dataset, and what is left."""
    from sketchlearn.privacy import Ledger
    from sketchlearn.privacy.ledger import describe

    facts = describe(Ledger(path))
    emit(facts, as_json, _text(facts))


_WIDTH = 40  # letters


def _bar(share: float) -> str:
    """What is spent of a budget, as a picture."""
    filled = min(_WIDTH, math.ceil(share * _WIDTH - 1e-9))
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {min(share, 1.0):.0%} spent, {max(0.0, 1.0 - share):.0%} left"


def _text(facts: dict[str, Any]) -> str:
    lines = [f"budget of each dataset: epsilon = {facts['epsilon']:g}, delta = {facts['delta']:g}"]
    for name, account in facts["datasets"].items():
        rows = account["records_per_user"]
        spent = account["spent"]
        lines.append("")
        lines.append(f"{name} ({account['relation']}, {rows} row{'s' * (rows > 1)} per person)")
        lines.append(
            f"  spent epsilon = {spent['epsilon']:.6g}, delta = {spent['delta']:.3g} ({spent['by']}); "
            f"left epsilon = {account['left']:.6g}"
        )
        lines.append(f"  {_bar(spent['epsilon'] / facts['epsilon'])}")
        for entry in account["entries"]:
            rho = "" if entry["rho"] is None else f", rho {entry['rho']:.4g}"
            lines.append(
                f"  {entry['time']}  epsilon {entry['epsilon']:g}, delta {entry['delta']:g}{rho}  {entry['what']}"
            )
        lines += [f"  {line}" for line in account["arithmetic"]]
    if not facts["datasets"]:
        lines.append("nothing was spent")
    return "\n".join(lines)
