"""Verification: is this segment from that speaker?  A background mixture and shifts of its means, all from sketches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_consistent_length

from sketchlearn.comparison.detection import DetectionErrors, detection_errors
from sketchlearn.comparison.verification import MeanSpace, log_ratio, shift_variance
from sketchlearn.decoders import decode
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.engines import sketch as make_sketch
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.verifier import VerifierModel
from sketchlearn.learn.rows import is_source
from sketchlearn.sketches.checks import check_same_features
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]

_LIGHTEST = 1e-6  # weight of a component at least
_FEW = 10  # speakers, from which on the variance between them is known to a third or so


class CompressiveVerifier(SketchEstimator):
    """Verification from sketches: does a segment belong to the speaker that it claims to be from?

    A universal background model, a Gaussian mixture of the rows of everybody, is decoded from the sum of all sketches.
    A speaker is a shift of its means (Reynolds, Quatieri and Dunn, 2000), and a sketch of a few hundred rows says
    enough about it: speakers are enrolled from sketches, segments are tested by sketches, no row is kept.  Scores are
    logarithms of likelihood ratios: above 0 the claim is more probable than not, at even odds.  With classes for
    speakers, the same tells whether rows belong to a class, known classes or not.

    Parameters
    ----------
    n_components : int
        Components of the background model.
    relevance : float
        Inverse variance of the shifts of means between speakers, in units of the components' variances, where fewer
        than two speakers in the background leave it open.
    dependence : float
        Rows that say as much as one independent row: above 1 for rows that follow each other in time.
    features : FourierFeatures, optional
        The map to sketch with.
    sketch_size : int, optional
        Features; by default ten for each parameter of the background model.
    decoder : str
        A decoder of mixtures, see :func:`sketchlearn.decode`.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, Generator, RandomState or None
        For repeatable results.

    Attributes
    ----------
    mixture_ : Mixture
        The background model.
    between_, session_ : float
        Variances of the shifts between speakers, and between sessions of one speaker, in units of the components' own.
    speakers_ : dict of name to Sketch
        Who is enrolled.
    sketch_ : SketchTable
        Sketches of the background, one a speaker.
    solution_ : MixtureSolution
        What the decoder of the background model knows.
    reliable_, verdict_ : bool, str
        Whether the background model explains its sketch; scores are usually good where it does not.
    n_features_in_, feature_names_in_
        Number of columns, and their names if they have any.

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
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = VerifierModel
    learned: ClassVar[tuple[str, ...]] = ("mixture_", "between_", "session_", "space_", "_axes")
    sketch_: SketchTable  # type: ignore[assignment]
    mixture_: Mixture
    between_: float
    session_: float
    space_: MeanSpace
    _axes: tuple[Array, Array]

    def __init__(
        self,
        n_components: int = 16,
        *,
        relevance: float = 16.0,
        dependence: float = 1.0,
        features: FeatureMap | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        workers: int | None = None,
        progress: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.relevance = relevance
        self.dependence = dependence
        self.features = features
        self.sketch_size = sketch_size
        self.decoder = decoder
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

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
        self.check_parameters()
        seeds = self._seeds()
        rows = self._opened(self._in_memory(X), None, sample_weight, seeds[0])
        if rows.count is not None and rows.count < self._needed_rows():
            raise ValueError(f"n_samples={rows.count} should be >= n_components={self._needed_rows()}")
        table = self._table(rows, y, self._map(rows, seeds[0], whole=True))
        self._begin(table, None, seeds[1], rows.scale)
        self._solve()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the sketches of the background; the model is learned again when it is next asked for.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        self
        """
        self.check_parameters()
        if "sketch_" not in self.__dict__:
            seeds = self._seeds()
            rows = self._opened(self._in_memory(X), None, sample_weight, seeds[0])
            table = self._table(rows, y, self._map(rows, seeds[0], whole=False))
            self._begin(table, None, seeds[1], rows.scale)
        else:
            more = self._table(self._opened(self._in_memory(X), None, sample_weight), y, self.sketch_.features)
            total = self.sketch_ + more
            self._forget()
            self.sketch_ = total
        return self

    def fit_sketch(self, sketch: Any, speakers: Mapping[Any, Any] | None = None) -> Self:
        """Learn from sketches of the background made elsewhere.

        Parameters
        ----------
        sketch : Sketch, SketchTable, or dict of name to Sketch
            One sketch of everybody, or one a speaker or a session of one.
        speakers : dict, optional
            The speaker of each session of a table: what differs between sessions of one speaker is then told from what
            differs between speakers, which makes scores of other sessions calibrated.

        Returns
        -------
        self
        """
        self.check_parameters()
        if isinstance(sketch, Sketch):
            sketch = SketchTable({"background": sketch})
        elif isinstance(sketch, dict):
            sketch = SketchTable(sketch)
        if not isinstance(sketch, SketchTable):
            raise TypeError(
                f"fit_sketch takes a Sketch or a table of them, got {type(sketch).__name__}; for rows use fit"
            )
        if speakers is not None:
            missing = [group for group in sketch if group not in speakers]
            if missing:
                raise ValueError(f"speakers does not say who {missing[0]!r} is")
        self._check_sketch(next(iter(sketch.values())))
        self._set_columns(sketch.features.inputs, sketch.features.input_columns)
        self._begin(sketch, speakers, self._seeds()[1], 1.0)
        self._solve()
        return self

    def check_parameters(self) -> None:
        """Numbers must be positive."""
        for name in ("relevance", "dependence"):
            if not np.isscalar(getattr(self, name)) or not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")
        if isinstance(self.n_components, str):
            raise ValueError(f"n_components must be a positive integer, got {self.n_components!r}")
        super().check_parameters()

    def design_request(self) -> dict[str, Any]:
        """A mixture with diagonal covariances."""
        return {"task": "gmm", "n_components": int(self.n_components), "covariance_type": "diag"}

    def decode_sketch(self, seed: int) -> MixtureSolution:
        """The background model."""
        solution = decode(
            self.sketch_.union(), int(self.n_components), task=self.task, decoder=self.decoder, random_state=seed,
            covariance_type="diag",
        )  # fmt: skip
        assert isinstance(solution, MixtureSolution)
        return solution

    def set_learned(self, solution: MixtureSolution) -> None:
        """The mixture, and how much speakers differ."""
        weights = np.maximum(solution.weights, _LIGHTEST)
        floor = 1e-6 * np.maximum(solution.covariances.max(axis=0), 1e-12)
        covariances = np.maximum(solution.covariances, floor)
        self.mixture_ = Mixture(weights / weights.sum(), solution.means, covariances)
        self.space_ = MeanSpace.of(self.sketch_.features, self.mixture_, self.sketch_.union().mean)
        turn, signal = self._axes = self.space_.axes()
        groups = [group for group in self.sketch_ if self.sketch_[group].weight > 0]
        who = [group if self._speakers is None else self._speakers[group] for group in groups]
        if len({str(name) for name in who}) < 2:
            self.between_, self.session_ = 1.0 / float(self.relevance), 0.0
            return
        coordinates = np.array([turn @ self.space_.statistic(self.sketch_[group]) for group in groups])
        rows = np.array([self._rows_behind(self.sketch_[group]) for group in groups])
        self.between_, self.session_ = shift_variance(coordinates, rows, list(who), signal)

    def make_model(self) -> Model:
        """Background model, variances, and what the sketches of speakers say."""
        names = list(self.speakers_)
        model = VerifierModel.from_sketch(
            self.sketch_.union(),
            self.solution_,
            kind="diag",
            weights=self.mixture_.weights,
            means=self.mixture_.means,
            covariances=self.mixture_.covariances,
            recipe=self.sketch_.features.recipe(),
            reference_real=self.space_.reference.real,
            reference_imag=self.space_.reference.imag,
            between=self.between_,
            session=self.session_,
            dependence=float(self.dependence),
        )
        if not names:
            return model
        return model.enrolled(
            [str(name) for name in names],
            np.array([self.space_.statistic(self.speakers_[name]) for name in names]),
            np.array([self._rows_behind(self.speakers_[name]) for name in names]),
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
        """The mixture of an enrolled speaker: the background with the means that the sketch speaks for.

        Parameters
        ----------
        name : str or number
            Who is enrolled.

        Returns
        -------
        Mixture
        """
        sketch = self._enrolled(name)
        return self.space_.adapted(self.space_.statistic(sketch), self._rows_behind(sketch), self.between_)

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
        turn, signal = self._axes
        a, b = (turn @ self.space_.statistic(sketch) for sketch in (test, speaker))
        sessions = self.session_, self.session_ / self._sessions[name]
        return log_ratio(a, b, (self._rows_behind(test), self._rows_behind(speaker)), signal, self.between_, sessions)

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

    def _begin(self, table: SketchTable, speakers: Mapping[Any, Any] | None, seed: int, scale: float) -> None:
        self._take(table, seed, scale)  # type: ignore[arg-type]
        self._speakers = None if speakers is None else dict(speakers)
        self.speakers_: dict[Any, Sketch] = {}
        self._sessions: dict[Any, int] = {}

    @staticmethod
    def _in_memory(X: Any) -> Any:
        if is_source(X) and not isinstance(X, np.memmap):
            raise ValueError(
                "a verifier is fitted to rows in memory: of files, make table = sl.sketch(files, phi, "
                "group_by='speaker') and call fit_sketch(table)"
            )
        return np.asarray(X) if isinstance(X, np.memmap) else X

    def _table(self, rows: Any, y: Any, features: FeatureMap) -> SketchTable:
        if y is None:
            return SketchTable({"background": self._pass(rows, features)})
        labels = np.asarray(y)
        check_consistent_length(rows.data, labels)
        keys = [key if isinstance(key, str | bool | int) else str(key) for key in labels.tolist()]
        found = make_sketch(
            rows.data, features, sample_weight=rows.weights, group_by=keys, workers=self.workers, progress=self.progress
        )
        assert isinstance(found, SketchTable)
        kept = {key: s for key, s in found.items() if s.weight > 0}
        if not kept:
            raise ValueError("sample_weight is zero for every row: there is nothing to learn from")
        return SketchTable(kept)

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

    def _rows_behind(self, sketch: Sketch) -> float:
        """Independent rows with the same noise: what a release added counts as fewer rows."""
        sampling = float(np.mean(np.maximum(1.0 - np.abs(sketch.mean) ** 2, 1e-12)))
        return sampling / max(float(np.mean(sketch.variances)), 1e-300) / float(self.dependence)

    def __sklearn_is_fitted__(self) -> bool:
        return "sketch_" in self.__dict__
