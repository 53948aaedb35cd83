"""The code blocks of the documentation do what the text says.

``python`` and ``sh`` blocks of a page are run in their order, in an empty folder, with warnings as errors.  A ``text``
block right after one is its expected output (``...`` stands for anything).  ``<!-- setup ... -->`` holds Python that
is run but not shown; ``<!-- not run: reason -->`` leaves the next block out.  Blocks of other languages are not run.
"""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

from sketchlearn.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in ("index", "installation", "tutorial", "sources")),
    *(
        DOCS / f"{name}.md"
        for name in ("kmeans", "mixtures", "pca-and-regression", "pictures-and-reports", "comparing", "privacy")
    ),
    DOCS / "theory" / "guarantees.md",
    *sorted((DOCS / "how-to").glob("*.md")),
]
BLOCK = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|^<!-- (?P<skip>not run): .*?-->$"
    r"|^(?P<ticks>`{3,})(?P<language>\w*)\n(?P<code>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page):
    """Language, code, line number, and the output that the page shows or None."""
    text = page.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    skip = False
    for i, match in enumerate(found):
        line = text.count("\n", 0, match.start()) + 1
        if match["skip"]:
            skip = True
        elif match["setup"] is not None:
            yield "python", match["setup"], line, None
        elif skip:
            skip = False
        elif match["language"] in ("python", "sh"):
            after = found[i + 1] if i + 1 < len(found) else None
            shown = after and after["language"] == "text" and not text[match.end() : after.start()].strip()
            yield match["language"], match["code"], line, after["code"] if shown else None


def run_shell(code):
    """Lines that begin with ``sketchlearn``, run in this process."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0] == "sketchlearn", f"only sketchlearn can be run: {line}"
            expected = re.search(r"# exit code (\d+)", line)
            assert main(words[1:]) == (int(expected[1]) if expected else 0), line


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).with_suffix("").as_posix())
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    names = {"__name__": "__main__"}
    for language, code, line, shown in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if language == "sh":
                run_shell(code)
            else:
                # line numbers of tracebacks are those of the page
                exec(compile("\n" * line + code, str(page), "exec"), names)
        if shown is not None:
            want, got = shown, printed.getvalue()
            assert doctest.OutputChecker().check_output(want, got, SAME), f"{page}:{line} printed\n{got}\nnot\n{want}"


def test_every_page_is_found():
    assert all(page.is_file() for page in PAGES)
    assert (DOCS / "how-to" / "choose-k.md") in PAGES
