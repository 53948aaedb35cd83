"""Mixtures of any family of atoms against a sketch: least squares with all parameters free.

Works with every :class:`~sketchlearn.atoms.Atom`, in float64.  The decoders for Gaussian mixtures have a faster
path of their own; this one serves other families and the published algorithms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, minimize, nnls

from sketchlearn.atoms.base import Array, Atom, ComplexArray
from sketchlearn.decoders.problem import Problem
from sketchlearn.features.operator import Operator


@dataclass(frozen=True, eq=False)
class AtomProblem:
    """A decoding problem for a family of atoms, in float64.

    Units are normalised, or those of the centred data with their standard deviation as `spread`.

    Attributes
    ----------
    atom : Atom
        The family.
    operator : Operator
        Frequencies.
    z : ndarray (m,) complex
        The centred sketch.
    u, n, added
        As in :class:`~sketchlearn.decoders.problem.Problem`.
    smallest, largest : float
        Variances of a component, at least and at most.
    box : tuple of ndarray
        Bounds of the places.
    spread : float
        Standard deviation of the data.
    """

    atom: Atom
    operator: Operator
    z: ComplexArray
    u: Array
    n: float
    added: Array
    smallest: float
    largest: float
    box: tuple[Array, Array]
    spread: float = 1.0

    @classmethod
    def of(cls, problem: Problem, atom: Atom, smallest: float, largest: float, unit: float = 1.0) -> AtomProblem:
        """From a normalised decoding problem, in units of which `unit` make one of that problem."""
        z = problem.z.astype(np.float64)
        u = problem.u.astype(np.float64)
        operator = problem.operator.astype(np.float64)
        return cls(
            atom=atom,
            operator=operator if unit == 1.0 else operator.scaled(1.0 / unit),
            z=z[0] + 1j * z[1],
            u=u / float(u.sum()),
            n=problem.n,
            added=problem.added,
            smallest=smallest * unit**2,
            largest=largest * unit**2,
            box=(problem.box[0] * unit, problem.box[1] * unit),
            spread=unit,
        )

    def atoms(self, fit: AtomFit) -> ComplexArray:
        """Values of the atoms, (k, m)."""
        return self.atom.value(fit.means, fit.shapes, self.operator)

    def residual(self, fit: AtomFit) -> ComplexArray:
        """Sketch minus model."""
        return self.z - fit.weights @ self.atoms(fit)

    def misfit(self, fit: AtomFit) -> float:
        """Weighted squared residual."""
        return float(self.u @ np.abs(self.residual(fit)) ** 2)

    def solve_weights(self, atoms: ComplexArray) -> Array:
        """Non-negative least squares."""
        root = np.sqrt(self.u)
        design = np.concatenate([(atoms * root).real, (atoms * root).imag], 1).T
        target = np.concatenate([(self.z * root).real, (self.z * root).imag])
        try:
            return nnls(design, target, maxiter=30 * design.shape[1] + 100)[0]
        except RuntimeError:
            return np.maximum(np.linalg.lstsq(design, target, rcond=None)[0], 0.0)

    def reweighted(self, u: Array) -> AtomProblem:
        """The same with other weights of the frequencies."""
        return replace(self, u=u / u.sum())

    def refine(self, fit: AtomFit, steps: int) -> AtomFit:
        """Quasi-Newton steps over all means, weights and shapes, within their bounds."""
        k, d = fit.means.shape
        shape_rows, s = fit.shapes.shape
        low_s, high_s = self.atom.shape_bounds(d, self.smallest, self.largest)
        lower = np.concatenate([np.tile(self.box[0], k), np.zeros(k), np.tile(low_s, shape_rows)])
        upper = np.concatenate([np.tile(self.box[1], k), np.full(k, np.inf), np.tile(high_s, shape_rows)])
        units = self._units(fit)
        energy = 1e-3 * float(self.u @ np.abs(self.z) ** 2)

        def unpack(v: Array) -> tuple[Array, Array, Array]:
            x = v * units
            return x[: k * d].reshape(k, d), x[k * d : k * d + k], x[k * d + k :].reshape(shape_rows, s)

        def fun(v: Array) -> tuple[float, Array]:
            means, weights, shapes = unpack(v)
            atoms = self.atom.value(means, shapes, self.operator)
            r = self.z - weights @ atoms
            pull = self.u * r
            g_weights = -2.0 * (np.conj(pull) * atoms).real.sum(1)
            g_means, g_shapes = self.atom.vjp(means, shapes, self.operator, -2.0 * weights[:, None] * pull)
            value = float((np.conj(r) * pull).real.sum())
            gradient = np.concatenate([g_means.ravel(), g_weights, g_shapes.ravel()]) * units
            return value / energy, gradient / energy

        x0 = np.concatenate([fit.means.ravel(), fit.weights, fit.shapes.ravel()])
        start = np.clip(x0, lower, upper) / units
        # SciPy's line search leaves saddle points, where the published algorithms like to start
        options: Any = {"maxiter": steps, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-10}
        bounds = Bounds(lower / units, upper / units)
        found = minimize(fun, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        v, value = found.x, float(found.fun)
        means, weights, shapes = unpack(v)
        if not np.isfinite(value):
            return replace(fit, value=self.misfit(fit))
        return AtomFit(means, weights, shapes, value * energy)

    def _units(self, fit: AtomFit) -> Array:
        """Step sizes that make the curvature of the misfit about one in every parameter.

        The diagonal of the Gauss-Newton matrix, from products with random signs (Hutchinson).
        """
        a = np.maximum(fit.weights, 0.05 * max(float(fit.weights.mean()), 1e-6))
        root = np.sqrt(self.u)
        h_means, h_shapes = np.zeros_like(fit.means), np.zeros_like(fit.shapes)
        signs = np.random.default_rng(0)
        probes = 24
        for _ in range(probes):
            phase = np.exp(2j * np.pi * signs.uniform(size=(1, len(self.z))))
            g_means, g_shapes = self.atom.vjp(fit.means, fit.shapes, self.operator, a[:, None] * root * phase)
            h_means += 2.0 * g_means**2 / probes
            h_shapes += 2.0 * g_shapes**2 / probes
        h_weights = (np.abs(self.atoms(fit)) ** 2) @ self.u
        h = np.concatenate([h_means.ravel(), h_weights, h_shapes.ravel()])
        parts = [h_means, h_weights, h_shapes]
        floor = np.concatenate([np.full(p.size, 1e-3 * float(p.mean()) if p.size else 0.0) for p in parts])
        return 1.0 / np.sqrt(np.maximum(np.maximum(h, floor), 1e-30))


@dataclass(frozen=True, eq=False)
class AtomFit:
    """Means (k, d), weights (k,) and shapes (k or 1, s) of a mixture, and its misfit."""

    means: Array
    weights: Array
    shapes: Array
    value: float = np.inf

    def select(self, keep: npt.NDArray[np.intp], weights: Array) -> AtomFit:
        """Some of the components."""
        shapes = self.shapes if len(self.shapes) != len(self.means) or len(self.shapes) == 1 else self.shapes[keep]
        return AtomFit(self.means[keep], weights, shapes)


def joined(fit: AtomFit, means: Array, shapes: Array, shared: bool) -> AtomFit:
    """More components."""
    return AtomFit(
        np.vstack([fit.means, means]),
        np.append(fit.weights, np.zeros(len(means))),
        fit.shapes if shared else np.vstack([fit.shapes, shapes]),
    )
