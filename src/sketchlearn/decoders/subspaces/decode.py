"""A union of subspaces from a sketch: a rich mixture of flat components, then the same one with shared subspaces.

1. Flat Gaussians anywhere, four for each subspace, are fitted to the sketch: no rows are assumed to be Gaussian, only
   the density to be a sum of flat pieces.
2. k-subspaces on points drawn from that mixture says which pieces belong together.
3. A mixture of several components inside each of k subspaces is fitted, first one each, then more until the misfit is
   what noise leaves: the law of the rows inside a subspace is then as free as the sketch can tell.
4. Derivatives and noise of that mixture say how far noise may have turned each subspace.  The misfit cannot: two
   subspaces at a small angle explain a sketch as well as many other pairs do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from sketchlearn.accepts import whole
from sketchlearn.arrays import Array, Index
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.drive import Run, decoder, misfit_words
from sketchlearn.decoders.kmeans.partition import k_means
from sketchlearn.decoders.metric import View
from sketchlearn.decoders.problem import Problem, location_and_scale
from sketchlearn.decoders.solution import Code, said
from sketchlearn.decoders.subspaces.errors import Errors, errors_of
from sketchlearn.decoders.subspaces.flats import Flats, fit_flats
from sketchlearn.decoders.subspaces.rows import k_subspaces
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.subspaces import SubspacesModel
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_LADDER = (6, 10, 16)  # components inside a subspace, if one will not do
_POINTS = 6000  # that are drawn from a mixture
_TRIES = 4  # beginnings at most
_ANOTHER = "no beginning has explained the sketch, and no two led to the same subspaces"
_RICHER = "the law inside the subspaces may be another"


@decoder
def decode_subspaces(sketch: Sketch, k: int, dim: int = 1, *, rng: np.random.Generator) -> SubspacesModel:
    """Linear subspaces of dimension `dim` that rows are near to.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> lines = np.eye(3)[rng.integers(2, size=5000)] * rng.normal(size=(5000, 1))
    >>> X = lines + 0.05 * rng.normal(size=(5000, 3))
    >>> s = sl.sketch(X, sl.design(X[:1000], n_components=2, task="subspaces", seed=0))
    >>> found = sl.decode(s, 2, task="subspaces", dim=1, random_state=0)
    >>> np.abs(found.bases[:, :, 0]).round(1).max(0), found.reliable
    (array([1., 1., 0.]), True)
    """
    d = characteristic(sketch.features, "a union of subspaces").dim
    whole().check("dim", dim)
    if dim > d:
        raise ValueError(f"dim={dim} is more than the {d} columns")
    run = _Run(subspaces_problem(sketch, int(dim)), k, int(dim), rng)
    return _solution(run.search(), run)


def subspaces_problem(sketch: Sketch, dim: int) -> Problem:
    """The sketch around the origin, in units of the spread inside subspaces of this dimension."""
    view = View.of(sketch)
    _, spread = location_and_scale(view)
    d = view.operator.shape[1]
    return Problem.from_view(view, at=(np.zeros(d), spread * np.sqrt(d / dim)))


@dataclass(frozen=True, eq=False)
class _Found:
    """A fitted mixture, its misfit and noise, by how many degrees the last refinement turned each subspace, and whether
    another beginning led to the same ones."""

    flats: Flats
    value: float
    errors: Errors
    moved: Array
    twice: bool = True

    @property
    def ratio(self) -> float:
        return self.value / self.errors.floor

    @property
    def explained(self) -> bool:
        return self.ratio <= max(noise.SLACK, 1.0 + noise.DEVIATIONS * self.errors.deviation)

    @property
    def angles(self) -> Array:
        """Errors by noise and, where noise does not explain what is left, by the law inside the subspaces; degrees."""
        by_noise = np.degrees(self.errors.angles)
        return by_noise if self.explained else np.hypot(by_noise, self.moved)


class _Run(Run):
    """The decoding of a union of subspaces in progress."""

    def __init__(self, problem: Problem, k: int, dim: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.problem, self.k, self.dim, self.rng = problem, k, dim, rng

    def search(self) -> _Found:
        """One component inside each subspace if that explains the sketch; else beginnings until two agree."""
        tried: list[_Found] = []
        numbers = self.k * (1 + self.dim + self.dim * (self.dim + 1) // 2)
        ladder = [c for c in _LADDER if c * numbers * verdicts.FEWEST_ROWS <= self.problem.n]
        for _ in range(_TRIES if self.k > 1 else 1):
            points, owner, bases, variance = self.beginning()
            single = self.fitted(points, owner, bases, 1, variance, "always first" if not tried else _ANOTHER)
            if single.explained or not ladder:
                return single
            # (one component a subspace may lead astray: more begin where it began)
            several = self.fitted(points, owner, bases, ladder[0], variance, _RICHER)
            same = any(_alike(several, other) for other in tried)
            tried.append(several)
            if same or several.explained:
                break
        best = min(tried, key=lambda found: found.value)
        twice = self.k == 1 or best.explained or sum(_alike(best, other) for other in tried) > 1
        for c in ladder[1:]:
            if best.explained:
                break
            points, owner = best.flats.draw(_POINTS, self.rng)
            best = self.fitted(points, owner, best.flats.bases, c, best.flats.variance, _RICHER)
        return replace(best, twice=twice)

    def beginning(self) -> tuple[Array, Index, Array, float]:
        """Points of a mixture of flat pieces, the subspaces that they belong to, and the variance across."""
        rng, k, dim, d = self.rng, self.k, self.dim, self.problem.dim
        free = 4 * k
        loose = Flats(
            np.zeros((free, 1)),
            rng.standard_normal((free, d, dim)) / np.sqrt(d),
            np.zeros((free, 1, dim)),
            np.broadcast_to(np.eye(dim), (free, 1, dim, dim)).copy(),
            np.log([0.05]),
            0.1 * rng.standard_normal((free, d)),
        )
        flats, _ = fit_flats(self.problem, loose)
        points, _ = flats.draw(_POINTS, rng)
        bases, owner, left = k_subspaces(points, k, dim, rng)
        return points, owner, bases, float(np.clip(left / max(d - dim, 1), 1e-4, 0.5))

    def fitted(self, points: Array, owner: Index, before: Array, c: int, variance: float, why: str) -> _Found:
        """A mixture of c components inside each subspace, from points that belong to them."""
        begin = perf_counter()
        flats, value = fit_flats(self.problem, _inside(points, owner, before, c, variance, self.rng))
        flats = flats.orthonormal()
        moved = np.array([principal_angles(a, b)[0] for a, b in zip(before, flats.bases, strict=True)])
        found = _Found(flats, value, errors_of(self.problem, flats, self.rng), moved)
        name = f"{counted(c, 'component')} inside each subspace"
        words = f"{misfit_words(found.ratio)}; subspaces turned by up to {moved.max():.2g} degrees"
        self.note(name, why, words, found.explained, perf_counter() - begin)
        return found


def _alike(a: _Found, b: _Found) -> bool:
    """Whether the subspaces of two fits can be paired so that all pairs are closer than 15 degrees."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    angles = np.array([[principal_angles(x, y)[0] for y in b.flats.bases] for x in a.flats.bases])
    return bool((angles[linear_sum_assignment(angles)] < 15.0).all())


