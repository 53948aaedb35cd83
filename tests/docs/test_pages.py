"""The code blocks that a reader sees do what the text says, and need nothing that the reader doesn't see.

The ``python``, ``sh`` and ``bash`` blocks of a page are run in order, in an empty folder, with warnings as errors.
``sh`` blocks hold ``sketchlearn`` commands, which run in this process; ``bash`` blocks are scripts.  A ``text`` block
right after a block is its expected output (``...`` stands for anything).  ``<!-- not run: reason -->`` leaves the next
block out.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sketchlearn.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = (DOCS / "gallery", DOCS / "api" / "generated", DOCS / "_build")
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if not any(p.is_relative_to(g) for g in GENERATED)),
]
BLOCK = re.compile(
    r"^<!-- (?P<skip>not run): (?P<reason>.*?)-->$"
    r"|^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w{}-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
RUN = "python", "sh", "bash"
# output, other people's configuration, and commands that install something
SHOWN = "text", "console", "yaml", "sql", "json"
INSTALLS = re.compile(r"^\$ (pip install |make |git |cd |python benchmarks/|sketchlearn --install-completion)|^ ")
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def matches(page):
    text = page.read_text(encoding="utf-8")
    return text, [m for m in BLOCK.finditer(text) if not (m["language"] or "").startswith("{")]


def blocks(page):
    """Language, code, line number, and the output that the page shows or None."""
    text, found = matches(page)
    skip = False
    for i, match in enumerate(found):
        line = text.count("\n", 0, match.start()) + 1
        if match["skip"]:
            skip = True
        elif skip:
            skip = False
        elif match["language"] in RUN:
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


def run_script(code, programs):
    """A script, with ``sketchlearn`` and ``python`` of this environment."""
    programs.mkdir(exist_ok=True)
    for name, module in (("sketchlearn", "-m sketchlearn "), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)


SLOW = DOCS / "nightly.md"  # starts twenty processes, one after the other


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page == SLOW else ()) for page in PAGES],
    ids=[page.relative_to(ROOT).with_suffix("").as_posix() for page in PAGES],
)
def test_visible_blocks_run_alone(page, tmp_path, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    names = {"__name__": "__main__"}
    for language, code, line, shown in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if language == "sh":
                run_shell(code)
            elif language == "bash":
                run_script(code, tmp_path / "bin")
            else:
                # line numbers of tracebacks are those of the page
                exec(compile("\n" * line + code, str(page), "exec"), names)
        if shown is not None:
            want, got = shown, printed.getvalue()
            assert doctest.OutputChecker().check_output(want, got, SAME), f"{page}:{line} printed\n{got}\nnot\n{want}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).with_suffix("").as_posix())
def test_no_code_escapes_the_test_above(page):
    text, found = matches(page)
    assert "<!-- setup" not in text, "a reader who copies this page would miss the hidden set-up"
    for match in found:
        if match["skip"]:
            assert match["reason"].strip(), "say why the block is not run"
            continue
        language, line = match["language"], text.count("\n", 0, match.start()) + 1
        assert language in (*RUN, *SHOWN), f"{page.name}:{line} is a block of language {language!r}, which is never run"
        if language == "console":
            for command in match["code"].splitlines():
                assert not command or INSTALLS.match(command), f"{page.name}:{line}: make this an sh block: {command}"


def test_every_page_is_found():
    assert all(page.is_file() for page in PAGES)
    assert (DOCS / "how-to" / "choose-k.md") in PAGES
