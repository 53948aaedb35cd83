"""Certificates in words and codes, one function for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.solution import Code

CLUSTERS, STABLE, FAMILY, LOW_RANK = 3.0, 2.0, 2.0, 1.5
"""Misfit over noise floor beyond which a model of each kind is taken to be wrong."""

HELD = 0.8
"""Share of its claimed variance that a principal component must hold: it claims at most a quarter too much."""

FEWEST_ROWS = 10
"""Rows for each component below which noise is no measure of a misfit: a few rows can be fitted by anything."""

Verdict = tuple[Code, str]


@dataclass(frozen=True)
class Findings:
    """What the examination of round components found; see :mod:`sketchlearn.decoders.certificate.examine`.

    `missing` and `split` are in units of their limits, `error` and `closest` in widths, `place` in units of the rows.
    """

    passed: bool
    explained: bool
    determined: bool
    residual: float
    missing: float
    place: npt.NDArray[np.float64]
    rows: float
    split: float
    component: int
    error: float
    worst: int
    reach: float
    smallest: float
    closest: float
    total: float
    strays: int

    @property
    def could_show(self) -> str:
        """The smallest cluster and the closest pair that would have been noticed."""
        return (
            f"another cluster would have been noticed if it had {_share(self.smallest, self.total)}, and two clusters "
            f"taken as one if they were {self.closest:.2g} widths apart"
        )


def of_clusters(ratio: float, path: str, k: int, plain: float, found: Findings | None) -> Verdict:
    """Round components: `plain` is the ratio of the model with one width, `path` says which one it is now."""
    if found is not None and found.passed:
        strays = (
            f"; {found.strays} place{'s' * (found.strays > 1)} with a few rows each left aside" if found.strays else ""
        )
        return Code.RELIABLE, (
            f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves, "
            f"so the components ({path}) explain the data, and the sketch determines them; {found.could_show}{strays}"
        )
    if found is not None and found.explained:
        if not found.determined:
            why = (
                f"the centre of component {found.worst} is known to {found.error:.2g} widths only: the map is too "
                "coarse, or there are too few rows or features, or clusters coincide"
            )
        else:
            why = (
                "the map is too coarse to tell clusters of this width and distance from others with the same moments: "
                "design it from rows, or from narrower bounds"
            )
        return (
            Code.UNDETERMINED,
            f"not certified: {k} components ({path}) explain the data, but {why}; {found.could_show}",
        )
    if found is not None and ratio <= CLUSTERS:
        if found.missing >= max(found.split, 1.0):
            place = ", ".join(f"{x:.4g}" for x in found.place[:6]) + (", ..." if len(found.place) > 6 else "")
            why = f"a cluster of about {_share(found.rows / found.total, found.total)} is missing near ({place})"
        elif found.split >= 1.0:
            why = f"component {found.component} is two clusters, or of another width or shape"
        else:
            why = f"what is left of the sketch is {found.residual:.1f} standard deviations above sampling noise"
        return Code.MISFIT, (
            f"not certified: the misfit is {ratio:.2f} times the noise floor, but {why} (components: {path}); "
            f"{found.could_show}"
        )
    if found is None and plain <= CLUSTERS:
        return Code.UNCERTIFIED, (
            f"not certified: the misfit is {ratio:.2f} times the noise floor, but there are too many components and "
            "columns to examine whether all clusters were found"
        )
    return Code.MISFIT, (
        f"not certified: with {k} round components the misfit is {plain:.3g} times the noise "
        "floor. Either clusters are missing (try more components, a larger sketch or another seed), or they are not "
        "round Gaussians (columns in different units should be standardised), as on most real data; the centres "
        f"then come from a richer model ({path}) and are usually close to "
        "those of k-means"
    )


def _share(share: float, total: float) -> str:
    return f"{100 * share:.2g} % of the rows ({share * total:.3g})"


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


def of_family(ratio: float, k: int) -> Verdict:
    """A mixture of a family of atoms, whose noise floor is an upper bound."""
    if ratio > FAMILY:
        return Code.MISFIT, (
            f"not certified: the misfit is {ratio:.3g} times the noise floor, so the rows are not a mixture of {k} "
            "such components (or components were missed: try another seed or a larger sketch)"
        )
    return Code.RELIABLE, f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves at most"


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
    """A second moment that the sketch holds as it is; `buried` components don't stand out of noise that was added."""
    if buried:
        kept = "no component stands" if buried == rank else f"only {rank - buried} of {rank} components stand"
        return Code.UNDETERMINED, (
            f"{kept} out of the noise that was added to the second moment: ask for fewer, or release with a larger "
            "epsilon, more rows or a smaller radius"
        )
    return Code.RELIABLE, "the sketch holds the whole second moment: nothing was lost but what lies beyond the rank"


def _components(numbers: Sequence[int]) -> str:
    return f"component{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
