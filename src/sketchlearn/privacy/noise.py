"""Whole-number noise from the operating system's generator: OpenDP's exact samplers, and a circular one built on them.

OpenDP draws discrete Laplace and Gaussian variables by exact rational arithmetic from a cryptographic generator: no
floating-point number takes part in a sample, so there are no gaps between values that would tell what was added to what
(Mironov 2012; Canonne, Kamath and Steinke 2020).

The circular Laplace law on pairs, ``P(y) ~ exp(-|y|_2 / b)``, is drawn by rejection: a pair of independent discrete
Laplace variables of scale B >= sqrt(2) b has ``|y|_1 / B <= |y|_2 / b``, and is kept with probability
``exp(|y|_1 / B - |y|_2 / b)``; 78 of 100 are.  A uniform number of 64 random bits is compared with that probability in
float64; whenever both are closer than 1e-9, which is more than rounding could hide, more bits are drawn and both are
compared in decimal arithmetic of as many digits as it takes.  The decision
is that of exact real numbers.

Noise never has a seed.  :func:`insecure_noise` is for tests and simulations: it warns, and what is released under it
says so.
"""

from __future__ import annotations

import decimal
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import warn
from sketchlearn.optional import optional

Integers = npt.NDArray[np.int64]
_CLOSE = 1e-9
LARGEST_SCALE = 2.0**55
"""Of noise: proposals then leave int64 with a probability below 2**-256."""
_lock = threading.Lock()

_insecure: ContextVar[np.random.Generator | None] = ContextVar("insecure_noise", default=None)


class InsecureNoiseWarning(UserWarning):
    """Noise comes from a seed: nothing released now is private.

    Examples
    --------
    >>> from sketchlearn.privacy import InsecureNoiseWarning
    >>> issubclass(InsecureNoiseWarning, UserWarning)
    True
    """


@contextmanager
def insecure_noise(seed: int) -> Iterator[None]:
    """Noise from a seed, for tests and simulations; warns, and marks every record made inside.

    Examples
    --------
    >>> import warnings
    >>> from sketchlearn.privacy import insecure_noise
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     with insecure_noise(0):
    ...         pass
    >>> str(heard[0].message)
    'the noise is drawn from a seed: nothing that is released here is private'
    """
    warn("the noise is drawn from a seed: nothing that is released here is private", InsecureNoiseWarning)
    token = _insecure.set(np.random.default_rng(seed))
    try:
        yield
    finally:
        _insecure.reset(token)


def is_insecure() -> bool:
    """Whether noise comes from a seed now."""
    return seeded() is not None


def seeded() -> np.random.Generator | None:
    """What draws noise from a seed, in a test; else None."""
    return _insecure.get()


def generator() -> str:
    """What draws the noise, for the record."""
    return "seeded for tests, NOT PRIVATE" if is_insecure() else "OpenDP, operating system's generator"


def random_words(n: int) -> npt.NDArray[np.uint64]:
    """Uniform random numbers of 64 bits from the operating system's generator (or from the seed of a test).

    Examples
    --------
    >>> from sketchlearn.privacy.noise import random_words
    >>> random_words(3).dtype
    dtype('uint64')
    """
    rng = _insecure.get()
    raw = os.urandom(8 * n) if rng is None else rng.bytes(8 * n)
    return np.frombuffer(raw, "<u8").astype(np.uint64)


def ready() -> None:
    """Complain now if noise can't be drawn, before anything is charged for it."""
    if not is_insecure():
        optional("opendp.prelude", "privacy", "noise for a private release")


@contextmanager
def constructors() -> Iterator[Any]:
    """OpenDP, with its constructors: they are behind a flag of the whole program, which is put back."""
    dp = optional("opendp.prelude", "privacy", "noise for a private release")
    flags = optional("opendp.mod", "privacy", "noise for a private release")
    with _lock:
        had = "contrib" in flags.GLOBAL_FEATURES
        dp.enable_features("contrib")
        try:
            yield dp
        finally:
            if not had:
                dp.disable_features("contrib")


def _measured(make: str, metric: str, values: Integers, scale: float) -> Integers:
    """Values through a measurement of OpenDP."""
    with constructors() as dp:
        domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
        distance = dp.l2_distance(T=float) if metric == "l2" else dp.l1_distance(T=dp.i64)
        release = getattr(dp.m, make)(domain, distance, scale=scale)
    return np.array(release(values.ravel().tolist()), np.int64).reshape(values.shape)


