"""What noise does to a fitted union of subspaces: the misfit that it leaves, and the angles by which it turns them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array, Complex
from sketchlearn.decoders.certificate.tangent import DRAWS
from sketchlearn.decoders.certificate.whitened import real
from sketchlearn.decoders.noise import ROUNDING
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.subspaces.flats import Flats


@dataclass(frozen=True, eq=False)
class Errors:
    """Noise of a fit."""

    floor: float  # misfit that noise leaves of a right model whose parameters were fitted
    deviation: float  # and its relative standard deviation
    angles: (
        Array  # root mean square of the largest principal angle between each subspace and the true one, radians, (k,)
    )


def errors_of(problem: Problem, flats: Flats, rng: np.random.Generator) -> Errors:
    """Errors by linearising about the mixture, with the noise of rows that are drawn from it.

    Rows are drawn from the model, and the model is changed to explain each as well as it can: what is left over is
    noise of the misfit, the change is n times the row's part in the error of the estimate.
    """
    flats = flats.orthonormal()
    w = problem.operator.frequencies().astype(np.float64)
    derivatives, model = tangent(w, flats)
    g, d, r = flats.bases.shape
    root = np.sqrt(np.tile(problem.u, 2).astype(np.float64))[:, None]
    columns = real(derivatives) * root
    scale = np.sqrt(np.einsum("mp,mp->p", columns, columns)) + 1e-30
    columns /= scale
    normal = columns.T @ columns
    normal[np.diag_indices_from(normal)] += ROUNDING * len(normal)
    rows, _ = flats.draw(DRAWS, rng)
    noise = real(np.exp(1j * (w @ rows.T)) - model[:, None])
    noise += np.tile(np.sqrt(0.5 * problem.added * problem.n), 2)[:, None] * rng.standard_normal(noise.shape)
    noise *= root
    change = np.linalg.solve(normal, columns.T @ noise)
    noise -= columns @ change
    floor = float((noise * noise).sum()) / DRAWS / problem.n
    products = noise.T @ noise
    off = products[~np.eye(DRAWS, dtype=bool)]
    deviation = float(np.sqrt(2.0 * np.mean(off**2))) / float(np.trace(products) / DRAWS)
    turns = (change / scale[:, None])[: g * (d - r) * r]
    mixed = turns @ rng.standard_normal((DRAWS, DRAWS)) / np.sqrt(DRAWS * problem.n)
    mixed = mixed.reshape(g, d - r, r, DRAWS).transpose(0, 3, 1, 2)
    largest = np.linalg.norm(mixed, 2, axis=(2, 3)) if d > r else np.zeros((g, DRAWS))
    return Errors(floor, deviation, np.arctan(np.sqrt(np.mean(largest**2, axis=1))))


def tangent(w: Array, flats: Flats) -> tuple[Complex, Complex]:
    """Derivatives of the sketch of the mixture (m, p), those by turns of the subspaces first, and the sketch itself.

    A turn of a subspace is a change of its basis in directions orthogonal to it, (d - r, r).
    """
    m, r = len(w), flats.places.shape[2]
    squares = flats.variance * (w * w).sum(1)
    p, q = np.tril_indices(r)
    turns, shares, others = [], [], []
    model = np.zeros(m, complex)
    for basis, places, roots, weights in zip(flats.bases, flats.places, flats.roots, flats.weights, strict=True):
        across, along = w @ np.linalg.svd(basis)[0][:, r:], w @ basis
        bent = along @ roots @ roots.transpose(0, 2, 1)  # (c, m, r)
        atoms = np.exp(1j * (places @ along.T) - 0.5 * ((bent * along).sum(2) + squares))
        weighted = (weights[:, None] * atoms)[:, :, None]
        pull = (weighted * (1j * places[:, None] - bent)).sum(0)
        turns.append((across[:, :, None] * pull[:, None]).reshape(m, -1))
        shares.append(atoms.T)
        others += [*(1j * weighted * along), *(-0.5 * weighted * (along[:, p] * along[:, q]))]
        model += weighted.sum((0, 2))
    by_share = np.concatenate(shares, 1) - model[:, None]  # (they sum to 1)
    return np.concatenate([*turns, by_share, *others, -0.5 * (squares * model)[:, None]], axis=1), model
