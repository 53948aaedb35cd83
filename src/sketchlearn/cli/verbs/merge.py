"""``sketchlearn merge``: add sketches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sketchlearn.cli.inputs import is_table, read_group, read_sketch
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
        total = merge(s.tracked() for s in _all(sketches, group))
    else:
        from sketchlearn.privacy import combine

        total = combine(list(_all(sketches, group)), users)
    write_bytes(output, total.to_bytes())
    if output != "-":
        emit(
            {"output": output, "rows": total.count, "merged": len(sketches)},
            as_json,
            f"{output}: {counted(total.count, 'row')} from {counted(len(sketches), 'file')}",
        )


def _all(paths: list[str], groups: list[str] | None) -> Iterator[Sketch]:
    from sketchlearn.sketches import SketchTable

    seen: list[Sketch] = []
    for path in paths:
        if is_table(path):
            if groups:
                yield from (read_group(path, name) for name in groups)
            else:
                yield from SketchTable.load(path).values()
        elif groups:
            raise usage(f"--group is for tables of sketches, {path} is not one")
        else:
            found = read_sketch(path)
            if found in seen:
                note(f"warning: {path} is the same sketch as another input: its rows are counted twice")
            seen.append(found)
            yield found
