"""Certificates in words and codes, one function for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.solution import Code

if TYPE_CHECKING:
    from sketchlearn.decoders.certificate.examine import Examination

CLUSTERS, STABLE, FAMILY, LOW_RANK = 3.0, 2.0, 2.0, 1.5
"""Misfit over noise floor beyond which a model of each kind is taken to be wrong."""

HELD = 0.8
"""Share of its claimed variance that a principal component must hold: it claims at most a quarter too much."""

FEWEST_ROWS = 10
"""Rows for each component below which noise is no measure of a misfit: a few rows can be fitted by anything."""

Verdict = tuple[Code, str]


def of_clusters(
    ratio: float,
    path: str,
    k: int,
    plain: float,
    seen: Examination | None,
    *,
    place: npt.NDArray[np.float64] | None,
    total: float,
    strays: int = 0,
    far: bool = False,
) -> Verdict:
    """Round components.

    Parameters
    ----------
    ratio, path : float, str
        Misfit over noise floor, and what the components are.
    k, plain : int, float
        Their number, and the ratio of the model with one width.
    seen : Examination or None
        What the certificate's tests found.
    place : ndarray (d,) or None
        Where a component is missing most, in the units of the rows.
    total : float
        Rows.
    strays : int
        Places far from all clusters with a few rows each.
    far : bool
        Whether far components were added to what the tests looked at.
    """
    if seen is None:
        if plain <= CLUSTERS and far:
            return Code.UNCERTIFIED, (
                f"not certified: the misfit is {ratio:.2f} times the noise floor, but no test looks at components as "
                "far out as some rows are here"
            )
        if plain <= CLUSTERS:
            return Code.UNCERTIFIED, (
                f"not certified: the misfit is {ratio:.2f} times the noise floor, but there are too many components "
                "and columns to examine whether all clusters were found"
            )
        return _misfit(k, plain, path)
    clusters = f"{k} round cluster{'s' * (k > 1)}"
    explain = f"{clusters} explain{'s' * (k == 1)} the sketch"
    could_show = (
        f"Another cluster would have been noticed if it had {_share(seen.smallest, total)}. Two clusters taken as one "
        f"would have been noticed if they were {float(seen.closest[:k].max()):.2g} widths apart"
    )
    if seen.passed:
        aside = f". {strays} place{'s' * (strays > 1)} with a few rows each left aside" if strays else ""
        return Code.RELIABLE, (
            f"reliable: {explain} (the misfit is {ratio:.2f} times what sampling "
            f"noise alone leaves). {could_show}{aside}"
        )
    if seen.explained:
        why = (
            "the map is too coarse to tell clusters of this width and distance from others with the same moments: "
            "design it from rows, or from narrower bounds"
        )
        if not seen.determined:
            error = max(seen.worst_coordinate, seen.worst_distance / 2.0)
            why = (
                f"the centre of component {seen.worst} is known to {error:.2g} widths only: the map is too "
                "coarse, or there are too few rows or features, or clusters coincide"
            )
        return (
            Code.UNDETERMINED,
            f"not certified: {explain}, but {why}. {could_show}",
        )
    if not ratio <= CLUSTERS:
        return _misfit(k, plain, path)
    split = next(f.score / f.limit for f in seen.findings if f.name == "split")
    missing = seen.missing / seen.limit
    if missing >= max(split, 1.0) and place is not None:
        where = ", ".join(f"{x:.4g}" for x in place[:6]) + (", ..." if len(place) > 6 else "")
        why = f"a cluster of about {_share(seen.missing_weight, total)} is missing near ({where})"
    elif split >= 1.0:
        why = f"component {seen.split_at} is two clusters, or of another width or shape"
    else:
        why = f"what is left of the sketch is {seen.residual:.1f} standard deviations above sampling noise"
    return Code.MISFIT, f"not certified as {clusters}: {why} (the misfit is {ratio:.2f} times the noise floor)"


def _misfit(k: int, plain: float, path: str) -> Verdict:
    return Code.MISFIT, (
        f"not certified as {k} round cluster{'s' * (k > 1)}: the misfit is {plain:.3g} times the noise floor, as on "
        f"most real data. The centres come from {path}"
    )


def _share(share: float, total: float) -> str:
    return f"{100 * share:.2g} % of the rows (about {max(share * total, 1.0):,.0f})"


def of_few_rows(rows: float, k: int) -> Verdict:
    """Too few rows for any certificate."""
    return Code.UNDETERMINED, (
        f"not certified: {rows:.6g} rows are fewer than {FEWEST_ROWS} for each of {k} "
        f"component{'s' * (k > 1)}: almost anything fits them"
    )


def of_points(ratio: float, name: str, doubt: str = "") -> Verdict:
    """Points without width; `doubt` as in :func:`of_search`."""
    text = f"{name}: the residual is {ratio:.3g} times the noise of the sketch"
    if not ratio <= CLUSTERS:
        return Code.MISFIT, text + "; points don't explain it (clusters have width, or the scale doesn't suit the data)"
    return (Code.UNDETERMINED, f"{text}, but {doubt}") if doubt else (Code.RELIABLE, text)


def of_search(ratio: float, name: str, doubt: str = "") -> Verdict:
    """Round components that were found by some decoder without a certificate of its own; `doubt` says why they may not
    be determined."""
    text = f"{name}: the misfit is {ratio:.3g} times the noise floor"
    if not ratio <= CLUSTERS:
        return Code.MISFIT, (
            text + "; clusters are missing (try another seed or a larger sketch) or are not round Gaussians"
        )
    if doubt:
        return Code.UNDETERMINED, f"{text}, but {doubt}"
    return Code.RELIABLE, text + ", though nothing tested whether small clusters are missing"


def of_splitting(ratio: float, doubt: str = "") -> Verdict:
    """Components that were split from one; `doubt` as in :func:`of_search`."""
    text = f"hierarchical splitting: the misfit is {ratio:.3g} times the noise floor"
    if not ratio <= CLUSTERS:
        return Code.MISFIT, text + "; components are missing or have another shape"
    return (Code.UNDETERMINED, f"{text}, but {doubt}") if doubt else (Code.RELIABLE, text)


def of_mixture(ratio: float, limit: float, k: int, kind: str, unreliable: Sequence[int]) -> Verdict:
    """A Gaussian mixture; `unreliable` are the components that the sketch does not determine."""
    if ratio > limit:
        return Code.MISFIT, (
            f"not certified: the misfit is {ratio:.3g} times the noise floor, so the rows are not a mixture "
            f"of {k} {kind} Gaussians (or components were missed: try another seed, more components or a larger "
            "sketch); the model is then an approximation, and rows, if there are any, should be used to check it"
        )
    if unreliable:
        return Code.UNDETERMINED, (
            f"not certified: the misfit is {ratio:.2f} times the noise floor, but the sketch does not "
            f"determine the weight or the width of {_components(unreliable)}; ask for fewer components or make a "
            "larger sketch"
        )
    return Code.RELIABLE, (
        f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves, so the model explains the data"
    )


def of_stable(ratio: float, k: int, unreliable: Sequence[int]) -> Verdict:
    """A mixture of elliptic stable laws."""
    if ratio > STABLE:
        return Code.MISFIT, (
            f"not certified: the misfit is {ratio:.3g} times the noise floor, so the rows are not a mixture of {k} "
            "elliptic stable laws (or components were missed: try another seed or a larger sketch)"
        )
    if unreliable:
        return Code.UNDETERMINED, (
            f"not certified: the misfit is {ratio:.2f} times the noise floor, but the sketch does not determine "
            f"{_components(unreliable)}"
        )
    return Code.RELIABLE, f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves"


def of_family(ratio: float, k: int, seen: Examination | None = None) -> Verdict:
    """A mixture of any family, whose noise floor is an upper bound; `seen` is what the certificate's tests found."""
    failed = [] if seen is None else [f for f in seen.findings if not f.passed]
    if ratio > FAMILY or any(f.question == "explained" for f in failed):
        why = f" ({failed[0]})" if failed else ""
        return Code.MISFIT, (
            f"not certified: the misfit is {ratio:.3g} times the noise floor{why}, so the rows are not a mixture of "
            f"{k} such components (or components were missed: try another seed or a larger sketch)"
        )
    if failed:
        return Code.UNDETERMINED, f"not certified: {k} components explain the data, but one test failed: {failed[0]}"
    tests = "" if seen is None else ", and all tests of the certificate pass"
    return Code.RELIABLE, f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves at most{tests}"


