"""Charts: misfit against noise, sweep over k, spectrum, drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sketchlearn.comparison import Change, changes
from sketchlearn.comparison.drift import adjusted
from sketchlearn.decoders import Code, Sweep
from sketchlearn.plots.axes import BAD, FAINT, GOOD, INK, axes, caption, color, tidy
from sketchlearn.plots.geometry import as_model
from sketchlearn.sketches import Sketch, SketchTable

_LONGEST, _ROOM, _TURNED = 24, 70, 16  # letters of a name, letters in a line, names in a line if they are turned


def residual(model: Any, *, ax: Any = None) -> Any:
    """Misfit of the model and noise floor, by radius of the frequencies.

    If the misfit is at the noise floor, the model explains everything that the sketch shows. If it is above the floor
    at small radii, something large is missing. If it is above the floor only at large radii, the fine structure differs
    from the model.

    Parameters
    ----------
    model : estimator, Model or path
        k-means or Gaussian mixture.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> ax = sl.plots.residual(sl.CompressiveKMeans(1, random_state=0).fit(X))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['sketch', 'misfit of the model', 'noise floor', 'sampling noise']
    """
    model = as_model(model)
    p = model.profile
    if p is None:
        raise ValueError(f"this {model.task} model has no profile by radius; learn k-means or a Gaussian mixture")
    ax = tidy(axes(ax))
    ax.loglog(p.radius, p.signal, color=FAINT, linewidth=1.5, label="sketch")
    what = f"misfit of the {model.behind}"
    ax.loglog(p.radius, np.maximum(p.misfit, 1e-300), "o-", color=color(0), markersize=4, label=what)
    ax.loglog(p.radius, np.maximum(p.floor, 1e-300), color=GOOD, linewidth=1.5, label="noise floor")
    ax.loglog(p.radius, p.sampling, ":", color=INK, linewidth=1, label="sampling noise")
    lowest = min(p.misfit.min(), p.floor[p.floor > 0].min(initial=np.inf))
    ax.set_ylim(bottom=max(lowest, 1e-6 * p.sampling.max()) / 3)
    ax.set_xlabel("radius (1: one standard deviation of the data; larger: finer)")
    ax.set_ylabel("mean squared modulus")
    ax.set_title(caption(model.headline))
    ax.legend(frameon=False)
    return ax


def sweep(table: Sweep, *, ax: Any = None) -> Any:
    """Misfit over noise floor and estimated inertia against the number of components.

    Parameters
    ----------
    table : Sweep
        From :func:`sketchlearn.sweep`.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(6000, 2)) + np.repeat([[0, 0], [12, 0], [0, 12]], 2000, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=6, seed=0))
    >>> sl.plots.sweep(sl.sweep(s, range(1, 6), random_state=0)).get_xlabel()
    'number of components'
    """
    if not isinstance(table, Sweep):
        raise TypeError(f"expected the table that sl.sweep returns, got {type(table).__name__}")
    ax = tidy(axes(ax))
    k = table.column("k")
    ax.semilogy(k, table.column("ratio"), "o-", label="misfit / noise floor")
    sure = [row for row in table if row.code == Code.RELIABLE]
    if sure:
        ax.semilogy([r.k for r in sure], [r.ratio for r in sure], "o", color=GOOD, zorder=3, label="certified")
    ax.axvline(table.recommended, color="C2", linestyle="--", label=f"recommended: {table.recommended}")
    ax.set_xlabel("number of components")
    ax.set_ylabel("misfit / noise floor")
    right = ax.twinx()
    right.plot(k, table.column("inertia"), "s-", color="C1", alpha=0.6)
    right.set_ylabel("estimated inertia", color="C1")
    ax.legend(loc="upper right")
    return ax


def spectrum(model: Any, *, ax: Any = None) -> Any:
    """Variances along principal components, and how much they explain together; or the eigenvalues of a graph.

    Parameters
    ----------
    model : estimator, Model or path
        PCA, or spectral clustering: there the eigenvalues before the gap, and after it, have different colours.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [3.0, 2.0, 1.0]
    >>> sl.plots.spectrum(sl.CompressivePCA(3).fit(X)).get_ylabel()
    'variance'
    """
    model = as_model(model)
    pictures = model.pictures()
    if "eigenvalues" in pictures:
        return _eigenvalues(model, **pictures["eigenvalues"], ax=ax)
    found = pictures.get("spectrum")
    if found is None:
        raise ValueError(f"a spectrum needs a model of PCA or of spectral clustering, this one is {model.task}")
    variances, shares = found["variances"], found["shares"]
    ax = tidy(axes(ax))
    k = np.arange(1, len(variances) + 1)
    ax.bar(k, variances, color=color(0), width=0.7, label="variance")
    level = getattr(model, "noise_variance", None) or 0.0
    if level > 0:
        ax.axhline(level, color=INK, linestyle=":", linewidth=1, label="mean variance of the other directions")
    ax.set_xlabel("principal component")
    ax.set_ylabel("variance")
    right = ax.twinx()
    right.plot(k, 100 * np.cumsum(shares), "o-", color=color(4), markersize=4)
    right.set_ylim(0, 105)
    right.set_ylabel("explained together, %", color=color(4))
    right.spines["top"].set_visible(False)
    if len(k) <= 20:
        ax.set_xticks(k)
    ax.set_title(caption(f"{model.headline}: {shares.sum():.1%} of the variance"))
    ax.legend(frameon=False, loc="center right")
    return ax


def _eigenvalues(model: Any, values: Any, clusters: int, ax: Any) -> Any:
    """Eigenvalues of a graph's Laplacian: small ones, and then a gap, if there are so many clusters."""
    ax = tidy(axes(ax))
    k = np.arange(1, len(values) + 1)
    for some, shade, label in (
        (k <= clusters, color(0), f"the first {clusters}"),
        (k > clusters, color(4), "after them"),
    ):
        if some.any():
            ax.bar(k[some], np.asarray(values)[some], color=shade, width=0.7, label=label)
    ax.set_xlabel("eigenvalue")
    ax.set_ylabel("of the normalised Laplacian")
    if len(k) <= 20:
        ax.set_xticks(k)
    ax.set_title(caption(model.headline))
    ax.legend(frameon=False, loc="upper left")
    return ax


