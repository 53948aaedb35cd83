"""
Months of sketches
==================

A store keeps a sketch for each day and shop.  The rows are gone, and still any week of any shops can be clustered,
compared and watched, and one file can be forgotten exactly.
"""

# %%
# Sixty days of two shops; the south begins to sell something new on day 40.

import tempfile
from pathlib import Path

import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
centers = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 8.0]])
store = sl.Store(Path(tempfile.mkdtemp()) / "sketches.duckdb")
phi = sl.FourierFeatures.draw(dim=2, size=100, scale=3.0, seed=0).with_columns(["price", "weight"])
days, shops, rows = [], [], []
for day in range(60):
    for shop in ("north", "south"):
        kinds = 3 if shop == "south" and day >= 40 else 2
        rows.append(centers[rng.integers(0, kinds, 500)] + rng.normal(size=(500, 2)))
        days += [np.datetime64("2024-03-01") + day] * 500
        shops += [shop] * 500
done = store.ingest(
    np.concatenate(rows), phi, time=np.array(days), every="1d", group_by={"shop": shops}, source="spring"
)
print(f"{done.rows:,} rows are {done.cells} cells, {store.backend.size() / 1e6:.1f} MB")

# %%
# Which shop changed, and when?

for shop in ("north", "south"):
    print(
        shop,
        [(point.period, f"p = {point.p_value:.1g}") for point in store.query(where={"shop": shop}).change_points()],
    )

# %%
# Clusters keep their identities from week to week; the new one is a birth.

for week in store.query(where={"shop": "south"}).clusters(None, every="1w"):
    print(week.period, "clusters", sorted(week.identities), "born", week.born, "died", week.died)

# %%
# How well do the centres of March explain April?

march = store.query(since="2024-03-01", until="2024-04-01").kmeans(2, random_state=0)
for month, sketch in store.query().timeline("1mo").items():
    print(month, sl.score(sketch, march))

# %%
# How far each week is from the first, in the shop that changed
picture = sl.plots.drift(store.query(where={"shop": "south"}).timeline("1w"))
