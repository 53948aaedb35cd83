"""Arrays: names of their types, rows and weights from whatever holds numbers, and errors that are about one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import InputError, Option

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Complex = npt.NDArray[np.complex128]
"""Arrays by what they hold: numbers (without a name: float64), anything, int64, places, booleans, complex128."""

EXACT = 2**53  # integers up to here are float64 numbers
FARTHEST = 2.0**100  # values up to here have squares, and sums of squares, in float64 and (their roots) in float32
MISSING = "holds NaN or a null"  # what a message says of a row that misses an entry


class RowError(ValueError, OverflowError):
    """Something is wrong with one row; whoever knows where the batch stands says which.

    `text`: what is wrong. `row`: number of the row in the batch that could not be made or summed.
    """

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text)
        self.text, self.row = text, row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text, self.row)

    def after(self, rows: int) -> RowError:
        """The error with its row counted from `rows` rows before the batch."""
        return type(self)(self.text, None if self.row is None else self.row + rows)

    def placed(self, place: Callable[[int], str]) -> Exception:
        """The error that users see; `place` says where a row is, see :meth:`sketchlearn.sources.base.Reading.place`."""
        if self.row is None:
            return self
        return RowError(f"row {self.row} (counting from 0{place(self.row)}): {self.text}")


class InvalidRowError(RowError):
    """A row has no features."""

    def placed(self, place: Callable[[int], str]) -> Exception:
        assert self.row is not None
        missing = self.text.startswith(MISSING)
        return InputError(
            f"row {self.row} (counting from 0{place(self.row)}) {self.text}; clean the data, or use ",
            Option("on_invalid", "skip"),
            " to leave such rows out and count them",
            *((", or ", Option("encoder", "sl.Encoder.fit(sample)", code=True), " to fill them") if missing else ()),
        )


class WeightError(RowError):
    """A weight is none; the text has a hole (NUL) where the place goes."""

    def placed(self, place: Callable[[int], str]) -> Exception:
        assert self.row is not None
        return ValueError(f"the weight of row {self.row} is {self.text}".replace("\0", place(self.row)))


def nowhere(row: int) -> str:
    """The place of rows that come from one place only: nothing to say."""
    return ""


def as_array(data: Any) -> AnyArray:
    """An array of NumPy from one of any library, without copying where that is possible."""
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        return np.from_dlpack(data)
    return np.asarray(data)


def as_rows(values: Any, what: str = "data") -> npt.NDArray[np.floating]:
    """A 2-D array of float32 or float64, without copying those that already are."""
    array = values if isinstance(values, np.ndarray) else as_array(values)
    if array.ndim != 2:
        hint = "; for a single column use data.reshape(-1, 1)" if array.ndim == 1 else ""
        raise ValueError(f"{what} must have two dimensions (rows, columns), got shape {array.shape}{hint}")
    return as_real(array, what)


def as_real(array: AnyArray, what: str = "data", dtype: str | None = None) -> npt.NDArray[np.floating]:
    """An array as float32 or float64 in native byte order."""
    if dtype is not None:
        return narrowed(as_real(array, what), dtype)
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        exact_integers(array)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64 if array.dtype.itemsize != 4 or array.dtype.kind != "f" else np.float32)
    if array.dtype.kind == "O":
        try:
            numbers = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{what} has values that are not numbers: {error}") from None
        for row, *rest in np.argwhere(np.abs(numbers) >= EXACT).tolist():
            if isinstance(array[row, *rest], int | np.integer) and abs(array[row, *rest]) > EXACT:
                raise too_large(f"column {rest[0]}" if rest else what, array[row, *rest], row)
        return numbers
    raise ValueError(f"{what} must be real numbers, got dtype {array.dtype}")


def narrowed(array: npt.NDArray[np.floating], dtype: str | None) -> npt.NDArray[np.floating]:
    """The array in this precision; numbers that are too large become infinite, which is an invalid row."""
    with np.errstate(over="ignore"):
        return array if dtype is None else array.astype(dtype, copy=False)


def exact_integers(array: npt.NDArray[np.integer]) -> None:
    """Refuse integers that float64 can't tell apart."""
    if max(int(array.max()), -int(array.min())) > EXACT:
        row, *rest = (
            np.argwhere((array > EXACT) | (array < -EXACT)).tolist()[0]
            if array.dtype.kind == "i"
            else (np.argwhere(array > EXACT).tolist()[0])
        )
        raise too_large(f"column {rest[0]}" if rest else "it", int(array[row, *rest]), row)


def too_large(what: str, value: Any, row: int | None) -> RowError:
    """The error for an integer that would be rounded."""
    return RowError(
        f"{what} has the integer {value}, beyond 2**53: it can't be a number with 53 bits; leave the column out (is it "
        "an identifier?), scale it, or make it a float yourself",
        row,
    )


def as_weights(values: Any, rows: int, what: str = "sample_weight") -> Array | None:
    """Weights as float64, one per row."""
    if values is None:
        return None
    weights = np.asarray(values, np.float64)
    if weights.ndim == 0:
        return np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ValueError(f"{what} must have one number per row, got shape {weights.shape} for {rows} rows")
    return weights
