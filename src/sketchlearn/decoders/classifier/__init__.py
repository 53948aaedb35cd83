"""Classifiers from one sketch per class: least squares, class densities, or the nearest class mean."""
