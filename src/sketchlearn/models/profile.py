"""Misfit and noise floor of a model, by radius of the frequencies."""

from __future__ import annotations

from dataclasses import dataclass

from sketchlearn.arrays import Array


@dataclass(frozen=True, eq=False)
class Profile:
    """Averages over frequencies of about the same radius, from low to high.

    The radius is ``sqrt(w'Cw)`` with C the covariance of the whole mixture: radius 1 sees differences of one
    standard deviation of the data, ten times the radius sees details ten times finer.

    `radius`: geometric mean of the radii in each bin, (b,). `signal`: mean squared modulus of the sketch, (b,).
    `misfit`: mean squared modulus of sketch minus model, (b,). `floor`: what noise leaves if the model is right and its
    parameters were fitted, (b,). `sampling`: noise of the sketch itself, (b,): ``(1 - |z|^2) / n``, and what a release
    added. `size`: number of frequencies, (b,).

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.profile import residual_profile
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=2, seed=0))
    >>> p = residual_profile(s, sl.decode(s, 2, random_state=0).mixture)
    >>> bool(p.misfit[-1] < 3 * p.floor[-1]), bool(p.signal[0] > 100 * p.misfit[0])
    (True, True)
    """

    radius: Array
    signal: Array
    misfit: Array
    floor: Array
    sampling: Array
    size: Array
