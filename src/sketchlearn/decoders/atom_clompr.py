"""CL-OMPR for any family of atoms: greedy, one component at a time, with replacement.

Keriven, Bourrier, Gribonval & Perez (2018), "Sketching for large-scale learning of mixture models"; Keriven (2017),
Algorithms 3 and 4.  Kept as published, with one addition that can be switched off: the choice of the best of a few
candidates before each ascent.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.atoms.base import Array, ComplexArray
from sketchlearn.decoders.atom_problem import AtomFit, AtomProblem, joined
from sketchlearn.decoders.lbfgs import lbfgs

_INNER, _FINAL = 60, 600  # quasi-Newton steps within the loop and at the end


def clompr(problem: AtomProblem, k: int, rng: np.random.Generator, candidates: int) -> AtomFit:
    """2k rounds: add the atom most correlated with the residual, drop the weakest beyond k, refit everything."""
    d, shared = problem.operator.shape[1], problem.atom.shared
    variance = width(problem, k)
    fit = AtomFit(np.zeros((0, d)), np.zeros(0), problem.atom.round_shapes([variance], d)[: 1 if shared else 0])
    for step in range(2 * k):
        residual = problem.z if len(fit.means) == 0 else problem.residual(fit)
        mean, shape = ascend(problem, residual, variance, fit.shapes if shared else None, rng, candidates)
        fit = joined(fit, mean, shape, shared)
        if len(fit.means) > k:
            fit = hard_threshold(problem, fit, k)
        fit = AtomFit(fit.means, problem.solve_weights(problem.atoms(fit)), fit.shapes)
        fit = problem.refine(fit, _FINAL if step == 2 * k - 1 else _INNER)
    return fit


def width(problem: AtomProblem, k: int) -> float:
    """A first variance of a component, from where |z|^2 falls to exp(-2)/k."""
    radii = np.sqrt(problem.operator.squared_norms)
    strong = np.abs(problem.z) ** 2 - problem.added >= np.exp(-2.0) / k
    return 2.0 / float(np.quantile(radii[strong], 0.9) if strong.any() else radii.min()) ** 2


def ascend(
    problem: AtomProblem,
    residual: ComplexArray,
    variance: float,
    frozen: Array | None,
    rng: np.random.Generator,
    candidates: int,
) -> tuple[Array, Array]:
    """A local maximum of the correlation of a normalised atom with the residual (Keriven 2017, eq. 4.14)."""
    atom, d = problem.atom, problem.operator.shape[1]
    points = problem.spread * rng.standard_normal((candidates, d))
    points = np.clip(points, *problem.box)
    widths = variance * rng.uniform(0.5, 1.5, candidates)
    shapes = np.repeat(frozen, candidates, 0) if frozen is not None else atom.round_shapes(widths, d)
    plain = np.repeat(shapes[:1], candidates, 0) if len(shapes) == 1 else shapes
    atoms = np.concatenate(
        [atom.value(points[i : i + 1], plain[i : i + 1], problem.operator) for i in range(candidates)]
    )
    norms = np.sqrt((np.abs(atoms) ** 2).sum(1))
    first = int(np.argmax((np.conj(residual) * atoms).real.sum(1) / norms))
    low, high = atom.shape_bounds(d, problem.smallest, problem.largest)
    if frozen is not None:
        low = high = plain[first]
    lower, upper = np.append(problem.box[0], low), np.append(problem.box[1], high)
    unit = np.append(np.full(d, np.sqrt(variance)), np.maximum(np.abs(plain[first]), 0.1 * np.sqrt(variance)))

    def fun(v: Array) -> tuple[float, Array]:
        x = v * unit
        mean, shape = x[None, :d], x[None, d:]
        f = atom.value(mean, shape, problem.operator)
        norm = float(np.sqrt((np.abs(f) ** 2).sum()))
        height = float((np.conj(residual) * f[0]).real.sum()) / norm
        g_mean, g_shape = atom.vjp(mean, shape, problem.operator, (residual - height / norm * f[0])[None])
        return -height, -np.concatenate([g_mean[0], g_shape[0]]) / norm * unit

    start = np.clip(np.append(points[first], plain[first]), lower, upper)
    x = lbfgs(fun, start / unit, lower / unit, upper / unit, _INNER, 10, 1e-9)[0] * unit
    return x[None, :d], x[None, d:]


def hard_threshold(problem: AtomProblem, fit: AtomFit, k: int) -> AtomFit:
    """The k components with the largest weights of normalised atoms."""
    atoms = problem.atoms(fit)
    norms = np.sqrt((np.abs(atoms) ** 2) @ problem.u)
    beta = problem.solve_weights(atoms / norms[:, None])
    keep = np.sort(np.argsort(-beta)[:k])
    return fit.select(keep, fit.weights[keep])
