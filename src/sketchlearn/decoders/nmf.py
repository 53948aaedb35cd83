"""Non-negative components from the second moment of the rows.

Rows are ``x = h W + e`` with ``h >= 0``, ``W >= 0`` and noise that is independent between columns.  Their second moment
is ``M = W' R W + P`` with ``R = E h h'`` and a diagonal P.  It tells the components in three steps.

1. P and the space that the components span, by maximum likelihood of normal rows (Joreskog 1967).  What this leaves
   times the number of rows is chi-squared for any law of h (Browne and Shapiro 1988): that is the certificate.
2. Row j of ``M - P`` is a combination of k vectors with the coefficients of column j, none negative, so that the d rows
   lie in a cone with k edges: a matrix Q makes coefficients of them, ``W' = B Q``.  Of all Q with ``B Q >= 0`` the one
   with the largest determinant is right, if the components have enough zeros (Huang, Fu and Sidiropoulos, "Anchor-free
   correlated topic modeling", NIPS 2016).  It is found by linear programs, one for each column of Q in turn, and begins
   at columns in which about one component only is there (anchors: Arora et al. 2013).  Noise is allowed to make entries
   of W negative, by two standard errors.
3. All entries that may be zero are made so, by least squares.  Any choice of components has k - 1 zeros in each,
   because the largest determinant is at an edge.  If there are more than chance would bring, these are the components.

Where k components and noise do not explain the second moment, as those of images, its cone means little.  Then rows
are drawn from a normal law with the moments, clipped to the box of the rows, and factorised.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.budget import announce, charge, over
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.lowrank.solution import Moments, full_matrix, unresolved
from sketchlearn.decoders.noise import CHANCE, DEVIATIONS, added_variance
from sketchlearn.decoders.solution import Code, said
from sketchlearn.decoders.verdicts import of_equal_rows
from sketchlearn.models.nmf import NMFModel, nonnegative_codes
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_LEAST = 1e-9  # noise of a column that rounding of the sums may look like, as a share of its second moment
_LIMIT = (
    2.5  # misfit over noise floor that is let pass: noise whose size varies with the row adds to its eighth moments
)
_CLOSE = 0.08  # root mean square error of approximation of a reasonable fit (Browne and Cudeck 1993)
_SEEN = 10.0  # standard errors of a column that may be an anchor, or on a face of the cone
_ZERO = 2.0  # standard errors by which an entry may be negative, and below which it may be zero
_TELLING = 0.1  # chance of looking like a zero, up to which a column tells something
_DRAWS, _SWEEPS = 3000, 200


@decoder
def decode_nmf(
    sketch: Sketch, k: int, *, rng: np.random.Generator, method: str | None = None, starts: int = 6
) -> NMFModel:
    """k non-negative components of the rows behind a sketch of all products of columns.

    Parameters
    ----------
    method : {"cone", "draws"}, optional
        Components of the second moment, or of drawn rows with this moment; by default what suits the sketch.
    starts : int
        Searches for the largest determinant: one begins at anchors, the others at random columns.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> W = rng.exponential(size=(3, 40)) * (rng.random((3, 40)) < 0.5)
    >>> X = rng.exponential(size=(5000, 3)) @ W + 0.1 * rng.normal(size=(5000, 40))
    >>> found = sl.decode(sl.sketch(X, sl.QuadraticFeatures.draw(dim=40)), 3, task="nmf", random_state=0)
    >>> cosines = found.components @ W.T / np.linalg.norm(found.components, axis=1)[:, None] / np.linalg.norm(W, axis=1)
    >>> cosines.max(1).round(2), found.reliable
    (array([1., 1., 1.]), True)
    """
    phi, count, mean, S, rounding = Moments.of(sketch, "non-negative matrix factorisation")
    d = phi.dim
    if k > d:
        raise ValueError(f"n_components={k} must be between 1 and n_features={d}")
    announce(12.0 * S.nbytes, sketch.sums.nbytes)
    M = S + np.outer(mean, mean)
    kept = np.diag(M) > 8.0 * rounding
    begin = perf_counter()
    trace: list[dict[str, Any]] = []

    def note(stage: str, why: str, words: str, accepted: bool) -> None:
        seconds = round(perf_counter() - begin, 4)
        trace.append({"stage": stage, "why": why, "found": words, "accepted": accepted, "seconds": seconds})

    components, errors = np.zeros((k, d)), np.full(k, np.nan)
    span, cone, floor, drowned = None, None, float("nan"), False
    if kept.any():
        added = np.zeros((d, d))
        if sketch.privacy is not None or np.any(sketch.noise):
            added = full_matrix(phi, added_variance(sketch))
        shares = phi.shares(sketch.sums, float(sketch.weight))
        if shares is not None:  # what a product is of other rows than the others, no coefficients have in common
            squares = np.outer(np.diag(M), np.diag(M)) + M**2
            added = added + squares * (1.0 / shares - 1.0) / sketch.effective_count
        span = _span(M[np.ix_(kept, kept)], k, count, added[np.ix_(kept, kept)])
        floor = span.floor
        note("span", "always first", f"misfit {span.misfit / floor:.3g} times the noise floor", span.close)
        drowned = sketch.privacy is not None and not floor < 2.0 * span.freedom / count
        if method == "cone" or (method is None and span.close and not drowned):
            cone = _cone(span, starts, rng)
            note("cone", "the span is explained", cone.words if cone else "no such cone", cone is not None)
    if cone is not None and span is not None:
        entries = span.B @ cone.Q
        entries[entries < 1e-12 * entries.max(0)] = 0.0  # (rounding)
        components[np.ix_(np.arange(len(entries.T)), kept)] = entries.T * span.units
        errors[: len(cone.errors)] = cone.errors
        left = _left_of_span(M, components)
    elif kept.any():
        components, left = _of_draws(sketch, mean, S, k, rng)
        why = "asked for" if method == "draws" else "the span is not explained, or there is no cone"
        note("draws", why, "components of drawn rows", True)
    else:
        left = 0.0
    average = nonnegative_codes(mean[None], components)[0]
    components = components * np.where(average > 0.0, average, 1.0)[:, None]
    order = np.argsort(-components.sum(1), kind="stable")
    judged = _judged(span, cone, order, k, count, drowned)
    if np.diag(S).sum() <= unresolved(phi, sketch.sums, float(sketch.weight)).sum():
        judged = of_equal_rows()
    return NMFModel(
        **said("nmf", "draws" if cone is None else "cone", span.misfit if span else 0.0, floor, judged, 0, trace),
        components=components[order],
        mean=mean,
        errors=errors[order],
        reconstruction_err=float(np.sqrt(count * left)),
    )


# -- the span ----------------------------------------------------------------------------------------


class _Span(NamedTuple):
    """Rows of coordinates for each column, B (d, k), whose noise is the same in each direction, and its size, (d,)."""

    B: Array
    noise: Array
    units: Array  # of the columns, (d,)
    shrunk: Array  # how much smaller the coordinates are than the roots of the second moment, (k,)
    misfit: float
    floor: float
    freedom: float
    close: bool


def _span(M: Array, k: int, count: float, added: Array) -> _Span:
    from scipy.optimize import minimize

    d = len(M)
    units = np.sqrt(np.diag(M))
    scaled = M / np.outer(units, units)
    scaled[np.diag_indices(d)] += _LEAST  # (as if each column had so much more noise)
    freedom = 0.5 * ((d - k) ** 2 - (d + k))
    logs, misfit = np.full(d, np.log(_LEAST)), float("nan")
    if freedom >= 1.0 and count > d + k:

        def objective(x: Array) -> tuple[float, Array]:
            charge(10.0 * d**3)
            values, vectors = _spectrum(scaled, x)
            rest = np.maximum(values[: d - k], 1e-12)
            loads = vectors[:, d - k :] ** 2 @ np.maximum(values[d - k :] - 1.0, 0.0)
            return float((rest - np.log(rest) - 1.0).sum()), loads + 1.0 - np.exp(-x) * np.diag(scaled)

        def watch(intermediate_result: Any) -> None:
            if over("more rounds of the span"):
                raise StopIteration

        alone = np.diag(np.linalg.pinv(scaled, hermitian=True))
        first = np.log(np.clip((1.0 - 0.5 * k / d) / np.maximum(alone, 1e-300), _LEAST, 1.0))
        found = minimize(
            objective, first, jac=True, method="L-BFGS-B", bounds=[(np.log(_LEAST), 0.0)] * d, callback=watch,
            options={"maxiter": 500, "ftol": 1e-10, "gtol": 1e-7},
        )  # fmt: skip
        logs, misfit = found.x, float(found.fun)
    values, vectors = (x[..., d - k :] for x in _spectrum(scaled, logs))
    there = values > 1.0 + 1e-6
    values, vectors = values[there], vectors[:, there]
    # loadings, shrunk where a factor is hardly seen: their errors are then independent, of one size in a row
    B = np.exp(0.5 * logs)[:, None] * vectors * ((values - 1.0) / np.sqrt(values))
    own = np.exp(logs)
    noise = own / count
    floor = freedom / count if freedom >= 1.0 else float("nan")
    if added.any():
        entries = added / np.outer(units, units) ** 2
        noise = noise + entries.mean(1) / max(float((B**2).sum(0).min()), 1e-300)
        weighed = entries / np.outer(own, own)
        floor += freedom / (d * (d + 1.0)) * float(weighed.sum() + np.trace(weighed))
    beyond = max(misfit / freedom - floor / freedom, 0.0) if freedom >= 1.0 else float("inf")
    close = not misfit > _LIMIT * floor or beyond < _CLOSE**2
    return _Span(B, np.sqrt(noise), units, np.sqrt((values - 1.0) / values), misfit, floor, freedom, close)


def _spectrum(scaled: Array, logs: Array) -> tuple[Array, Array]:
    """Eigenvalues, rising, and vectors of a second moment in units of noise."""
    roots = np.exp(-0.5 * logs)
    values, vectors = np.linalg.eigh(scaled * np.outer(roots, roots))
    return values, vectors


# -- the cone ----------------------------------------------------------------------------------------


class _Cone(NamedTuple):
    """What makes components of the coordinates, (k, k), and how well they are known."""

    Q: Array
    errors: Array
    chance: Array  # of zeros beyond those of any choice, (k,)
    opposed: bool  # whether coefficients would have to be negative
    words: str


def _cone(span: _Span, starts: int, rng: np.random.Generator) -> _Cone | None:
    """The components with the largest determinant of several searches; None if there are no positive ones."""
    B, k = span.B, span.B.shape[1]
    total = B.sum(0)
    found: list[tuple[float, Array, Array, Array]] = []
    for start in range(starts if k > 1 else 1):
        if start and over("other searches for components"):
            break
        first = _anchors(B, span.noise, total, rng if start else None)
        if first is None or not np.linalg.cond(first) < 1e12:
            continue
        widest = _largest(B, span.noise, total, np.asarray(np.linalg.inv(first), np.float64))
        if widest is not None:
            Q, zeros, spread = _zeros(B, span.noise, total, widest)
            found.append((abs(float(np.linalg.det(Q))), Q, zeros, spread))
    if not found:
        return None
    most, Q, zeros, spread = max(found, key=lambda each: each[0])
    edges = np.asarray(np.linalg.inv(Q), np.float64)
    # the share of a column that a component has, if nothing is known: uniform on the simplex
    sums, shares = B @ total, edges @ total
    deviations = span.noise[:, None] * np.linalg.norm(Q, axis=0)
    like = np.minimum(2.0 * _ZERO * (k - 1) * deviations * shares / np.maximum(sums, 1e-300)[:, None], 1.0)
    telling = (like < _TELLING) & (sums > 0.0)[:, None]
    extra = (zeros & telling).sum(0) - (k - 1)
    chance = _at_least(extra, (like * telling).sum(0)) if k > 1 else np.zeros(1)
    W = np.maximum(B @ Q, 0.0) * span.units[:, None]
    turned = np.einsum("ja,kab,jb->jk", B, spread, B) * span.units[:, None] ** 2
    squares = turned + (deviations * span.units[:, None]) ** 2
    errors = np.sqrt(squares.sum(0) / np.maximum((W**2).sum(0), 1e-300))
    rays = edges / span.shrunk
    rays = rays / np.linalg.norm(rays, axis=1)[:, None]
    unsure = errors[:, None] + errors + _LEAST**0.5
    alike = sum(each[0] > 0.99**k * most for each in found)
    return _Cone(
        Q, errors, chance, bool((rays @ rays.T < -DEVIATIONS * unsure).any()),
        f"found by {alike} of {counted(len(found), 'start')}",
    )  # fmt: skip


def _seen(B: Array, noise: Array, total: Array) -> Index:
    """Columns in which components are well seen: a deviation of the others would turn a face of the cone by much."""
    return np.flatnonzero(B @ total > _SEEN * noise * np.linalg.norm(total))


def _anchors(B: Array, noise: Array, total: Array, rng: np.random.Generator | None) -> Array | None:
    """Columns as edges of a cone, (k, k): each is the farthest from those before, or, with a generator, of some."""
    k = B.shape[1]
    sums = B @ total
    seen = _seen(B, noise, total)
    if len(seen) < k:
        seen = np.argsort(-sums)[: max(k, 2)]
        if len(seen) < k or not (sums[seen] > 0).all():
            return None
    if rng is not None:
        seen = rng.choice(seen, size=max(k, len(seen) // 2), replace=False)
    rows = B[seen] / sums[seen, None]
    rest, chosen = rows.copy(), []
    for _ in range(k):
        at = int((rest**2).sum(1).argmax())
        chosen.append(at)
        along = rest[at] / max(float(np.linalg.norm(rest[at])), 1e-300)
        rest = rest - np.outer(rest @ along, along)
    return np.asarray(rows[chosen])


def _largest(B: Array, noise: Array, total: Array, Q: Array) -> Array | None:
    """The matrix with the largest determinant whose columns sum to 1 and make no entry negative, beyond noise."""
    from scipy.optimize import linprog

    d, k = B.shape
    Q = Q / (total @ Q)
    if k == 1:
        return Q if (B @ Q + DEVIATIONS * noise[:, None] * np.abs(Q) > 0.0).all() else None
    seen = _seen(B, noise, total)
    B, noise = (B[seen], noise[seen]) if len(seen) >= k else (B, noise)
    lengths = np.maximum(np.linalg.norm(B, axis=1), 1e-300)
    units, slack = B / lengths[:, None], _ZERO * noise / lengths
    unit = float(np.linalg.norm(total))
    volume = 0.0
    solved = False
    for _ in range(10):
        for i in range(k):
            if over("more rounds of a search for components"):
                return Q if solved else None
            charge(10.0 * d * k * k + 2e7)  # (a linear program takes milliseconds, however small)
            slope = np.linalg.pinv(Q)[i]
            found = linprog(
                -slope / max(float(np.linalg.norm(slope)), 1e-300), A_ub=-units, b_ub=slack * np.linalg.norm(Q[:, i]),
                A_eq=total[None] / unit, b_eq=[1.0 / unit], bounds=(None, None),
            )  # fmt: skip
            if found.status == 0:
                Q[:, i] = found.x
            elif not solved:
                return None
        solved = True
        volume, before = abs(float(np.linalg.det(Q))), volume
        if volume <= before * (1.0 + 1e-6):
            break
    return Q if volume > 0.0 and np.linalg.cond(Q) < 1e12 else None


def _zeros(B: Array, noise: Array, total: Array, Q: Array) -> tuple[Array, Array, Array]:
    """The columns of Q again, by least squares from all entries that may be zero; which ones (d, k), and covariances.

    Where that makes other entries negative, beyond noise, columns stay as they are, and no zeros speak for them.
    """
    d, k = B.shape
    zeros, spread = np.zeros((d, k), bool), np.zeros((k, k, k))
    if k == 1:
        return Q, zeros, spread
    new = Q.copy()
    for _ in range(10):
        W, deviations = B @ new, noise[:, None] * np.linalg.norm(new, axis=0)
        scores = W / np.maximum(deviations, 1e-300)
        below = scores <= _ZERO
        below[np.argsort(scores, axis=0)[: k - 1], np.arange(k)] = True
        if (below == zeros).all():
            break
        zeros = below
        for i in range(k):
            at = zeros[:, i]
            _, values, axes = np.linalg.svd(B[at] / noise[at, None])
            q = axes[-1]
            if abs(float(total @ q)) < 1e-12 * float(np.linalg.norm(total)):
                return Q, zeros, spread
            q = q / (total @ q)
            across = axes[: k - 1].T / np.maximum(values[: k - 1], 1e-300)
            across = across - np.outer(q, total @ across)
            new[:, i], spread[i] = q, (q @ q) * across @ across.T
    limit = 1.0 + np.sqrt(2.0 * np.log(d * k))  # the smallest of so many deviations
    deep = (B @ new < -limit * noise[:, None] * np.linalg.norm(new, axis=0) - _LEAST**0.5).any(0)
    if not np.linalg.cond(new) < 1e12:
        deep[:] = True
    return np.where(deep, Q, new), zeros & ~deep, spread


def _at_least(found: Array, expected: Array) -> Array:
    """Probability of so many rare events or more."""
    from scipy.special import gammainc

    return np.where(found > 0, gammainc(np.maximum(found, 1), np.maximum(expected, 1e-300)), 1.0)


# -- rows that are drawn -----------------------------------------------------------------------------


def _of_draws(sketch: Sketch, mean: Array, S: Array, k: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Components of rows of a normal law with these moments, clipped to the box, and the squares left of a new row."""
    values, vectors = np.linalg.eigh(S)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    n, d = max(_DRAWS, 10 * len(mean)), len(mean)

    def draw() -> Array:
        rows = mean + rng.normal(size=(n, d)) @ root.T
        if sketch.has_box:
            rows = np.minimum(rows, sketch.upper)
        return np.asarray(np.maximum(rows, 0.0))

    rows = draw()
    W = rows[rng.choice(n, size=(10, k))].mean(0) * rng.uniform(0.5, 1.5, size=(k, d))
    H = nonnegative_codes(rows, W) + 1e-3
    before = float("inf")
    for sweep in range(_SWEEPS):
        if sweep and over("more rounds of the factorisation"):
            break
        charge(4.0 * n * d * k)
        H = _swept(H, W @ W.T, rows @ W.T)
        W = _swept(W.T, H.T @ H, rows.T @ H).T
        left = float(((rows - H @ W) ** 2).sum())
        if left > before * (1.0 - 1e-5):
            break
        before = left
    fresh = draw()
    share = ((fresh - nonnegative_codes(fresh, W) @ W) ** 2).sum() / max(float((fresh**2).sum()), 1e-300)
    return W, float(share * (np.trace(S) + mean @ mean))  # (clipped rows are shorter than those of the sketch)


