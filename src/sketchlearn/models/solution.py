"""What every decoder says about its result: the certificate, with a code for programs and words for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.arrays import Array

FREE = 1.0 / 3.0
"""Share of the measurements that a fit must leave free: one with as many numbers as the sketch explains anything."""


class Code(StrEnum):
    """How a decoding ended, for programs; the verdict says it in words.

    Examples
    --------
    >>> from sketchlearn.decoders import Code
    >>> Code("misfit") is Code.MISFIT, f"{Code.RELIABLE}"
    (True, 'reliable')
    """

    RELIABLE = "reliable"
    """The misfit is what noise leaves, and the sketch determines every part of the model."""
    GOOD = "good"
    """The model does not explain the data, but is near the best of its kind (centres or mixtures of any rows)."""
    DOUBTFUL = "doubtful"
    """The model may be far from the best of its kind."""
    MISFIT = "misfit"
    """More is left than noise explains: the model is wrong, or parts of it were not found."""
    UNDETERMINED = "undetermined"
    """Noise explains the misfit, but the sketch does not determine some components."""
    UNFINISHED = "unfinished"
    """More is left than noise explains, and the decoder was still moving when it stopped."""
    UNCERTIFIED = "uncertified"
    """There is no certificate for this decoder."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """What is known about the quality of a decoded model; a :class:`~sketchlearn.Model` has this and what was learned.

    Attributes
    ----------
    task, decoder : str
        The task, and the decoder that ran (with its path).
    residual : float
        Misfit of the sketch.
    noise_floor : float
        The misfit that sampling noise alone would cause.
    ratio : float
        residual / noise_floor: near 1 if the model explains the data down to the noise; NaN if it is not known.
    code : Code
        The certificate as a code; None in a file that has none.
    verdict : str
        The certificate in words.
    iterations : int
        Rounds of the decoder.
    trace : sequence of dict
        The decisions of the decoder in their order: ``stage``, ``why`` it ran, what it ``found``, whether that was
        ``accepted``, and ``seconds``; other keys are numbers of a round.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> phi = sl.design(X[::5], n_components=2, seed=0)
    >>> solution = sl.decode(sl.sketch(X, phi), 2)
    >>> solution.reliable, str(solution.code), solution.centers.shape
    (True, 'reliable', (2, 2))
    """

    places: ClassVar[tuple[str, ...]] = ()
    """Fields that hold places among the rows, (k, d)."""

    task: str
    decoder: str = ""
    residual: float = float("nan")
    noise_floor: float = float("nan")
    ratio: float = float("nan")
    code: Code = Code.UNCERTIFIED
    verdict: str = "not certified: this decoder has no certificate"
    iterations: int = 0
    trace: Sequence[Mapping[str, Any]] = ()

    @property
    def reliable(self) -> bool:
        """Whether the sketch supports the model; None if a file has no certificate at all."""
        return self.code and self.code == Code.RELIABLE  # type: ignore[return-value]

    @property
    def nearness(self) -> str:
        """How near the model is to the best of its kind, in words, where that is known."""
        return ""

    def explain(self) -> str:
        """The decisions of the decoder in words: which stages ran, what each found, and why it went on.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> stage = {"stage": "greedy search", "why": "always first", "found": "misfit 1.1", "seconds": 0.2}
        >>> print(sl.Solution(task="kmeans", decoder="mine", verdict="reliable", trace=(stage,)).explain())
        mine: reliable
        1. greedy search (0.20 s). Why: always first. Found: misfit 1.1
        """
        lines = [f"{self.decoder or 'decoder'}: {self.verdict or 'no verdict'}"]
        lines += [f"{i}. {_in_words(record)}" for i, record in enumerate(self.trace, 1)]
        return "\n".join(lines if self.trace else [*lines, "No decisions were recorded."])

    def within(self, lower: Array | None, upper: Array | None) -> Self:
        """The solution with its places moved into the box of the rows, where there is one.

        The mean of some rows is never outside of it; where the sketch says little about a column, a decoder may be.
        """
        moved = {}
        for name in self.places:
            place = getattr(self, name)
            if lower is not None and upper is not None and lower.shape == place.shape[1:]:
                moved[name] = np.clip(place, lower, upper)
        return replace(self, **moved) if moved else self


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRankSolution(Solution):
    """A second moment ``vectors @ diag(values) @ vectors.T + isotropic * I``.

    Residual and noise floor are root mean squares of what the solution leaves of the measurements and of their
    sampling error, both relative to the measurements.  The sampling error is that of normal data with this second
    moment.

    Attributes
    ----------
    values, vectors : ndarray (r,), (dim, r)
        Eigenvalues in falling order (without the isotropic part), and orthonormal eigenvectors.
    isotropic : float
        Variance in every direction that the r eigenvectors leave over.
    mean : ndarray (dim,)
        Mean of the rows.
    resolution : float
        Eigenvalues below this can't be told from what the residual does to them.
    converged : bool
        Whether the decoder stopped because nothing changed any more.
    free : float
        Share of the measurements that the fit leaves free; NaN if they are noisy, so that shares can't be told.
    """

    values: Array
    vectors: Array
    isotropic: float
    mean: Array
    resolution: float
    converged: bool
    free: float = float("nan")

    def captured(self, components: int) -> tuple[float, float]:
        """Variance along some components as a share of the most that so many can have: an estimate, and a low one.

        The low one takes the error of what was not measured for that of what was (generalised cross-validation: Golub,
        Heath and Wahba 1979).  Both are NaN where too little is left free to tell.
        """
        if not self.free >= FREE:
            return float("nan"), float("nan")
        out = []
        for s in (self.resolution, self.resolution / math.sqrt(self.free)):
            held, most = (float(v.sum()) + components * self.isotropic for v in spikes(self.values[:components], s))
            out.append(held / most if most > 0.0 else 1.0)
        return out[0], out[1]


def spikes(values: Array, resolution: float) -> tuple[Array, Array]:
    """What the leading eigenvectors of a noisy matrix hold of its variance, and the true eigenvalues, (k,).

    What a fit leaves of its measurements acts on the matrix like a symmetric matrix of independent noise whose
    eigenvalues reach twice the resolution s (the fit has taken up noise, so the residual shows half of it; see
    ``tests/decoders/lowrank``).  An eigenvalue v of a matrix with such noise shows as ``v + s^2 / v``, and its
    eigenvector holds ``v - s^2 / v``; up to s it can't be told from noise (Benaych-Georges and Nadakuditi, Adv. Math.
    227, 2011).
    """
    s, seen = resolution, np.maximum(values, 0.0)
    true = np.where(seen > 2.0 * s, 0.5 * (seen + np.sqrt(np.maximum(seen**2 - 4.0 * s**2, 0.0))), 0.0)
    return np.where(true > 0.0, true - s**2 / np.where(true > 0.0, true, 1.0), 0.0), true


def _in_words(record: Mapping[str, Any]) -> str:
    """A record of a trace as one line."""
    known = ("stage", "found", "why", "seconds", "accepted")
    seconds = record.get("seconds")
    said = f"{record.get('stage', 'round')}{f' ({seconds:.2f} s)' if isinstance(seconds, int | float) else ''}"
    for key in ("why", "found"):
        if record.get(key):
            said += f". {key.capitalize()}: {record[key]}"
    if record.get("accepted"):
        said += "; accepted"
    more = {key: value for key, value in record.items() if key not in known and isinstance(value, str | int | float)}
    return said + "".join(f"; {key} {_short(value)}" for key, value in more.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
