"""Everything the library can do, end to end, on data it makes itself."""

from pathlib import Path

import numpy as np

import sketchlearn as sl

folder = Path("demo-output")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(0)

print("1. Data: 300 000 rows around 5 centres in 10 dimensions, in three parts")
centres = rng.normal(size=(5, 10)) * 5
parts = [centres[rng.integers(5, size=100_000)] + rng.normal(size=(100_000, 10)) for _ in range(3)]

print("2. Sketch each part on its own, as three machines would")
phi = sl.FourierFeatures.draw(dim=10, size=1000, scale=5.0, seed=0)
sketches = [sl.sketch(part, phi) for part in parts]
print(f"   kernel: {sl.active_kernel()}")

print("3. Merge: the same bytes as one pass over all rows")
whole = sl.merge(sketches)
assert whole.to_bytes() == sl.sketch(np.vstack(parts), phi).to_bytes()

print("4. Take the second part out again, exactly")
without = whole - sketches[1]
assert np.array_equal(without.sums, (sketches[0] + sketches[2]).sums)

print("5. Save, load, and what a sketch knows:")
whole.save(folder / "all.sketch")
print(sl.load(folder / "all.sketch"))
