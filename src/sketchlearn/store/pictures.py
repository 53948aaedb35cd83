"""What the page of a store shows, as values of JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sketchlearn.comparison import distances
from sketchlearn.models import Model
from sketchlearn.store.periods import readable
from sketchlearn.store.query import Query
from sketchlearn.store.upkeep import Store

_MOST_PERIODS = 400  # on a timeline; longer ones need longer periods
_MOST_GROUPS = 500  # on a map
_MOST_CLUSTERS = 50


def _query(store: Store, dataset: str = "", since: str = "", until: str = "", where: str = "") -> Query:
    return store.query(dataset or None, since=since or None, until=until or None, where=where or None)


def datasets(store: Store) -> dict[str, Any]:
    """What is in the store."""
    out = {}
    for name, dataset in store.datasets().items():
        query = store.query(name)
        keys = query.cell_keys()
        starts, stops = [a for a, _, _ in keys if a is not None], [b for _, b, _ in keys if b is not None]
        values = {
            column: sorted({str(labels[i]) for _, _, labels in keys})[:_MOST_GROUPS]
            for i, column in enumerate(dataset.groups)
        }
        out[name] = {
            "columns": list(dataset.features.columns or ()), "dim": dataset.features.dim,
            "size": dataset.features.size, "every": dataset.every.text if dataset.every else None, "groups": values,
            "rows": query.count, "since": readable(min(starts)) if starts else None,
            "until": readable(max(stops)) if stops else None,
        }  # fmt: skip
    return {"place": store.backend.place, "datasets": out}


def timeline(store: Store, *, every: str = "", alpha: str = "0.01", **selection: str) -> dict[str, Any]:
    """Rows and p-values of each period against the one before, and change points."""
    query = _query(store, **selection)
    sketches = query.timeline(every or None)
    if len(sketches) > _MOST_PERIODS:
        raise ValueError(f"{len(sketches)} periods are too many for a picture: choose longer ones")
    usable = {label: s for label, s in sketches.items() if s.effective_count >= 2}
    found, points = {}, []
    if len(usable) > 1:
        from sketchlearn.comparison import changes
        from sketchlearn.store.watch import change_points

        found = {c.label: c for c in changes(usable, against="previous")}
        points = change_points(usable, float(alpha))
    return {
        "periods": [
            {"period": label, "rows": s.count, "p": found[label].p_value if label in found else None,
             "distance": found[label].distance if label in found else None}
            for label, s in sketches.items()
        ],
        "changes": [
            {"period": p.period, "p": p.p_value, "columns": [str(c) for c in p.columns[:5]]} for p in points
        ],
    }  # fmt: skip


def clusters(store: Store, *, k: str = "3", every: str = "", **selection: str) -> dict[str, Any]:
    """Clusters of each period with their identities, in the plane of their first two principal directions."""
    query = _query(store, **selection)
    found = query.clusters(_number(k), every=every or None)
    every_center = np.concatenate([c.centers for c in found])
    middle = every_center.mean(axis=0)
    axes = np.linalg.svd(every_center - middle, full_matrices=False)[2][:2]
    if len(axes) < 2:
        axes = np.concatenate([axes, np.zeros((2 - len(axes), axes.shape[1]))])
    return {
        "periods": [
            {
                "period": c.period, "born": list(c.born), "died": list(c.died),
                "clusters": [
                    {"id": number, "at": _plain((center - middle) @ axes.T), "share": float(weight),
                     "center": _plain(center)}
                    for number, center, weight in zip(c.identities, c.centers, c.weights, strict=True)
                ],
            }
            for c in found
        ]
    }  # fmt: skip


def compare(store: Store, *, since2: str = "", until2: str = "", where2: str = "", **selection: str) -> dict[str, Any]:
    """Two selections of one dataset."""
    from sketchlearn.comparison import moved_columns

    first = _query(store, **selection)
    second = _query(store, selection.get("dataset", ""), since2, until2, where2)
    found = first.compare(second)
    moved = moved_columns(first.sketch(), second.sketch())
    return {
        "distance": found.distance, "p": found.p_value, "rows": [float(n) for n in found.counts],
        "columns": [
            {"column": c.column, "shift": c.shift, "spread": None if math.isnan(c.spread) else c.spread, "p": c.p_value}
            for c in moved[:20]
        ],
    }  # fmt: skip


def groups(store: Store, *, by: str = "", **selection: str) -> dict[str, Any]:
    """Groups in the plane, near each other if their rows are alike (classical scaling of corrected distances)."""
    query = _query(store, **selection)
    table = {label: s for label, s in query.table(by or None).items() if s.effective_count >= 2}
    if len(table) > _MOST_GROUPS:
        raise ValueError(f"{len(table)} groups are too many for a picture")
    squares = distances(table, squared=True)
    n = len(squares)
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ squares @ centring)
    places = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    near = np.argsort(np.where(np.eye(n, dtype=bool), np.inf, squares), axis=1)
    names = [str(label) for label in table]
    return {
        "groups": [
            {"group": name, "at": _plain(places[i]), "rows": float(s.count),
             "nearest": [names[j] for j in near[i, : min(3, n - 1)].tolist()]}
            for i, (name, s) in enumerate(zip(names, table.values(), strict=True))
        ]
    }  # fmt: skip


def sketch_file(store: Store, **selection: str) -> bytes:
    """The sketch of a selection, as a file."""
    return _query(store, **selection).sketch().to_bytes()


def model_file(store: Store, *, k: str = "3", **selection: str) -> bytes:
    """Cluster centres of a selection, as a model file."""
    return str(_learned(store, k, selection).to_json()).encode()


def report_file(store: Store, *, k: str = "3", **selection: str) -> bytes:
    """A page about the clusters of a selection that works on its own."""
    from sketchlearn.plots import report

    chosen = " ".join(f"{name} {value}" for name, value in selection.items() if name != "dataset" and value)
    return report(_learned(store, k, selection), title=f"{k} clusters {chosen}".strip()).encode()


def _learned(store: Store, k: str, selection: dict[str, str]) -> Model:
    model: Model = _query(store, **selection).kmeans(_number(k), random_state=0).to_model()
    return model


def _number(k: str) -> int:
    if not k.isascii() or not k.isdigit() or not 1 <= int(k) <= _MOST_CLUSTERS:
        raise ValueError(f"the number of clusters must be from 1 to {_MOST_CLUSTERS}, got {k}")
    return int(k)


def _plain(values: Any) -> list[float]:
    return [round(float(v), 6) for v in values]


ANSWERS: dict[str, Callable[..., Any]] = {
    "datasets": datasets, "timeline": timeline, "clusters": clusters, "compare": compare, "groups": groups,
    "sketch": sketch_file, "model": model_file, "report": report_file,
}  # fmt: skip
