"""
Who is it?
==========

Speakers are enrolled and tested with sketches.  The detection-error curve shows misses against false alarms.
"""

import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
kinds = rng.normal(size=(4, 3)) * 4


def speaker():
    return kinds + 0.3 * rng.normal(size=kinds.shape)


def rows(voice, n):
    return voice[rng.integers(4, size=n)] + rng.normal(size=(n, 3))


# %%
# A background of fifty speakers: how much do they differ?
verifier = sl.CompressiveVerifier(n_components=4, random_state=0)
verifier.fit(np.concatenate([rows(speaker(), 300) for _ in range(50)]), np.repeat(np.arange(50), 300))
print(f"variance between speakers: {verifier.between_:.3f} of that of a component")

# %%
# Ten speakers, and tests of thirty and of a hundred rows.
voices = {f"speaker {i}": speaker() for i in range(10)}
for name, voice in voices.items():
    verifier.enroll(name, rows(voice, 300))
errors = {}
for n in (30, 100):
    tests = [(true, rows(voice, n)) for true, voice in voices.items() for _ in range(10)]
    errors[f"{n} rows"] = verifier.evaluate([(name, x, name == true) for true, x in tests for name in voices])
sl.plots.detection(errors)
