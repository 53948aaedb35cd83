"""
Principal components and regressions of a stream
================================================

One pass over a stream of rows; principal components and two regressions from the sketch alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
loadings = rng.normal(size=(4, 200))


def batches():
    """A stream: 200 sensors that four hidden factors drive."""
    for _ in range(20):
        factors = rng.normal(size=(1000, 4)) * [3.0, 2.0, 1.5, 1.0]
        yield factors @ loadings + 0.5 * rng.normal(size=(1000, 200)) + 10.0


# %%
# 200 columns have 20 100 products; a compressed sketch for up to five components keeps 8000 numbers.
phi = sl.QuadraticFeatures.draw(dim=200, size=8 * 5 * 200, seed=0)
sketch = sl.sketch(batches(), phi)
print(sketch)

# %%
# How many components stand out, and how much do they explain?
pca = sl.CompressivePCA(n_components="auto", random_state=0).fit_sketch(sketch)
print(f"{pca.n_components_} components explain {pca.explained_variance_ratio_.sum():.1%} of the variance")
print(pca.solution_.verdict)

rows = next(batches())
scores = pca.transform(rows)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
left.bar(range(1, pca.n_components_ + 1), pca.explained_variance_ratio_)
left.set_xlabel("component")
left.set_ylabel("share of the variance")
left.set_xticks(range(1, pca.n_components_ + 1))
right.plot(*scores[:, :2].T, ".", markersize=3)
right.set_xlabel("first component")
right.set_ylabel("second component")
fig.tight_layout()
plt.show()

# %%
# All products of a few columns: regression of any column on any others, as exact as from the rows.
table = sl.sketch(rows[:, :6], sl.QuadraticFeatures.draw(dim=6))
for target, predictors in ((0, [1, 2]), (5, [0, 1, 2, 3, 4])):
    reg = sl.CompressiveLinearRegression().fit_sketch(table, targets=target, predictors=predictors)
    terms = ", ".join(f"{c:+.3f} ± {e:.3f}" for c, e in zip(reg.coef_, reg.standard_errors_, strict=True))
    print(f"column {target} on {predictors}: {terms}; R² = {reg.r2_:.3f}")
