"""Feature maps for k-means: multi-scale frequencies in the metric of k-means.

Radii are log-uniform from the size of the whole data set to the expected separation of k clusters, then
fall off slowly; directions are orthogonal blocks, radii stratified; isotropic, because k-means is a
Euclidean criterion (whitening was measured to hurt).  Only a crude spread of the data is needed: a factor of
two either way costs little.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.designs.request import Request, positive, register_design, within_reach
from sketchlearn.designs.scale import RULES, expected_separation, spread_of
from sketchlearn.designs.spread import usual
from sketchlearn.exceptions import PUBLIC, InputError
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import MultiscaleLaw, RadialLaw

_LOW, _HIGH, _DECAY = 0.7, 64.0, 2.0
_SIZE, _SMALLEST = 10, 100
_BOUNDS_SIZE = 20
# Public bounds are usually two to five times wider than the data, and data fills its own box with about
# seven standard deviations: spreads between box / 4 and box / 35 are covered.
_BOX_TO_SPREAD, _BOX_SLACK = 4.0, 8.0
# Clusters inside clusters: frequencies should reach three times 1 / width of the narrowest cluster that has 2 % of the
# pilot; if the usual ones fall short of that by more than a factor of two (or at all, where two clusters are nearer to
# each other than 15 % of what independent rows would be), others are drawn, log-uniform to 2/3 of it.
_REACH, _SHORT, _NEAR, _END, _LONGEST = 3.0, 2.0, 0.15, 1.5, 1e5
_LINKED, _SIZEABLE = 1000, 0.02
# Far rows: where some value is more than 15 spreads of its column away, a map also has low frequencies, two per column
# and octave, down to two octaves below one radian at the farthest value (nine octaves in all, if rows beyond the pilot
# may be farther).  Values beyond nine octaves, 731 spreads, are mostly errors or codes: centres don't follow them.
# Four features per coordinate of the centres stay ordinary.  Beyond 40 columns covariances of low ones take seconds.
_FAR, _MARGIN, _OCTAVES, _FEWEST, _ORDINARY, _MOST_COLUMNS = 15.0, 2, 9, 3, 4, 40


def kmeans_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """Ten frequencies per coordinate of the centres, and at least 100."""
    return max(_SMALLEST, _SIZE * k * d)


@register_design("kmedians", size=kmeans_size, units="distances")
@register_design("kmeans", size=kmeans_size, units="distances")
def design_kmeans(request: Request) -> tuple[FourierFeatures, str]:
    """A map from pilot rows, from public bounds or from a guess of the spread, and why."""
    request.refuse("covariance_type", why="has no covariance_type")
    k, m, seed, scale = request.n_components, request.size, request.seed, request.scale
    if request.sample is not None and request.bounds is not None:
        raise ValueError("give a sample or bounds, not both")
    if request.sample is not None:
        if scale is not None and not isinstance(scale, str):
            raise ValueError("with a sample, scale is the name of a rule; a number is for when there is no sample")
        return from_sample(*request.weighted(), k, m, seed, scale, request.radial, request.looked_at)
    if isinstance(scale, str) or request.radial is not None:
        raise ValueError("a rule for the scale, or a radial law, needs a sample")
    if request.bounds is not None:
        return from_bounds(*request.box(), k, m, seed)
    if scale is None:
        raise InputError("nothing to design from: give a sample of rows, ", PUBLIC, ", or scale= and dim=")
    if request.dim is None:
        raise ValueError("scale= without a sample needs dim=, the number of columns")
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be positive and finite, got {scale!r}")
    return from_spread(positive(request.dim, "dim"), float(scale), k, m, seed)


def resolution_radius(k: int, d: int) -> float:
    """Frequency radius (in units of 1/std) that resolves k random clusters in d dimensions."""
    return max(2.0, 2.0 * math.sqrt(d) / expected_separation(max(k, 2), d))


def multiscale_map(
    *,
    center: npt.ArrayLike,
    spread: float,
    k: int,
    size: int,
    seed: int,
    slack: float = 1.0,
    longest: float | None = None,
    octaves: int = 0,
) -> FourierFeatures:
    """Map for data of standard deviation `spread` (or up to `slack` times less) around `center`.

    With `longest`, radii are log-uniform almost to that many times 1 / spread, for clusters inside clusters; with
    `octaves` some are lower, for far rows.
    """
    center = np.asarray(center, np.float64)
    d = len(center)
    knee, high = min(resolution_radius(k, d), _HIGH / 2) * slack, _HIGH * slack
    if longest is not None:
        knee, high = longest / _END, longest
    law = MultiscaleLaw(low=_LOW, knee=knee, high=high, decay=_DECAY)
    scale = spread * math.sqrt(d / law.second_moment(d))
    return FourierFeatures.draw(dim=d, size=size, scale=scale, radial=law, seed=seed, center=center, octaves=octaves)


def from_sample(
    sample: Array,
    weights: Array | None,
    k: int,
    size: int | None,
    seed: int,
    rule: str | None,
    radial: str | RadialLaw | None,
    looked_at: tuple[Array, Array] | None = None,
) -> tuple[FourierFeatures, str]:
    """A map from pilot rows, and why."""
    d = sample.shape[1]
    if rule is None and radial is None:
        return sample_map(sample, k, size, seed, weights, looked_at)
    m = size or kmeans_size(k, d)
    center, _ = rounded_moments(sample, weights)
    name = rule or "mean-separation"
    if name not in RULES:
        raise ValueError(f"scale={name!r}: choose a number or one of {', '.join(RULES)}")
    sigma = RULES[name](sample, k, seed)
    phi = FourierFeatures.draw(dim=d, size=m, scale=sigma, radial=radial or "adapted", seed=seed, center=center)
    summary = (RULES[name].__doc__ or "").strip().splitlines()[0]
    return phi, f"{m} features at one scale, {sigma:.6g}, by the rule {name!r}: {summary}"


def sample_map(
    sample: Array,
    k: int,
    size: int | None,
    seed: int,
    weights: Array | None = None,
    looked_at: tuple[Array, Array] | None = None,
) -> tuple[FourierFeatures, str]:
    """The map for k clusters from pilot rows, which may be weighted, and why.

    If the narrowest sizeable clusters of the pilot are far narrower than the usual radii reach, these are lengthened,
    with as many features per octave as usual.  If the pilot, or the rows that it was chosen from (`looked_at` is their
    box), hold values far from all others, some of the features have low frequencies.
    """
    n, d = sample.shape
    m = size or kmeans_size(k, d)
    center, spread = rounded_moments(sample, weights)
    width, apart = narrowest(sample, k, weights) or (None, math.inf)
    longest = None if width is None else min(_REACH * spread / width, _LONGEST)
    enough = _HIGH if apart < _NEAR * math.sqrt(2.0 * d) * spread else _SHORT * _HIGH
    text = f"multi-scale frequencies for k-means with {k} components in {d} dimensions: "
    reach = farthest(sample, looked_at, center, spread)
    octaves = low_octaves(reach, m, k, d, whole=looked_at is not None)
    low = ""
    if octaves:
        low = (
            f"; the last {2 * d * octaves} features go down {octaves} octaves from {_LOW:g}/s, along columns and in "
            f"random directions, because some rows lie {reach:.3g} s away"
        )
    if width is not None and longest is not None and longest > enough:
        if size is None:
            m = math.ceil(m * math.log(longest / _LOW) / math.log(_HIGH / _LOW))
        phi = multiscale_map(center=center, spread=spread, k=k, size=m, seed=seed, longest=longest, octaves=octaves)
        return phi, (
            f"{text}{m} features{' (as many per octave as usual)' if size is None else ''}, radii log-uniform from "
            f"{_LOW:g}/s to {longest:.3g}/s, with s = {spread:.6g} the spread of {n} pilot rows, because they show "
            f"clusters {spread / width:.3g} times narrower than that; centred at their mean; orthogonal directions, "
            f"stratified radii{low}"
        )
    phi = multiscale_map(center=center, spread=spread, k=k, size=m, seed=seed, octaves=octaves)
    return phi, (
        f"{text}{m} features"
        f"{' (10 k d, at least 100)' if size is None else ''}, radii log-uniform from {_LOW:g}/s to "
        f"{resolution_radius(k, d):.3g}/s (resolves the expected separation of {k} clusters), then falling to "
        f"{_HIGH:g}/s, with s = {spread:.6g} the spread of {n} pilot rows; centred at their mean; orthogonal "
        f"directions, stratified radii{low}"
    )


def farthest(sample: Array, looked_at: tuple[Array, Array] | None, center: Array, spread: float) -> float:
    """Distance of the farthest value from the centre, in spreads; 0 if it is not far for its own column."""
    lower, upper = (sample.min(axis=0), sample.max(axis=0)) if looked_at is None else looked_at
    with np.errstate(over="ignore"):
        apart = np.maximum(upper - center, center - lower)
    near = sample[usual(sample)]
    own = np.maximum(near.std(axis=0), spread)
    far = apart > _FAR * own
    return float((apart[far] / spread).max(initial=0.0))


def low_octaves(reach: float, size: int, k: int, dim: int, whole: bool) -> int:
    """Octaves of low frequencies for rows that are so many spreads away, in a map of this size; `whole`: none farther.

    None, if there are too few features to tell how far such rows are, or if they are so far that they must be errors.
    """
    needed = math.ceil(math.log2(_LOW * reach)) if reach > 0 else 0
    if not 0 < needed <= _OCTAVES or dim > _MOST_COLUMNS:
        return 0
    wanted = needed + _MARGIN if whole else max(needed + _MARGIN, _OCTAVES)
    octaves = min(wanted, (size - _ORDINARY * k * dim) // (2 * dim))
    return octaves if octaves >= max(needed, _FEWEST) else 0


def narrowest(sample: Array, k: int, weights: Array | None = None) -> tuple[float, float] | None:
    """Standard deviation of the narrowest sizeable cluster of the pilot, rounded, and the least distance of two.

    None if there are too few rows.  By Ward's linkage, cut at k clusters.  At most a thousand rows are linked, evenly
    spread over the sorted ones, so that the order of the rows changes nothing; a row of weight 2 counts like two.
    """
    if k < 2:
        return None
    whole = weights is None or np.array_equal(np.rint(weights), weights)
    total = len(sample) if weights is None else float(weights.sum())
    if total > _LINKED or not whole:
        order = np.lexsort(sample.T[::-1])
        upto = np.cumsum(np.ones(len(order)) if weights is None else weights[order])
        if whole:
            at = np.linspace(0, total - 1, _LINKED).astype(int)
        else:  # at most as many as there are rows: copies have no width
            few = min(_LINKED, len(sample))
            at = (np.arange(few) + 0.5) * (total / few)
        sample = sample[order[np.searchsorted(upto, at, side="right").clip(max=len(order) - 1)]]
    elif weights is not None:
        sample = np.repeat(sample, weights.astype(int), axis=0)
    if len(sample) < 2 * k + 2:
        return None
    from scipy.cluster.hierarchy import fcluster, linkage

    unit = float(np.abs(sample).max()) or 1.0  # squares of distances must not overflow
    sample = sample / unit
    labels = fcluster(linkage(sample - sample.mean(axis=0), "ward"), k, "maxclust")
    fewest = max(_SIZEABLE * len(sample), 5)
    parts = [sample[labels == l] for l in np.unique(labels)]
    widths = [math.sqrt(part.var(axis=0, ddof=1).mean()) for part in parts if len(part) >= fewest]
    width = min(widths, default=0.0) * unit
    if width <= 0:
        return None
    means = np.stack([part.mean(axis=0) for part in parts if len(part) >= fewest])
    apart = ((means[:, None] - means) ** 2).sum(axis=2)[~np.eye(len(means), dtype=bool)]
    return 2.0 ** (round(4 * math.log2(width)) / 4), unit * math.sqrt(apart.min(initial=math.inf))


def from_bounds(lower: Array, upper: Array, k: int, size: int | None, seed: int) -> tuple[FourierFeatures, str]:
    """A map from public bounds alone, and why."""
    d = len(lower)
    m = size or max(_SMALLEST, _BOUNDS_SIZE * k * d)
    box = float(np.sqrt(np.mean((upper - lower) ** 2)))
    spread = box / _BOX_TO_SPREAD
    phi = multiscale_map(center=0.5 * (lower + upper), spread=spread, k=k, size=m, seed=seed, slack=_BOX_SLACK)
    return phi, (
        f"multi-scale frequencies from public bounds, no row looked at: {m} features"
        f"{' (20 k d, at least 100)' if size is None else ''}, covering data whose spread is between {spread:.4g} "
        f"(it fills the box) and {spread / _BOX_SLACK:.4g} (the box is several times too wide)"
    )


def from_spread(d: int, spread: float, k: int, size: int | None, seed: int) -> tuple[FourierFeatures, str]:
    """A map from a guess of the data's standard deviation, and why."""
    m = size or max(_SMALLEST, _BOUNDS_SIZE * k * d)
    phi = multiscale_map(center=np.zeros(d), spread=2 * spread, k=k, size=m, seed=seed, slack=4.0)
    return phi, (
        f"multi-scale frequencies for data of standard deviation {spread:.6g} (or up to twice more or less), "
        f"no row looked at: {m} features"
    )


def rounded_moments(sample: Array, weights: Array | None = None) -> tuple[Array, float]:
    """Mean and spread, rounded so that the order of the rows can't change the map by a last bit.

    Rows with values far from all others are left out: a single one would set the scale of everything.
    """
    sample, weights = within_reach(sample, weights)
    rows = usual(sample)
    if not rows.all():
        sample, weights = sample[rows], None if weights is None else weights[rows]
    if weights is None:
        mean, spread = sample.mean(axis=0), spread_of(sample)
    else:
        mean = np.average(sample, axis=0, weights=weights)
        spread = float(np.sqrt(np.average((sample - mean) ** 2, axis=0, weights=weights).mean()))
    if not spread > 1e-12 * max(float(np.abs(mean).max()), 1e-300):
        spread = max(float(np.abs(mean).max()), 1.0) * 1e-3  # constant data: any scale will do
    spread = 2.0 ** (round(8 * math.log2(spread)) / 8)
    step = 2.0 ** math.floor(math.log2(spread)) / 16
    return np.rint(mean / step) * step, spread
