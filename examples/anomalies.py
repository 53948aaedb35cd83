"""
Digits that were never seen
===========================

Anomaly scores from a sketch of normal rows.  The score is the distance of a row from the normal rows, in the space of a
hundred Fourier features.  The sketch holds their mean and covariance.  Here, digits 0 to 4 are normal and 5 to 9 are
not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score, roc_curve

import sketchlearn as sl

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(X))
X, y = X[order], y[order]
usual = np.flatnonzero(y < 5)
train, fresh = usual[: len(usual) // 2], np.setdiff1d(np.arange(len(X)), usual[: len(usual) // 2])

# %%
# Two sites sketch their rows with the same map, and send only the sketches.
phi = sl.design(X[train], task="anomaly", size=100)
here, there = (sl.sketch(X[rows], phi) for rows in np.array_split(train, 2))
detector = sl.CompressiveAnomalyDetector(contamination=0.05, random_state=0).fit_sketch(here + there)
print(detector.verdict_)

# %%
# Scores of new rows, compared with a method that has all rows.
unusual = y[fresh] >= 5
peer = IsolationForest(random_state=0).fit(X[train])
scores = {"sketch": -detector.score_samples(X[fresh]), "isolation forest on rows": -peer.score_samples(X[fresh])}
for name, score in scores.items():
    print(f"{name}: area under the curve {roc_auc_score(unusual, score):.3f}")

# %%
# From the sketch alone, the threshold assumes a distribution that 450 images don't follow closely.  If you have rows,
# use a quantile of their scores.
detector = sl.CompressiveAnomalyDetector(contamination=0.05, features=phi, random_state=0).fit(X[train])
alarms = detector.predict(X[fresh]) < 0
print(f"alarms: {alarms[unusual].mean():.0%} of the new digits, {alarms[~unusual].mean():.0%} of the usual ones")

# %%
# Remove a row that should not have been there, exactly.
less = (here + there) - sl.sketch(X[train[:1]], phi)
print(f"{less.count} rows left")

# %%
fig, ax = plt.subplots()
for name, score in scores.items():
    ax.plot(*roc_curve(unusual, score)[:2], label=name)
ax.set(xlabel="false alarms", ylabel="new digits found")
ax.legend()
plt.show()
