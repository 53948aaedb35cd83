"""
Densities from sketches made elsewhere
======================================

Three sites have rows that must not leave them.  Each makes a sketch with the same recipe and sends only the sketch.  A
mixture learned from the sum gives anomaly scores for new rows, and synthetic data.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(1)
centres = rng.normal(size=(4, 5)) * 4
widths = np.exp(rng.uniform(-0.7, 0.7, size=(4, 5)))


def rows(n):
    """What a site sees in a day."""
    kind = rng.integers(4, size=n)
    return centres[kind] + rng.normal(size=(n, 5)) * widths[kind]


# %%
# One site designs the feature map from 2000 of its rows; the recipe is a few hundred bytes.
phi = sl.design(rows(2000), n_components=4, task="gmm", covariance_type="diag", seed=0)
print(phi)

# %%
# Every site sketches its own rows and sends a file.
folder = Path(tempfile.mkdtemp())
for site in range(3):
    sl.sketch(rows(50_000), phi).save(folder / f"site{site}.sketch")

# %%
# The sketches are merged, and a mixture is learned from the merged sketch alone.
merged = sl.merge(sl.load(path) for path in sorted(folder.glob("*.sketch")))
model = sl.CompressiveGaussianMixture(4, covariance_type="diag", random_state=0).fit_sketch(merged)
print(f"{merged.count:,} rows in {merged.nbytes:,} bytes")
print(model.verdict_)

# %%
# Anomalies: new rows whose log-density is below what 99.9 % of the model's own rows reach.
synthetic = rng.permutation(model.sample(20_000)[0])  # they come sorted by component
threshold = np.quantile(model.score_samples(synthetic), 0.001)
usual, strange = rows(10_000), rng.uniform(-20, 20, size=(100, 5))
print(f"flagged {np.mean(model.score_samples(usual) < threshold):.2%} of usual rows")
print(f"flagged {np.mean(model.score_samples(strange) < threshold):.0%} of strange rows")

# %%
# Synthetic rows have the moments of the real ones.
real = rows(20_000)
print(f"means differ by at most {np.abs(synthetic.mean(0) - real.mean(0)).max():.3f}")
print(f"deviations differ by at most {np.abs(synthetic.std(0) / real.std(0) - 1).max():.1%}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True)
for axes, sample, title in ((left, real, "rows of a site"), (right, synthetic, "rows drawn from the model")):
    axes.plot(*sample[:4000, :2].T, ".", markersize=2, color="C0", alpha=0.5)
    axes.set_title(title)
right.plot(*model.means_[:, :2].T, "x", color="C3", markersize=9, label="means")
right.legend()
fig.tight_layout()
plt.show()
