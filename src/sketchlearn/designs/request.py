"""What a map is designed from, and who designs for which task.

A task is one function from a :class:`Request` to a feature map and a reason, decorated with
:func:`register_design`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.accepts import whole
from sketchlearn.arrays import FARTHEST, Array
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.radial import RadialLaw


@dataclass(frozen=True, eq=False)
class Request:
    """What a map is designed from; a designer refuses what its task has no use for.

    Attributes
    ----------
    task, n_components, seed, size, bounds, dim, scale, radial, covariance_type
        Arguments of :func:`sketchlearn.design`.
    sample, weights : array (n, d) and array (n,) or None
        Pilot rows and their weights.
    standardize : bool or None
        Columns count in units of their spread; None leaves it to the task.
    missing : {"em", "pairs"} or None
        Rows may miss entries (NaN); see :func:`sketchlearn.design`.
    looked_at : tuple of array (d,) or None
        Smallest and largest values of all rows that the pilot was chosen from, if there were more.
    """

    task: str
    n_components: int
    seed: int = 0
    sample: npt.ArrayLike | None = None
    size: int | None = None
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    dim: int | None = None
    scale: float | str | None = None
    radial: str | RadialLaw | None = None
    covariance_type: str | None = None
    weights: Array | None = None
    standardize: bool | None = None
    looked_at: tuple[Array, Array] | None = None
    missing: str | None = None

    def rows(self) -> Array:
        """The pilot sample, checked."""
        return self.weighted()[0]

    def weighted(self) -> tuple[Array, Array | None]:
        """The pilot sample and its weights, checked."""
        rows = checked_rows(self.sample, self.missing is not None)
        return (rows, self.weights) if self.missing is not None else within_reach(rows, self.weights)

    def box(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the columns, checked."""
        try:
            lower, upper = (np.asarray(b, np.float64) for b in self.bounds or ())
        except (TypeError, ValueError):
            raise ValueError("bounds must be a pair (lower, upper) of numbers or arrays") from None
        shape = np.broadcast_shapes(lower.shape, upper.shape, () if self.dim is None else (self.dim,))
        if len(shape) != 1:
            raise ValueError(
                f"bounds must be one number per column, got shapes {lower.shape} and {upper.shape}; or give dim"
            )
        lower, upper = np.broadcast_to(lower, shape), np.broadcast_to(upper, shape)
        wrong = ~((np.abs(lower) <= FARTHEST) & (np.abs(upper) <= FARTHEST) & (lower < upper))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"bounds of column {i} are [{lower[i]}, {upper[i]}]: the lower bound must be below the upper "
                f"bound, and both must lie between -{FARTHEST:.3g} and {FARTHEST:.3g}"
            )
        return lower, upper

    def refuse(self, *names: str, why: str) -> None:
        """ValueError if any of these was given."""
        if any(getattr(self, name) is not None for name in names):
            raise ValueError(f"task={self.task!r} {why}")


def checked_rows(sample: Any, missing: bool = False) -> Array:
    """A pilot sample as numbers; ValueError if it can't be one.  With `missing`, NaN is an entry that is not there."""
    try:
        rows = np.asarray(sample.toarray() if hasattr(sample, "tocsr") else sample, np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"the pilot sample has values that are not numbers ({error}): choose columns of numbers, or give ",
            Option("encoder", "sl.Encoder.fit(sample)", code=True),
            " for categories and missing values",
        ) from None
    if rows.ndim != 2 or len(rows) < 1 or rows.shape[1] < 1:
        raise ValueError(f"the pilot sample must have rows and columns, got shape {rows.shape}")
    bad = ~(np.isfinite(rows) | (np.isnan(rows) & missing)).all(axis=1)
    if bad.any():
        raise ValueError(f"row {int(np.argmax(bad))} of the pilot sample holds NaN or infinity")
    return rows


def within_reach(rows: Array, weights: Array | None = None) -> tuple[Array, Array | None]:
    """The rows of a pilot without those so far out that the pass will refuse them (and say which they are)."""
    near = (np.abs(rows) <= FARTHEST).all(axis=1)
    if not near.any():
        raise ValueError(f"all rows of the pilot sample have values beyond {FARTHEST:.3g}: scale the data")
    if not near.all():
        rows, weights = rows[near], None if weights is None else weights[near]
    width = float((rows.max(axis=0) - rows.min(axis=0)).max())
    if 0.0 < width < 1.0 / FARTHEST:
        raise ValueError(f"the values of the pilot sample differ by {width:.3g} at most: scale the data")
    return rows, weights


Designer = Callable[[Request], tuple[FeatureMap, str]]
Size = Callable[[int, int, str | None], int]


class Task(NamedTuple):
    """What is known about a task: its designer, its default size, and how rows may be prepared for it."""

    design: Designer
    size: Size
    projects: bool = True
    units: str = "rows"
    outliers: bool = True
    missing: bool = False


_TASKS: dict[str, Task] = {}


def register_design(
    task: str,
    *,
    size: Size,
    projects: bool = True,
    units: str = "rows",
    outliers: bool = True,
    missing: bool = False,
) -> Callable[[Designer], Designer]:
    """Make a task known to :func:`sketchlearn.design`; decorates a function from a request to (map, reason).

    Parameters
    ----------
    task : str
        Its name.
    size : callable
        ``size(n_components, dim, covariance_type)``, the number of features by default.
    projects : bool
        Whether rows may be projected at random first: not if the model is about single columns.
    units : {"rows", "own", "columns", "unlike", "distances"}
        What columns count in: their own units, unless the request says otherwise (``"rows"``); their spread, which the
        designer sees to (``"own"``), or which rows are divided by unless the request says no (``"columns"``), or only
        where columns have units that can't be the same (``"unlike"``).  Where the task depends on units
        (``"distances"``), the user is warned of columns that hardly count.
    outliers : bool
        Whether the user is warned of values far from all others.
    missing : bool
        Whether it takes ``missing="em"`` and ``"pairs"``, for rows with missing entries.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.designs import register_design
    >>> @register_design("coarse", size=lambda k, d, shape: 8 * k)
    ... def coarse(request):
    ...     d = request.rows().shape[1]
    ...     return sl.FourierFeatures.draw(d, request.size or 8 * request.n_components), "a guess"
    >>> sl.design([[0.0], [1.0]], task="coarse", n_components=2).size
    16
    """

    def add(designer: Designer) -> Designer:
        _TASKS[task] = Task(designer, size, projects, units, outliers, missing)
        return designer

    return add


def tasks() -> tuple[str, ...]:
    """Names of all tasks, those of the library first."""
    return tuple(_TASKS)


def find(task: str) -> Task:
    """The designer of a task and its default size; ValueError if there is none."""
    if task not in _TASKS:
        raise ValueError(f"task={task!r}: choose one of {', '.join(_TASKS)}")
    return _TASKS[task]


def positive(value: Any, name: str) -> int:
    """A positive integer; ValueError for anything else."""
    whole().check(name, value)
    return int(value)
