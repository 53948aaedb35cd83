"""
A month of taxi trips: from nightly files to a report
=====================================================

A worked case on real rows: 6432 taxi trips in New York in March 2019, from the records that the city publishes.  Every
night one file arrives.  The job sketches it, compares it with the nights before, and keeps the sketch.  At the end of
the month, a table of sketches answers questions that nobody asked when the month began.

The same job as shell commands, with retries and alarms, is on the page *A nightly job*.
"""

import tempfile
from datetime import date
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import sketchlearn as sl

# %%
# One file per night
# ------------------
#
# The rows come as 31 CSV files.
data = next(place for place in (Path("data"), Path("examples/data")) if place.is_dir())
trips = pd.read_csv(data / "taxi-trips-2019-03.csv.gz")
folder = Path(tempfile.mkdtemp())
for day, rows in trips.groupby("day"):
    rows.to_csv(folder / f"{day}.csv", index=False)
print(len(list(folder.glob("*.csv"))), "files,", f"{len(trips):,} trips")
print(trips.head(3).to_string(index=False))

# %%
# Design the map once
# -------------------
#
# The first three nights serve as the pilot sample.  Minutes, miles and dollars have different units, so the map
# standardises the columns.
columns = ["minutes", "distance", "fare", "tip"]
pilot = pd.concat(pd.read_csv(folder / f"2019-03-0{i}.csv") for i in (1, 2, 3))[columns]
phi = sl.design(pilot, n_components=6, standardize=True, seed=0).with_columns(columns)
print(phi.size, "features of", len(columns), "columns")

# %%
# Every night
# -----------
#
# Sketch the new file, compare it with all nights before, keep the sketch.  Nothing else is kept.  Thirty tests at
# ``alpha=0.001`` raise a false alarm in about three months of a hundred.  Here one night goes wrong on purpose: on 20
# March the meter reports seconds instead of minutes.
nights, before = {}, None
for path in sorted(folder.glob("*.csv")):
    rows = pd.read_csv(path)
    if path.stem == "2019-03-20":
        rows["minutes"] *= 60
    tonight = sl.sketch(rows, phi)
    if before is not None and sl.compare(before, tonight).differs(alpha=0.001):
        print("alarm:", path.stem)
    else:
        before = tonight if before is None else before + tonight
        nights[path.stem] = tonight

# %%
# The bad night was never added, so there is nothing to clean up.  The corrected file is sketched and added.
nights["2019-03-20"] = sl.sketch(folder / "2019-03-20.csv", phi)
month = sl.merge(nights.values())
print(f"{month.count:,} trips in {len(month.to_bytes()):,} bytes")
assert month == sl.sketch(trips, phi)  # the bytes of one pass over all rows

# %%
# A question nobody had asked: are weekends different?
# ----------------------------------------------------
weekend = sl.merge(s for day, s in nights.items() if date.fromisoformat(day).weekday() >= 5)
weekdays = month - weekend
print(sl.compare(weekdays, weekend))

# %%
# Which kinds of trips are there?
# -------------------------------
#
# No number of clusters explains these rows down to the noise: taxi trips are not round clusters.  The centres are still
# close to those of k-means, and they make sense: short trips, longer trips, and two kinds of very long trips, with
# a tip and without.  (Tips are recorded only if they are paid by card.)
model = sl.CompressiveKMeans(4, random_state=0).fit_sketch(month)
kinds = pd.DataFrame(model.cluster_centers_, columns=columns).assign(share=model.weights_)
print(kinds.sort_values("share", ascending=False).round(2).to_string(index=False))
print("certified:", model.reliable_)

# %%
# This is an example, so the rows are still there.  How much more do the centres cost than those of k-means on all rows?
reference = KMeans(4, n_init=10, random_state=0).fit(trips[columns].to_numpy() / phi.spread)
print(f"cost over that of k-means on the rows: {-model.score(trips[columns]) / reference.inertia_:.3f}")

# %%
# Forget a night
# --------------
#
# Somebody asks to have 15 March deleted.  What remains is the sketch of the other nights, bit for bit.
rest = month - nights.pop("2019-03-15")
print(
    f"{rest.count:,} trips are left:", np.array_equal(rest.sums, sl.sketch(trips[trips.day != "2019-03-15"], phi).sums)
)

# %%
# A report
# --------
#
# One page for people who don't use Python, as a file that works offline.
page = folder / "report.html"
sl.plots.report(model, page)
print(page.name, page.stat().st_size // 1000, "kB")

sl.plots.centers(model)
plt.show()
