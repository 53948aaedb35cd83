"""The command line: ``sketchlearn VERB ...``.

One verb a file in ``verbs/``: a module with a function ``register(app)``; modules there are found by themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        from sketchlearn.cli.app import run
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.stderr.write("sketchlearn: the command line needs typer and rich: pip install 'sketchlearn[cli]'\n")
        return 7
    return run(arguments)
