"""Histograms of single columns, for synthetic rows that look like them."""

from __future__ import annotations

from sketchlearn.designs.request import Request, register_design
from sketchlearn.features.histogram import CELLS, HistogramFeatures


def _from_request(request: Request) -> tuple[HistogramFeatures, str]:
    request.refuse("scale", "radial", "covariance_type", why="has neither a scale nor a shape")
    cells = request.size or CELLS
    if request.bounds is not None:
        return HistogramFeatures.draw(
            *request.box(), cells=cells
        ), f"{cells} cells between public bounds, no row looked at"
    rows = request.rows()
    lower, upper = (rows.min(0), rows.max(0)) if request.looked_at is None else request.looked_at
    constant = lower >= upper
    phi = HistogramFeatures.draw(lower - 0.5 * constant, upper + 0.5 * constant, cells=cells)
    return phi, f"{cells} cells between the ends of {len(rows)} pilot rows"


register_design("columns", size=lambda k, d, shape: CELLS, projects=False, outliers=False)(_from_request)
