"""Single rows that protect themselves: devices send randomised answers, and nobody has to be trusted.

A device computes one feature of its row, chosen at random: the signs of a cosine and a sine of a one-bit map.  It tells
the truth with a probability that epsilon allows, and otherwise one of the other answers at random (randomised response,
Warner 1965; Kairouz, Oh and Viswanath 2016).  Whatever the row is, no answer is more than exp(epsilon) times as likely
as for another row, and the one answer is all that ever leaves the device.

The collector counts answers by feature and takes the lies off on average.  With m features, n rows and a probability r
of the observed bit, an average of signs has variance ``4 r (1 - r) m / (n g**2)``, with g the difference between the
probabilities of a bit where it is true and where it is not.  Of the two ways to answer, the one with less noise is
taken: above epsilon = 1.34 both bits of a feature are one answer out of four, ``g = (e - 1) / (e + 3)`` with
``e = exp(epsilon)``; below, one of the two bits, ``g = (e - 1) / (e + 1)`` and half as many answers for each.

The noise of a release with a trusted curator falls with the number of rows; this one falls with its square root only
(Duchi, Jordan and Wainwright 2013): local answers need about ``m / epsilon**2`` times as many rows.

Examples
--------
>>> import sketchlearn as sl
>>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0, quantized=True)
>>> answers = [sl.local.Encoder(phi, epsilon=1.0).encode([[0.3]]) for _ in range(5)]
>>> sl.local.collect(answers, phi, epsilon=1.0).count
5
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

import sketchlearn
from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.privacy import noise
from sketchlearn.sketches.record import PrivacyRecord, together
from sketchlearn.sketches.value import Sketch

__all__ = ["Collector", "Encoder", "collect"]

MAGIC = b"\x89SKANSW\n"
HEADER = struct.Struct("<8sIIdQ16sB")  # magic, version, features, epsilon, answers, fingerprint, noise from a seed
VERSION = 1
_ANSWER = np.dtype([("feature", "<u4"), ("answer", "u1")])
_DIGITS = 60  # of exp(epsilon): more than 64 bits


@dataclass(frozen=True)
class Encoder:
    """What a device needs: the map and epsilon.

    Parameters
    ----------
    features : FourierFeatures
        A one-bit map, ``FourierFeatures.draw(..., quantized=True)``, chosen without looking at rows.
    epsilon : float
        How much one answer may reveal of its row.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0, quantized=True)
    >>> device = sl.local.Encoder(phi, epsilon=2.0)
    >>> messages = [device.encode([[x]]) for x in np.linspace(-1, 1, 500)]
    >>> s = sl.local.collect(messages, phi, epsilon=2.0)
    >>> s.count, s.privacy.epsilon
    (500, 2.0)
    """

    features: FourierFeatures
    epsilon: float

    def __post_init__(self) -> None:
        phi = self.features
        if getattr(phi, "dither", None) is None or phi.kept != phi.size:
            raise ValueError("local answers are signs of features: draw the map with quantized=True, not subsampled")
        if not (isinstance(self.epsilon, int | float) and 0.0 < self.epsilon <= 50.0):
            raise ValueError(f"epsilon must be positive and at most 50, got {self.epsilon!r}")

    @property
    def alternatives(self) -> int:
        """Answers to choose from: both bits of a feature, or one of them."""
        e = math.exp(self.epsilon)
        return 4 if e + 3.0 < math.sqrt(2.0) * (e + 1.0) else 2

    @cached_property
    def truth(self) -> int:
        """Probability of the true answer, in units of 2**-64: rounded down, so that no ratio exceeds exp(epsilon)."""
        with decimal.localcontext() as context:
            context.prec = _DIGITS
            e = decimal.Decimal(self.epsilon).exp()
            return min(2**64 - 1, int(e / (e + self.alternatives - 1) * 2**64))

    @property
    def gain(self) -> float:
        """How much more probable a bit is if it is true."""
        p = self.truth * 2.0**-64
        lie = (1.0 - p) / (self.alternatives - 1)
        return p + lie - 2.0 * lie if self.alternatives == 4 else p - lie

    @property
    def choices(self) -> int:
        """Questions of which a device answers one: features, or bits of features."""
        return self.features.size * (1 if self.alternatives == 4 else 2)

    def encode(self, X: npt.ArrayLike) -> bytes:
        """A message with one randomised answer for each row; a device has one row.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0, quantized=True)
        >>> len(sl.local.Encoder(phi, epsilon=1.0).encode([[0.3]]))
        54
        """
        phi = self.features
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != phi.dim:
            raise ValueError(f"expected rows with {phi.dim} columns, got an array of shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("a row holds NaN or infinity: it has no features")
        n = len(rows)
        question = (noise.random_words(n) % np.uint64(self.choices)).astype(np.int64)
        bits = self._bits(rows, question % phi.size)
        true = bits[0] + 2 * bits[1] if self.alternatives == 4 else np.where(question < phi.size, bits[0], bits[1])
        lies = noise.random_words(n) >= np.uint64(self.truth)
        other = 1 + _below(self.alternatives - 1, n)
        answers = np.empty(n, _ANSWER)
        answers["feature"] = question
        answers["answer"] = (true + lies * other) % self.alternatives
        seeded = noise.is_insecure()
        head = HEADER.pack(MAGIC, VERSION, phi.size, self.epsilon, n, bytes.fromhex(phi.fingerprint), seeded)
        return head + answers.tobytes()

    def _bits(self, rows: npt.NDArray[np.float64], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Whether cosine and sine of one feature of each row are negative, (2, n)."""
        phi = self.features
        assert phi.dither is not None
        apart = rows if phi.center is None else rows - np.asarray(phi.center, np.float64)
        if phi.structure == "dense":
            phases = np.einsum("nd,nd->n", apart, phi.frequencies[at])
        else:
            phases = phi.operator(dtype=np.float64).forward(apart)[np.arange(len(rows)), at]
        t = phases + math.pi * phi.dither.astype(np.float64)[at]
        return np.stack([np.cos(t) < 0, np.sin(t) < 0]).astype(np.int64)


