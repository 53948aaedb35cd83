"""``sketchlearn merge``: add sketches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sketchlearn.cli.inputs import about, is_table, read_group, read_sketch
from sketchlearn.cli.options import Json, Output, option, verb
from sketchlearn.cli.outputs import check_output, emit, note, usage, write_bytes
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.sketches import Sketch


@verb("merge monday.sketch tuesday.sketch -o week.sketch", "merge days.parquet -g monday -g tuesday -o week.sketch")
def merge_(
    sketches: Annotated[list[str], typer.Argument(help="Sketches, or tables of sketches (.parquet).")],
    output: Output,
    group: Annotated[
        list[str] | None, option("Use only these groups of the tables; repeatable.", "--group", "-g")
    ] = None,
    users: Annotated[
        Literal["disjoint", "same"] | None,
        option("For private sketches: disjoint if nobody is in two of them, otherwise same."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add sketches. From tables, add all groups or those named by --group."""
    from sketchlearn.sketches import merge

    check_output(output, *sketches)
    if users is None:
        total = merge(s.tracked() for s in _fitting(sketches, group, merge))
    else:
        from sketchlearn.privacy import combine

        add = partial(combine, users=users)
        total = add(list(_fitting(sketches, group, add)))
    write_bytes(output, total.to_bytes())
    if output != "-":
        emit(
            {"output": output, "rows": total.count, "merged": len(sketches)},
            as_json,
            f"{output}: {counted(total.count, 'row')} from {counted(len(sketches), 'file')}",
        )


def _fitting(paths: list[str], groups: list[str] | None, add: Callable[[list[Sketch]], Sketch]) -> Iterator[Sketch]:
    """All sketches; the first that can't be added to the one before all others is an error that names both files."""
    from sketchlearn.sketches.checks import check_same_features

    first: tuple[str, Sketch] | None = None
    for path, s in _all(paths, groups):
        begin, head = first = first or (path, s)
        with about(f"{begin} and {path}"):
            check_same_features(head, s)
            if s is not head and (s.privacy is not None or head.privacy is not None):
                add([head, s])
        yield s


def _all(paths: list[str], groups: list[str] | None) -> Iterator[tuple[str, Sketch]]:
    from sketchlearn.sketches import SketchTable

    seen: list[Sketch] = []
    for path in paths:
        if is_table(path):
            if groups:
                yield from ((f"{path}, group {name}", read_group(path, name)) for name in groups)
            else:
                yield from ((f"{path}, group {name}", s) for name, s in SketchTable.load(path).items())
        elif groups:
            raise usage(f"--group is for tables of sketches, {path} is not one")
        else:
            found = read_sketch(path)
            if found in seen:
                note(f"warning: {path} is the same sketch as another input: its rows are counted twice")
            seen.append(found)
            yield path, found
