"""Certificates in words and codes, one function for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.noise import SLACK
from sketchlearn.decoders.solution import Code
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.decoders.certificate import Certified, Examination
    from sketchlearn.decoders.problem import Problem

CLUSTERS, FAMILY = 3.0, 2.0
"""Misfit over noise floor beyond which round clusters, and mixtures of laws that are not normal, are wrong."""

HELD = 0.8
"""Share of its claimed variance that a principal component must hold: it claims at most a quarter too much."""

LOST = 100.0
"""Cluster widths of error from which on a centre may be anywhere, and the error says no more than that."""

FEWEST_ROWS = 10
"""Rows for each component below which noise is no measure of a misfit: a few rows can be fitted by anything."""

Verdict = tuple[Code, str]


def of_clusters(
    ratio: float,
    path: str,
    k: int,
    plain: float,
    certified: Certified | None,
    problem: Problem,
    far: bool = False,
) -> Verdict:
    """Round components with a misfit of `ratio` noise floors (`plain` with one width), `path` says of what kind.

    `far` says whether far components were added to what the tests of the certificate looked at.
    """
    seen, total = None if certified is None else certified.examination, problem.n
    if certified is None or seen is None:
        if plain <= CLUSTERS and far:
            return Code.UNCERTIFIED, (
                f"Not certified. The misfit is {ratio:.2f} times the noise floor, but no test looks at components as "
                "far out as some rows are here."
            )
        if plain <= CLUSTERS:
            return Code.UNCERTIFIED, (
                f"Not certified. The misfit is {ratio:.2f} times the noise floor, but there are too many components "
                "and columns to test whether all clusters were found."
            )
        return _misfit(k, plain, path)
    clusters = counted(k, "round cluster")
    explain = f"{clusters} explain{'s' * (k == 1)} the sketch"
    could_show = "Another cluster may be there without being noticed, whatever its size."
    if seen.smallest < 1.0:
        could_show = f"Another cluster would have been noticed if it had at least {_share(seen.smallest, total)}."
    apart = float(seen.closest[:k].max())
    if apart < LOST:
        could_show += (
            f" Two clusters taken as one would have been noticed if they were at least {_widths(apart)} apart."
        )
    if seen.passed:
        strays = len(certified.strays)
        aside = f" {counted(strays, 'place')} far out, of a few rows each, {'is' if strays == 1 else 'are'} left out."
        return Code.RELIABLE, (
            f"Reliable. {explain} (the misfit is {ratio:.2f} times the noise floor). {could_show}{aside * (strays > 0)}"
        )
    if seen.explained:
        why = "clusters of half the average size may be missing: take more rows, or a larger sketch"
        if not seen["reach"].passed:
            why = (
                "the map is too coarse to tell clusters of this width and distance from others with the same moments: "
                "design it from rows, or from narrower bounds"
            )
        if not seen.determined:
            error, at = max(seen["coordinate"].score, seen["distance"].score / 2.0), seen["coordinate"].at
            lost = f"the sketch doesn't show where component {at} is"
            known = f"the centre of component {at} is known to {_widths(error)} only"
            why = (
                f"{known if error < LOST else lost}: the map is too coarse, there are too few rows or features, or "
                "clusters coincide"
            )
        return Code.UNDETERMINED, f"Not certified. {explain}, but {why}. {could_show}"
    if not ratio <= CLUSTERS:
        return _misfit(k, plain, path)
    split, missing = (seen[test].score / seen[test].limit for test in ("split", "missing"))
    if missing >= max(split, 1.0):
        place = problem.points(seen.missing_at[None])[0]
        where = ", ".join(f"{x:.4g}" for x in place[:6]) + (", ..." if len(place) > 6 else "")
        why = f"a cluster of about {_share(seen.missing_weight, total)} is missing near ({where})"
    elif split >= 1.0:
        why = f"component {seen['split'].at} is two clusters, or of another width or shape"
    else:
        why = f"what is left of the sketch is {seen['residual'].score:.1f} standard deviations above sampling noise"
    return Code.MISFIT, f"Not certified. {_unexplained(k)}: {why} ({_floors(ratio)})."


def _misfit(k: int, plain: float, path: str) -> Verdict:
    return Code.MISFIT, (
        f"Not certified. {_unexplained(k)}: there are more, or they have other shapes or widths ({_floors(plain)}). "
        f"The centres come from {path}."
    )


def _unexplained(k: int) -> str:
    return f"{counted(k, 'round cluster')} {'does' if k == 1 else 'do'}n't explain the sketch"


def _share(share: float, total: float) -> str:
    return f"{100 * share:.2g} % of the rows (about {max(share * total, 1.0):,.0f})"


def _widths(width: float) -> str:
    shown = f"{width:.2g}"
    return f"{shown} cluster width{'s' * (shown != '1')}"


def of_few_rows(rows: float, k: int) -> Verdict:
    """Too few rows for any certificate."""
    return Code.UNDETERMINED, (
        f"Not certified. There are only {rows:.6g} rows for {counted(k, 'component')}: almost anything fits fewer than "
        f"{FEWEST_ROWS} rows for each component."
    )


def of_points(ratio: float, name: str, doubt: str = "") -> Verdict:
    """Points without width; `doubt` as in :func:`of_search`."""
    if not ratio <= CLUSTERS:
        return Code.MISFIT, (
            "Not certified. Points don't explain the sketch: clusters have a width, or the scale of the map doesn't "
            f"suit the data. {_misfit_of(name, ratio)}"
        )
    return _unless(doubt, _misfit_of(name, ratio))


def of_search(ratio: float, name: str, doubt: str = "") -> Verdict:
    """Round components that were found by some decoder without a certificate of its own; `doubt` says why they may not
    be determined."""
    if not ratio <= CLUSTERS:
        return Code.MISFIT, (
            "Not certified. Try another seed or a larger sketch: clusters are missing, or they are not round "
            f"Gaussians. {_misfit_of(name, ratio)}"
        )
    return _unless(doubt, f"{_misfit_of(name, ratio)} This decoder doesn't test whether small clusters are missing.")


def of_mixture(ratio: float, limit: float, what: str, unreliable: Sequence[int], advice: bool = True) -> Verdict:
    """A mixture of some components; `unreliable` are those that the sketch does not determine.

    Without `advice` a misfit is only stated: a grade says how good the mixture is and what to do.
    """
    if ratio > limit:
        if not advice:
            return Code.MISFIT, f"Not certified as a mixture of {what}: {_floors(ratio)}, as on most real data."
        return Code.MISFIT, (
            "Not certified. Try another seed, more components or a larger sketch. If you have rows, check the model "
            f"on them. The rows are not a mixture of {what}, or components were missed: {_floors(ratio)}."
        )
    if unreliable:
        return Code.UNDETERMINED, (
            "Not certified. Ask for fewer components, or make a larger sketch: this one does not determine the weight "
            f"or the width of {_components(unreliable)}. {_floors(ratio).capitalize()}."
        )
    return Code.RELIABLE, f"Reliable. The mixture explains the sketch: {_floors(ratio)}."


def of_family(ratio: float, k: int, seen: Examination | None = None) -> Verdict:
    """A mixture of any family, whose noise floor is an upper bound; `seen` is what the certificate's tests found."""
    failed = [] if seen is None else [f for f in seen.findings if not f.passed]
    if ratio > FAMILY or any(f.question == "explained" for f in failed):
        why = f" Failed: {failed[0]}." if failed else ""
        return Code.MISFIT, (
            f"Not certified. Try another seed or a larger sketch. The rows are not a mixture of {k} such components, "
            f"or components were missed: {_floors(ratio)}.{why}"
        )
    if failed:
        return Code.UNDETERMINED, (
            f"Not certified. {counted(k, 'component')} explain the sketch, but one test failed: {failed[0]}."
        )
    tests = "" if seen is None else " All tests of the certificate passed."
    return Code.RELIABLE, f"Reliable. The mixture explains the sketch: {_floors(ratio)}.{tests}"


