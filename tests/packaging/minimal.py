"""Print the oldest versions of the dependencies that pyproject.toml allows, as constraints for pip.

python tests/packaging/minimal.py cli files plots > minimal.txt
pip install -c minimal.txt '.[cli,files,plots]'
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?>=(?P<version>[\d.]+)$")


def minimal(extras):
    """Lines such as ``numpy==2.0.*`` for the core and some extras, which may name others."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted, lines = [*project["dependencies"]], {}
    todo = list(extras)
    while todo:
        for requirement in project["optional-dependencies"][todo.pop()]:
            if requirement.startswith("sketchlearn["):
                todo += requirement.removeprefix("sketchlearn[").rstrip("]").split(",")
            else:
                wanted.append(requirement)
    for requirement in wanted:
        match = REQUIREMENT.match(requirement)
        if match:
            lines[match["name"]] = f"{match['name']}=={match['version']}.*"
    return sorted(lines.values())


if __name__ == "__main__":
    sys.stdout.write("\n".join(minimal(sys.argv[1:])) + "\n")
