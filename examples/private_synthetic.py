"""
Private synthetic data
======================

A hospital wants to give researchers rows to work with, but not the data of its patients.  It publishes one noisy
sketch.  A mixture learned from it can be sampled without limit.  Everything computed from the release has the same
differential privacy as the release itself.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(3)
centres = np.array([[120.0, 80.0], [150.0, 95.0], [105.0, 65.0]])  # blood pressures of three groups
shapes = np.array([[[60.0, 30.0], [30.0, 40.0]], [[150.0, 40.0], [40.0, 60.0]], [[40.0, 10.0], [10.0, 25.0]]])
group = rng.choice(3, 200_000, p=[0.6, 0.25, 0.15])
patients = centres[group] + np.einsum("nab,nb->na", np.linalg.cholesky(shapes)[group], rng.normal(size=(200_000, 2)))

# %%
# The map is made from publicly known bounds, without looking at any patient.
phi = sl.design(bounds=([40, 20], [260, 160]), n_components=5)

# %%
# The exact sketch never leaves the hospital.  Only the release does, with a record of its guarantee.
public = sl.privatize(sl.sketch(patients, phi), epsilon=1.0, delta=1e-6, public_map=True)
print(public.privacy.explain())

# %%
# Anybody can learn from it.  The decoder takes the size of the noise from the record.
model = sl.CompressiveGaussianMixture(3, random_state=0).fit_sketch(public)
print(model.verdict_)

# %%
# Synthetic patients have the distribution of the real ones.
synthetic = rng.permutation(model.sample(50_000)[0])
for name, rows in (("real", patients), ("synthetic", synthetic)):
    high = np.mean((rows[:, 0] > 140) | (rows[:, 1] > 90))
    print(f"{name:>9}: mean {rows.mean(0).round(2)}, correlation {np.corrcoef(rows.T)[0, 1]:.3f}, high {high:.1%}")

# %%
# Repeat with less and less privacy loss, to see where the noise becomes visible.
fig, panels = plt.subplots(1, 4, figsize=(13, 3.4), sharex=True, sharey=True)
panels[0].plot(*patients[:4000].T, ".", markersize=2, color="0.4")
panels[0].set_title("patients")
for axes, epsilon in zip(panels[1:], (1.0, 0.1, 0.01), strict=True):
    others = patients[rng.permutation(len(patients))[:150_000]]  # another release needs a budget of its own
    noisy = sl.privatize(sl.sketch(others, phi), epsilon=epsilon, delta=1e-6, public_map=True)
    learned = sl.CompressiveGaussianMixture(3, random_state=0).fit_sketch(noisy)
    axes.plot(*rng.permutation(learned.sample(4000)[0]).T, ".", markersize=2, color="C0")
    axes.set_title(f"synthetic, epsilon = {epsilon:g}")
fig.tight_layout()
plt.show()