def of_low_rank(residual: float, ratio: float, rank: int, converged: bool, held: Array, tight: bool = False) -> Verdict:
    """A second moment of low rank; `held` is the share of its claimed variance that each wanted component holds.

    Where the fit has almost as many numbers as the sketch, `tight`, a small misfit says nothing.
    """
    if ratio > SLACK:
        text = (
            f"Not certified. Try a larger sketch or a larger rank. Rank {rank} leaves {100 * residual:.2g} % of the "
            f"measurements unexplained, {ratio:.3g} times their sampling noise. This happens if many small components "
            "follow the large ones"
        )
        if converged:
            return Code.MISFIT, text + "."
        return Code.UNFINISHED, text + ". The decoder stopped before it had converged: allow more iterations."
    if tight:
        return Code.UNDETERMINED, (
            "Not certified. Make a larger sketch, or ask for a smaller rank: the sketch has fewer than one and a half "
            f"numbers for each of a fit of rank {rank}, and almost anything explains so few."
        )
    weak = np.flatnonzero(held < HELD)
    if len(weak):
        return Code.UNDETERMINED, (
            "Not certified. Ask for fewer components, standardise columns of different units, leave out outliers, or "
            "make a larger sketch. The sketch is explained down to its sampling noise, but it does not resolve "
            f"{_components([int(l) + 1 for l in weak])} of {len(held)}: at most {held[weak[0]]:.0%} of the claimed "
            "variance may be there."
        )
    return Code.RELIABLE, "Reliable. The components explain the sketch down to its sampling noise."


def of_exact(rank: int, buried: int = 0) -> Verdict:
    """A second moment that the sketch holds as it is; `buried` components don't stand out of additive noise."""
    if buried:
        kept = "No component stands" if buried == rank else f"Only {rank - buried} of {rank} components stand"
        return Code.UNDETERMINED, (
            "Not certified. Ask for fewer components, or release with a larger epsilon, more rows or a smaller radius. "
            f"{kept} out of the additive noise of the release."
        )
    return Code.RELIABLE, "Reliable. The sketch holds the whole second moment, so these are the components of the rows."


def of_equal_rows() -> Verdict:
    """A second moment that is rounding."""
    return Code.UNDETERMINED, "Not certified. No column varies by more than rounding, so there are no components."


def _unless(doubt: str, said: str) -> Verdict:
    if doubt:
        return Code.UNDETERMINED, f"Not certified, because {doubt}. {said}"
    return Code.RELIABLE, f"Reliable. {said}"


def _floors(ratio: float) -> str:
    shown = f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
    return f"the misfit is {shown} times the noise floor"


def _misfit_of(name: str, ratio: float) -> str:
    return f"{name[0].upper()}{name[1:]}: {_floors(ratio)}."


def _components(numbers: Sequence[int]) -> str:
    return f"component{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