def _below(limit: int, n: int) -> npt.NDArray[np.int64]:
    """Whole numbers below a limit, all equally likely."""
    if limit == 1:
        return np.zeros(n, np.int64)
    out = noise.random_words(n)
    fair = np.uint64(2**64 - 2**64 % limit - 1)  # the last number of whole runs of the limit
    while (beyond := out > fair).any():
        out[beyond] = noise.random_words(int(beyond.sum()))
    return (out % np.uint64(limit)).astype(np.int64)


class Collector:
    """Counts of answers: what a server holds.  Adding is exact, in any order.

    Parameters
    ----------
    features, epsilon
        As for :class:`Encoder`.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0, quantized=True)
    >>> server = sl.local.Collector(phi, epsilon=1.0)
    >>> server.add(sl.local.Encoder(phi, epsilon=1.0).encode([[0.3]] * 100))
    >>> server.answers
    100
    """

    def __init__(self, features: FourierFeatures, epsilon: float) -> None:
        self.encoder = Encoder(features, epsilon)
        # answers by question, and how many of them say that a bit is negative: cosine, sine
        self._asked = np.zeros((2, features.size), np.int64)
        self._negative = np.zeros((2, features.size), np.int64)
        self._sources: dict[str, None] = {}

    @property
    def answers(self) -> int:
        """How many answers have come."""
        asked = self._asked[0] if self.encoder.alternatives == 4 else self._asked
        return int(asked.sum())

    def add(self, message: bytes | bytearray | memoryview) -> None:
        """Count the answers of a message; ``SketchFileError`` if the message has another map or epsilon."""
        view = memoryview(message).cast("B")
        if len(view) < HEADER.size:
            raise SketchFileError(f"local answers: truncated after {len(view)} bytes")
        magic, version, size, epsilon, count, fingerprint, seeded = HEADER.unpack(view[: HEADER.size])
        phi = self.encoder.features
        if magic != MAGIC or version != VERSION:
            raise SketchFileError("local answers: not a message of this version")
        if size != phi.size or fingerprint.hex() != phi.fingerprint or epsilon != self.encoder.epsilon:
            raise SketchFileError(f"local answers: made with another map, or epsilon={epsilon:g}")
        if len(view) != HEADER.size + count * _ANSWER.itemsize:
            raise SketchFileError(f"local answers: {len(view)} bytes long, not what {count} answers take")
        answers = np.frombuffer(view[HEADER.size :], _ANSWER)
        question, said = answers["feature"].astype(np.int64), answers["answer"].astype(np.int64)
        if (question >= self.encoder.choices).any() or (said >= self.encoder.alternatives).any():
            raise SketchFileError("local answers: an answer to a question that was not asked")
        at = question % phi.size
        if self.encoder.alternatives == 4:
            self._asked += np.bincount(at, minlength=phi.size)
            for part, bit in enumerate((said & 1, said >> 1)):
                self._negative[part] += np.bincount(at, bit, minlength=phi.size).astype(np.int64)
        else:
            for part in (0, 1):
                mine = question // phi.size == part
                self._asked[part] += np.bincount(at[mine], minlength=phi.size)
                self._negative[part] += np.bincount(at[mine], said[mine], minlength=phi.size).astype(np.int64)
        self._sources["seeded for tests, NOT PRIVATE" if seeded else "operating systems' generators of devices"] = None

    def sketch(self) -> Sketch:
        """The sketch of the rows behind the answers. It knows the variance of the random answers.

        A feature without an answer counts as 0, with the variance of an unknown sign.
        """
        phi, n = self.encoder.features, self.answers
        if not n:
            raise ValueError("no answer has come: there is nothing to collect")
        gain = self.encoder.gain
        asked = np.maximum(self._asked, 1)
        share = np.where(self._asked > 0, self._negative / asked, 0.5)
        negative = 0.5 + (share - 0.5) / gain
        # a share of 0 or 1 among few answers is not without error: one answer more of each kind
        safe = (self._negative + 1.0) / (self._asked + 2.0)
        variance = float(np.mean(safe * (1.0 - safe) / asked)) / gain**2
        sums = np.rint(n * negative).astype(np.int64)
        record = PrivacyRecord(
            mechanism="randomised response",
            epsilon=float(self.encoder.epsilon),
            delta=0.0,
            relation="replace-one",
            records_per_user=1,
            sums_variance=n * n * variance,
            weight_variance=0.0,
            library=sketchlearn.__version__,
            details={
                "model": "local",
                "alternatives": self.encoder.alternatives,
                "gain": gain,
                "rho": 0.5 * self.encoder.epsilon**2,
                "map": "sent to the devices",
                "noise": together(self._sources),
            },
        )
        nowhere = np.full(phi.dim, np.inf)
        return Sketch(phi, sums, n, 0, -nowhere, nowhere, privacy=record)


def collect(messages: Iterable[bytes], features: FourierFeatures, epsilon: float) -> Sketch:
    """The sketch of rows whose devices sent randomised answers.

    Parameters
    ----------
    messages : iterable of bytes
        From :meth:`Encoder.encode`.
    features, epsilon
        As for :class:`Encoder`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=10, scale=1.0, seed=0, quantized=True)
    >>> device = sl.local.Encoder(phi, epsilon=3.0)
    >>> X = np.random.default_rng(0).normal(size=(10_000, 1))
    >>> s = sl.local.collect([device.encode(X)], phi, epsilon=3.0)
    >>> bool(np.abs(s.mean - sl.sketch(X, phi).mean).max() < 0.3)
    True
    """
    server = Collector(features, epsilon)
    for message in messages:
        server.add(message)
    return server.sketch()
