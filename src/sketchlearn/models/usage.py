"""What all models can do with new rows: check them, then predict, transform, score or draw others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array, Index
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.projection import Projection
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.profile import Profile
from sketchlearn.models.randomness import RandomState
from sketchlearn.models.solution import Solution
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sources import read


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class UsableModel(Solution):
    """The half of :class:`~sketchlearn.Model` that meets new rows; subclasses define what rows that were checked get.

    Attributes
    ----------
    rows, columns, named, profile, sketch, library
        As of :class:`~sketchlearn.Model`.
    """

    thing: ClassVar[str] = "component"
    """What there are several of."""

    task: str = ""
    rows: int | float = 0
    columns: tuple[str, ...] = ()
    named: bool = True
    profile: Profile | None = None
    sketch: Mapping[str, Any] = field(default_factory=dict)
    library: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that :meth:`predict` takes."""
        return self.columns

    @property
    def encoder(self) -> Encoder | None:
        """How rows of a table become the columns of the model, if categories or missing values were encoded."""
        given = self.sketch.get("encoder")
        return None if given is None else Encoder.from_json(given)

    @property
    def projection(self) -> Projection | None:
        """How rows become the columns of the model, if these are random projections."""
        given = self.sketch.get("projection")
        return None if given is None else Projection.from_json(given)

    @property
    def privacy(self) -> PrivacyRecord | None:
        """What was promised to the people behind a private sketch; the model keeps it without further noise."""
        given = self.sketch.get("privacy")
        return None if given is None else PrivacyRecord.from_json(given)

    def told(self) -> dict[str, Any]:
        """Certificate and facts of the sketch, for a model that is made of this one."""
        return {each.name: getattr(self, each.name) for each in fields(UsableModel)}

    def predict(self, X: Any) -> AnyArray:
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
        return self.predict_rows(self._checked(X))

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component, given the row; for models that have them.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows with all columns of the model.

        Returns
        -------
        ndarray (n, k)

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.models import GaussianMixtureModel
        >>> model = GaussianMixtureModel(
        ...     rows=10, columns=("x",), weights=np.array([0.5, 0.5]), means=np.array([[0.0], [4.0]]),
        ...     covariances=np.ones(2), covariance_type="spherical")
        >>> model.predict_proba([[2.0]])
        array([[0.5, 0.5]])
        """
        return self.probabilities(self._checked(X))

    def transform(self, X: Any) -> Array:
        """Coordinates or distances of each row; for models that have them.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows with the columns of the model.

        Returns
        -------
        ndarray (n, k)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> sl.Model.of(sl.CompressivePCA(2).fit(X)).transform(X).shape
        (500, 2)
        """
        return self.transform_rows(self._checked(X))

    def score_samples(self, X: Any) -> Array:
        """Logarithm of the density at each row, or another score that is small for anomalies.

        Parameters
        ----------
        X : array or frame (n, d)
            Rows with all columns of the model.

        Returns
        -------
        ndarray (n,)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> usual, strange = sl.CompressiveGaussianMixture(random_state=0).fit(X).to_model().score_samples([[0], [9]])
        >>> bool(strange < usual - 10)
        True
        """
        return self.row_scores(self._checked(X))

    def sample(self, n: int = 1, random_state: RandomState = None) -> tuple[Array, Index]:
        """Rows drawn from the model, and their components; for models of the density of rows.

        Parameters
        ----------
        n : int
            How many.
        random_state : int, Generator, RandomState or None
            For repeatable draws.

        Returns
        -------
        ndarray (n, d), ndarray (n,)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> sl.CompressiveGaussianMixture(random_state=0).fit(X).to_model().sample(5, random_state=0)[0].shape
        (5, 1)
        """
        return self.density().sample(n, random_state)

    def _checked(self, X: Any) -> Array:
        encoder, projection = self.encoder, self.projection
        names = (self.inputs if self.named else None) if projection is None else projection.columns
        width = len(self.inputs) if projection is None else projection.dim
        if encoder is not None and hasattr(X, "columns"):
            X = np.concatenate(list(read(X, encoder=encoder)))
        elif names is not None and hasattr(X, "columns"):
            X = X[list(names)]  # a frame may have more columns, in another order
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"expected rows with {width} columns, got an array of shape {rows.shape}")
        bad = ~np.isfinite(rows).all(1)
        if bad.any():
            raise ValueError(f"row {int(np.argmax(bad))} (counting from 0) holds NaN or infinity")
        return rows if projection is None else projection(rows)

    def predict_rows(self, rows: Array) -> AnyArray:
        """What :meth:`predict` returns, for rows that were checked."""
        raise TypeError(f"a {type(self).task} model from a file can't predict; use the estimator")

    def probabilities(self, rows: Array) -> Array:
        """What :meth:`predict_proba` returns, for rows that were checked."""
        raise TypeError(f"a {type(self).task} model has no probabilities")

    def transform_rows(self, rows: AnyArray) -> Array:
        """What :meth:`transform` returns, for rows that were checked."""
        raise TypeError(f"a {type(self).task} model has no coordinates for rows")

    def row_scores(self, rows: Array) -> Array:
        """What :meth:`score_samples` returns, for rows that were checked."""
        raise TypeError(f"a {type(self).task} model has no scores for rows")

    def answers(self, rows: Array, proba: bool = False) -> dict[str, AnyArray]:
        """Named columns that a table of predictions has, for rows that were checked."""
        found = self.own_answers(rows)
        if proba:
            found |= {f"probability {l}": p for l, p in enumerate(self.probabilities(rows).T)}
        return found

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """What :meth:`answers` says about this kind of model; by default the number of a component."""
        return {self.thing.split()[-1]: self.predict_rows(rows).astype(np.int32)}

    def density(self) -> Mixture:
        """The mixture that describes the density of the rows."""
        raise ValueError(f"a {type(self).task} model has no density")
