"""What noise does to a fitted union of subspaces: the misfit that it leaves, and the angles by which it turns them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.subspaces.flats import Data, Flats

Array = npt.NDArray[np.float64]

_DRAWS = 400  # rows that measure the noise
_SAMPLES = 200  # of errors
_ROUNDING = 1e-9  # relative, of the normal equations


@dataclass(frozen=True, eq=False)
class Errors:
    """Noise of a fit.

    Attributes
    ----------
    floor, deviation : float
        Misfit that noise leaves of a right model whose parameters were fitted, and its relative standard deviation.
    angles : ndarray (k,)
        Root mean square of the largest principal angle between each subspace and the true one, in radians.
    """

    floor: float
    deviation: float
    angles: Array


def errors_of(data: Data, flats: Flats, rng: np.random.Generator) -> Errors:
    """Errors by linearising about the mixture, with the noise of rows that are drawn from it.

    Rows are drawn from the model, and the model is changed to explain each as well as it can: what is left over is
    noise of the misfit, the change is n times the row's part in the error of the estimate.
    """
    flats = flats.orthonormal()
    columns, model = _tangent(data, flats)
    g, d, r = flats.bases.shape
    root = np.sqrt(data.importance)
    columns *= np.tile(root, 2)[:, None]
    scale = np.sqrt(np.einsum("mp,mp->p", columns, columns)) + 1e-30
    columns /= scale
    normal = columns.T @ columns
    normal[np.diag_indices_from(normal)] += _ROUNDING * len(normal)
    rows, _ = flats.draw(_DRAWS, rng)
    phases = (data.frequencies @ rows.T).astype(np.float64)
    noise = np.concatenate([np.cos(phases) - model.real[:, None], np.sin(phases) - model.imag[:, None]])
    if data.added.any():
        noise += np.tile(np.sqrt(0.5 * data.added * data.rows), 2)[:, None] * rng.standard_normal(noise.shape)
    noise *= np.tile(root, 2)[:, None]
    change = np.linalg.solve(normal, columns.T @ noise)
    noise -= columns @ change
    floor = 0.5 * float((noise * noise).sum()) / _DRAWS / data.rows
    products = noise.T @ noise
    off = products[~np.eye(_DRAWS, dtype=bool)]
    deviation = float(np.sqrt(2.0 * np.mean(off**2))) / float(np.trace(products) / _DRAWS)
    turns = (change / scale[:, None])[: g * (d - r) * r]
    mixed = turns @ rng.standard_normal((_DRAWS, _SAMPLES)) / np.sqrt(_DRAWS * data.rows)
    mixed = mixed.reshape(g, d - r, r, _SAMPLES).transpose(0, 3, 1, 2)
    largest = np.linalg.norm(mixed, 2, axis=(2, 3)) if d > r else np.zeros((g, _SAMPLES))
    return Errors(floor, deviation, np.arctan(np.sqrt(np.mean(largest**2, axis=1))))


def _tangent(data: Data, flats: Flats) -> tuple[Array, npt.NDArray[np.complex128]]:
    """Derivatives of the sketch of the mixture (2m, p), those by turns of the subspaces first, and the sketch itself.

    A turn of a subspace is a change of its basis in directions orthogonal to it, (d - r, r).
    """
    w = data.frequencies.astype(np.float64)
    g, c, r = flats.places.shape
    d = w.shape[1]
    weights, variance = flats.weights, np.exp(flats.log_variance)
    squares = (w * w).sum(1)
    turns, others = [], []
    model = np.zeros(len(w), complex)
    for l in range(g):
        basis = flats.bases[l]
        across = w @ np.linalg.svd(basis)[0][:, r:]
        along = w @ basis
        pull = np.zeros((len(w), r), complex)
        for j in range(c):
            covariance = flats.roots[l, j] @ flats.roots[l, j].T
            bent = along @ covariance
            atom = np.exp(
                1j * (along @ flats.places[l, j]) - 0.5 * ((along * bent).sum(1) + variance * squares)
            )  # (m,)
            model += weights[l, j] * atom
            weighed = weights[l, j] * atom
            pull += weighed[:, None] * (1j * flats.places[l, j] - bent)
            others += [atom[:, None], 1j * weighed[:, None] * along]
            p, q = np.tril_indices(r)
            others.append(-0.5 * weighed[:, None] * along[:, p] * along[:, q])
        turns.append((across[:, :, None] * pull[:, None]).reshape(len(w), (d - r) * r))
    for i, part in enumerate(others):
        if part.shape[1] == 1 and i % 3 == 0:
            others[i] = part - model[:, None]  # weights sum to 1
    columns = np.concatenate([*turns, *others, -0.5 * variance * (squares * model)[:, None]], axis=1)
    return np.concatenate([columns.real, columns.imag]), model