def _swept(codes: Array, gram: Array, targets: Array) -> Array:
    """One sweep of coordinate descent over non-negative codes, column by column (Cichocki and Phan 2009)."""
    out = codes.copy()
    for i in range(codes.shape[1]):
        step = (targets[:, i] - out @ gram[:, i]) / max(float(gram[i, i]), 1e-300)
        out[:, i] = np.maximum(out[:, i] + step, 0.0)
    return out


def _left_of_span(M: Array, components: Array) -> float:
    """Squares of a row that no combination of the components explains, on average."""
    basis = np.linalg.svd(components[components.any(1)], full_matrices=False)[2]
    return max(float(np.trace(M) - np.einsum("ij,jk,ik->", basis, M, basis)), 0.0)


# -- what it means -----------------------------------------------------------------------------------


def _judged(
    span: _Span | None, cone: _Cone | None, order: Index, k: int, count: float, drowned: bool
) -> tuple[Code, str]:
    if span is None:
        return of_equal_rows()
    what = counted(k, "component")
    if drowned:
        return Code.UNDETERMINED, (
            "Not certified. Release with a larger epsilon or more rows: the noise of the release is larger than that "
            "of the rows, so nothing tests the components."
        )
    ratio = span.misfit / span.floor
    if cone is not None and len(cone.Q) < k:
        return Code.UNDETERMINED, (
            f"Not certified. The rows vary in {len(cone.Q)} directions only, so there are no more components. Ask for "
            f"{len(cone.Q)}."
        )
    if not np.isfinite(ratio):
        return Code.UNDETERMINED, (
            f"Not certified. The model of {what} has as many parameters as the second moment, or there are too few "
            "rows, so nothing tests it."
        )
    if ratio > _LIMIT or (cone is not None and cone.opposed):
        why = (
            f"the misfit is {ratio:.3g} times the noise floor"
            if ratio > _LIMIT
            else "coefficients would have to be negative"
        )
        text = f"Not certified. {what} and noise of single columns don't explain the second moment: {why}."
        if cone is None:
            text += (
                " These components are made to reconstruct rows of a normal law with the same moments. They need not "
                "be what the rows are made of."
            )
        return Code.MISFIT, text
    if cone is None:
        return Code.UNDETERMINED, (
            "Not certified. These components are made to reconstruct rows of a normal law with the same moments: no "
            "non-negative ones that explain the second moment were found."
        )
    place = {int(at): i + 1 for i, at in enumerate(order)}
    vague = sorted(place[int(i)] for i in np.flatnonzero(cone.chance > CHANCE))
    if vague:
        names = f"component{'s' * (len(vague) > 1)} {', '.join(map(str, vague))}"
        return Code.UNDETERMINED, (
            f"Not certified. The components explain the second moment of {count:.6g} rows, but others do so too: "
            f"{names} {'has' if len(vague) == 1 else 'have'} not many more zeros than can be chosen."
        )
    return Code.RELIABLE, (
        "Reliable. The components explain the second moment down to its noise, and zeros tell them from all others. "
        f"Their relative errors are about {float(cone.errors.max()):.2g} or less."
    )