def drift(
    sketches: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch] | Sequence[Change],
    *,
    labels: Sequence[str] | None = None,
    against: str = "first",
    alpha: float = 0.01,
    ax: Any = None,
) -> Any:
    """How far each sketch of a sequence is from the first one (or the one before), and whether noise explains it.

    Parameters
    ----------
    sketches : mapping, SketchTable or iterable of Sketch
        In the order to be drawn (a table: in the order of its keys), with the same feature map and no row in two of
        them; or what :func:`sketchlearn.plots.changes` returned.
    labels : sequence of str, optional
        Names; by default the keys, or numbers.
    against : {"first", "previous", "rest"}
        What each sketch is compared with: the first, the one before, or all others together.
    alpha : float
        Probability of any false alarm in the picture (Holm's correction); alarms are drawn in red.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
    >>> days = [sl.sketch(rng.normal(size=(500, 2)) + (day == 2), phi) for day in range(3)]
    >>> sl.plots.drift(days, labels=["Mon", "Tue", "Wed"]).get_ylabel()
    'distance (MMD) from the first'
    """
    found = changes(sketches, labels=labels, against=against)
    ax = tidy(axes(ax, (7.2, 4.0)))
    at = np.arange(len(found))
    alarm = np.array(adjusted([c.p_value for c in found], "holm")) < alpha
    level = alpha / max(1, len(found) - int(alarm.sum()))  # of Holm's last step: alarms are the points above the band
    distance = np.array([c.distance for c in found])
    edge = np.array([c.limit(level) for c in found])
    # each value of the band is that of its own point: one sketch may have many more rows than the next
    sides = np.repeat(at, 2) + np.tile([-0.5, 0.5], len(at))
    ax.fill_between(sides, np.repeat(edge, 2), color=FAINT, alpha=0.3, linewidth=0, label="what noise gives")
    ax.plot(at, distance, color=INK, linewidth=1, zorder=2)
    for mask, shade, text in ((~alarm, GOOD, "no alarm"), (alarm, BAD, "differs")):
        if mask.any():
            ax.scatter(at[mask], distance[mask], c=shade, s=36, zorder=3, label=text)
    _label(ax, at, [c.label for c in found])
    ax.set_ylim(bottom=0)
    names = {"first": "the first", "previous": "the one before", "rest": "all others"}
    ax.set_ylabel(f"distance (MMD) from {names[found[0].against]}")
    ax.legend(frameon=False)
    return ax


def _label(ax: Any, at: Any, labels: list[str]) -> None:
    """Names below the axis that don't run into each other: fewer of them, cut, and turned if they are long."""
    short = [label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…" for label in labels]
    room = _ROOM // max(max(map(len, short)), 1)  # of names side by side
    turned = len(short) > max(room, 2)
    every = max(1, -(-len(at) // (_TURNED if turned else len(at))))
    ax.set_xticks(at[::every], [caption(text) for text in short[::every]])
    if turned:
        for text in ax.get_xticklabels():
            text.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.figure.set_layout_engine("tight")  # turned names need space below
