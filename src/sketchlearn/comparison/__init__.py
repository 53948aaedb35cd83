"""Do sketches come from one distribution, or from a given one?  Distances with p-values; and rows that fit a sketch."""

from sketchlearn.comparison.columns import ColumnChange, moved_columns
from sketchlearn.comparison.detection import DetectionErrors, detection_errors
from sketchlearn.comparison.discrepancy import Discrepancy, mmd
from sketchlearn.comparison.distances import distances, mean_kernel
from sketchlearn.comparison.drift import Alarm, drift
from sketchlearn.comparison.one_sample import goodness_of_fit
from sketchlearn.comparison.points import synthesize
from sketchlearn.comparison.score import Score, score
from sketchlearn.comparison.sequence import Change, changes
from sketchlearn.comparison.two_groups import Independence, independence
from sketchlearn.comparison.two_sample import Comparison, compare

__all__ = [
    "Alarm", "Change", "ColumnChange", "Comparison", "DetectionErrors", "Discrepancy", "Independence", "Score",
    "changes", "compare", "detection_errors", "distances", "drift", "goodness_of_fit", "independence", "mean_kernel",
    "mmd", "moved_columns", "score", "synthesize",
]  # fmt: skip
