"""Verification: is this segment from that speaker?  A background mixture and shifts of its means, all from sketches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length

from sketchlearn.accepts import real, whole
from sketchlearn.comparison.detection import DetectionErrors, detection_errors
from sketchlearn.comparison.verification import MeanSpace, log_ratio, shift_variance
from sketchlearn.comparison.verifier_model import VerifierModel
from sketchlearn.decoders import decode
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.rows import Rows, is_source
from sketchlearn.learn.tables import TableEstimator, checked_labels
from sketchlearn.models.base import Model
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.mixtures import GaussianMixtureModel
from sketchlearn.sketches.checks import check_same_features
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketching import sketch as make_sketch
from sketchlearn.sources.base import coded

_LIGHTEST = 1e-6  # weight of a component at least
_FEW = 10  # speakers, from which on the variance between them is known to a third or so


@estimator
class CompressiveVerifier(TableEstimator):
    """Verification from sketches: does a segment belong to the speaker that it claims to be from?

    A universal background model (a Gaussian mixture of the rows of all speakers) is decoded from the sum of all
    sketches. A speaker is a shift of its means (Reynolds, Quatieri and Dunn, 2000). A sketch of a few hundred rows is
    enough to estimate this shift: speakers are enrolled from sketches, segments are tested by sketches, and no rows are
    kept. Scores are logarithms of likelihood ratios: above 0, the claim is more probable than not, at even odds. With
    classes in place of speakers, it tells whether rows belong to a class at all.

    Parameters
    ----------
    n_components : int
        Components of the background model.
    relevance : float
        Inverse variance of the shifts of means between speakers, in units of the components' variances. It is only used
        if the background has fewer than two speakers; otherwise the variance is estimated.
    dependence : float
        The number of rows that carry as much information as one independent row: above 1 for rows that follow each
        other in time.
    sketch_size : int, optional
        Features; by default ten for each parameter of the background model.

    Attributes
    ----------
    mixture_ : Mixture
        The background model.
    between_, session_ : float
        Variances of the shifts between speakers, and between sessions of one speaker, in units of the components' own.
    speakers_ : dict of name to Sketch
        Who is enrolled.
    sketch_ : SketchTable
        Sketches of the background, one for each speaker.
    solution_ : VerifierModel
        The background model, with the certificate of its decoder.
    reliable_, verdict_ : bool, str
        Whether the background model explains its sketch, as a yes or no and in words. Scores are usually good even if
        it does not.

    See Also
    --------
    sketchlearn.detection_errors : equal error rate and detection-error curve of scores.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> voices = rng.normal(size=(20, 2))
    >>> who = np.repeat(np.arange(20), 200)
    >>> verifier = sl.CompressiveVerifier(1, random_state=0).fit(voices[who] + rng.normal(size=(4000, 2)), who)
    >>> verifier.enroll("ann", [2.0, 0.0] + rng.normal(size=(200, 2))).enroll("bob", rng.normal(size=(200, 2)))
    CompressiveVerifier(n_components=1, random_state=0)
    >>> test = [2.0, 0.0] + rng.normal(size=(50, 2))
    >>> verifier.verify("ann", test), verifier.verify("bob", test)
    (True, False)
    """

    task: ClassVar[str] = "gmm"
    group: ClassVar[str] = "speaker"
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = VerifierModel
    n_components: int = parameter(default=16, accepts=whole(), kw_only=False)
    relevance: float = parameter(default=16.0, accepts=real())
    dependence: float = parameter(default=1.0, accepts=real())
    on_invalid: ClassVar[str] = "raise"  # type: ignore[misc]
    mixture_: Mixture = learned()
    between_: float = learned()
    session_: float = learned()
    space_: MeanSpace = learned()

    # -- the background --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows of the background and learn its model.

        Parameters
        ----------
        X : array or frame (n_samples, n_features)
            Rows of many speakers.  Of files, sketch with ``group_by`` and call :meth:`fit_sketch`.
        y : array (n_samples,), optional
            Who each row is from: how much speakers differ is learned from them.
        sample_weight : array (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight)

    def fit_sketch(self, sketch: Any, speakers: Mapping[Any, Any] | None = None) -> Self:
        """Learn from sketches of the background made elsewhere.

        Parameters
        ----------
        sketch : Sketch, SketchTable, or dict of name to Sketch
            One sketch of everybody, or one per speaker or per session.
        speakers : dict, optional
            The speaker of each session of a table. Differences between sessions of one speaker are then separated from
            differences between speakers, so that scores of new sessions are calibrated.

        Returns
        -------
        self
        """
        if isinstance(sketch, Sketch):
            sketch = SketchTable({"background": sketch})
        if speakers is not None:
            missing = [group for group in sketch if group not in speakers]
            if missing:
                raise ValueError(f"speakers does not say who {missing[0]!r} is")
        self._of_sessions = None if speakers is None else dict(speakers)
        return super().fit_sketch(sketch)

    def design_request(self) -> dict[str, Any]:
        """A mixture with diagonal covariances."""
        return {"task": "gmm", "n_components": int(self.n_components), "covariance_type": "diag"}

    def decode_sketch(self, seed: int) -> VerifierModel:
        """The background model, and how much speakers differ."""
        total = self.sketch_.union()
        found: GaussianMixtureModel = decode(
            total, int(self.n_components), task=self.task, decoder=self.decoder, random_state=seed,
            covariance_type="diag",
        )  # fmt: skip
        weights = np.maximum(found.weights, _LIGHTEST)
        floor = 1e-6 * np.maximum(found.covariances.max(axis=0), 1e-12)
        reference = total.mean
        model = VerifierModel(
            weights=weights / weights.sum(),
            means=found.means,
            covariances=np.maximum(found.covariances, floor),
            recipe=self.sketch_.features.recipe(),
            reference_real=reference.real,
            reference_imag=reference.imag,
            between=1.0 / float(self.relevance),
            dependence=float(self.dependence),
            **found.told(),
        )
        groups = [group for group in self.sketch_ if self.sketch_[group].weight > 0]
        who = [group if self._of_sessions is None else self._of_sessions[group] for group in groups]
        if len({str(name) for name in who}) < 2:
            return model
        turn, signal = model.axes
        coordinates = np.array([turn @ model.space.statistic(self.sketch_[group]) for group in groups])
        rows = np.array([model.effective_rows(self.sketch_[group]) for group in groups])
        between, session = shift_variance(coordinates, rows, list(who), signal)
        return replace(model, between=between, session=session)

    def to_model(self) -> Model:
        """What was learned, with what the sketches of enrolled speakers say."""
        model, names = super().to_model(), list(self.__dict__.get("speakers_", ()))
        assert isinstance(model, VerifierModel)
        if not names:
            return model
        model = model.promising([model.privacy, *(sketch.privacy for sketch in self.speakers_.values())])
        return model.enrolled(
            [str(name) for name in names],
            np.array([model.space.statistic(self.speakers_[name]) for name in names]),
            np.array([model.effective_rows(self.speakers_[name]) for name in names]),
            np.array([float(self._sessions[name]) for name in names]),
        )

    # -- speakers --------------------------------------------------------------------------------

    def enroll(self, name: Any, rows: Any) -> Self:
        """Enrol a speaker, or add another session of one.

        Parameters
        ----------
        name : str or number
            Who it is.
        rows : array (n, n_features), anything that :func:`sketchlearn.sketch` reads, or Sketch
            What is known of the speaker.

        Returns
        -------
        self
        """
        sketch = self._sketched(rows)
        known = self.speakers_.get(name)
        self.speakers_[name] = sketch if known is None else known + sketch
        self._sessions[name] = self._sessions.get(name, 0) + 1
        return self

    def withdraw(self, name: Any) -> Self:
        """Forget a speaker.

        Parameters
        ----------
        name : str or number
            Who was enrolled.

        Returns
        -------
        self
        """
        self._enrolled(name)
        del self.speakers_[name], self._sessions[name]
        return self

    def adapted(self, name: Any) -> Mixture:
        """The mixture of an enrolled speaker: the background with the means that the sketch supports.

        Parameters
        ----------
        name : str or number
            Who is enrolled.

        Returns
        -------
        Mixture
        """
        sketch = self._enrolled(name)
        return self.space_.adapted(self.space_.statistic(sketch), self.solution_.effective_rows(sketch), self.between_)

    def log_ratio(self, name: Any, rows: Any) -> float:
        """Logarithm of the likelihood ratio of "this is the speaker" and "this is somebody else".

        Parameters
        ----------
        name : str or number
            Who is claimed.
        rows : array (n, n_features), anything that :func:`sketchlearn.sketch` reads, or Sketch
            The segment.

        Returns
        -------
        float
        """
        speaker, test = self._enrolled(name), self._sketched(rows)
        turn, signal = self.solution_.axes
        a, b = (turn @ self.space_.statistic(sketch) for sketch in (test, speaker))
        sessions = self.session_, self.session_ / self._sessions[name]
        rows_behind = self.solution_.effective_rows(test), self.solution_.effective_rows(speaker)
        return log_ratio(a, b, rows_behind, signal, self.between_, sessions)

    def verify(self, name: Any, rows: Any, *, prior: float = 0.5) -> bool:
        """Whether a claim is more probable than not.

        Parameters
        ----------
        name, rows
            As for :meth:`log_ratio`.
        prior : float
            Probability that a claim is true, before the rows are seen.

        Returns
        -------
        bool
        """
        if not 0 < prior < 1:
            raise ValueError(f"prior must be above 0 and below 1, got {prior!r}")
        return bool(self.log_ratio(name, rows) + np.log(prior / (1.0 - prior)) > 0)

    def evaluate(self, trials: Iterable[tuple[Any, Any, Any]]) -> DetectionErrors:
        """Errors over trials whose answers are known.

        Parameters
        ----------
        trials : iterable of (name, rows or Sketch, bool)
            Claims, segments, and whether the claim is true.

        Returns
        -------
        DetectionErrors
        """
        scores: dict[bool, list[float]] = {True: [], False: []}
        for name, rows, answer in trials:
            scores[bool(answer)].append(self.log_ratio(name, rows))
        return detection_errors(scores[True], scores[False])

    # -- pieces ------------------------------------------------------------------------------------

    def _take(self, sketch: Any, seed: int, scale: float) -> None:
        super()._take(sketch, seed, scale)
        self.speakers_: dict[Any, Sketch] = {}
        self._sessions: dict[Any, int] = {}

    def _opened(self, X: Any, y: Any, sample_weight: Any, seed: int | None = None) -> Rows:
        if is_source(X) and not isinstance(X, np.memmap):
            raise InputError(
                "a verifier is fitted to rows in memory: of files, make table = sl.sketch(files, phi, ",
                Option("group_by", "speaker"),
                ") and call fit_sketch(table)",
            )
        rows = super()._opened(np.asarray(X) if isinstance(X, np.memmap) else X, None, sample_weight, seed)
        if seed is not None:
            self._of_sessions = None
        if y is None:
            return rows
        checked_labels(y, self.group)
        labels = np.asarray(y)
        check_consistent_length(rows.data, labels)
        keys = (key if isinstance(key, str | bool | int) else str(key) for key in labels.tolist())
        return replace(rows, groups=coded(keys))

    def _pass(self, rows: Rows, features: FeatureMap) -> SketchTable:
        if rows.groups is None:
            return SketchTable({"background": SketchEstimator._pass(self, rows, features)})
        return super()._pass(rows, features)

    def _sketched(self, rows: Any) -> Sketch:
        if "sketch_" not in self.__dict__:
            raise ValueError("this CompressiveVerifier has no background yet: call fit or fit_sketch")
        phi = self.sketch_.features
        if not isinstance(rows, Sketch):
            return make_sketch(np.asarray(rows, np.float64) if isinstance(rows, list) else rows, phi)
        check_same_features(next(iter(self.sketch_.values())), rows)
        return rows

    def _enrolled(self, name: Any) -> Sketch:
        known: dict[Any, Sketch] = self.__dict__.get("speakers_", {})
        if name not in known:
            who = ", ".join(str(other) for other in list(known)[:10]) or "nobody"
            raise ValueError(f"{name!r} is not enrolled; {who} is")
        return known[name]
