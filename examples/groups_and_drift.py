"""One pass over a folder of files, one sketch per country, then unions and a drift check without the data."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sketchlearn as sl

rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for day in range(3):
        rows = rng.normal(size=(20_000, 3)).astype(np.float32)
        country = rng.choice(["DE", "FR", "IT"], size=len(rows))
        rows[country == "IT", 0] += np.float32(0.2)
        columns = dict(zip(["height", "weight", "age"], rows.T, strict=True))
        pq.write_table(pa.table({**columns, "country": country}), folder / f"day{day}.parquet")

    phi = sl.FourierFeatures.draw(dim=3, size=200, scale=1.5, seed=0).with_columns(["height", "weight", "age"])
    table = sl.sketch(folder / "*.parquet", phi, group_by="country")
    table.save(folder / "countries.parquet")

    table = sl.SketchTable.load(folder / "countries.parquet")
    print(table)
    print("Germany and France together:", table.union(["DE", "FR"]).count, "rows")
    print("Germany against France:", sl.compare(table["DE"], table["FR"]))
    print("Germany against Italy: ", sl.compare(table["DE"], table["IT"]))
