"""Do sketches come from one distribution?  Distances with p-values, for two sketches and for a sequence of them."""

from sketchlearn.comparison.columns import ColumnChange, moved_columns
from sketchlearn.comparison.drift import Alarm, drift
from sketchlearn.comparison.sequence import Change, changes
from sketchlearn.comparison.two_sample import Comparison, compare

__all__ = ["Alarm", "Change", "ColumnChange", "Comparison", "changes", "compare", "drift", "moved_columns"]
