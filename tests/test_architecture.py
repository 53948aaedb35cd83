"""Imports point one way, as drawn in docs/architecture.md."""

import ast
from pathlib import Path

import sketchlearn

ROOT = Path(sketchlearn.__file__).parent
LEVELS = [
    {"accepts", "arrays", "exceptions", "files", "limits", "optional", "threads", "words"},
    {"kernels"},
    {"features"},
    {"sketches"},
    {"sources", "engines"},
    {"designs"},
    {"sketching"},
    {"models"},
    {"decoders"},
    {"comparison"},
    {"learn", "privacy", "federation", "local", "profiling"},
    {"atoms", "datasets", "plots", "theory"},
    {"store"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}


def _rooms_imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] + [f"{node.module}.{a.name}" for a in node.names if node.module == "sketchlearn"]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "sketchlearn" and len(parts) > 1:
                yield parts[1]


def test_imports_point_one_way():
    wrong = []
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        if relative.name == "__init__.py" and len(relative.parts) == 1:
            continue
        room = relative.parts[0].removesuffix(".py")
        for target in _rooms_imported(path):
            if target in LEVEL and LEVEL[target] > LEVEL[room]:
                wrong.append(f"{relative} imports {target}")
    assert not wrong


def test_every_room_has_a_level():
    rooms = {p.relative_to(ROOT).parts[0].removesuffix(".py") for p in ROOT.rglob("*.py")}
    assert rooms - {"__init__"} <= set(LEVEL)


def test_every_public_name_has_a_runnable_example():
    for name in sketchlearn.__all__:
        assert ">>>" in (getattr(sketchlearn, name).__doc__ or ""), name


MAPS = ("FeatureMap", "CharacteristicMap", "SecondMomentMap", "FourierFeatures", "QuadraticFeatures", "QuarticFeatures",
        "EmbeddedFeatures", "PairwiseFeatures", "CompletedFeatures", "SplitFeatures")  # fmt: skip


def test_nobody_asks_for_the_class_of_a_map():
    """A map says what it is (`as_characteristic`, …): a check of classes elsewhere shuts out maps of other kinds."""
    wrong = []
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] == "features":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                named = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in ast.walk(node)}
                if named & set(MAPS):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong
