"""What a release says about itself agrees with the code."""

import itertools
import re
import tomllib
from pathlib import Path

import sketchlearn

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_citation_has_the_version_and_the_licence():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {sketchlearn.__version__}\n" in citation
    assert f"license: {PROJECT['license']}\n" in citation


def test_the_changelog_begins_with_this_version():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == sketchlearn.__version__


def test_types_are_shipped():
    assert (Path(sketchlearn.__file__).parent / "py.typed").is_file()


def test_every_dependency_has_a_lowest_version():
    everything = [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
    tools = {"scipy-stubs"}  # follows the version of SciPy that is installed
    loose = [r for r in everything if ">=" not in r and not r.startswith("sketchlearn[") and r not in tools]
    assert not loose


def test_files_that_hosts_look_for():
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md"):
        assert (ROOT / name).is_file()
