"""What one component of a mixture looks like through Fourier features, and all that decoders ask about its shape.

A family of laws that are symmetric around a location c has characteristic functions ``exp(i w·c) e(w)`` with a positive
envelope e that depends on a few shape parameters.  A new family is a subclass of :class:`Family` that gives the
logarithm of the envelope (its *damping*), the vector-Jacobian product of the damping, bounds, round members and their
covariances.  Search, refinement, certificate, sweep, model file and report follow from these five.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Complex, Flags, Index
from sketchlearn.features.operator import DenseOperator, Operator

if TYPE_CHECKING:
    from sketchlearn.decoders.families.charts import Chart, Frame


HALF_STEP = 0.8
"""Standard deviations by which the halves of a split component move to either side, along its longest axis."""


class Family(ABC):
    """A location family with known characteristic function.

    Shapes of k components are an array with k rows, or one row if all components share it (:attr:`shared`).  The m
    frequencies w come as an :class:`~sketchlearn.features.operator.Operator`: ``w.squared_norms`` is ``|w|^2``,
    ``w.quadratic(S)`` is w'Sw, ``w.quadratic_adjoint`` its adjoint.

    Examples
    --------
    A family in a few lines: the elliptic Laplace law with one variance, ``e(w) = 1 / (1 + |w|^2 s / 2)``.

    >>> import numpy as np
    >>> from sketchlearn.decoders.families import Family
    >>> class Laplace(Family):
    ...     def damping(self, shapes, w):
    ...         return -np.log1p(0.5 * shapes * w.squared_norms)
    ...     def damping_vjp(self, shapes, w, cotangent):
    ...         r2 = w.squared_norms
    ...         return (cotangent * (-0.5 * r2 / (1 + 0.5 * shapes * r2))).sum(1, keepdims=True)
    ...     def bounds(self, d, smallest, largest):
    ...         return np.array([smallest]), np.array([largest])
    ...     def rounded(self, variances, d):
    ...         return np.asarray(variances, float)[:, None]
    ...     def covariances(self, shapes, k, d):
    ...         return shapes[:, :, None] * np.eye(d)
    >>> from sketchlearn.features.operator import DenseOperator
    >>> w = DenseOperator(np.array([[0.5, 0.0], [0.0, 2.0]]))
    >>> Laplace().values(np.zeros((1, 2)), np.array([[1.0]]), w).real.round(3)
    array([[0.889, 0.333]])
    """

    name: ClassVar[str] = ""
    shared: ClassVar[bool] = False
    """Whether all components have one shape."""
    boxed: ClassVar[bool] = True
    """Whether every shape within the bounds is possible."""
    charted: ClassVar[str] = "PlainChart"
    """The class of :mod:`~sketchlearn.decoders.families.charts` for shapes of this form."""
    projected: ClassVar[bool] = False
    """Whether :meth:`pairs` leaves out what a row contributes to the mean of its component."""

    # -- what a new family says ------------------------------------------------------------------

    @abstractmethod
    def damping(self, shapes: Array, w: Operator) -> AnyArray:
        """Logarithms of the envelopes, (k, m); one row if all components have the same."""

    @abstractmethod
    def damping_vjp(self, shapes: Array, w: Operator, cotangent: AnyArray) -> AnyArray:
        """``sum_j cotangent[l, j] * d damping[l, j] / d shapes[l]``, in the form of `shapes`."""

    @abstractmethod
    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        """Bounds of the shape of one component whose variances lie between `smallest` and `largest`."""

    @abstractmethod
    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        """Shapes of round components of these variances; one shape if it is shared."""

    @abstractmethod
    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        """Covariance matrices of k components (for laws without moments, the scatter matrices), (k, d, d)."""

    # -- shapes as arrays ------------------------------------------------------------------------

    def from_covariances(self, matrices: Array, weights: Array) -> Array:
        """Shapes that match covariance matrices as well as the family can; by default their mean variances."""
        variances = np.trace(matrices, axis1=1, axis2=2) / matrices.shape[-1]
        if self.shared:
            a = np.maximum(weights, 1e-12)
            variances = np.array([float(a @ variances / a.sum())])
        return self.rounded(variances, matrices.shape[-1])

    def variances(self, shapes: Array, k: int, d: int) -> Array:
        """Mean variance of each component over the coordinates, (k,)."""
        return np.trace(self.covariances(shapes, k, d), axis1=1, axis2=2) / d

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        """Shape parameters by name, in the form users read them."""
        return {"shapes": shapes}

    def numbers(self, d: int) -> int:
        """Free numbers of the shape of a component."""
        return int(self.rounded([1.0], d).size)

    def parameters(self, k: int, d: int) -> int:
        """Free numbers of a mixture, weights counted with their sum."""
        return k * (d + 1) + self.numbers(d) * (1 if self.shared else k)

    def select(self, shapes: Array, keep: Any) -> Array:
        """Shapes of some of the components."""
        return shapes if self.shared else shapes[keep]

    def joined(self, shapes: Array, more: Array) -> Array:
        """Shapes with those of more components behind them."""
        return shapes if self.shared else np.concatenate([shapes, more])

    def pooled(self, shapes: Array, weights: Array) -> Array:
        """The average shape, with one row."""
        if self.shared:
            return shapes
        a = np.maximum(weights, 1e-9)
        return np.tensordot(a / a.sum(), shapes, 1)[None]

    def typical(self, shapes: Array) -> Array:
        """The shape of one more component: the median of each number."""
        return shapes if self.shared else np.median(shapes, axis=0)[None]

    def halved(self, shapes: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """A step to either side of component l, and the shapes of all with both halves, the second one last."""
        values, vectors = np.linalg.eigh(self.covariances(self.select(shapes, [l]), 1, d)[0])
        step = HALF_STEP * float(np.sqrt(max(values[-1], 0.0))) * vectors[:, -1]
        return step, self.joined(shapes, self.select(shapes, [l]))

    def draw(self, shapes: Array, owner: Index, d: int, rng: np.random.Generator) -> Array:
        """Rows around the locations of some components; by default normal ones of the same covariance."""
        k = int(owner.max()) + 1 if self.shared else len(shapes)
        values, vectors = np.linalg.eigh(self.covariances(shapes, k, d))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        out = rng.standard_normal((len(owner), d))
        for l, root in enumerate(roots):
            own = owner == l
            out[own] = out[own] @ root.T
        return out

    # -- free numbers, for Gauss-Newton steps and standard errors -----------------------------------

    def free(self, shapes: Array) -> Array:
        """The free numbers of each shape, (rows, s)."""
        return shapes.reshape(len(shapes), -1)

    def slopes(self, shapes: Array, w: Operator) -> AnyArray:
        """Derivatives of the damping in the free numbers, (rows, m, s); by default from central differences."""
        rows, size = self.free(shapes).shape
        out = np.empty((rows, w.shape[0], size))
        flat = shapes.reshape(rows, -1)
        for j in range(size):
            step = np.zeros_like(flat)
            # (truncation and rounding are both near 1e-10 then)
            step[:, j] = 1e-5 * np.maximum(np.abs(flat[:, j]), 1e-6)
            ahead, behind = (self.damping((flat + s).reshape(shapes.shape), w) for s in (step, -step))
            out[:, :, j] = (ahead - behind) / (2.0 * step[:, j : j + 1])
        return out

    def moved(self, shapes: Array, step: Array) -> Array:
        """Shapes after a step in the free numbers, kept possible: positive numbers keep a tenth of themselves."""
        trial = shapes + step.reshape(shapes.shape)
        return np.where(shapes > 0, np.maximum(trial, 0.1 * shapes), trial)

    def sizes(self, d: int) -> Flags:
        """Which of the free numbers of a component are in units of a variance, (s,)."""
        return np.ones(self.numbers(d), bool)

    # -- noise -------------------------------------------------------------------------------------

    def left(self, shapes: Array, w: Operator) -> Array:
        """Variance of a row at each frequency that no change of its component's parameters explains, (k or 1, m).

        By default all of the variance within the component: an upper bound.
        """
        return -np.expm1(2.0 * np.asarray(self.damping(shapes, w), np.float64))

    def pairs(self, w: Array, shape: Array, absorb: bool = False) -> tuple[Array, Array]:
        """Covariances of the features of a row of one component around the origin, between frequencies w (m, d).

        With w2, and with -w2 for the conjugate, both (m, m); less what the row contributes to the mean if the family
        is :attr:`projected`, and with `absorb` less what it contributes to the component's own shape.
        """
        m, d = w.shape
        e = np.exp(self.damping(shape, DenseOperator(w)))[0]
        out = []
        for sign in (-1.0, 1.0):
            between = DenseOperator((w[:, None] + sign * w[None]).reshape(m * m, d))
            out.append(np.exp(self.damping(shape, between))[0].reshape(m, m) - np.outer(e, e))
        return out[0], out[1]

    def own(self, w: Array, shapes: Array) -> tuple[Array, Array]:
        """The diagonals of :meth:`pairs` with `absorb`, of all components, (k or 1, m) each."""
        e2 = np.exp(2.0 * self.damping(shapes, DenseOperator(w)))
        return 1.0 - e2, np.exp(self.damping(shapes, DenseOperator(2.0 * w))) - e2

    # -- what follows --------------------------------------------------------------------------------

    def values(self, means: Array, shapes: Array, w: Operator) -> Complex:
        """Characteristic functions at the frequencies, (k, m).

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.decoders.families import SPHERICAL
        >>> from sketchlearn.features.operator import DenseOperator
        >>> SPHERICAL.values(np.zeros((1, 1)), np.array([2.0]), DenseOperator(np.array([[1.0]]))).real.round(3)
        array([[0.368]])
        """
        return np.asarray(np.exp(1j * w.forward(means) + self.damping(shapes, w)), np.complex128)

    def tiled(self, shapes: Array, w: Operator) -> tuple[AnyArray, Callable[[AnyArray], AnyArray]]:
        """The damping, and its vector-Jacobian product as a function: for families that can share work."""
        return self.damping(shapes, w), lambda cotangent: self.damping_vjp(shapes, w, cotangent)

    def chart(self, frame: Frame) -> Chart:
        """Coordinates in which a mixture of this family is refined."""
        from sketchlearn.decoders.families import charts

        made: Chart = getattr(charts, self.charted)(self, frame)
        return made
