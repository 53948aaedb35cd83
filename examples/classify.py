"""
Add and forget classes
======================

Classify handwritten digits from one sketch per class.  Add a class later, and forget another one.
"""

from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split

import sketchlearn as sl

X, y = load_digits(return_X_y=True)
rows, fresh, labels, truth = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

# %%
# Digits 0 to 8: one pass over the rows, one sketch per class.
first = labels != 9
clf = sl.CompressiveClassifier(sketch_size=400, random_state=0).fit(rows[first], labels[first])
seen = truth != 9
print(f"digits 0 to 8: {clf.score(fresh[seen], truth[seen]):.1%} of fresh rows right")
print(clf.verdict_)

# %%
# The nines arrive later.
clf.partial_fit(rows[~first], labels[~first])
print(f"with the nines: {clf.score(fresh, truth):.1%}")

# %%
# To forget the fours, no rows are needed.
without = {label: sketch for label, sketch in clf.sketch_.items() if label != 4}
fewer = sl.CompressiveClassifier().fit_sketch(without)
kept = truth != 4
print(f"without the fours: {fewer.score(fresh[kept], truth[kept]):.1%}, classes {fewer.classes_.tolist()}")

# %%
# Which digits are taken for which?
picture = ConfusionMatrixDisplay.from_predictions(truth[kept], fewer.predict(fresh[kept]), cmap="Blues", colorbar=False)
