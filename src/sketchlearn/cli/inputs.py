"""What a verb is given: files by their first bytes, names and numbers in options."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sketchlearn
from sketchlearn.cli.outputs import usage
from sketchlearn.exceptions import Advice, ModelFileError, SketchFileError
from sketchlearn.limits import check, memory_limit, read_json

if TYPE_CHECKING:
    from sketchlearn.features.base import FeatureMap
    from sketchlearn.models import Model
    from sketchlearn.sketches import Sketch

_MOST = 1000  # numbers of components in a sweep


def names_in(columns: list[str] | None, option: str = "--columns") -> list[str] | None:
    """Column names from repeated, comma-separated options."""
    if not columns:
        return None
    # a name that holds a comma is put into double quotes
    names = [name.strip() for row in csv.reader(columns, skipinitialspace=True) for name in row]
    if not names or not all(names):
        raise usage(f"{option} {','.join(columns)!r} has an empty name")
    return names


def numbers_in(text: str) -> list[int]:
    """Numbers of components: ``2:12`` (both ends) or ``2,4,8``."""
    try:
        if ":" in text:
            low, high = (int(part) for part in text.split(":"))
            if high < low:
                raise usage(f"{text!r}: the first number is larger than the last one; write {high}:{low}")
            numbers = list(range(low, min(high, low + _MOST) + 1))
        else:
            numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1 or len(numbers) > _MOST:
        raise usage(f"{text!r}: write the numbers to try as 2:12 or 2,4,8, at most {_MOST} of them")
    return numbers


def is_table(path: str) -> bool:
    """Whether a file is a table of sketches (or other Parquet), by its first bytes."""
    if path == "-" or not Path(path).is_file():
        return False
    return head_of(path, 4) == b"PAR1"


def head_of(path: str, length: int = 16) -> bytes:
    """The first bytes of a file: what it is can be told without reading it."""
    with Path(path).open("rb") as file:
        return file.read(length)


def read_input() -> bytes:
    """All of standard input, up to the limit."""
    data = sys.stdin.buffer.read(memory_limit() // 2 + 1)
    check(2 * len(data), "standard input")
    return data


@contextmanager
def about(place: str) -> Iterator[None]:
    """A context in which errors name the files that they are about."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        if isinstance(error, Advice):
            raise type(error)(f"{place}: ", *error.parts) from None
        raise type(error)(f"{place}: {error}") from None


def read_sketch(path: str) -> Sketch:
    """A sketch from a file, or from standard input for ``-``."""
    if path == "-":
        return sketchlearn.Sketch.from_bytes(read_input())
    if is_table(path):
        raise SketchFileError(
            f"{path} is Parquet, not a sketch: for a table of groups, run 'sketchlearn merge {path} -o x.sketch'; "
            f"for rows, 'sketchlearn sketch {path} -o x.sketch'"
        )
    from sketchlearn.sketches.file import load

    if head_of(path).lstrip().startswith(b"{"):
        raise SketchFileError(f"{path}: not a sketch but a model or a feature map; give a sketch")
    return load(path)


def read_group(path: str, name: str) -> Sketch:
    """One group of a table of sketches, by its name in words."""
    table = sketchlearn.SketchTable.load(path)
    chosen = {str(label): label for label in table}
    if name not in chosen:
        some = ", ".join(list(chosen)[:5]) + (", ..." if len(chosen) > 5 else "")
        raise ValueError(f"{path} has no group {name!r}; it has {len(chosen)}: {some}")
    return table[chosen[name]]


def labelled_sketches(paths: Sequence[str]) -> Any:
    """Some sketches by the names of their files, or a table of groups as it is."""
    if len(paths) == 1 and is_table(paths[0]):
        return sketchlearn.SketchTable.load(paths[0])
    if list(paths).count("-") > 1:
        raise usage("standard input (-) can be read only once")
    names = [Path(path).stem for path in paths]
    names = names if len(set(names)) == len(names) else list(paths)
    from sketchlearn.sketches.checks import check_same_features

    found = [read_sketch(path) for path in paths]
    for path, s in zip(paths, found, strict=True):
        with about(f"{paths[0]} and {path}"):
            check_same_features(found[0], s)
    return dict(zip(names, found, strict=True))


def read_model(path: str) -> Model:
    """A model that `learn` wrote, from a file or from standard input for ``-``."""
    from sketchlearn.models import Model
    from sketchlearn.sketches.file import MAGIC

    if path == "-":
        return Model.from_json(read_input(), "standard input")
    if head_of(path).startswith(MAGIC):
        hint = f"learn one first, e.g. 'sketchlearn learn kmeans {path} -k 5 -o model.json'"
        raise ModelFileError(f"{path}: not a model but a sketch: {hint}")
    return Model.load(path)


def read_features(path: str) -> FeatureMap:
    """A feature map from a file that `design` wrote, or the one of a sketch."""
    from sketchlearn.models.loading import features_in
    from sketchlearn.sketches.file import MAGIC, load

    return load(path).features if head_of(path).startswith(MAGIC) else features_in(read_json(path), path)
