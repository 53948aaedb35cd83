"""The command line: ``sketchlearn VERB ...``.

One verb per file in ``verbs/``: a function that :func:`sketchlearn.cli.options.verb` makes a verb; files are found by
themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


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


def program() -> NoReturn:
    """The command line as a process: run it, and end.

    Once Arrow is loaded the interpreter is not taken apart: a thread of Arrow's that drops a buffer of Python's in
    that moment aborts the process, after the work was done well.
    """
    code = main()
    if "pyarrow" not in sys.modules:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads any more
            stream.flush()
    os._exit(code)
