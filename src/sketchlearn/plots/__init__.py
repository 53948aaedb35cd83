"""Pictures of models and sketches; drawing needs matplotlib, reports need nothing.

Every function takes a fitted estimator, a :class:`sketchlearn.Model` or the path of a model file where it says
``model``, draws on the axes given as ``ax`` or on new ones, and returns the axes.

Examples
--------
>>> import numpy as np, sketchlearn as sl
>>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
>>> km = sl.CompressiveKMeans(2, random_state=0).fit(X)
>>> ax = sl.plots.centers(km)
>>> ax.get_xlabel()
'column 0'
"""

from sketchlearn.comparison import Change, changes
from sketchlearn.plots.charts import drift, residual, spectrum, sweep
from sketchlearn.plots.drift_page import drift_report
from sketchlearn.plots.errors import detection
from sketchlearn.plots.landscape import landscape
from sketchlearn.plots.mixtures import centers, density
from sketchlearn.plots.report import report

__all__ = [
    "Change", "centers", "changes", "density", "detection", "drift", "drift_report", "landscape", "report", "residual",
    "spectrum", "sweep",
]  # fmt: skip
