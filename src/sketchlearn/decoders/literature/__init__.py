"""Decoders of the literature for clusters, one a file, each with the paper it is from."""
