"""Mixtures from a sketch: Gaussian ones by default, stable laws, and families of one's own."""
