"""
Everything, end to end
======================

The main features on made-up data: design, sketch, merge, delete, save, choose k, cluster, fit a mixture, compute
principal components and a regression.  ``make demo`` runs it and leaves its picture in ``demo-output/``.
"""

from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.kernels import active_kernel

folder = Path("demo-output")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(0)

# %%
print("1. Data: 300 000 rows around 5 centres in 10 dimensions, in three parts")
centres = rng.normal(size=(5, 10)) * 5
parts = [centres[rng.integers(5, size=100_000)] + rng.normal(size=(100_000, 10)) for _ in range(3)]

# %%
print("2. Design: a feature map from a thousand pilot rows")
phi = sl.design(parts[0][:1000], n_components=10, seed=0)
print(f"   {phi.reason}")

# %%
print("3. Sketch each part on its own, as three machines would")
sketches = [sl.sketch(part, phi) for part in parts]
print(f"   kernel: {active_kernel()}")

# %%
print("4. Merge: the same bytes as one pass over all rows")
whole = sl.merge(sketches)
assert whole.to_bytes() == sl.sketch(np.vstack(parts), phi).to_bytes()

# %%
print("5. Take the second part out again, exactly")
without = whole - sketches[1]
assert np.array_equal(without.sums, (sketches[0] + sketches[2]).sums)

# %%
print("6. Save, load, and what a sketch knows:")
whole.save(folder / "all.sketch")
print(sl.load(folder / "all.sketch"))

# %%
print("7. Learn: how many clusters, and where?")
table = sl.sweep(whole, range(2, 9), random_state=0)
print(table)
model = sl.CompressiveKMeans(table.recommended, random_state=0).fit_sketch(whole)
print(f"   {model.solution_.verdict}")
rows = np.vstack(parts)
reference = KMeans(5, n_init=3, random_state=0).fit(rows)
print(f"   cost relative to k-means on all rows: {-model.score(rows) / reference.inertia_:.5f}")

# %%
print("8. A Gaussian mixture, for densities, anomaly scores and synthetic rows")
pilot = rows[rng.choice(len(rows), 2000, replace=False)]
mixture_sketch = sl.sketch(rows, sl.design(pilot, n_components=5, task="gmm", covariance_type="diag"))
mixture = sl.CompressiveGaussianMixture(5, covariance_type="diag", random_state=0).fit_sketch(mixture_sketch)
print(f"   log-likelihood per row {mixture.score(rows):.4f}. {mixture.verdict_}")

# %%
print("9. Principal components and a regression from one quadratic sketch")
second = sl.sketch(rows, sl.design(pilot, n_components=3, task="pca"))
pca = sl.CompressivePCA(3).fit_sketch(second)
print(f"   three components explain {pca.explained_variance_ratio_.sum():.1%} of the variance")
regression = sl.CompressiveLinearRegression().fit_sketch(second, targets=0)
print(f"   column 0 on the nine others: R² = {regression.r2_:.3f}")

# %%
print("10. A page to share, and a picture")
sl.plots.report(model, folder / "report.html", sweep=table)
print(f"   report: {folder / 'report.html'}")
try:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("   (no picture: matplotlib is not installed)")
else:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    sl.plots.centers(model, rows=rows[::150], ax=left)
    sl.plots.sweep(table, ax=right)
    figure.savefig(folder / "kmeans.png", dpi=100)
    print(f"   picture: {folder / 'kmeans.png'}")
