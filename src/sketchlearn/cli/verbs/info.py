"""``sketchlearn info``: show what is in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli.inputs import head_of, read_input
from sketchlearn.cli.options import Json, verb
from sketchlearn.cli.outputs import emit, usage
from sketchlearn.exceptions import SketchFileError
from sketchlearn.words import one_line

if TYPE_CHECKING:
    from sketchlearn.models import Model
    from sketchlearn.sketches import Sketch

_CANNOT = "single rows, which rows have the smallest or largest values, order and time of rows, columns not read"


@verb("info all.sketch")
def info(
    path: Annotated[str, typer.Argument(help="Sketch, table, map, model or checkpoint; - for standard input.")],
    as_json: Json = False,
) -> None:
    """Show what is in a file: rows, columns, features, noise, value ranges."""
    from sketchlearn.engines.checkpoint import MAGIC as CHECKPOINT
    from sketchlearn.engines.checkpoint import read_checkpoint
    from sketchlearn.limits import read_json
    from sketchlearn.sketches import SketchTable
    from sketchlearn.sketches import file as sketch_file

    data = read_input() if path == "-" else b""
    head = data[:4096] if path == "-" else head_of(path, 4096)
    name = "standard input" if path == "-" else path
    if head.startswith(sketch_file.MAGIC):
        facts, text = _of_sketch(sketch_file.decode(data, name) if path == "-" else sketch_file.load(path))
    elif head.startswith(CHECKPOINT) and path == "-":
        raise usage("a checkpoint is read from its file, not from standard input")
    elif head.startswith(CHECKPOINT):
        point = read_checkpoint(path)
        facts = {
            "kind": "checkpoint",
            "rows": point.rows,
            "files": [mark.rsplit(" ", 2)[0] for mark in point.files],
            "settings": point.settings,
        }
        text = None
    elif head.startswith(b"PAR1"):
        table = SketchTable.from_bytes(data, name) if path == "-" else SketchTable.load(path)
        counts = {str(k): v for k, v in table.counts.items()}
        facts = {"kind": "table", "groups": len(table), "rows": sum(counts.values()), "counts": counts}
        largest = sorted(counts.items(), key=lambda kv: -kv[1])[:20]
        text = repr(table) + "\n" + "\n".join(f"  {one_line(k)}  {v:,}" for k, v in largest)
        text += f"\n  ... and {len(counts) - 20} more" if len(counts) > 20 else ""
    elif head.lstrip().startswith(b"{"):
        facts, text = _of_json(data if path == "-" else read_json(path), name)
    else:
        raise SketchFileError(f"{name}: not a sketch, a table of sketches, a feature map, a model or a checkpoint")
    emit(facts, as_json, text)


def _of_json(data: bytes, name: str) -> tuple[dict[str, Any], str]:
    from sketchlearn.limits import check_json
    from sketchlearn.models import Model
    from sketchlearn.models.loading import features_in, is_model

    check_json(len(data), name)
    if is_model(data):
        return _of_model(Model.from_json(data, name))
    phi = features_in(data, name)
    labels = {"purpose": "designed for", "reason": "map", "provenance": "chosen from"}
    why = {labels[name]: text for name, text in phi.words.items()}
    width = max(map(len, why), default=0)
    said = [repr(phi), f"  {phi.describe()}", *(f"  {k:<{width}}  {one_line(text)}" for k, text in why.items())]
    return {"kind": "features", **json.loads(phi.recipe_json()), **phi.words}, "\n".join(said)


def _of_model(model: Model) -> tuple[dict[str, Any], str]:
    facts: dict[str, Any] = {"kind": "model", "task": model.task, "rows": model.rows, "columns": list(model.columns)}
    short = model.summary()
    lines = {"model": f"{model.task}: {model.headline}"}
    lines |= {k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in short.items()}
    lines["features"] = model.sketch.get("description", "unknown")
    width = max(map(len, lines))
    text = "\n".join(f"{k:<{width}}  {one_line(v)}" for k, v in lines.items()) + "\n" + model.table().text()
    if model.privacy is not None:
        text += f"\n\n{model.privacy.explain()}"
    return {**facts, **short, "sketch": dict(model.sketch)}, text


def _of_sketch(s: Sketch) -> tuple[dict[str, Any], str | None]:
    columns = s.features.columns
    facts: dict[str, Any] = {
        "kind": "sketch",
        "rows": s.count,
        "effective_rows": s.effective_count,
        "skipped": s.skipped,
        "private": None if s.privacy is None else s.privacy.to_json(),
        "columns": list(columns) if columns else s.features.dim,
        "features": json.loads(s.features.recipe_json()),
        "fingerprint": s.features.fingerprint,
        "map": s.features.words,
        "bytes": s.nbytes,
        "lower": s.lower.tolist() if s.has_box else None,
        "upper": s.upper.tolist() if s.has_box else None,
        "noise_level": s.noise_level if s.weight else None,
        "nsr": s.nsr if s.nsr < float("inf") else None,
    }
    shown = s.summary()
    if columns and s.features.projection is None:
        some = ", ".join(map(one_line, columns[:12])) + (", ..." if len(columns) > 12 else "")
        shown["columns"] = f"{len(columns)}: {some}"
    spread = getattr(s.features, "spread", None)
    if spread is not None:
        names = columns or [f"column {i}" for i in range(len(spread))]
        some = ", ".join(f"{one_line(name)} / {v:.4g}" for name, v in list(zip(names, spread, strict=True))[:12])
        shown["standardised"] = some + (", ..." if len(spread) > 12 else "")
    facts["standardised"] = None if spread is None else spread.tolist()
    shown["can't tell"] = _CANNOT
    width = max(map(len, shown))
    text = "\n".join(f"{k:<{width}}  {one_line(v)}" for k, v in shown.items())
    return facts, text if s.privacy is None else f"{text}\n\n{s.privacy.explain()}"
