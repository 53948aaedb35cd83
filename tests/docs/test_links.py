"""Links between pages lead somewhere, and the API page names everything that is public.  Sphinx is not needed."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import sketchlearn

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = (DOCS / "gallery", DOCS / "api" / "generated", DOCS / "_build")
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if not any(p.is_relative_to(g) for g in GENERATED)),
]
FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def anchors(page):
    """Anchors of headings, made as GitHub and MyST make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        if any(where.is_relative_to(g) for g in GENERATED):
            continue
        assert where.is_file(), f"{page.name} links to {target}, which is not there"
        if anchor and where.suffix == ".md":
            assert anchor in set(anchors(where)), f"{page.name} links to {target}, but there is no such heading"


def test_every_page_is_in_a_table_of_contents():
    named = set()
    for page in PAGES:
        for body in TOCTREE.findall(page.read_text(encoding="utf-8")):
            for line in body.splitlines():
                entry = re.sub(r"^.*<(.*)>$", r"\1", line.strip())
                if entry and not entry.startswith(":"):
                    named.update(p.resolve() for p in page.parent.glob(entry + ".md"))
    orphans = {p for p in PAGES if p.is_relative_to(DOCS)} - named - {DOCS / "index.md"}
    assert not orphans


def test_public_names_are_in_the_reference():
    page = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", page, re.MULTILINE))
    names = set()
    for name in sketchlearn.__all__:
        value = getattr(sketchlearn, name)
        # of a module, such as plots, what it offers
        names.update(f"{name}.{inner}" for inner in value.__all__) if isinstance(value, ModuleType) else names.add(name)
    assert names <= listed


def test_reference_names_exist():
    page = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    for name in re.findall(r"^   ([\w.]+)$", page, re.MULTILINE):
        *module, last = f"sketchlearn.{name}".split(".")
        found = __import__(".".join(module), fromlist=[last])
        assert hasattr(found, last), name
