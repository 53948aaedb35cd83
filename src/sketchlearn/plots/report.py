"""One self-contained page about a model: tables, interactive pictures, light and dark, no network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sketchlearn.decoders import Code, Sweep
from sketchlearn.models import Column, Model, Table
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.table import decimals, number
from sketchlearn.plots.axes import COLORS
from sketchlearn.plots.geometry import Plane, as_model, column_units, plane_of
from sketchlearn.sketches import file as sketch_file

_MOST_NUMBERS = 200_000  # of covariances in a page; beyond it they are shown without correlations
_MOST_COLUMNS = 2000  # of a table
_WIDE = 12  # columns from which on a table has to be scrolled


def report(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    sweep: Sweep | None = None,
) -> str:
    """Write a report about a model: one HTML file that needs no network and no other file.

    Parameters
    ----------
    model : estimator, Model or path
        Any learned model.
    path : path, optional
        Where to write the page; without it the page is only returned.
    title : str, optional
        Heading; by default what the model is.
    sweep : Sweep, optional
        Adds the choice of the number of components, from :func:`sketchlearn.sweep`.

    Returns
    -------
    str
        The page.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> page = sl.plots.report(sl.CompressiveKMeans(2, random_state=0).fit(X))
    >>> "2 clusters of 5,000 rows" in page, "http-equiv" in page
    (True, True)
    """
    learned = as_model(model)
    if sweep is not None and learned.privacy is not None and sweep.privacy != learned.privacy:
        raise ValueError(
            "the model was learned from a private sketch, the sweep was not: the guarantee on the page would not "
            "cover the sweep"
        )
    if sweep is not None and learned.reliable:
        sweep = sweep.knowing(learned.size)
    if path is not None and isinstance(model, str | os.PathLike) and Path(path).resolve() == Path(model).resolve():
        raise ValueError(f"{os.fsdecode(path)}: the report would overwrite its model")
    heading = title or learned.headline
    data: dict[str, Any] = {"task": learned.task, "columns": list(learned.columns), "colors": list(COLORS)}
    below = f"{learned.title}, learned from a sketch of the rows; no row was looked at again or is in this page."
    parts = [header(heading, below), _verdict(learned), _tiles(learned)]
    table = learned.table()
    if table.marked:
        parts.append(_parts(learned, data))
    data |= learned.pictures()
    parts += [_PICTURES[name] for name in learned.pictures()]
    parts.append(table_of(table))
    if sweep is not None:
        parts.append(_sweep(sweep, data))
    if learned.profile is not None:
        parts.append(_residual(learned, data))
    parts += [_decisions(learned), _promise(learned), _about(learned), footer(learned.library)]
    return page_of(heading, parts, data, learned.library, path)


def page_of(
    heading: str, parts: list[str], data: dict[str, Any], library: str, path: str | os.PathLike[str] | None
) -> str:
    """The page of some parts, which is written to a path if there is one."""
    page = Template(_asset("page.html")).substitute(
        title=escape(heading),
        version=escape(library),
        style=_asset("style.css"),
        script=_asset("script.js"),
        body="\n".join(part for part in parts if part),
        data=_embedded(data),
    )
    if path is not None:
        sketch_file.write(path, page.encode())
    return page


def _asset(name: str) -> str:
    return (resources.files("sketchlearn.plots") / "web" / name).read_text("utf-8")


def _embedded(data: Any) -> str:
    """JSON that can stand inside a script element, whatever the names of columns are."""
    text = json.dumps(_rounded(data), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rounded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


# -- parts of the page -------------------------------------------------------------------------


def header(heading: str, below: str) -> str:
    """Heading of a page, and a line below it."""
    return (
        f"<header><div><h1>{escape(heading)}</h1><p class='soft'>{escape(below)}</p></div>"
        "<button id='theme' title='light or dark'>Dark</button></header>"
    )


def _verdict(model: Model) -> str:
    if not model.verdict:
        return ""
    good = bool(model.reliable) or model.code is Code.GOOD
    title = model.praise if model.reliable else "Near the best" if good else "Read with care"
    said = escape(model.verdict.removesuffix("."))
    return f"<section class='verdict{' good' * good}'><h2>{escape(title)}</h2><p>{said}.</p></section>"


def _tiles(model: Model) -> str:
    tiles = model.numbers()
    if "bytes" in model.sketch:
        tiles.append((_bytes(model.sketch["bytes"]), "size of the sketch"))
    return tiles_of(tiles)


def tiles_of(tiles: Iterable[tuple[str, str]]) -> str:
    """Numbers in large letters, each with what it is."""
    shown = (f"<div class='tile'><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in tiles)
    return "<div class='tiles'>" + "".join(shown) + "</div>"


_PICTURES = {
    "spectrum": "<section><h2>Spectrum</h2><div class='picture' id='spectrum'></div></section>",
    "eigenvalues": (
        "<section><h2>Eigenvalues of the graph</h2><div class='picture' id='eigenvalues'></div>"
        "<p class='soft'>Of the normalised Laplacian: as many small ones as there are clusters, then a gap.</p>"
        "</section>"
    ),
    "regression": (
        "<section><h2>Effects</h2><div class='picture' id='coefficients'></div>"
        "<p class='soft'>Lines: two standard errors.</p></section>"
    ),
}


def _parts(model: Model, data: dict[str, Any]) -> str:
    """The components of a mixture, and the density if there is one."""
    found, everything = model.parts(), model.mixture
    data["thing"] = model.thing.split()[-1]
    spread = np.sqrt(np.maximum(np.diag((everything or found).covariance), 0.0))
    data["digits"] = [decimals(s) for s in spread.tolist()]
    data["components"] = _light(found)
    data["mixture"] = None if everything is None else _light(everything)
    if len(model.columns) == 1:
        return "<section><h2>Density</h2><div class='picture' id='curve'></div></section>"
    if len(model.columns) > 2:
        plane = plane_of(found, model.columns, unit=column_units(model, found, None))
        data["plane"] = {
            "labels": list(plane.labels),
            "components": _in_plane(plane, found),
            "mixture": None if everything is None else _in_plane(plane, everything),
        }
    hint = f"Outlines: {model.outlines}. Larger discs: more rows. Click one to find it in the table."
    if everything is None:
        density = "<input type='checkbox' id='show-density' hidden>"
    else:
        density = "<label><input type='checkbox' id='show-density' checked> density</label>"
    return (
        "<section><h2>Map</h2><div class='controls'><label>across <select id='axis-x'></select></label>"
        f"<label>up <select id='axis-y'></select></label>{density}"
        "<label><input type='checkbox' id='show-outlines' checked> outlines</label></div>"
        f"<div class='picture' id='map'></div><p class='soft'>{hint}</p></section>"
    )


def _sweep(sweep: Sweep, data: dict[str, Any]) -> str:
    data["sweep"] = {
        "recommended": sweep.recommended,
        "rows": [
            {"k": r.k, "ratio": float(r.ratio), "inertia": float(r.inertia), "reliable": r.code == Code.RELIABLE}
            for r in sweep
        ],
    }
    return (
        f"<section><h2>How many?</h2><p>Recommended: {sweep.recommended} ({escape(sweep.reason)}).</p>"
        "<div class='picture' id='sweep'></div></section>"
    )


def _residual(model: Model, data: dict[str, Any]) -> str:
    assert model.profile is not None
    richer = ""
    if model.behind != "model":
        richer = f" Drawn for the {model.behind}."
    data["profile"] = {name: getattr(model.profile, name) for name in vars(model.profile)}
    return (
        "<section><h2>Does the model explain the sketch?</h2><p class='soft'>Where the misfit lies on the noise floor, "
        "the model explains all that the sketch knows. Above it at small radii something large is missing; above it at "
        f"large radii only, the fine shape of the clusters is not what the model says.{richer}</p>"
        "<div class='picture' id='residual'></div></section>"
    )


def _decisions(model: Model) -> str:
    """How the decoder came to the model, folded."""
    if not model.trace:
        return ""
    told = "".join(f"<p>{escape(line)}</p>" for line in model.explain().splitlines()[1:])
    return f"<section><details><summary>How the decoder came to this</summary>{told}</details></section>"


def _promise(model: Model) -> str:
    """What a private release promises, in the words of its record."""
    if model.privacy is None:
        return ""
    said = "".join(f"<p>{escape(line)}</p>" for line in model.privacy.sentences())
    return f"<section><h2>What is promised to the people in the data</h2>{said}</section>"


def _about(model: Model) -> str:
    facts = model.sketch
    rows: list[tuple[str, str]] = []
    if "features" in facts:
        rows.append(("features", f"{facts['features']} ({facts.get('description', '')})"))
    if facts.get("fingerprint"):
        rows.append(("feature map", str(facts["fingerprint"])))
    if facts.get("noise_level") is not None:
        cause = "from the number of rows alone" if model.privacy is None else "sampling error and noise of the release"
        rows.append(("noise level", f"{facts['noise_level']:.3g} per feature, {cause}"))
    if facts.get("skipped"):
        rows.append(("skipped", f"{facts['skipped']:,} rows with missing or infinite values"))
    if model.decoder:
        rows.append(("decoder", model.decoder))
    if isinstance(facts.get("lower"), list) and isinstance(facts.get("upper"), list):
        ranges = list(zip(model.columns, facts["lower"], facts["upper"], strict=False))
        shown = ", ".join(f"{name} {number(a)} to {number(b)}" for name, a, b in ranges[:20])
        rows.append(("ranges", shown + (", ..." if len(ranges) > 20 else "")))
    rows.append(("can't be told", "single rows, their order and time, columns that were not read"))
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in rows)
    return (
        "<section><h2>Where this comes from</h2><p class='soft'>One pass over the rows averaged random features of "
        "them into a sketch; everything here was computed from that sketch. Shares and distances are estimates.</p>"
        f"<dl>{listed}</dl></section>"
    )


def footer(library: str) -> str:
    """Last line of a page."""
    return f"<footer>sketchlearn {escape(library)}. This page works offline and loads nothing.</footer>"


# -- small things --------------------------------------------------------------------------------


def table_of(table: Table) -> str:
    """A table that can be sorted and downloaded."""
    shown = table.columns[:_MOST_COLUMNS]
    more = f" {len(shown)} columns: scroll to the right for the others." if len(shown) > _WIDE else ""
    if len(table.columns) > _MOST_COLUMNS:
        more += f" The first {_MOST_COLUMNS} of {len(table.columns)} are shown."
    head = "".join(
        f"<th scope='col' title='{escape(c.name, quote=True)}'><button class='head'>{escape(c.name)}</button></th>"
        for c in shown
    )
    body = []
    for i in range(len(table)):
        cells = "".join(_cell(column, i, table.marked and j == 0) for j, column in enumerate(shown))
        body.append(f"<tr data-component='{i}'>{cells}</tr>" if table.marked else f"<tr>{cells}</tr>")
    note = f"<p class='soft'>{escape(table.note)}{more}</p>" if table.note or more else ""
    return (
        f"<section><h2>{escape(table.title)}</h2>{note}"
        f"<div class='controls'><button data-table='{table.name}'>Download CSV</button></div>"
        f"<div class='scroll'><table class='sortable' id='{table.name}'><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _cell(column: Column, row: int, dotted: bool) -> str:
    value = column.values[row]
    if value is None:
        return "<td>\u2013</td>"
    if column.kind == "text":
        dot = f"<span class='dot' style='background:{COLORS[row % len(COLORS)]}'></span>" if dotted else ""
        raw = "" if isinstance(value, str) else f" data-value='{value}'"
        shown = f"{dot}{escape(str(value))}"
        if dotted:
            shown = f"<button class='pick' data-choose='{row}' aria-pressed='false'>{shown}</button>"
        return f"<td{raw}>{shown}</td>"
    if column.kind == "share":
        largest = float(np.max(column.values))
        part = 100 * min(max(value / largest, 0.0), 1.0) if largest > 1e-100 else 0.0
        return f"<td class='share' style='--part:{part:.1f}%' data-value='{value:.6g}'>{value:.2%}</td>"
    if column.kind == "count":
        return f"<td data-value='{value:.0f}'>{value:,.0f}</td>"
    style = title = ""
    if column.shades is not None:
        shade = float(column.shades[row])
        side = "--above" if shade > 0 else "--below"
        style = f" style='background:rgba(var({side}),{abs(shade) * 0.55:.2f})'"
    if column.notes is not None:
        title = f" title='{escape(column.notes[row], quote=True)}'"
    text = number(value) if column.decimals is None else _fixed(value, column.decimals)
    return f"<td data-value='{value:.12g}'{style}{title}>{text}</td>"


def _light(mixture: Mixture) -> dict[str, Any]:
    """A mixture for the page; very many covariances lose their correlations."""
    s = mixture.covariances
    if s.ndim == 3 and s.size > _MOST_NUMBERS:
        s = np.diagonal(s, axis1=1, axis2=2)
    return {"weights": mixture.weights, "means": mixture.means, "covariances": s}


def _in_plane(plane: Plane, mixture: Mixture) -> dict[str, Any]:
    seen = plane.seen(mixture)
    return {"means": seen.means, "covariances": seen.covariances}


def _fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if abs(value) < 1e15 else f"{value:.6g}"


def _bytes(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1000:,.0f} kB"
