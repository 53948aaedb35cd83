"""How far one clipped row can move the sums of quadratic features.

With u in the unit ball (the row over the radius), feature j is ``u' A_j u`` for a symmetric matrix ``A_j``, and a map
carries the sums of u itself along.

Sum of squares.  ``S4^2 = sup_u sum_j (u' A_j u)^2`` is hard to compute; bounds from above are not.  Splitting
``u u' = I/d + X`` with X of trace 0 and ``|X|_F^2 = 1 - 1/d``, with traces ``t_j`` and ``H = sum t_j A_j``::

    S4^2 <= sum t_j^2 / d^2 + (2/d) (lambda_max(H) - tr(H)/d) + (1 - 1/d) lambda_max(G),
    G_jl = <A_j, A_l> - t_j t_l / d,

and ``S4^2 <= max_j |A_j| lambda_max(sum |A_j|)``; the smaller one counts.

One row for another.  ``sum_j <A_j, X - Y>^2`` is convex in X and in Y, so its largest value over clipped rows is at
the extreme points of ``{X >= 0, tr X <= 1}``: unit vectors, or zero.  Two unit vectors differ by a matrix of trace 0
and Frobenius norm at most sqrt(2), which gives ``2 lambda_max(G)``; a unit vector and zero give ``S4^2``.  (Published
proofs use ``S4^2`` alone, which is too small: with A_j = e_j e_j' the rows e_1 and e_2 differ by sqrt(2), not by 1.)

Sum of absolute values.  ``sum_j |u' A_j u| <= u' B u`` for ``B = sum |A_j|``: at most ``lambda_1(B)``; one row for
another has one positive and one negative eigenvalue, at most ``lambda_1(B) + lambda_2(B)``.

Eigenvalues come with certificates: a Cholesky factor of ``t I - M`` exists only if t exceeds the largest eigenvalue, up
to a backward error that is added (Higham, "Accuracy and Stability of Numerical Algorithms", theorem 10.3).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.kernels import GRID_BITS, PRODUCT_BITS
from sketchlearn.privacy.sensitivity import Bounds, MatrixReach, Reach, sqrt_above

_LARGEST = 6000  # dimension up to which eigenvalues are certified by a Cholesky factor: some seconds
_LINEAR_SHARE = 2  # the mean needs less precision than the second moment: its sums count half,
_FEW_SHARE = 5  # and of few orthogonal features no more than a part of so many of their absolute values
# a product of two columns is in a matrix twice: it counts nearly sqrt(2) times as much as a square
_SQUARES, _PRODUCTS = 5, 7
# float64 arithmetic of the clipping: |u| <= 1 + this
_SLACK = Fraction(1, 2**36)


def quadratic_bounds(features: FeatureMap) -> Bounds:
    """Bounds of a quadratic map with a radius.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.privacy.quadratic import quadratic_bounds
    >>> phi = sl.QuadraticFeatures.draw(dim=4, radius=1.0)
    >>> round(quadratic_bounds(phi).added.l2_squared / 25 / 2**60, 3)  # all products, and half of the row itself
    1.25
    """
    phi = cast(QuadraticFeatures, features)  # registered by kind
    if phi.radius is None:
        raise TypeError("quadratic features need a public radius")
    if phi.variant == "hadamard":
        raise TypeError("no sensitivity is known of structured quadratic features: draw them with another variant")
    if phi.dim >= 2**16:
        raise ValueError(f"bounds of rounding are proven up to {2**16 - 1} columns, the map has {phi.dim}")
    return _exact(phi) if phi.is_exact else _random(phi)


def _exact(features: QuadraticFeatures) -> Bounds:
    d = features.dim
    # rows are rounded to 2**-15 before they are multiplied: products are products of whole numbers
    length = 2**PRODUCT_BITS * (1 + _SLACK) + sqrt_above(Fraction(d)) / 2
    square, root = length**2, sqrt_above(Fraction(d))
    a, b = _SQUARES, _PRODUCTS
    scale = a * 2**PRODUCT_BITS // _LINEAR_SHARE

    def together(l1: Fraction, l2_squared: Fraction, linear: int) -> Reach:
        return Reach(
            math.ceil(l1 + linear * scale * root * length), math.ceil(l2_squared + (linear * scale) ** 2 * square)
        )

    # a u_i^2 and b u_i u_j for i < j: with b^2 <= 2 a^2 the squares are at most a^2 |u|^4, and for another row v at
    # most a^2 |u u' - v v'|^2 <= 2 a^2; absolute values are a |u|^2 + b (|u|_1^2 - |u|^2) / 2, and of differences at
    # most the length of the weights a and b / sqrt(2) times sqrt(2) (Cauchy and Schwarz)
    most = square * (a + Fraction(b * (d - 1), 2))
    apart = square * sqrt_above(Fraction(2 * d * a * a) + Fraction(d * (d - 1) * b * b, 2))
    added = together(most, a * a * square**2, 1)
    replaced = together(min(2 * most, apart), 2 * a * a * square**2, 2)
    runs = [run for i in range(d) for run in ((1, a), (d - 1 - i, b)) if run[0]]
    constant = 2**PRODUCT_BITS // _LINEAR_SHARE
    matrix = MatrixReach(d + 1, constant, math.ceil(square) + constant**2)
    return Bounds(added, replaced, (*runs, (d, scale)), "all products of a clipped row, as an isometry", matrix)


def _random(features: QuadraticFeatures) -> Bounds:
    d, m = features.dim, features.size
    # float32 projection of d terms, square, scale, grid: |rounded - true| in units, per square
    squares = 2 if features.paired else 1
    off = squares * (Fraction(1, 2) + (Fraction(202, 100) * (d + 1) + 4) / 4)
    s4, s4_replaced, l1, l1_replaced, proof = _certified(features)
    unit = 2**GRID_BITS * (1 + _SLACK) ** 2
    linear = 2**GRID_BITS * (1 + _SLACK) + sqrt_above(Fraction(d)) / 2
    root_m, root_d = sqrt_above(Fraction(m)), sqrt_above(Fraction(d))
    times = _LINEAR_SHARE
    if features.variant == "orthogonal":
        times = max(times, math.ceil(_FEW_SHARE * math.sqrt(d) / l1))

    def together(l1: float, l2_squared: float, rows: int) -> Reach:
        quadratic = unit * sqrt_above(Fraction(l2_squared)) + rows * root_m * off
        absolute = unit * Fraction(l1) + rows * m * off
        return Reach(
            math.ceil(times * absolute + rows * root_d * linear),
            math.ceil((times * quadratic) ** 2 + (rows * linear) ** 2),
        )

    added, replaced = together(l1, s4, 1), together(l1_replaced, s4_replaced, 2)
    return Bounds(added, replaced, ((m, times), (d, 1)), proof)


def _certified(features: QuadraticFeatures) -> tuple[float, float, float, float, str]:
    """Upper bounds of S4^2 and sum of absolutes, for a row added and for a row replaced, and the proof's name."""
    d, m = features.dim, features.size
    scale = np.sqrt(features.squared_norms)
    if features.paired:
        scale = np.tile(np.maximum(scale[:m], scale[m:]), 2)
    w = features.directions.astype(np.float64) / scale[:, None]
    positive = features.variant != "difference"
    lengths = (w * w).sum(1)  # |q|^2 / bound: the size of one square
    traces = lengths if not features.paired else lengths[:m] + (1 if positive else -1) * lengths[m:]
    sizes = lengths if not features.paired else lengths[:m] + lengths[m:]
    first, second = _two_largest(w)
    l1, l1_replaced = first, first + second
    riesz = float(sizes.max()) * first * (1 + 1e-12)
    options = [(riesz, 4.0 * riesz if not positive else 2.0 * riesz, "largest square times largest eigenvalue")]
    if m <= _LARGEST and d <= _LARGEST:
        top = largest_eigenvalue(_gram(w, m, traces, d, positive, features.paired))
        weights = np.concatenate([traces, traces if positive else -traces]) if features.paired else traces
        heavy = largest_eigenvalue((w * weights[:, None]).T @ w)
        squares = float((traces**2).sum())
        tight = squares / d**2 + 2.0 / d * max(0.0, heavy - squares / d) + (1.0 - 1.0 / d) * top
        tight = tight * (1 + 1e-9) + 1e-9
        both = 2.0 * top if not positive else min(2.0 * top, 2.0 * min(tight, riesz))
        options.append((tight, max(both, min(tight, riesz)), "traceless Gram matrix, certified"))
    s4, _, proof = min(options)
    return s4, min(option[1] for option in options), l1, l1_replaced, proof


