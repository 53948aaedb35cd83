"""Operators: every product of a derived or structured operator is that of its dense matrix."""

import numpy as np
import pytest

from sketchlearn.features import operator
from sketchlearn.features.operator import DenseOperator, DerivedOperator, IntegerOperator, Operator


class OnlyProducts(Operator):
    """The least that an operator can be: forward and adjoint."""

    def __init__(self, matrix):
        self.matrix = matrix

    shape = property(lambda self: self.matrix.shape)
    dtype = property(lambda self: self.matrix.dtype)

    def forward(self, points):
        return np.asarray(points, self.dtype) @ self.matrix.T

    def adjoint(self, values):
        return values @ self.matrix

    def astype(self, dtype):
        return OnlyProducts(self.matrix.astype(dtype))


def operators():
    rng = np.random.default_rng(0)
    w = rng.integers(-9, 10, size=(40, 5)).astype(np.int8)
    wide = w.astype(np.float64)
    a = np.eye(5) + 0.1 * rng.normal(size=(5, 5))
    index = np.array([3, 3, -1, 7, 0])
    zero = np.vstack([wide, np.zeros(5)])[index]
    plain = OnlyProducts(wide)
    return {
        "dense": (DenseOperator(wide), wide),
        "integer": (IntegerOperator(w), wide),
        "plain": (plain, wide),
        "rows": (plain.rows(index), zero),
        "dense rows": (DenseOperator(wide).rows(index), zero),
        "scaled": (plain.scaled(2.5), 2.5 * wide),
        "scaled rows": (plain.rows(index).scaled(2.5), 2.5 * zero),
        "rows of rows": (plain.rows(index).rows(np.array([1, -1, 2, 3])), zero[[1, 2, 2, 3]]),
        "transformed": (plain.transformed(a), wide @ np.linalg.inv(a)),
        "dense transformed": (DenseOperator(wide).transformed(a), wide @ np.linalg.inv(a)),
        "all": (plain.transformed(a).rows(index).scaled(0.3), 0.3 * zero @ np.linalg.inv(a)),
    }


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("name", operators())
def test_products_are_those_of_the_matrix(name, few, monkeypatch):
    if not few:  # products of coordinates, which would be too many
        monkeypatch.setattr(operator, "_MATRIX_ENTRIES", 10)
    op, w = operators()[name]
    assert (op.as_matrix() is op) == (not few or isinstance(op, DenseOperator))
    rng = np.random.default_rng(1)
    x, v = rng.normal(size=(3, 5)), rng.normal(size=(3, len(w)))
    root = rng.normal(size=(3, 5, 5))
    full = root @ np.swapaxes(root, 1, 2)
    close = {"rtol": 1e-10, "atol": 1e-8}
    assert op.shape == w.shape
    np.testing.assert_allclose(op.forward(x), x @ w.T, **close)
    np.testing.assert_allclose(op.adjoint(v), v @ w, **close)
    np.testing.assert_allclose(op.squared_norms, (w * w).sum(1), **close)
    np.testing.assert_allclose(op.quadratic(2.0), 2 * (w * w).sum(1)[None], **close)
    np.testing.assert_allclose(op.quadratic([1.0, 2.0]), np.outer([1, 2], (w * w).sum(1)), **close)
    np.testing.assert_allclose(op.quadratic(x**2), x**2 @ (w * w).T, **close)
    np.testing.assert_allclose(op.quadratic(full), np.einsum("mi,kij,mj->km", w, full, w), **close)
    np.testing.assert_allclose(op.quadratic_adjoint(v, "spherical"), v @ (w * w).sum(1), **close)
    np.testing.assert_allclose(op.quadratic_adjoint(v, "diag"), v @ (w * w), **close)
    np.testing.assert_allclose(op.quadratic_adjoint(v, "full"), np.einsum("km,mi,mj->kij", v, w, w), **close)
    for exponent in (2, 4):
        np.testing.assert_allclose(op.powers(x, exponent), x @ w.T**exponent, **close)
        np.testing.assert_allclose(op.powers_adjoint(v, exponent), v @ w**exponent, **close)
    np.testing.assert_allclose(op.coordinate_squares(), (w * w).T, **close)
    lengths, back = op.normal(v[0], x)
    np.testing.assert_allclose(lengths, ((x @ w.T) ** 2).sum(0), **close)
    np.testing.assert_allclose(back, (x @ w.T * v[0]) @ w, **close)


def test_single_precision_is_another_type_of_the_same_operator():
    op = DerivedOperator(OnlyProducts(np.eye(3))).astype(np.float32)
    assert op.dtype == np.float32
    assert op.forward([[1.0, 2.0, 3.0]]).dtype == np.float32
