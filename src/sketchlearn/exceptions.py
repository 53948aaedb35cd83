"""The library's own errors and warnings, and how they name parameters.

A message often names a parameter that would help.  In Python it is an argument, on the command line an option.  So
messages are made of parts: text, and :class:`Option` values, which Python and the command line write differently.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple


class Option(NamedTuple):
    """A parameter that a message names, and the value it should have, if there is one to give.

    Examples
    --------
    >>> from sketchlearn.exceptions import Option
    >>> print(Option("on_invalid", "skip"), Option("group_by"), Option("bounds", "(lower, upper)", code=True))
    on_invalid='skip' group_by bounds=(lower, upper)
    """

    name: str
    value: Any = None
    code: bool = False
    """Whether the value is an expression of Python instead of a value."""

    def __str__(self) -> str:
        if self.value is None:
            return self.name
        return f"{self.name}={self.value if self.code else repr(self.value)}"


class Advice(Exception):
    """A message in parts; what errors and warnings with advice have in common.

    Attributes
    ----------
    parts : tuple of str and Option
        The message.
    """

    parts: tuple[Any, ...]

    def __init__(self, *parts: Any) -> None:
        super().__init__("".join(map(str, parts)))
        self.parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.parts

    @property
    def options(self) -> dict[str, Any]:
        """The parameters that the message names."""
        return {part.name: part.value for part in self.parts if isinstance(part, Option)}


_OURS = (str(Path(__file__).parent), contextlib.__file__)


def warn(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn about the line that called the library, however deep inside the reason was found.

    Examples
    --------
    >>> import warnings
    >>> from sketchlearn.exceptions import DataWarning, warn
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     warn("two columns are equal", DataWarning)
    >>> str(heard[0].message), heard[0].category.__name__
    ('two columns are equal', 'DataWarning')
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


PUBLIC = Option("bounds", "(lower, upper)", code=True)
"""What a map is designed from where no row may be looked at."""


class InputError(Advice, ValueError):
    """The input can't be used; the message names the parameters that would help.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> try:
    ...     sl.sketch([[np.nan]], phi)
    ... except sl.InputError as error:
    ...     print(error.options)
    {'on_invalid': 'skip', 'encoder': 'sl.Encoder.fit(sample)'}
    """


class SketchFileError(InputError):
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


class IncompatibleSketchError(InputError):
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
    the sketches have different feature maps (seed 0 vs 1): use one map for both, designed once
    """


class UnboundedError(Advice, TypeError):
    """Features without a bound were to be released with noise.

    Examples
    --------
    >>> from sketchlearn.exceptions import UnboundedError
    >>> issubclass(UnboundedError, TypeError)
    True
    """


class UnsuitableMapError(Advice, TypeError):
    """A sketch has features from which something else can be learned, but not this.

    Examples
    --------
    >>> from sketchlearn.exceptions import UnsuitableMapError
    >>> issubclass(UnsuitableMapError, TypeError)
    True
    """


class DuplicateRowsError(InputError):
    """The rows are already in the file, so they were not added; nothing was written.

    Attributes
    ----------
    path : str
        The file.
    rows : int or float
        How many rows they are.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, sketchlearn as sl
    >>> from sketchlearn.engines.append import append
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "all.sketch"
    ...     total = append(np.eye(2), file, phi)
    ...     try:
    ...         append(np.eye(2), file)
    ...     except sl.DuplicateRowsError as error:
    ...         print(error.rows)
    2
    """

    def __init__(self, path: str, rows: int | float) -> None:
        said = f"{path} has these {rows:,} rows already; nothing was added ("
        super().__init__(said, Option("force", True), " adds them once more)")
        self.path, self.rows = path, rows

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.rows)


class ModelFileError(ValueError):
    """A file is not a model this library can read.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> try:
    ...     sl.Model.from_json("{}")
    ... except sl.ModelFileError as error:
    ...     print(error)
    model: not a model: write one with 'sketchlearn learn' or Model.save
    """


class SourceError(InputError):
    """A file, server or query can't be read: damaged, of another type, not answering, not valid.

    What is wrong with the *values* of data that can be read (text, NaN, ragged rows, unknown columns) is a
    plain ``ValueError``.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> try:
    ...     sl.read("duckdb:", query="SELECT * FROM nothing")
    ... except (sl.SourceError, sl.MissingPackageError):
    ...     print("refused")
    refused
    """


class MissingPackageError(ImportError):
    """A package that is needed is not installed; the message shows the command that installs it.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> issubclass(sl.MissingPackageError, ImportError)
    True
    """


class BudgetError(ValueError):
    """A release would spend more of a privacy budget than there is.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> issubclass(sl.BudgetError, ValueError)
    True
    """


class LedgerFileError(ValueError):
    """A file is not a ledger that this library can read; nothing is spent.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> try:
    ...     sl.Ledger("/no/such/ledger.json")
    ... except sl.LedgerFileError as error:
    ...     print("refused")
    refused
    """


class DataWarning(Advice, UserWarning):
    """The rows can be read, but something about them is unusual: outliers, or columns in different units.

    Examples
    --------
    >>> import warnings, numpy as np, sketchlearn as sl
    >>> rows = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 1000.0]
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     phi = sl.design(rows, n_components=3)
    >>> print(said[0].category.__name__, str(said[0].message).split(";")[0])
    DataWarning column 1 has 100.0% of the variance
    """
