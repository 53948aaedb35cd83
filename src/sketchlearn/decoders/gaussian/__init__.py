"""Steps of the default decoder for Gaussian mixtures, one a file."""
