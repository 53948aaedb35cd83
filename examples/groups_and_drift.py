"""
One sketch per country, unions and a drift check
================================================

One pass over a folder of Parquet files makes one sketch per country.  After that, you no longer need the data to
combine and compare countries.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sketchlearn as sl

# %%
# Three days of measurements.  Italy's heights are 0.2 larger.
rng = np.random.default_rng(1)
folder = Path(tempfile.mkdtemp())
for day in range(3):
    rows = rng.normal(size=(20_000, 3)).astype(np.float32)
    country = rng.choice(["AT", "DE", "FR", "IT"], size=len(rows))
    rows[country == "IT", 0] += np.float32(0.2)
    columns = dict(zip(["height", "weight", "age"], rows.T, strict=True))
    pq.write_table(pa.table({**columns, "country": country}), folder / f"day{day}.parquet")

# %%
# One pass, a table of sketches in one file.
phi = sl.FourierFeatures.draw(dim=3, size=200, scale=1.5, seed=0).with_columns(["height", "weight", "age"])
table = sl.sketch(folder / "*.parquet", phi, group_by="country")
table.save(folder / "countries.sketches")
print(table)

# %%
# Later, on another machine: any union, any comparison.
table = sl.SketchTable.load(folder / "countries.sketches")
print("Germany and Austria together:", table.union(["DE", "AT"]).count, "rows")
print("Germany against France:", sl.compare(table["DE"], table["FR"]))
print("Germany against Italy: ", sl.compare(table["DE"], table["IT"]))

# %%
# All pairs.  The distance is the maximum mean discrepancy without the part that sampling noise explains.
names = sorted(table)
distances = np.array([[sl.compare(table[a], table[b]).distance if a != b else 0.0 for b in names] for a in names])
fig, axes = plt.subplots(figsize=(4.5, 4))
picture = axes.imshow(distances, cmap="Blues")
axes.set_xticks(range(4), names)
axes.set_yticks(range(4), names)
for i in range(4):
    for j in range(4):
        colour = "white" if distances[i, j] > 0.6 * distances.max() else "black"
        axes.text(j, i, f"{distances[i, j]:.3f}", ha="center", va="center", color=colour)
fig.colorbar(picture, label="distance (MMD)")
fig.tight_layout()
plt.show()
