"""
Spikes from low frequencies
===========================

A lens passes only low frequencies.  It shows point sources on a line as blurred hills, and two points that are closer
than about half a wavelength become one.  What it passes are averages of ``exp(2 pi i f x)`` over the photons, for f =
1, 2, ..., F.  This is a sketch whose frequencies were not drawn at random.  Decoding it for a few points finds them far
below the width of a hill: the sparse-spikes problem and the decoding of centres are the same problem.
"""

# %%
# Six sources on the unit interval, which move slightly, emit 200 000 photons.  Two pairs are closer than half of the
# shortest of 12 waves.  The map is an ordinary one, except that its frequencies are given: whole numbers of waves, in
# half-turns.
import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

WAVES = 12
places = np.array([0.12, 0.15, 0.40, 0.62, 0.65, 0.88])
brightness = np.array([0.20, 0.15, 0.20, 0.15, 0.20, 0.10])
rng = np.random.default_rng(0)
photons = rng.choice(places, size=(200_000, 1), p=brightness) + 0.001 * rng.normal(size=(200_000, 1))


def lens(waves):
    """A map of the averages that so many waves are."""
    frequencies = 2.0 * np.arange(1, waves + 1, dtype=np.float32)[:, None]
    return sl.FourierFeatures.draw(dim=1, size=waves, scale=0.1).with_random_array(frequencies)


seen = sl.sketch(photons, lens(WAVES))
print(f"{seen.count:,} photons, {WAVES} waves, half of the shortest {0.5 / WAVES:.3f}; pairs are 0.030 apart")

# %%
# What the lens shows: the sum of the waves, and the hill that a single source makes.
x = np.linspace(0.0, 1.0, 2001)
waves = np.exp(-2j * np.pi * np.outer(x, np.arange(1, WAVES + 1)))
image = (1.0 + 2.0 * (waves @ seen.mean).real) / (2 * WAVES + 1)
peaks = 1 + np.flatnonzero((image[1:-1] > image[:-2]) & (image[1:-1] > image[2:]) & (image[1:-1] > 0.05))
print(f"{len(peaks)} hills above the ripples, for {len(places)} sources")


# %%
# Decoding, by a greedy method for a few points: each is placed where the waves that are not yet explained agree best,
# then all of them move together.
def decoded(sketch):
    """Places and shares, from left to right."""
    found = sl.decode(sketch, len(places), task="kmeans", decoder="clompr", random_state=0)
    order = np.argsort(found.centers[:, 0])
    return found.centers[order, 0], found.weights[order]


centers, weights = decoded(seen)
errors = np.abs(centers - places).max(), np.abs(weights - brightness).max()
print(f"largest error of a place {errors[0]:.5f}, of a share {errors[1]:.3f}")

# %%
fig, ax = plt.subplots(figsize=(8, 3.5))
ax.plot(x, image / image.max() * brightness.max(), color="0.6", label=f"what {WAVES} waves show")
ax.vlines(places, 0.0, brightness, color="tab:blue", linewidth=5, alpha=0.4, label="sources")
ax.plot(centers, weights, "o", color="tab:red", markersize=5, label="decoded")
ax.set(xlabel="place", ylabel="share of the photons")
ax.legend(loc="upper right")
plt.show()

# %%
# Six points have eleven unknowns, because shares add up to one, and each wave gives two numbers.  So six waves are
# enough for this many photons, although the pairs are then at a third of the usual resolution.
for waves in (6, 7, 8, 10, 12, 20):
    centers, _ = decoded(sl.sketch(photons, lens(waves)))
    print(f"{waves:>3} waves: largest error of a place {np.abs(centers - places).max():.5f}")