def add_gaussian(values: Integers, sigma: float) -> Integers:
    """Values plus independent discrete Gaussian noise; what leaves int64 stays at its end.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.noise import add_gaussian
    >>> noisy = add_gaussian(np.zeros(1000, np.int64), 100.0)
    >>> noisy.dtype, bool(80 < noisy.std() < 120)
    (dtype('int64'), True)
    """
    rng = _insecure.get()
    if rng is not None:
        return saturating_sum(values, np.rint(rng.normal(0.0, sigma, values.shape)).astype(np.int64))
    return _measured("make_gaussian", "l2", values, sigma)


def add_laplace(values: Integers, scale: float) -> Integers:
    """Values plus independent discrete Laplace noise, ``P(y) ~ exp(-|y| / scale)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.noise import add_laplace
    >>> noisy = add_laplace(np.zeros(1000, np.int64), 100.0)
    >>> bool(80 < abs(noisy).mean() < 120)
    True
    """
    rng = _insecure.get()
    if rng is not None:
        p = -np.expm1(-1.0 / scale)
        return saturating_sum(values, rng.geometric(p, values.shape) - rng.geometric(p, values.shape))
    return _measured("make_laplace", "l1", values, scale)


def add_circular(values: Integers, scale: float) -> Integers:
    """Pairs ``values[:, j]`` plus independent noise of density ``exp(-|y|_2 / scale)`` on pairs of integers, (2, n).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.noise import add_circular
    >>> noisy = add_circular(np.zeros((2, 1000), np.int64), 100.0)
    >>> bool(150 < np.hypot(*noisy).mean() < 250)  # twice the scale
    True
    """
    if values.shape[0] != 2:
        raise ValueError(f"circular noise is for pairs, got shape {values.shape}")
    if not scale < LARGEST_SCALE:
        raise OverflowError(f"noise of scale {scale:.3g} does not fit 64-bit sums: fewer features, or a larger epsilon")
    n = values[0].size
    box = float(np.nextafter(scale * np.sqrt(2.0), np.inf)) * (1.0 + 1e-15)
    drawn = np.empty((2, 0), np.int64)
    while drawn.shape[1] < n:
        more = add_laplace(np.zeros((2, int(1.4 * (n - drawn.shape[1])) + 8), np.int64), box)
        drawn = np.concatenate([drawn, more[:, _kept(more, scale, box)]], axis=1)
    return saturating_sum(values, drawn[:, :n].reshape(values.shape))


def _kept(pairs: Integers, scale: float, box: float) -> npt.NDArray[np.bool_]:
    """Which proposals are accepted, decided as exact real numbers would."""
    bits = random_words(pairs.shape[1])
    size = np.abs(pairs.astype(np.float64))
    chance = np.exp((size[0] + size[1]) / box - np.hypot(size[0], size[1]) / scale)
    uniform = bits * 2.0**-64
    kept = uniform < chance
    for i in np.flatnonzero(np.abs(uniform - chance) < _CLOSE * (1.0 + size.max(0) / scale)):
        kept[i] = _decide(int(bits[i]), int(pairs[0, i]), int(pairs[1, i]), scale, box)
    return np.asarray(kept)


def _decide(bits: int, x: int, y: int, scale: float, box: float) -> bool:
    """Whether a uniform number whose first 64 bits are known is below the probability of (x, y)."""
    length = 64
    while True:
        with decimal.localcontext() as context:
            context.prec = 30 + length // 2  # more digits than the uniform number has
            one = decimal.Decimal(x * x + y * y).sqrt() / decimal.Decimal(scale)
            chance = (decimal.Decimal(abs(x) + abs(y)) / decimal.Decimal(box) - one).exp()
            off = chance * decimal.Decimal(10) ** -(context.prec - 12)
            low = decimal.Decimal(bits) / 2**length
            high = decimal.Decimal(bits + 1) / 2**length
            if high < chance - off:
                return True
            if low > chance + off:
                return False
        bits, length = (bits << 64) | int.from_bytes(os.urandom(8), "little"), length + 64


def saturating_sum(values: Integers, noise: Integers) -> Integers:
    """The sum, staying at the ends of int64 instead of turning around."""
    with np.errstate(over="ignore"):
        total = values + noise
    wrapped = ((values ^ total) & (noise ^ total)) < 0
    return np.where(wrapped, np.where(noise > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min), total)
