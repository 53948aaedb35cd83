"""From a sketch to a model; one algorithm a file."""