def _gram(w: Array, m: int, traces: Array, d: int, positive: bool, paired: bool) -> Array:
    gram = (w @ w.T) ** 2
    if paired:
        sign = 1.0 if positive else -1.0
        gram = gram[:m, :m] + sign * (gram[:m, m:] + gram[m:, :m]) + gram[m:, m:]
    return np.asarray(gram - np.outer(traces, traces) / d)


def _two_largest(w: Array) -> tuple[float, float]:
    """Upper bounds of the two largest eigenvalues of ``w' w``, from the smaller of both Gram matrices."""
    gram = w.T @ w if w.shape[1] <= len(w) else w @ w.T
    if len(gram) > _LARGEST:
        rows = float(np.abs(gram).sum(1).max()) * (1 + 1e-9)
        return rows, rows
    if len(gram) > 1500:
        first = largest_eigenvalue(gram)
        return first, first
    values = np.linalg.eigvalsh(gram)
    # backward stable: off by a small multiple of n * eps * |M|; n^2 is generous
    off = len(gram) ** 2 * 2.0**-50 * float(np.linalg.norm(gram))
    return float(values[-1] + off), float(values[-2] + off) if len(values) > 1 else 0.0


def largest_eigenvalue(matrix: Array) -> float:
    """A certified upper bound of the largest eigenvalue of a symmetric matrix, closer than a millionth of its size.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.quadratic import largest_eigenvalue
    >>> 3.0 <= largest_eigenvalue(np.diag([1.0, 3.0, -7.0])) < 3.00001
    True
    """
    n = len(matrix)
    size = float(np.abs(matrix).sum(1).max(initial=0.0)) + 1e-300  # at least any eigenvalue's modulus
    if n <= 800:
        guess = float(np.linalg.eigvalsh(matrix)[-1])
    else:
        from scipy.sparse.linalg import eigsh

        guess = float(eigsh(matrix, k=1, which="LA", tol=1e-9, v0=np.ones(n), return_eigenvectors=False)[0])
    step = 1e-7 * max(abs(guess), 1e-9 * size)
    while True:
        top = guess + step
        shifted = top * np.eye(n) - matrix
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            step *= 4.0
            continue
        backward = 1.01 * n * (n + 2) * 2.0**-53 * float(shifted.diagonal().max())
        entries = n * 2.0**-51 * size  # entries of the matrix were rounded too
        return top + backward + entries
