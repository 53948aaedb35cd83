"""k-means and k-medians from a sketch: the default decoder, partitions of a decoded mixture, and published decoders."""
