"""Certificates in words and codes, one function for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence

from sketchlearn.decoders.solution import Code

CLUSTERS, STABLE, FAMILY, LOW_RANK = 3.0, 2.0, 2.0, 1.5
"""Misfit over noise floor beyond which a model of each kind is taken to be wrong."""

Verdict = tuple[Code, str]


def of_clusters(ratio: float, path: str, k: int, plain: float, certifiable: bool) -> Verdict:
    """Round components: `plain` is the ratio of the model with one width, `path` says which one it is now."""
    if certifiable and ratio <= CLUSTERS:
        return Code.RELIABLE, (
            f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves, "
            f"so the components ({path}) explain the data"
        )
    return Code.MISFIT, (
        f"not certified: with {k} round components the misfit is {plain:.3g} times the noise "
        "floor. Either clusters are missing (try more components, a larger sketch or another seed), or they are not "
        "round Gaussians (columns in different units should be standardised), as on most real data; the centres "
        f"then come from a richer model ({path}) and are usually close to "
        "those of k-means"
    )


def of_points(ratio: float, name: str) -> Verdict:
    """Points without width."""
    text = f"{name}: the residual is {ratio:.3g} times the sampling noise of the sketch"
    if ratio <= CLUSTERS:
        return Code.RELIABLE, text
    return Code.MISFIT, text + "; points don't explain it (clusters have width, or the scale doesn't suit the data)"


def of_splitting(ratio: float) -> Verdict:
    """Components that were split from one."""
    text = f"hierarchical splitting: the misfit is {ratio:.3g} times the noise floor"
    if ratio <= CLUSTERS:
        return Code.RELIABLE, text
    return Code.MISFIT, text + "; components are missing or have another shape"


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


def of_low_rank(residual: float, ratio: float, rank: int, converged: bool) -> Verdict:
    """A second moment of low rank."""
    if ratio <= LOW_RANK:
        return Code.RELIABLE, "explains the sketch down to sampling noise"
    text = (
        f"rank {rank} leaves {residual:.2g} of the measurements unexplained, {ratio:.3g} times their sampling noise: "
        "the tail of the spectrum, if it is long; a larger sketch lowers its influence, a larger rank fits more of it"
    )
    if converged:
        return Code.MISFIT, text
    return Code.UNFINISHED, text + "; the decoder was still moving when it stopped: allow more iterations"


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
