"""Background models with enrolled speakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.comparison.verification import MeanSpace, log_ratio
from sketchlearn.features.base import FeatureMap
from sketchlearn.models.base import register_model, shown, stored
from sketchlearn.models.components import ComponentModel
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch


@register_model
class VerifierModel(ComponentModel):
    """A background model, how much speakers differ from it, and what is known of those enrolled.

    Attributes
    ----------
    weights, means, covariances : ndarray (k,), (k, d), (k, d)
        The background model.
    recipe : dict
        Of the feature map.
    reference_real, reference_imag : ndarray (m,)
        Sketch of the background.
    between, session, dependence : float
        Variances of shifts between speakers and sessions, and rows that count as one.
    speakers : tuple of str
        Who is enrolled.
    statistics, speaker_rows, speaker_sessions : ndarray (s, p), (s,), (s,), or None
        What their sketches say, of how many rows and sessions.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> verifier = sl.CompressiveVerifier(1, random_state=0).fit(X).enroll("ann", X[:100] + 1.0)
    >>> sl.Model.of(verifier)
    Model(verifier: background of 1 component, 1 speaker enrolled)
    """

    task: str = "verifier"
    title: ClassVar[str] = "Verification"
    thing: ClassVar[str] = "Gaussian component"

    fitted_shape: ClassVar[str | None] = "diag"
    attributes: ClassVar[Mapping[str, str]] = shown("mixture", "space")

    weights: Array = stored("k")
    means: Array = stored("k", "d")
    covariances: Array = stored("k", "d")
    recipe: Mapping[str, Any] = stored(kind=None)  # of a feature map
    reference_real: Array = stored("m")
    reference_imag: Array = stored("m")
    between: float = stored(shown=True)
    session: float = stored(default=0.0, shown=True)
    dependence: float = stored(default=1.0)
    speakers: tuple[str, ...] | None = stored(kind=list, default=None)
    statistics: Array | None = stored("s", "p", default=None)
    speaker_rows: Array | None = stored("s", default=None)
    speaker_sessions: Array | None = stored("s", default=None)

    @property
    def mixture(self) -> Mixture:  # type: ignore[override]
        """The background model."""
        return Mixture(self.weights, self.means, self.covariances)

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        count = len(self.speakers or ())
        return (
            f"background of {self.size} component{'s' * (self.size != 1)}, {count} speaker{'s' * (count != 1)} enrolled"
        )

    def enrolled(self, speakers: Sequence[str], statistics: Array, rows: Array, sessions: Array) -> VerifierModel:
        """The model with these speakers."""
        return replace(
            self, speakers=tuple(speakers), statistics=statistics, speaker_rows=rows, speaker_sessions=sessions
        )

    @cached_property
    def features(self) -> FeatureMap:
        """The map that sketches of speakers and segments are made with."""
        return FeatureMap.from_recipe(dict(self.recipe))

    @cached_property
    def space(self) -> MeanSpace:
        """What sketches say about shifts of the means."""
        return MeanSpace.of(self.features, self.mixture, self.reference_real + 1j * self.reference_imag)

    @cached_property
    def axes(self) -> tuple[Array, Array]:
        """What makes statistics independent, and their signals."""
        return self.space.axes()

    def effective_rows(self, sketch: Sketch) -> float:
        """Independent rows with the same noise: what a release added counts as fewer rows."""
        sampling = float(np.mean(np.maximum(1.0 - np.abs(sketch.mean) ** 2, 1e-12)))
        return sampling / max(float(np.mean(sketch.variances)), 1e-300) / self.dependence

    def log_ratios(self, sketch: Sketch) -> dict[str, float]:
        """Logarithm of the likelihood ratio of a sketch for every enrolled speaker."""
        if self.speakers is None or self.statistics is None or self.speaker_rows is None:
            return {}
        (turn, signal), n = self.axes, self.effective_rows(sketch)
        a = turn @ self.space.statistic(sketch)
        count = np.ones(len(self.speakers)) if self.speaker_sessions is None else self.speaker_sessions
        return {
            name: log_ratio(
                a, turn @ t, (n, float(rows)), signal, self.between, (self.session, self.session / float(c))
            )
            for name, t, rows, c in zip(self.speakers, self.statistics, self.speaker_rows, count, strict=True)
        }

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """The recipe must be one of a map for as many columns."""
        optional = ("session", "dependence", "speakers", "statistics", "speaker_rows", "speaker_sessions")
        own = {k: v for k, v in cls.layout.items() if v is not None}
        found = {k: reader.value(k, what) for k, what in own.items() if k not in optional or reader.has(k)}
        super().check(reader, found)
        k, d = reader.lengths["k"], reader.lengths["d"]
        phi = reader.recipe()
        if phi.dim != d or reader.lengths["m"] > phi.size:
            raise reader.fail(f"a map for {phi.dim} columns and a mixture of {d}")
        if not (found["covariances"] > 0).all() or not (found["weights"] > 0).all():
            raise reader.fail("weights and variances must be positive")
        if not found["between"] > 0 or found.get("session", 0.0) < 0 or not found.get("dependence", 1.0) > 0:
            raise reader.fail("variances of shifts must not be negative")
        if "speakers" in found and (
            "statistics" not in found
            or "speaker_rows" not in found
            or found["statistics"].shape != (len(found["speakers"]), k * d)
            or not (found["speaker_rows"] > 0).all()
        ):
            raise reader.fail("a statistic and a number of rows for each speaker")
        return found | {"recipe": phi.recipe()}
