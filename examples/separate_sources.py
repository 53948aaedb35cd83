"""
Sources behind mixed signals
============================

Three signals are recorded by three sensors, and each sensor picks up all three. One pass over the recordings keeps sums
of powers of a few projections. The signals are separated from these sums.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
time = np.arange(20_000) / 100
wave, saw = np.sin(3 * time), (1.3 * time) % 2.0
signals = np.column_stack([wave, saw, rng.laplace(size=len(time))])
recorded = signals @ rng.normal(size=(3, 3)).T

# %%
# Add batches as they arrive; only one sketch is kept.
ica = sl.CompressiveICA(random_state=0)
for batch in np.array_split(rng.permutation(recorded), 10):
    ica.partial_fit(batch)
print(ica.sketch_)
print(ica.verdict_)

# %%
# What was found, up to order and sign.
found = ica.transform(recorded)
match = np.abs(np.corrcoef(found.T, signals.T)[:3, 3:])
print(match.round(3))
fig, axes = plt.subplots(3, 2, sharex=True)
for i in range(3):
    axes[i, 0].plot(time[:1000], recorded[:1000, i], linewidth=0.8)
    axes[i, 1].plot(time[:1000], found[:1000, i], linewidth=0.8)
axes[0, 0].set_title("recorded")
axes[0, 1].set_title("separated")
