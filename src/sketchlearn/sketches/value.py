"""The Sketch: exact sums of the features of some rows, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.encoding import counts
from sketchlearn.features.phases import PhaseMap
from sketchlearn.files import write
from sketchlearn.sketches.checks import at_bits, check_noise, check_range, check_same_features, implausible, in_words
from sketchlearn.sketches.merging import merged, noise_of
from sketchlearn.sketches.origin import PLAIN, Origin
from sketchlearn.sketches.parts import Parts
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.released import noise_to_signal, released_variances
from sketchlearn.sketches.weights import SQUARED_BITS, WEIGHT_BITS, possible_squares, repeated
from sketchlearn.words import html_table

__all__ = ["WEIGHT_BITS", "Sketch", "check_range", "check_same_features", "merge"]


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """Sums of the features of some rows, their number, and their box.

    Sketches are made by :func:`sketchlearn.sketch`, :meth:`empty`, :func:`sketchlearn.load` and by
    adding and subtracting.  The sums of bounded features are integers, so the sketch of some rows is the
    same bytes whatever their order, batches, threads or machines.  Quadratic features without a public
    radius are summed in float64 with an error term: the same to about 15 digits, not to the bit.

    Attributes
    ----------
    features : FeatureMap
        The map whose features are summed.
    sums : ndarray of int64 or float64
        Sums on the grid (for Fourier features two rows: cosines and sines, in units of 2**-22), or pairs of
        float64 (sum and error term) for quadratic features without a radius.
    weight : int
        Total weight of the rows in units of ``2**-weight_bits``.
    weight_bits : int
        0 unless fractional sample weights were used.
    lower, upper : ndarray (dim,)
        The box: the smallest and largest value of each column that was ever added. Subtracting does not shrink it. A
        private sketch has no box: it reaches from minus to plus infinity, and :attr:`has_box` is False.
    skipped : int
        Invalid rows that were left out on request.
    squared_weights : int
        Sum over the rows of the squared weight, in units of 2**-32; a whole weight w stands for w rows and counts
        as w.  By default (and in files of version 1) the total weight.
    privacy : PrivacyRecord or None
        The guarantee of a private release and the noise that it added; None for exact sums.
    extra : mapping
        Optional fields of the file that this version of the library doesn't know; kept, and written back.
    parts : Parts or None
        For a :meth:`tracked` sketch, the record of the sketches that were added and removed. It says nothing about rows
        and is ignored when sketches are compared for equality.
    noise : float
        Variance of known noise in every entry of the mean, besides sampling noise; see :meth:`with_noise`.
    origin : Origin
        How the rows were chosen and weighted, for a private release; sketches are equal whatever it holds.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> a, b = sl.sketch(X[:300], phi), sl.sketch(X[300:], phi)
    >>> a + b == sl.sketch(X, phi)
    True
    >>> (a + b - b).mean.tobytes() == a.mean.tobytes()
    True
    """

    features: FeatureMap
    sums: AnyArray
    weight: int
    weight_bits: int
    lower: Array
    upper: Array
    skipped: int = 0
    squared_weights: int = -1
    privacy: PrivacyRecord | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts | None = None
    noise: float = 0.0
    origin: Origin = PLAIN

    def __post_init__(self) -> None:
        if self.weight < 0 or self.skipped < 0:
            raise ValueError("a sketch can't have a negative number of rows")
        if self.squared_weights < 0:
            object.__setattr__(self, "squared_weights", repeated(self.weight, self.weight_bits))
        for name in ("sums", "lower", "upper"):
            array = getattr(self, name)
            if array.flags.writeable or not array.flags.c_contiguous:
                array = np.array(array, order="C")
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    # -- making ------------------------------------------------------------------------------

    @classmethod
    def empty(cls, features: FeatureMap) -> Sketch:
        """The sketch of no rows: the identity of ``+``.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> s = sl.sketch([[1.0], [2.0]], phi)
        >>> s + sl.Sketch.empty(phi) == s
        True
        """
        return cls(
            features=features,
            sums=np.zeros(features.sums_shape, features.sums_dtype),
            weight=0,
            weight_bits=0,
            lower=np.full(features.dim, np.inf),
            upper=np.full(features.dim, -np.inf),
        )

    @classmethod
    def from_encoded(cls, messages: Iterable[bytes], features: PhaseMap) -> Sketch:
        """The sketch of rows that were sent one by one, as messages of :meth:`sketchlearn.FourierFeatures.encode`.

        Its sums are those of a pass over the rows. It has no box, because nobody saw the rows.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0, quantized=True)
        >>> sl.Sketch.from_encoded((phi.encode([[float(x)]]) for x in range(10)), phi).count
        10
        """
        empty = cls.empty(features)
        sums, rows = np.array(empty.sums), 0
        for message in messages:
            part, count = counts(features, message)
            sums, rows = features.add_sums(sums, part), rows + count
        check_range(features, rows)
        if not rows:
            return empty
        return replace(empty, sums=sums, weight=rows, squared_weights=-1, lower=-empty.lower, upper=-empty.upper)

    def reduced(self) -> Sketch:
        """An equal value with as few weight bits as possible: equal values have equal bytes."""
        if self.weight_bits == 0:
            return self
        common = self.features.common_bits(self.sums)
        if self.weight:
            common = min(common, (self.weight & -self.weight).bit_length() - 1)
        shift = min(self.weight_bits, common)
        if shift == 0:
            return self
        return replace(
            self,
            sums=self.features.shift_sums(self.sums, -shift),
            weight=self.weight >> shift,
            weight_bits=self.weight_bits - shift,
        )

    # -- reading -----------------------------------------------------------------------------

    @property
    def count(self) -> int | float:
        """Number of rows (total weight, if weights were given); an int whenever it is whole."""
        if self.weight_bits == 0:
            return self.weight
        return float(Fraction(self.weight, 2**self.weight_bits))

    @property
    def mean(self) -> AnyArray:
        """Average features, (size,); complex for Fourier features."""
        if self.weight == 0:
            raise ValueError("the sketch is empty: it has no mean")
        return self.features.mean_from_sums(self.sums, float(self.weight))

    @property
    def effective_count(self) -> float:
        """Number of equally weighted rows whose averages would be as noisy as these.

        This is the number of rows if weights are whole numbers (copies), and less if fractional weights differ a lot.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> sl.sketch([[1.0], [2.0]], phi, sample_weight=[3, 2]).effective_count
        5.0
        >>> sl.sketch([[1.0], [2.0]], phi, sample_weight=[0.5, 1.5]).effective_count
        1.6
        """
        if self.weight == 0 or self.squared_weights == repeated(self.weight, self.weight_bits):
            return float(self.count)
        square = Fraction(self.weight, 2**self.weight_bits) ** 2
        return float(square / Fraction(self.squared_weights, 2**SQUARED_BITS))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever added, not even an invalid row."""
        nothing = self.weight == 0 and self.skipped == 0 and not self.sums.any()
        return bool(nothing and np.isposinf(self.lower).all())

    @property
    def has_box(self) -> bool:
        """Whether ``lower`` and ``upper`` are known: not if the sketch is empty or private."""
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @property
    def variances(self) -> Array:
        """Variance of each entry of the mean: sampling noise, and whatever a release added.

        For complex entries the sum of the variances of both parts; ``(1 - |z|^2) / n`` for Fourier features.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=3, scale=0.01, seed=0)
        >>> s = sl.sketch(np.linspace(0, 1, 10_000)[:, None], phi)
        >>> s.variances.round(5)
        array([0.0001, 0.0001, 0.0001])
        """
        if self.weight == 0:
            raise ValueError("the sketch is empty: it has no mean")
        sampling = self.features.feature_variances(self.sums, float(self.weight)) / self.effective_count
        if self.privacy is None:  # (noise in the numbers of rows of groups would look like repetition)
            sampling = np.maximum(sampling, self.features.selection_variances(self.sums, float(self.weight)))
        sampling += self.features.distortion_variances(self.sums, float(self.weight)) + self.noise
        return sampling if self.privacy is None else sampling + released_variances(self)

    @property
    def standard_errors(self) -> Array:
        """Standard deviation of the noise of each entry of the mean: the root of :attr:`variances`.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=3, scale=0.01, seed=0)
        >>> s = sl.sketch(np.linspace(0, 1, 10_000)[:, None], phi)
        >>> s.standard_errors.round(2)
        array([0.01, 0.01, 0.01])
        """
        return np.sqrt(self.variances)

    @property
    def noise_level(self) -> float:
        """Root mean square of the standard errors."""
        return float(np.sqrt(np.mean(self.standard_errors**2)))

    nsr = property(noise_to_signal)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return int(self.sums.nbytes)

    # -- algebra -----------------------------------------------------------------------------

    def __add__(self, other: object) -> Sketch:
        if not isinstance(other, Sketch):
            return NotImplemented
        return merge([self, other])

    def __sub__(self, other: object) -> Sketch:
        if not isinstance(other, Sketch):
            return NotImplemented
        check_same_features(self, other)
        if self.privacy is not None or other.privacy is not None:
            raise ValueError("can't subtract private sketches: their rows can't be separated from the noise")
        if self.parts is not None and self.parts.knows(other) is False:
            raise ValueError("can't subtract these rows: the record of the sketch says that they were already removed")
        bits = max(self.weight_bits, other.weight_bits)
        left, right = at_bits(self, bits), at_bits(other, bits)
        if right[1] > left[1]:
            raise ValueError(
                f"can't subtract a sketch of {in_words(other.count)} rows from one of {in_words(self.count)}, "
                "so it was never added"
            )
        if other.skipped > self.skipped:
            raise ValueError(
                f"can't subtract a sketch with {other.skipped} skipped rows from one with {self.skipped}, "
                "so it was never added"
            )
        outside = (other.lower < self.lower) | (other.upper > self.upper)
        if other.weight and outside.any():
            k = int(np.argmax(outside))
            raise ValueError(
                f"can't subtract a sketch that was never added: its values of column {k} reach "
                f"[{other.lower[k]:.6g}, {other.upper[k]:.6g}], beyond [{self.lower[k]:.6g}, {self.upper[k]:.6g}]"
            )
        weight = left[1] - right[1]
        sums = self.features.add_sums(left[0], self.features.negate_sums(right[0]))
        noise = noise_of([self, other], weight, bits)
        problem = implausible(self.features, sums, weight, bits, noise, None) if weight else None
        if not weight and not self.features.is_rest(sums, left[0]):
            problem = f"it has as many rows, {in_words(self.count)}, but others"
        if problem:
            raise ValueError(f"can't subtract a sketch that was never added: {problem}")
        squared = self.squared_weights - other.squared_weights
        if not possible_squares(squared, weight, bits):
            squared = -1  # files of version 1 don't know the squares of fractional weights
        return replace(
            self, sums=sums if weight else np.zeros_like(sums), weight=weight, weight_bits=bits,
            skipped=self.skipped - other.skipped, squared_weights=squared,
            parts=None if self.parts is None else self.parts.without(other),
            noise=noise,
            origin=PLAIN if not weight and self.origin == other.origin else self.origin.without(other.origin),
        ).reduced()  # fmt: skip

    def with_noise(self, variance: float) -> Sketch:
        """A copy that declares noise besides sampling noise, for example of a sensor, a channel, or another program.

        Parameters
        ----------
        variance : float
            Mean squared modulus of the noise of an entry of the mean. It is added to noise that was declared before.
            Decoders, certificates and comparisons take it into account. Sums and differences of sketches keep it.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> s = sl.sketch([[1.0], [2.0]], phi)
        >>> (s.with_noise(0.01).variances - s.variances).round(4)
        array([0.01, 0.01, 0.01, 0.01])
        """
        if np.ndim(variance) or not 0 <= variance < np.inf:
            raise ValueError(
                f"variance={variance!r}: one finite number that is not negative, the same for all averages"
            )
        check_noise(self.features, self.weight, self.noise + float(variance))
        return replace(self, noise=self.noise + float(variance))

    def tracked(self) -> Sketch:
        """A copy that records its parts: what is added from now on, and what is removed.

        A part is recognised by its sums, whatever file it was in. The record is stored in the file and in every sum. It
        refuses to remove a part that was removed before. For rows that were never added as a part (some rows of a file,
        for example), it can't know whether they are in the sketch, but the same rows can't be removed twice.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> monday, tuesday = sl.sketch([[1.0], [2.0]], phi), sl.sketch([[1.5], [1.0], [2.0]], phi)
        >>> week = monday.tracked() + tuesday
        >>> rest = week - monday
        >>> week.parts.knows(monday), rest.parts.knows(monday)
        (True, False)
        >>> try:
        ...     rest - monday
        ... except ValueError as error:
        ...     print(error)
        can't subtract these rows: the record of the sketch says that they were already removed
        """
        return self if self.parts is not None else replace(self, parts=Parts.of(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        return self is other or (
            self.weight == other.weight
            and self.weight_bits == other.weight_bits
            and self.skipped == other.skipped
            and self.squared_weights == other.squared_weights
            and self.privacy == other.privacy
            and self.noise == other.noise
            and self.extra == other.extra
            and self.features == other.features
            and np.array_equal(self.sums, other.sums)
            and np.array_equal(self.lower, other.lower)
            and np.array_equal(self.upper, other.upper)
        )

    def __hash__(self) -> int:
        return hash((self.weight, self.weight_bits, self.skipped, self.sums.tobytes()))

    # -- travelling --------------------------------------------------------------------------

    def to_bytes(self, *, embed_frequencies: bool = False) -> bytes:
        """The sketch as bytes in the documented file format.

        Parameters
        ----------
        embed_frequencies : bool
            Store the frequencies themselves and not only their recipe.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> s = sl.sketch([[1.0], [2.0]], phi)
        >>> sl.Sketch.from_bytes(s.to_bytes()) == s
        True
        """
        from sketchlearn.sketches import file

        return file.encode(self, embed_frequencies=embed_frequencies)

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Sketch:
        """Inverse of :meth:`to_bytes`; raises :class:`~sketchlearn.SketchFileError` for anything else."""
        from sketchlearn.sketches import file

        return file.decode(data)

    def save(self, path: str | PathLike[str], *, embed_frequencies: bool = False) -> None:
        """Write the sketch to a file, atomically.

        Examples
        --------
        >>> import sketchlearn as sl, tempfile, pathlib
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> s = sl.sketch([[1.0], [2.0]], phi)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     s.save(pathlib.Path(folder) / "day.sketch")
        ...     sl.load(pathlib.Path(folder) / "day.sketch") == s
        True
        """
        write(path, self.to_bytes(embed_frequencies=embed_frequencies))

    def __reduce__(self) -> tuple[Any, ...]:
        return Sketch.from_bytes, (self.to_bytes(),)

    # -- for people --------------------------------------------------------------------------

    def summary(self) -> dict[str, str]:
        """Facts about the sketch, as pairs of label and text."""
        from sketchlearn.sketches.summary import facts

        return facts(self)

    def __repr__(self) -> str:
        facts = self.summary()
        width = max(map(len, facts))
        return "Sketch\n" + "\n".join(f"  {k:<{width}}  {v}" for k, v in facts.items())

    def _repr_html_(self) -> str:
        return html_table("Sketch", self.summary().items())


def merge(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of all rows behind several sketches.

    Parameters
    ----------
    sketches : iterable of Sketch
        At least one; all with the same feature map.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> days = [sl.sketch([[float(day)]], phi) for day in range(1000)]
    >>> sl.merge(days).count
    1000
    """
    total: Sketch | None = None
    pending: list[Sketch] = []
    for s in sketches:
        if not isinstance(s, Sketch):
            raise TypeError(f"merge takes sketches, got {type(s).__name__}")
        if total is None:
            total = s
            continue
        check_same_features(total, s)
        pending.append(s)
        if len(pending) == 256:
            total, pending = merged([total, *pending]), []
    if total is None:
        raise ValueError("nothing to merge: no sketch was given")
    return merged([total, *pending]) if pending else total


def pooled(sketches: Iterable[Sketch]) -> Sketch:
    """All rows behind several sketches, exact or private, for a computation that keeps the sum to itself.

    Guarantees are added up, which holds whoever is behind the sketches; what the sum is made of may promise less.
    """
    parts = list(sketches)
    for s in parts[1:]:
        check_same_features(parts[0], s)
    return merged(parts, pool=True)
