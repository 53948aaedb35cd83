"""The library's own errors; both are ``ValueError``."""


class SketchFileError(ValueError):
    """A file or byte string is not a sketch this library can read.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> try:
    ...     sl.Sketch.from_bytes(b"not a sketch")
    ... except sl.SketchFileError as error:
    ...     print("refused")
    refused
    """


class IncompatibleSketchError(ValueError):
    """Two sketches, or a sketch and a model, were made with different feature maps.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> a = sl.sketch([[0.0]], sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0))
    >>> b = sl.sketch([[0.0]], sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=1))
    >>> try:
    ...     a + b
    ... except sl.IncompatibleSketchError as error:
    ...     print(error)
    the sketches have different feature maps: seed 0 vs 1
    """
