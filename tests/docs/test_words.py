"""Plain words in code and docs: the field's terms, and no private idiom."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

import sketchlearn

ROOT = Path(__file__).parents[2]
SOURCE = Path(sketchlearn.__file__).parent
DOCS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = (ROOT / "docs" / "gallery", ROOT / "docs" / "api" / "generated", ROOT / "docs" / "_build")

EACH = "(one|a row|a sum|a column|a mixture|operations|components|features|nats|numbers)"
OF = "(class|column|row|group|predictor|component|estimator|task|kind|file|lane|node|frequency)"
SO_MANY = r"(\d+|one|two|three|four|five|ten|twenty|few|million|billion)"
THINGS = (
    "(rows|sketches|features|bytes|bits|numbers|sums|traces|components|candidates|iterations|edges|file|entry|vector)"
)
UNIT = (
    "(row|column|class|group|user|person|cluster|component|day|cell|bag|frequency|feature|step|point|node|second|file)"
)
IDIOM = {
    r"\bmend(s|ed|ing)?\b": "fix, repair or correct",
    r"\ball of it\b": "say what: the whole matrix, every row",
    r"\broom\b": "buffer, memory or space",
    r"\bnoise that was added\b": "additive noise",
    r"\bmessages are asked\b": "message passing is tried",
    r"\bstrays?\b(?! :|=)": "outlier",
    r"\b(no|the same|little|a) say\b": "weight, or influence",
    r"\bwild (values?|rows?)\b": "outlier",
    r"\bso-many\b": "give the number",
    r"\bbegins? anew\b": "restart",
    r"\btimes that of (sampling )?noise\b": "times the noise floor",
    rf"\b{EACH} a {OF}\b(?! contributes)": "one per class",
    rf"\b{SO_MANY} {THINGS} an? {UNIT}\b(?! (has|have|can)\b)": "three rows per user",
}
OPENINGS = re.compile(r"(The same\b|Of those\b|As above\b)")
"""Words that no docstring begins with: it says what, for itself."""


def texts(path):
    """Docstrings, comments and messages of a module, each with its line; docstrings are marked."""
    content = path.read_text(encoding="utf-8")
    tree = ast.parse(content)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isidentifier():
            yield node.lineno, id(node) in docstrings, node.value
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], False, token.string


def idiom_of(path):
    """What a file says in private words: line, words, and what to say instead."""
    if path.suffix == ".md":
        pieces = [(i, False, line) for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)]
    else:
        pieces = list(texts(path))
    for line, documents, text in pieces:
        plain = re.sub(r"\s+", " ", text)
        for pattern, instead in IDIOM.items():
            for found in re.finditer(pattern, plain, re.IGNORECASE):
                yield f"{path.name}:{line}: {found.group()!r}: {instead}"
        if documents and OPENINGS.match(text.lstrip()):
            yield f"{path.name}:{line}: a docstring begins with {text.lstrip()[:20]!r}"


FILES = [*sorted(SOURCE.rglob("*.py")), *(p for p in DOCS if not any(p.is_relative_to(g) for g in GENERATED))]


def test_words_are_plain():
    wrong = [said for path in FILES for said in idiom_of(path)]
    assert not wrong, "\n".join(wrong)


def wide(page):
    """Lines of prose that are too long: not code, tables, formulas, or a word without a space."""
    inside = ""
    for i, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        mark = line[:3] if line.startswith(("```", ":::")) else "$$" if line.count("$$") == 1 else ""
        if mark and inside in ("", mark):
            inside = "" if inside else mark
        elif not inside and len(line) > 120 and not line.startswith("|") and " " in line[4:120]:
            yield f"{page.name}:{i}: {len(line)} characters"


def test_lines_are_not_too_long():
    made = ROOT / "docs" / "experiments.md"  # by experiments/page.py
    wrong = [said for page in FILES if page.suffix == ".md" and page != made for said in wide(page)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "Mending the map.",
        "all of it",
        "a buffer is room",
        "noise that was added",
        "a sum a class",
        "up to 3 rows a person",
    ],
)
def test_idiom_is_found(text, tmp_path):
    (tmp_path / "a.py").write_text(f'"""{text}"""\n')
    (tmp_path / "b.py").write_text(f"x = 1  # {text}\n")
    (tmp_path / "c.py").write_text('def f():\n    """The same for rows."""\n')
    assert all(list(idiom_of(tmp_path / name)) for name in ("a.py", "b.py", "c.py"))