def _inside(points: Array, owner: Index, bases: Array, c: int, variance: float, rng: np.random.Generator) -> Flats:
    """Components inside the subspaces for points that belong to them: cells of c-means, in their own metric."""
    k, _, r = bases.shape
    counts, places, roots = np.ones((k, c)), np.zeros((k, c, r)), np.zeros((k, c, r, r))
    for l in range(k):
        inside = points[owner == l] @ bases[l] if (owner == l).sum() > 5 * r * c else points @ bases[l]
        whole = _covariance(inside)
        whole += 1e-6 * max(float(np.trace(whole)) / r, 1e-12) * np.eye(r)
        apart = np.linalg.solve(np.linalg.cholesky(whole), inside.T).T
        centers, _ = k_means(apart, np.full(len(apart), 1.0 / len(apart)), c, 1, rng)
        cell = ((apart[:, None] - centers) ** 2).sum(2).argmin(1)
        for j in range(c):
            mine = inside[cell == j] if (cell == j).sum() > 5 * r else inside
            counts[l, j] = max(float((cell == j).sum()), 5.0) * float((owner == l).mean()) / len(inside) + 1e-4 / c
            places[l, j] = mine.mean(0)
            roots[l, j] = np.linalg.cholesky(_covariance(mine) + 0.01 * whole)
    return Flats(np.log(counts / counts.sum()), bases, places, roots, np.log([variance]))


