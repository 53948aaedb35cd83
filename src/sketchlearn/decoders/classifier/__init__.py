"""Classifiers from one sketch a class: least squares, class densities, or the nearest class mean."""
