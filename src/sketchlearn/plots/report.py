"""One self-contained page about a model: tables, interactive pictures, light and dark, no network."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sketchlearn.decoders import Sweep
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.profile import covariance_of
from sketchlearn.decoders.sweep import EXPLAINED
from sketchlearn.learn.model import Model
from sketchlearn.plots.axes import COLORS
from sketchlearn.plots.geometry import Plane, as_model, column_units, components, plane_of
from sketchlearn.sketches import file as sketch_file

_MOST_NUMBERS = 200_000  # of covariances in a page; beyond it they are shown without correlations
_MOST_COLUMNS = 200  # of a table


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
    if path is not None and isinstance(model, str | os.PathLike) and Path(path).resolve() == Path(model).resolve():
        raise ValueError(f"{os.fsdecode(path)}: the report would replace its model")
    heading = title or learned.headline
    data: dict[str, Any] = {"task": learned.task, "columns": list(learned.columns), "colors": list(COLORS)}
    parts = [_header(learned, heading), _verdict(learned), _tiles(learned)]
    if learned.task in ("kmeans", "gmm", "stable"):
        parts += _components(learned, data)
    elif learned.task == "pca":
        parts.append(_pca(learned, data))
    else:
        parts.append(_regression(learned, data))
    if sweep is not None:
        parts.append(_sweep(sweep, data))
    if learned.profile is not None:
        parts.append(_residual(learned, data))
    parts += [_about(learned), _footer(learned)]
    page = Template(_asset("page.html")).substitute(
        title=escape(heading),
        version=escape(learned.library),
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


def _header(model: Model, heading: str) -> str:
    tasks = {
        "kmeans": "k-medians" if model.learned.get("criterion") == "medians" else "k-means",
        "gmm": "Gaussian mixture",
        "stable": "Mixture of stable laws",
        "pca": "Principal component analysis",
        "regression": "Linear regression",
    }
    return (
        f"<header><div><h1>{escape(heading)}</h1><p class='soft'>{tasks[model.task]}, learned from a sketch of "
        "the rows; no single row was looked at again or is contained in this page.</p></div>"
        "<button id='theme' title='light or dark'>Dark</button></header>"
    )


def _verdict(model: Model) -> str:
    words = model.learned.get("verdict")
    if not words:
        return ""
    good = bool(model.learned.get("reliable"))
    fine = "The sketch is good enough for this" if model.task == "pca" else "The model explains the data"
    title = fine if good else "Read with care"
    return f"<section class='verdict{' good' * good}'><h2>{title}</h2><p>{escape(words)}.</p></section>"


def _tiles(model: Model) -> str:
    learned = model.learned
    tiles = [(model.row_count, "rows"), (f"{len(model.columns):,}", "columns")]
    names = {"kmeans": "clusters", "pca": "components", "regression": "predictors"}
    tiles.append((f"{model.size:,}", names.get(model.task, "components")))
    if "inertia" in learned:
        what = "mean distance to the centre" if learned.get("criterion") == "medians" else "mean squared distance"
        units = ", columns in units of their spread" if "spread" in learned else ""
        tiles.append((_number(learned["inertia"]), f"{what} (estimated{units})"))
    if model.task == "pca":
        tiles.append((f"{learned['explained_variance_ratio'].sum():.1%}", "of the variance explained"))
    if "r2" in learned:
        tiles.append((f"{learned['r2']:.4f}", "R²"))
    if "ratio" in learned:
        tiles.append((_number(learned["ratio"]), "misfit / noise floor (near 1: explained)"))
    if "bytes" in model.sketch:
        tiles.append((_bytes(model.sketch["bytes"]), "size of the sketch"))
    return "<div class='tiles'>" + "".join(f"<div class='tile'><b>{escape(a)}</b><span>{escape(b)}</span></div>"
                                           for a, b in tiles) + "</div>"  # fmt: skip


def _components(model: Model, data: dict[str, Any]) -> list[str]:
    found = components(model)
    everything = model.mixture
    thing = "cluster" if model.task == "kmeans" else "component"
    data["thing"] = thing
    spread = np.sqrt(np.maximum(np.diag(covariance_of(everything or found)), 0.0))
    data["digits"] = [_decimals(s) for s in spread.tolist()]
    data["components"] = _light(found)
    data["mixture"] = None if everything is None else _light(everything)
    if len(model.columns) > 1:
        picture = _map(model, found, everything, data)
    else:
        picture = "<section><h2>Density</h2><div class='picture' id='curve'></div></section>"
    return [picture, _component_table(model, found, everything or found, thing)]


def _map(model: Model, found: Mixture, everything: Mixture | None, data: dict[str, Any]) -> str:
    if len(model.columns) > 2:
        plane = plane_of(found, model.columns, unit=column_units(model, found, None))
        data["plane"] = {
            "labels": list(plane.labels),
            "components": _in_plane(plane, found),
            "mixture": None if everything is None else _in_plane(plane, everything),
        }
    what = "two standard deviations" if model.task != "stable" else "scatter matrices (stable laws reach much farther)"
    hint = f"Outlines: {what}. Larger discs: more rows. Click one to find it in the table."
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


def _component_table(model: Model, found: Mixture, everything: Mixture, thing: str) -> str:
    names = model.columns[:_MOST_COLUMNS]
    mean = everything.mean
    spread = np.sqrt(np.maximum(np.diag(covariance_of(everything)), 1e-300))
    extra = [("alpha", model.learned["alphas"])] if model.task == "stable" else []
    head = [thing, "share", "rows (estimated)", *(name for name, _ in extra), *names]
    top = max(float(found.weights.max()), 1e-300)
    body = []
    for l, (weight, center) in enumerate(zip(found.weights, found.means, strict=True)):
        cells = [
            f"<td data-value='{l}'><span class='dot' style='background:{COLORS[l % len(COLORS)]}'></span>{l}</td>",
            _share(weight, weight / top),
            f"<td data-value='{weight * model.rows:.0f}'>{weight * model.rows:,.0f}</td>",
        ]
        cells += [f"<td data-value='{value[l]:.6g}'>{value[l]:.3f}</td>" for _, value in extra]
        for v, m, s in list(zip(center, mean, spread, strict=True))[: len(names)]:
            cells.append(_heat(v, (v - m) / s, _decimals(s)))
        body.append(f"<tr data-component='{l}' tabindex='0'>{''.join(cells)}</tr>")
    more = f" The first {_MOST_COLUMNS} columns are shown." if len(model.columns) > _MOST_COLUMNS else ""
    return (
        f"<section><h2>What makes each {thing} different</h2>"
        f"<p class='soft'>Centres in the units of the columns. Blue: above the mean of all rows, red: below; the "
        f"darker, the more standard deviations of the column. Click a heading to sort.{more}</p>"
        "<div class='controls'><button data-table='components'>Download CSV</button></div>"
        + _table("components", head, body)
        + "</section>"
    )


def _share(share: float, part: float) -> str:
    return f"<td class='share' style='--part:{100 * part:.1f}%' data-value='{share:.6g}'>{share:.2%}</td>"


def _heat(value: float, deviations: float, decimals: int) -> str:
    shade = "--above" if deviations > 0 else "--below"
    strength = min(abs(deviations) / 2.5, 1.0) * 0.55
    return (
        f"<td data-value='{value:.12g}' style='background:rgba(var({shade}),{strength:.2f})' "
        f"title='{deviations:+.2f} standard deviations'>{_fixed(value, decimals)}</td>"
    )


def _pca(model: Model, data: dict[str, Any]) -> str:
    learned = model.learned
    data["spectrum"] = {"variances": learned["explained_variance"], "shares": learned["explained_variance_ratio"]}
    shares = learned["explained_variance_ratio"]
    names = model.columns[:_MOST_COLUMNS]
    rows = []
    for i, (direction, variance) in enumerate(zip(learned["components"], learned["explained_variance"], strict=True)):
        unit = max(float(np.abs(direction).max()), 1e-300)
        cells = [
            f"<td data-value='{i + 1}'>{i + 1}</td>",
            f"<td data-value='{variance:.8g}'>{_number(variance)}</td>",
            _share(shares[i], shares[i]),
        ]
        cells += [_loading(v, v / unit) for v in direction[: len(names)]]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    table = _table("loadings", ["component", "variance", "share", *names], rows)
    return (
        "<section><h2>Spectrum</h2><div class='picture' id='spectrum'></div></section>"
        "<section><h2>Loadings</h2><p class='soft'>How much each column takes part in each component.</p>"
        f"<div class='controls'><button data-table='loadings'>Download CSV</button></div>{table}</section>"
    )


def _loading(value: float, part: float) -> str:
    shade = "--above" if part > 0 else "--below"
    return (
        f"<td data-value='{value:.8g}' style='background:rgba(var({shade}),{abs(part) * 0.55:.2f})'>{value:+.3f}</td>"
    )


def _regression(model: Model, data: dict[str, Any]) -> str:
    learned = model.learned
    coefficients, errors = learned["coefficients"], learned.get("standard_errors")
    spread = learned.get("predictor_spread")
    unit = np.ones(len(coefficients)) if spread is None else spread
    data["regression"] = {
        "axis": f"change of {learned['target']} per {'unit' if spread is None else 'standard deviation'}",
        "names": learned["predictors"],
        "coefficients": coefficients,
        "effects": coefficients * unit,
        "errors": np.zeros(len(unit)) if errors is None else errors * unit,
    }
    rows = []
    for i, name in enumerate(learned["predictors"]):
        cells = [f"<td>{escape(name)}</td>", _cell(coefficients[i])]
        if errors is not None:
            cells.append(_cell(errors[i]))
            cells.append(_cell(coefficients[i] / errors[i]) if errors[i] > 0 else "<td>\u2013</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = ["column", "coefficient"] + (["standard error", "t"] if errors is not None else [])
    return (
        "<section><h2>Effects</h2><div class='picture' id='coefficients'></div>"
        "<p class='soft'>Lines: two standard errors.</p></section>"
        f"<section><h2>Coefficients</h2><p class='soft'>Intercept: {_number(learned['intercept'])}</p>"
        "<div class='controls'><button data-table='table'>Download CSV</button></div>"
        + _table("table", head, rows)
        + "</section>"
    )


def _cell(value: float) -> str:
    return f"<td data-value='{value:.8g}'>{_number(value)}</td>"


def _sweep(sweep: Sweep, data: dict[str, Any]) -> str:
    data["sweep"] = {
        "recommended": sweep.recommended,
        "explained": EXPLAINED,
        "rows": [{"k": r.k, "ratio": float(r.ratio), "inertia": float(r.inertia)} for r in sweep],
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


def _about(model: Model) -> str:
    facts = model.sketch
    rows: list[tuple[str, str]] = []
    if "features" in facts:
        rows.append(("features", f"{facts['features']} ({facts.get('description', '')})"))
    if facts.get("fingerprint"):
        rows.append(("feature map", str(facts["fingerprint"])))
    if facts.get("noise_level") is not None:
        rows.append(("noise level", f"{facts['noise_level']:.3g} per feature, from the number of rows alone"))
    if facts.get("skipped"):
        rows.append(("skipped", f"{facts['skipped']:,} rows with missing or infinite values"))
    if model.learned.get("decoder"):
        rows.append(("decoder", str(model.learned["decoder"])))
    if isinstance(facts.get("lower"), list) and isinstance(facts.get("upper"), list):
        ranges = list(zip(model.columns, facts["lower"], facts["upper"], strict=False))
        shown = ", ".join(f"{name} {_number(a)} to {_number(b)}" for name, a, b in ranges[:20])
        rows.append(("ranges", shown + (", ..." if len(ranges) > 20 else "")))
    rows.append(("can't be told", "single rows, their order and time, columns that were not read"))
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in rows)
    return (
        "<section><h2>Where this comes from</h2><p class='soft'>One pass over the rows averaged random features of "
        "them into a sketch; everything here was computed from that sketch. Shares and distances are estimates.</p>"
        f"<dl>{listed}</dl></section>"
    )


def _footer(model: Model) -> str:
    return f"<footer>sketchlearn {escape(model.library)}. This page works offline and loads nothing.</footer>"


# -- small things --------------------------------------------------------------------------------


def _table(name: str, head: Sequence[str], rows: Iterable[str]) -> str:
    cells = "".join(
        f"<th scope='col' title='{escape(h, quote=True)}'><button class='head'>{escape(h)}</button></th>" for h in head
    )
    return (
        f"<div class='scroll'><table class='sortable' id='{name}'><thead><tr>{cells}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _light(mixture: Mixture) -> dict[str, Any]:
    """A mixture for the page; very many covariances lose their correlations."""
    s = mixture.covariances
    if s.ndim == 3 and s.size > _MOST_NUMBERS:
        s = np.diagonal(s, axis1=1, axis2=2)
    return {"weights": mixture.weights, "means": mixture.means, "covariances": s}


def _in_plane(plane: Plane, mixture: Mixture) -> dict[str, Any]:
    seen = plane.seen(mixture)
    return {"means": seen.means, "covariances": seen.covariances}


def _decimals(spread: float) -> int:
    """Decimals that tell a hundredth of the spread of a column."""
    return int(np.clip(2 - math.floor(math.log10(spread)), 0, 12)) if spread > 1e-12 else 3


def _fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if abs(value) < 1e15 else f"{value:.6g}"


def _number(value: float) -> str:
    if value != 0 and (abs(value) >= 1e7 or abs(value) < 1e-3):
        return f"{value:.3e}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _bytes(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1000:,.0f} kB"