def _covariance(rows: Array) -> Array:
    apart = rows - rows.mean(0)
    return np.asarray(apart.T @ apart / len(rows))


def principal_angles(a: Array, b: Array) -> Array:
    """Principal angles of two subspaces given by orthonormal bases, in degrees, the largest one first."""
    cosines = np.linalg.svd(a.T @ b, compute_uv=False)
    sines = np.linalg.svd(b - a @ (a.T @ b), compute_uv=False)
    return np.degrees(np.arctan2(sines[: len(cosines)], cosines[::-1]))


def _solution(found: _Found, run: _Run) -> SubspacesModel:
    flats, unit = found.flats, run.problem.scale
    k = len(flats.bases)
    share = flats.weights
    weights = share.sum(1)
    moments = flats.roots @ flats.roots.transpose(0, 1, 3, 2) + flats.places[..., None] * flats.places[:, :, None]
    inside = (share[..., None, None] * moments).sum(1) / weights[:, None, None]
    values, turn = np.linalg.eigh(inside)
    thick = flats.variance
    order = np.argsort(-weights)
    bases = (flats.bases @ turn[:, :, ::-1])[order]
    angles = found.angles[order]
    pairs = [principal_angles(bases[i], bases[j])[0] for i in range(k) for j in range(i)]
    separation = float(min(pairs, default=90.0))
    judged, name = _verdict(found, angles, separation), f"flats, {counted(share.shape[1], 'component')} inside each"
    return SubspacesModel(
        **said("subspaces", name, found.value, found.errors.floor, judged, share.shape[1], run.trace),
        bases=bases,
        weights=weights[order],
        variances=(values[:, ::-1] + thick)[order] * unit**2,
        noise_variance=thick * unit**2,
        angles_std=angles,
        separation=separation,
    )


def _verdict(found: _Found, angles: Array, separation: float) -> tuple[Code, str]:
    """Subspaces should be known to two degrees, and be five errors apart.

    Where refining no longer turns them, five times the noise floor may be left.
    """
    worst = int(np.argmax(angles))
    known = f"Subspace {worst}, the least certain, is known to {angles[worst]:.2g} degrees."
    left = f"The misfit is {found.ratio:.2g} times the noise floor."
    if not found.explained and found.ratio > 5.0:
        return Code.MISFIT, (
            "Not certified. Try another seed. Perhaps there are more subspaces, or they have a higher dimension, or "
            "they don't pass through the origin. Perhaps the rows are so many that they show the distribution inside "
            f"the subspaces in more detail than {found.flats.places.shape[1]} components do. {left} The last "
            f"refinement turned the subspaces by up to {found.moved.max():.2g} degrees."
        )
    if not found.twice:
        return Code.UNDETERMINED, (
            f"Not certified. Try another seed or more features: {_TRIES} starts led to {_TRIES} different results, so "
            f"there may be better ones. {left}"
        )
    if len(angles) > 1 and separation < 5.0 * float(angles.max()):
        return Code.UNDETERMINED, (
            f"Not certified. Use more rows or features. Two subspaces are {separation:.2g} degrees apart, and other "
            f"pairs explain the sketch as well. {known} {left}"
        )
    if angles.max() > 2.0:
        return Code.UNDETERMINED, f"Not certified. Use more rows or features. {known} {left}"
    apart = f" No two subspaces are closer than {separation:.2g} degrees." if len(angles) > 1 else ""
    return Code.RELIABLE, f"Reliable. {left} {known}{apart}"
