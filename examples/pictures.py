"""
Pictures and a report
=====================

Every picture is made from a model or a sketch, without the rows.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(5)
centers = 5 * rng.normal(size=(6, 4))
shares = [0.35, 0.25, 0.2, 0.12, 0.07, 0.01]
names = ["age", "income", "visits", "basket"]


def rows(n):
    return centers[rng.choice(6, n, p=shares)] + rng.normal(size=(n, 4))


phi = sl.design(rows(1000), n_components=10, seed=0).with_columns(names)
sketch = sl.sketch(rows(200_000), phi)

# %%
# How many clusters?  The misfit falls to the noise floor where the number is right.
table = sl.sweep(sketch, range(1, 11), random_state=0)
ax = sl.plots.sweep(table)

# %%
# Where are they?  Four columns are shown in the plane in which the decoded mixture varies most.
model = sl.CompressiveKMeans(table.recommended, random_state=0).fit_sketch(sketch)
ax = sl.plots.centers(model)

# %%
# How are the rows spread over two columns?
ax = sl.plots.density(model, columns=["age", "income"])

# %%
# Does the model explain the sketch?  Yes: at every scale, the misfit is at the level expected from sampling noise.
ax = sl.plots.residual(model)

# %%
# What does a decoder see after it has found only the three largest clusters?
mixture = model.solution_.mixture
order = np.argsort(mixture.weights)[::-1][:3]
found = sl.Mixture(mixture.weights[order], mixture.means[order], mixture.covariances[order])
ax = sl.plots.landscape(sketch, found, columns=["age", "income"])

# %%
# Since when is the data different?  From the seventh day on, the first column is shifted by a tenth of its standard
# deviation.
days = [sl.sketch(rows(20_000) + (day >= 6) * np.array([0.5, 0, 0, 0]), phi) for day in range(12)]
ax = sl.plots.drift(days, labels=[f"day {day + 1}" for day in range(12)])

# %%
# Everything on one page to share: ``report.html``, without any external links.
folder = Path("demo-output")
folder.mkdir(exist_ok=True)
page = sl.plots.report(model, folder / "report.html", title="Customers", sweep=table)
print(f"{folder / 'report.html'}: {len(page) / 1000:.0f} kB")
plt.show()
