"""What was learned, as a value and as a JSON file: the model, and enough about its sketch to judge and draw it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.lowrank.solution import full_matrix
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.profile import Profile, residual_profile
from sketchlearn.exceptions import ModelFileError
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.sketches import file as sketch_file
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]

FORMAT, VERSION = "sketchlearn.model", 1
TASKS = {
    "kmeans": ("centers", "weights"),
    "gmm": ("weights", "means", "covariances"),
    "stable": ("weights", "locations", "scatters", "alphas"),
    "pca": ("components", "explained_variance", "explained_variance_ratio", "mean"),
    "regression": ("coefficients", "intercept", "predictors", "target"),
}
PROFILE = ("radius", "signal", "misfit", "floor", "sampling", "size")


@dataclass(frozen=True, eq=False)
class Model:
    """A learned model that can be saved, loaded and drawn; it needs neither rows nor sketch.

    Attributes
    ----------
    task : str
        ``"kmeans"``, ``"gmm"``, ``"stable"``, ``"pca"`` or ``"regression"``.
    rows : int or float
        Rows behind the sketch.
    columns : tuple of str
        Names of the columns (``"column 0"``, ... if the sketch has none).
    learned : dict
        What was learned, arrays as arrays: ``centers`` and ``weights`` for k-means (and
        the ``spread`` of each column, if distances are in such units), ``weights``, ``means`` and
        ``covariances`` for mixtures, ``components``, ``explained_variance`` and ``mean`` for PCA,
        ``coefficients`` and ``intercept`` for a regression, and the decoder's ``verdict``, ``reliable`` and ``ratio``.
    mixture : Mixture or None
        The decoded Gaussian mixture, for k-means and Gaussian mixtures.
    profile : Profile or None
        Misfit and noise floor by radius.
    sketch : dict
        Facts about the sketch: features, fingerprint, box, noise level.
    library : str
        Version of sketchlearn that learned it.
    named : bool
        Whether the columns have names of their own.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> km = sl.CompressiveKMeans(2, random_state=0).fit(X)
    >>> model = sl.Model.of(km)
    >>> model
    Model(kmeans: 2 clusters of 5,000 rows, 2 columns)
    >>> sl.Model.from_json(model.to_json()).learned["centers"].shape
    (2, 2)
    """

    task: str
    rows: int | float
    columns: tuple[str, ...]
    learned: Mapping[str, Any]
    mixture: Mixture | None = None
    profile: Profile | None = None
    sketch: Mapping[str, Any] = field(default_factory=dict)
    library: str = ""
    named: bool = True

    # -- making one ----------------------------------------------------------------------------

    @classmethod
    def of(cls, learned: Any) -> Model:
        """The model of a fitted estimator.

        Parameters
        ----------
        learned : estimator
            A fitted :class:`CompressiveKMeans`, ``KMedians``, ``GaussianMixture``, ``StableMixture``, ``PCA`` or
            ``Regression``.

        Returns
        -------
        Model

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> pca = sl.CompressivePCA(2).fit(np.random.default_rng(0).normal(size=(500, 3)))
        >>> sl.Model.of(pca).task
        'pca'
        """
        for name, make in _MAKERS.items():
            if any(name == kind.__name__ for kind in type(learned).__mro__):
                if not hasattr(learned, "sketch_"):
                    raise ValueError(f"this {type(learned).__name__} has learned nothing yet: call fit or fit_sketch")
                return _named_after(make(learned), getattr(learned, "feature_names_in_", None))
        raise TypeError(f"no model can be made of {type(learned).__name__}; fit one of {', '.join(_MAKERS)}")

    @classmethod
    def from_sketch(
        cls, sketch: Sketch, task: str, learned: Mapping[str, Any], mixture: Mixture | None, kind: str | None = None
    ) -> Model:
        """A model with the facts of the sketch that it was learned from; `kind` as for a profile."""
        from sketchlearn import __version__

        columns = sketch.features.columns
        profile = None
        if mixture is not None and isinstance(sketch.features, FourierFeatures):
            profile = residual_profile(sketch, mixture, kind)
        facts: dict[str, Any] = {
            "features": sketch.features.size,
            "kind": sketch.features.kind,
            "description": sketch.features.describe(),
            "fingerprint": sketch.features.fingerprint,
            "bytes": sketch.nbytes,
            "skipped": sketch.skipped,
            "lower": sketch.lower.tolist(),
            "upper": sketch.upper.tolist(),
        }
        if isinstance(sketch.features, FourierFeatures):
            facts["noise_level"] = sketch.noise_level
        names = columns or tuple(f"column {i}" for i in range(sketch.features.dim))
        return cls(task, sketch.count, tuple(names), learned, mixture, profile, facts, __version__, columns is not None)

    # -- what it says --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of clusters, components or coefficients."""
        return len(self.learned[TASKS[self.task][0]])

    @property
    def row_count(self) -> str:
        """Number of rows, to be read; weights can make it a fraction."""
        return f"{self.rows:,}" if isinstance(self.rows, int) else f"{self.rows:,.1f}"

    @property
    def behind(self) -> str:
        """What the mixture is: the model, or a richer one that its centres were computed from."""
        if self.mixture is None or self.mixture.n_components == self.size:
            return "model"
        return f"{self.mixture.n_components} components behind the {self.size} centres"

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        rows, columns = f"{self.row_count} rows", f"{len(self.columns)} column" + "s" * (len(self.columns) != 1)
        things = {"kmeans": "cluster", "gmm": "Gaussian component", "stable": "stable component", "pca": "component"}
        if self.task == "regression":
            return f"{self.learned['target']} from {self.size} column{'s' * (self.size != 1)}, {rows}"
        return f"{self.size} {things[self.task]}{'s' * (self.size != 1)} of {rows}, {columns}"

    def __repr__(self) -> str:
        return f"Model({self.task}: {self.headline})"

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Cluster or component of each row, or the predicted target of a regression.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows with all columns of the model; of a regression only the predictors.

        Returns
        -------
        ndarray (n,)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
        >>> km = sl.CompressiveKMeans(2, random_state=0).fit(X)
        >>> bool((sl.Model.of(km).predict(X) == km.predict(X)).all())
        True
        """
        if self.task not in ("kmeans", "gmm", "regression"):
            raise TypeError(f"a {self.task} model of a file predicts nothing; use the estimator")
        names = self.learned["predictors"] if self.task == "regression" else self.columns
        if self.named and hasattr(X, "columns"):
            X = X[list(names)]  # a frame may have more columns, in another order
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise ValueError(f"expected rows with {len(names)} columns, got an array of shape {rows.shape}")
        if self.task == "regression":
            return np.asarray(rows @ self.learned["coefficients"] + self.learned["intercept"])
        if self.task == "gmm":
            assert self.mixture is not None
            return self.mixture.log_densities(rows).argmax(1)
        unit = self.learned.get("spread", 1.0)
        return nearest(rows / unit, self.learned["centers"] / unit)

    # -- the file ------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The model as JSON text."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "library": self.library,
            "task": self.task,
            "rows": self.rows,
            "columns": list(self.columns) if self.named else None,
            "n_columns": len(self.columns),
        }
        first = TASKS[self.task]
        for key in (*first, *sorted(set(self.learned) - set(first))):
            facts[key] = self.learned[key]
        if self.mixture is not None and self.task != "gmm":
            m = self.mixture
            facts["mixture"] = {"weights": m.weights, "means": m.means, "covariances": m.covariances}
        if self.profile is not None:
            facts["profile"] = {name: getattr(self.profile, name) for name in PROFILE}
        facts["sketch"] = dict(self.sketch)
        return json.dumps(_plain(facts), indent=1, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, whole or not at all."""
        sketch_file.write(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a model from a JSON file.

        Raises
        ------
        ModelFileError
            If the file is no model, damaged, or of a version that this library doesn't know.
        """
        return cls.from_json(Path(path).read_bytes(), os.fsdecode(path))

    @classmethod
    def from_json(cls, text: str | bytes, name: str = "model") -> Model:
        """The model in some JSON text; `name` is for error messages."""
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{name}: not a model: it is not JSON ({error})") from None
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ModelFileError(f"{name}: not a model: write one with 'sketchlearn learn' or Model.save")
        version = facts.get("version")
        if isinstance(version, bool) or version != VERSION:
            raise ModelFileError(
                f"{name}: a model of version {version!r}, this library reads version {VERSION}: "
                "install a newer sketchlearn, or learn it again from its sketch"
            )
        from sketchlearn.learn.model_file import Reader

        return Reader(facts, name).model()


def _named_after(model: Model, names: Any) -> Model:
    """The model with the names of the columns of a frame that it was fitted to."""
    if names is None or model.named:
        return model
    given = tuple(str(name) for name in names)
    if model.task == "regression" and len(given) == model.size:
        learned = {**model.learned, "predictors": list(given), "target": "target"}
        return replace(model, columns=(*given, "target"), learned=learned, named=True)
    return replace(model, columns=given, named=True) if len(given) == len(model.columns) else model


def nearest(points: Array, places: Array) -> npt.NDArray[np.intp]:
    """Index of the nearest place of each point."""
    middle = places.mean(0)
    points, places = points - middle, places - middle
    return np.asarray(((places * places).sum(1) - 2 * points @ places.T).argmin(1))


def as_mixture(learned: Mapping[str, Any]) -> Mixture:
    """Weights, means and covariances in scikit-learn's shapes as a mixture."""
    s = np.asarray(learned["covariances"])
    if learned.get("covariance_type") == "tied" or (s.ndim == 2 and s.shape[0] != len(learned["means"])):
        s = np.repeat(s[None], len(learned["means"]), 0)
    return Mixture(learned["weights"], learned["means"], s)


def _plain(value: Any) -> Any:
    """Arrays as lists, numbers of NumPy as numbers, what is not a number as null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- from estimators ---------------------------------------------------------------------------


def _of_clustering(model: Any) -> Model:
    return kmeans_model(model.sketch_, model.solution_, model._criterion)


def kmeans_model(sketch: Sketch, solution: Any, criterion: str = "means") -> Model:
    """Centres with what the decoder knows about them."""
    learned = {
        "centers": solution.centers,
        "weights": solution.weights,
        "inertia": solution.inertia,
        "criterion": criterion,
        "ratio": solution.ratio,
        "reliable": solution.reliable,
        "verdict": solution.verdict,
        "decoder": solution.decoder,
    }
    if isinstance(sketch.features, FourierFeatures) and sketch.features.spread is not None:
        learned["spread"] = sketch.features.spread
    kind = _fitted_shape(solution.mixture, learned.get("spread"))
    return Model.from_sketch(sketch, "kmeans", learned, solution.mixture, kind)


def _fitted_shape(mixture: Mixture, spread: Array | None) -> str | None:
    """Widths that were round in standardised columns are no diagonals; None for what its shape tells."""
    s = mixture.covariances
    if spread is None or s.ndim != 2 or not s.any():
        return None
    round_ = s / spread**2
    if not np.allclose(round_, round_[:, :1], rtol=1e-9):
        return None
    return "shared" if len(s) > 1 and np.allclose(round_, round_[0, 0], rtol=1e-9) else "spherical"


def _of_mixture(model: Any) -> Model:
    return gmm_model(model.sketch_, model.solution_)


def gmm_model(sketch: Sketch, solution: Any) -> Model:
    """A Gaussian mixture with what the decoder knows about it."""
    learned = {
        "weights": solution.weights,
        "means": solution.means,
        "covariances": solution.covariances,
        "covariance_type": solution.covariance_type,
        "ratio": solution.ratio,
        "reliable": solution.reliable,
        "verdict": solution.verdict,
    }
    return Model.from_sketch(sketch, "gmm", learned, solution.mixture, solution.covariance_type)


def _of_stable(model: Any) -> Model:
    return stable_model(model.sketch_, model.solution_)


def stable_model(sketch: Sketch, solution: Any) -> Model:
    """A mixture of stable laws with what the decoder knows about it."""
    scatters = np.asarray(solution.scatters)
    if scatters.ndim == 2:
        scatters = scatters[:, :, None] * np.eye(scatters.shape[1])
    learned = {
        "weights": solution.weights,
        "locations": solution.locations,
        "scatters": scatters,
        "alphas": solution.alphas,
        "ratio": solution.ratio,
        "reliable": solution.reliable,
        "verdict": solution.verdict,
    }
    return Model.from_sketch(sketch, "stable", learned, None)


def _of_pca(model: Any) -> Model:
    if model.embedding is not None:
        raise TypeError("kernel principal components are directions of an embedding: there is no model of columns")
    learned = {
        "components": model.components_,
        "explained_variance": model.explained_variance_,
        "explained_variance_ratio": model.explained_variance_ratio_,
        "noise_variance": model.noise_variance_,
        "mean": model.mean_,
        "verdict": model.solution_.verdict,
        "decoder": model.solution_.decoder,
        "reliable": model.solution_.reliable,
    }
    if model.solution_.decoder != "exact":
        learned["ratio"] = model.solution_.ratio
    return Model.from_sketch(model.sketch_, "pca", learned, None)


def _of_regression(model: Any) -> Model:
    if np.ndim(model.coef_) != 1:
        raise TypeError("a model of a regression has one target; fit each target on its own")
    names = model.sketch_.features.columns or tuple(f"column {i}" for i in range(model.sketch_.features.dim))
    errors = np.asarray(model.standard_errors_)
    phi, sketch = model.sketch_.features, model.sketch_
    spread = None
    if phi.is_exact:
        moments = full_matrix(phi, phi.centred_mean_from_sums(sketch.sums, float(sketch.weight)))
        spread = np.sqrt(np.maximum(np.diag(moments)[model._predictors], 0.0))
    learned = {
        "target": names[model._targets[0]],
        "predictors": [names[i] for i in model._predictors],
        "coefficients": model.coef_,
        "intercept": model.intercept_,
        "standard_errors": errors if np.isfinite(errors).all() else None,
        "predictor_spread": spread,
        "r2": model.r2_,
    }
    return Model.from_sketch(model.sketch_, "regression", learned, None)


_MAKERS = {
    "_CompressiveClustering": _of_clustering,
    "CompressiveGaussianMixture": _of_mixture,
    "CompressiveStableMixture": _of_stable,
    "CompressivePCA": _of_pca,
    "CompressiveRegression": _of_regression,
}