def of_low_rank(residual: float, ratio: float, rank: int, converged: bool, held: npt.NDArray[np.float64]) -> Verdict:
    """A second moment of low rank; `held` is the share of its claimed variance that each wanted component holds."""
    if ratio > LOW_RANK:
        text = (
            f"rank {rank} leaves {residual:.2g} of the measurements unexplained, {ratio:.3g} times their sampling "
            "noise: the tail of the spectrum, if it is long; a larger sketch lowers its influence, a larger rank fits "
            "more of it"
        )
        if converged:
            return Code.MISFIT, text
        return Code.UNFINISHED, text + "; the decoder was still moving when it stopped: allow more iterations"
    weak = np.flatnonzero(held < HELD)
    if len(weak):
        return Code.UNDETERMINED, (
            f"explains the sketch down to sampling noise, but the sketch does not resolve "
            f"{_components([int(l) + 1 for l in weak])} of {len(held)}: the variance there may be {held[weak[0]]:.0%} "
            "of what is claimed, or less; ask for fewer components, standardise columns of different units, leave "
            "outliers aside, or make a larger sketch"
        )
    return Code.RELIABLE, "explains the sketch down to sampling noise"


def of_exact(rank: int, buried: int = 0) -> Verdict:
    """A second moment that the sketch holds as it is; `buried` components don't stand out of additive noise."""
    if buried:
        kept = "no component stands" if buried == rank else f"only {rank - buried} of {rank} components stand"
        return Code.UNDETERMINED, (
            f"{kept} out of the noise added to the second moment: ask for fewer, or release with a larger "
            "epsilon, more rows or a smaller radius"
        )
    return Code.RELIABLE, "the sketch holds the whole second moment: nothing was lost but what lies beyond the rank"


def _components(numbers: Sequence[int]) -> str:
    return f"component{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
