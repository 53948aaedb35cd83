"""What one component looks like through Fourier features: its characteristic function, and gradients.

A family of distributions that are symmetric around a location c has characteristic functions
``exp(i w·c) e(w)`` with a real envelope e that depends on a few shape parameters.  A new family is a
subclass of :class:`Atom` that gives this envelope and its vector-Jacobian product; everything else (the
location, the decoders) is here already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.features.operator import Operator

Array = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]


class Atom(ABC):
    """A location family with known characteristic function.

    Means are (k, d); shapes are (k, s), or (1, s) if all components share them (``shared``).  The m frequencies w come
    as an :class:`~sketchlearn.features.operator.Operator`: ``w.squared_norms`` is ``|w|^2``, ``w.quadratic(S)`` is
    w'Sw, ``w.quadratic_adjoint`` its adjoint.

    Examples
    --------
    A family in a few lines: the elliptic Laplace law with one variance, ``e(w) = 1 / (1 + |w|^2 s / 2)``.

    >>> import numpy as np
    >>> from sketchlearn.atoms import Atom
    >>> class Laplace(Atom):
    ...     def shape_size(self, d):
    ...         return 1
    ...     def envelope(self, shapes, w):
    ...         return 1 / (1 + 0.5 * shapes * w.squared_norms)
    ...     def envelope_vjp(self, shapes, w, cotangent):
    ...         slope = -0.5 * w.squared_norms * self.envelope(shapes, w) ** 2
    ...         return (slope * cotangent).sum(1, keepdims=True)
    ...     def shape_bounds(self, d, smallest, largest):
    ...         return np.array([smallest]), np.array([largest])
    ...     def round_shapes(self, variances, d):
    ...         return np.asarray(variances)[:, None]
    >>> from sketchlearn.features.operator import DenseOperator
    >>> w = DenseOperator(np.array([[0.5, 0.0], [0.0, 2.0]]))
    >>> Laplace().value(np.zeros((1, 2)), np.array([[1.0]]), w).real.round(3)
    array([[0.889, 0.333]])
    """

    shared: ClassVar[bool] = False

    @abstractmethod
    def shape_size(self, d: int) -> int:
        """Number of shape parameters of a component in d dimensions."""

    @abstractmethod
    def envelope(self, shapes: Array, w: Operator) -> Array:
        """Envelopes e(w), (k, m)."""

    @abstractmethod
    def envelope_vjp(self, shapes: Array, w: Operator, cotangent: Array) -> Array:
        """``sum_j cotangent[l, j] * d e[l, j] / d shapes[l]``, in the shape of `shapes`."""

    @abstractmethod
    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        """Bounds of the shape parameters, (s,) each, for variances between `smallest` and `largest`."""

    @abstractmethod
    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        """Shapes of round components of these variances, (k,) to (k, s)."""

    # -- what follows from the envelope ------------------------------------------------------

    def value(self, means: Array, shapes: Array, w: Operator) -> ComplexArray:
        """Characteristic functions at the frequencies, (k, m).

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.atoms import SphericalGaussian
        >>> from sketchlearn.features.operator import DenseOperator
        >>> w = DenseOperator(np.array([[1.0]]))
        >>> SphericalGaussian().value(np.zeros((1, 1)), np.array([[2.0]]), w).real.round(3)
        array([[0.368]])
        """
        turned: ComplexArray = np.exp(1j * w.forward(means))
        return turned * self.envelope(shapes, w)

    def vjp(self, means: Array, shapes: Array, w: Operator, cotangent: ComplexArray) -> tuple[Array, Array]:
        """Gradients of ``sum_j Re(conj(cotangent[l, j]) value[l, j])`` in the means and in the shapes.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.atoms import SphericalGaussian
        >>> from sketchlearn.features.operator import DenseOperator
        >>> one = np.ones((1, 1))
        >>> g_mean, g_shape = SphericalGaussian().vjp(0 * one, one, DenseOperator(one), one + 0j)
        >>> g_shape.round(4)
        array([[-0.3033]])
        """
        turned = np.exp(1j * w.forward(means))
        envelope = self.envelope(shapes, w)
        along = np.conj(cotangent) * turned
        g_means = -w.adjoint(along.imag * envelope)
        return g_means, self.envelope_vjp(shapes, w, along.real)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        """Shape parameters by name, in the form users read them."""
        return {"shapes": shapes}
