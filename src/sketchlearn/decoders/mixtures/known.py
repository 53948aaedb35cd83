"""A Gaussian mixture whose covariance is known: only weights and means are learned (Bourrier et al. 2013)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.drive import Run, decoder
from sketchlearn.decoders.evidence import examined
from sketchlearn.decoders.families import FULL, Known
from sketchlearn.decoders.mixtures.certificate import certify, finish, in_rows
from sketchlearn.decoders.mixtures.default import mixture_problem
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import MixtureSolution, said
from sketchlearn.decoders.state import LIGHTEST, State
from sketchlearn.decoders.steps.pursuit import clompr
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_SEEN = 1e-6  # root mean square of the averages of a component, below which single precision does not see it


@decoder
def decode_known(
    sketch: Sketch, k: int, *, rng: np.random.Generator, covariances: npt.ArrayLike, starts: int = 3
) -> MixtureSolution:
    """Weights and means of components that all have one known covariance.

    Parameters
    ----------
    covariances : float or array (d,) or (d, d)
        Variance, variances of the columns, or covariance matrix, in the units of the rows.
    starts : int
        Most runs of the greedy search (CL-OMPR).

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[0.0], [3.0]], 2000, axis=0)
    >>> s = sl.sketch(X, sl.design(X, n_components=2, task="gmm", covariance_type="spherical"))
    >>> found = sl.decode(s, 2, task="gmm", decoder="known", covariances=1.0, random_state=0)
    >>> np.sort(found.means[:, 0]).round(1) + 0.0, found.covariance_type
    (array([0., 3.]), 'spherical')
    """
    given, shape = checked_covariance(covariances, sketch.features.dim)
    if starts < 1:
        raise ValueError(f"starts must be positive, got {starts!r}")
    base = mixture_problem(sketch, "full")
    matrix = given * np.eye(base.dim) if given.ndim < 2 else given
    inside = matrix if base.metric is None else base.metric @ matrix @ base.metric.T
    family = Known(inside / base.scale**2)
    _check_visible(base, family)
    run, setting = Run(), Setting.of(base, family, k, rng)

    def attempt() -> State:
        state = clompr(setting.base.reweighted(np.ones(base.size)), family, k, rng, smallest=setting.smallest)
        return finish(setting, state.with_weights(np.maximum(state.weights, LIGHTEST))).state

    attempts = ((f"CL-OMPR, run {start + 1}", attempt) for start in range(starts))
    found = certify(setting, run.best_of(attempts, lambda state: certify(setting, state).floor, noise.SLACK))
    light = tuple(int(l) for l in np.flatnonzero(found.state.simplex * base.n < verdicts.FEWEST_ROWS))
    what = f"{counted(k, 'Gaussian')} with the known covariance"
    judged = verdicts.of_mixture(found.ratio, found.limit, what, light)
    model = MixtureSolution(
        **said("gmm", "known", found.state.value, found.floor, judged, len(run.trace), run.trace),
        weights=found.state.simplex,
        means=in_rows(base, State(FULL, found.state.weights, found.state.means, found.state.covariances))[0],
        covariances=given if shape == "tied" else np.repeat(given[None], k, 0),
        covariance_type=shape,
        deviation=found.deviation,
    )
    return examined(model, sketch, k)


def _check_visible(problem: Problem, family: Known) -> None:
    """Refuse a covariance whose components all features of the map average out."""
    one = State(family, np.ones(1), np.zeros((1, problem.dim)), family.rounded([1.0], problem.dim))
    envelope = np.exp(problem.damping(one)[0].astype(np.float64))
    if float(problem.u @ envelope**2) < _SEEN**2:
        raise ValueError(
            "covariances: components so wide can't be seen with this map, all of its features average them out. The "
            "rows vary less, or the covariance is not in their units"
        )


def checked_covariance(covariances: npt.ArrayLike, dim: int | None = None) -> tuple[npt.NDArray[np.float64], str]:
    """A number, variances or a matrix, and the type of covariance that it is; ValueError if it can't be one.

    Examples
    --------
    >>> from sketchlearn.decoders.mixtures.known import checked_covariance
    >>> [checked_covariance(value, 2)[1] for value in (1.0, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]])]
    ['spherical', 'diag', 'tied']
    """
    try:
        found = np.array(covariances, np.float64)
    except (TypeError, ValueError):
        found = np.full((), np.nan)
    d = dim if dim is not None else (found.shape[0] if found.ndim else 1)
    good = found.size > 0 and found.shape in ((), (d,), (d, d)) and bool(np.isfinite(found).all())
    if good and found.ndim == 2:
        good = bool(np.allclose(found, found.T)) and float(np.linalg.eigvalsh(found).min()) > 0
    elif good:
        good = bool((found > 0).all())
    if not good:
        many = "one for each column" if dim is None else f"{d} of them"
        matrix = "matrix" if dim is None else f"{d} x {d} matrix"
        raise ValueError(
            f"covariances must be a positive variance, {many}, or a positive definite {matrix}, got {covariances!r}"
        )
    return found, ("spherical", "diag", "tied")[found.ndim]
