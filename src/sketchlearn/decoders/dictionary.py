"""Dictionaries from fourth cumulants along directions.

Rows are ``x = sum_k a_k d_k + e`` with independent sparse coefficients and normal noise.  The fourth cumulant along v
is ``sum_k kappa_k (d_k . v)**4``, with ``kappa_k > 0`` as sparse laws have heavy tails, and noise has no part in it.
This is a decomposition of a symmetric tensor of order four, which is unique for almost all atoms up to about
``(d + 1) (d + 2) (d + 3) / 24`` of them (Chiantini, Ottaviani and Vannieuwenhoven 2017): many more than columns.

All atoms are fitted at once, by least squares from random starts (Levenberg and Marquardt), until two starts find the
same atoms and these explain the cumulants.  They are fitted again in the metric of the noise that cumulants of such
rows have (as for independent components, with the normal noise as further sources), and what they leave is compared
with this noise.  Variances of the coefficients and of the noise follow from the covariance, by non-negative least
squares.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.budget import PATIENCE, ROUNDS, SECOND, announce, charge, over, running
from sketchlearn.decoders.drive import decoder, misfit_words
from sketchlearn.decoders.ica import CumulantMetric, sparse_moments, whitened_cumulants
from sketchlearn.decoders.noise import DEVIATIONS
from sketchlearn.decoders.solution import Code, said
from sketchlearn.features.quartic import quartic
from sketchlearn.models.dictionary import DictionaryModel
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_LIMIT = 2.0  # misfit over noise floor that is let pass: that of right atoms is between 0.6 and 1.8
_KNOWN = 0.25  # relative error of an atom that is known: its direction is known to a cosine of 0.97
_STARTS = 4  # at least, so that other atoms that explain the cumulants have a chance to be found
_FEWEST = 100  # rows with an atom, whose fourth cumulant then has a relative error of a third, sqrt(105 / 100) / 3
_SAME = 1.01  # ratio of misfits of two starts that found the same
_WHY = "two starts must find the same, and explain the cumulants"
_GAIN = 1e-6  # share of the misfit that a round of the fit must gain


@decoder
def decode_dictionary(sketch: Sketch, k: int, *, rng: np.random.Generator, starts: int = 10) -> DictionaryModel:
    """The k atoms whose combinations explain the fourth cumulants of the rows.

    There are at most `starts` random starts, until two of them agree and explain the sketch.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> D = rng.normal(size=(8, 6))
    >>> X = (rng.normal(size=(50_000, 8)) * (rng.random((50_000, 8)) < 0.15)) @ D
    >>> s = sl.sketch(X, sl.design(X[:2000], task="dictionary", n_components=8))
    >>> found = sl.decode(s, 8, task="dictionary", random_state=0)
    >>> bool((np.abs(found.components @ D.T / np.linalg.norm(D, axis=1)).max(1) > 0.97).all())
    True
    """
    phi = quartic(sketch.features, "dictionary learning")
    check_size(phi.size, phi.dim, k)
    announce(8.0 * phi.size * (2.0 * phi.size + 2.0 * k * phi.dim), sketch.sums.nbytes + 8.0 * phi.size * phi.dim)
    cumulants, V, root, mean = whitened_cumulants(sketch, phi, phi.size)
    count, d = sketch.effective_count, V.shape[1]
    if not len(cumulants):
        raise ValueError("atoms need columns that vary, and all rows of the sketch are equal")
    metric = CumulantMetric(V, None)
    level = max(float(cumulants.mean()), 1e-3) * d * (d + 2.0) / (3.0 * k)  # (along any direction, 3 / d / (d + 2))
    trace: list[dict[str, Any]] = []
    back = np.linalg.inv(phi.matrix) @ root
    tried: list[_Descent] = []
    best, fit, alike = None, None, 0
    for start in range(starts):
        if start and over("other starts"):
            break
        begin = perf_counter()
        atoms = rng.normal(size=(k, d))
        atoms *= level**0.25 / np.linalg.norm(atoms, axis=1, keepdims=True)
        found = _descended(cumulants, V, atoms, metric)
        tried.append(found)
        lower = best is None or found.value < best.value / _SAME
        alike = 1 if lower else alike + int(best is not None and found.value < best.value * _SAME)
        fit = None if lower else fit
        best = found if best is None or found.value < best.value else best
        if fit is None and (alike == 2 or k == 1):
            fit = _explained(cumulants, V, best.atoms, back, count, rng)
        done = fit is not None and not fit.ratio > _LIMIT and (k == 1 or len(tried) >= _STARTS)
        words = misfit_words(fit.ratio) if fit is not None else "new atoms" if lower else "other atoms"
        seconds = round(perf_counter() - begin, 4)
        trace.append({"stage": "start", "why": _WHY, "found": words, "accepted": done, "seconds": seconds})
        if done:
            break
    assert best is not None
    if fit is None:
        fit = _explained(cumulants, V, best.atoms, back, count, rng)
    other = _others(cumulants, V, tried, fit, count)
    order = np.argsort(-(fit.atoms**2).sum(1), kind="stable")
    units, variances, kurtosis, noise = _sources(fit.atoms, back)
    sign = np.where(units[np.arange(k), np.abs(units).argmax(1)] < 0, -1.0, 1.0)
    present = np.where(variances > 0, 3.0 / (kurtosis + 3.0), 0.0)
    floor = fit.value / fit.ratio if fit.ratio > 0 else float("nan")
    judged = _judged(fit, order, k, alike, count * present, other)
    return DictionaryModel(
        **said("dictionary", "cumulants", fit.value, floor, judged, best.rounds, trace, fit.ratio),
        components=(sign[:, None] * units)[order],
        mean=phi.origin + np.linalg.inv(phi.matrix) @ mean,
        variances=variances[order],
        kurtosis=kurtosis[order],
        errors=fit.errors[order],
        noise_share=noise,
        nonzero=float(present.sum()),
    )


def check_size(m: int, d: int, k: int) -> None:
    """ValueError if m directions in d columns do not determine k atoms, or the budget does not allow these.

    Examples
    --------
    >>> from sketchlearn.decoders.dictionary import check_size
    >>> check_size(192, 8, 24)
    Traceback (most recent call last):
    ValueError: n_components=24: 192 directions in n_features=8 columns determine at most 23 atoms
    """
    most = most_atoms(m, d)
    if k > most:
        raise ValueError(f"n_components={k}: {m} directions in n_features={d} columns determine at most {most} atoms")
    needed, left = work(m, d, k) / SECOND, running().left / SECOND
    if needed > left:
        raise ValueError(
            f"a dictionary of {k} atoms in {d} columns takes about {needed:.0f} s of CPU, more than the budget of "
            f"{left:.3g} s allows (leave columns out or project them on principal components first); "
            "sl.decoding_budget(seconds) allows more"
        )


def most_atoms(m: int, d: int) -> int:
    """Atoms that m directions in d columns determine: each has d numbers, and a quartic form has so many, at most.

    Examples
    --------
    >>> from sketchlearn.decoders.dictionary import most_atoms
    >>> most_atoms(192, 8), most_atoms(10_000, 8)
    (23, 41)
    """
    forms = d * (d + 1) * (d + 2) * (d + 3) // 24
    return max((min(m, forms) - 1) // d, 1)


def work(m: int, d: int, k: int) -> float:
    """Multiply-adds of one start and of the last fit: large products, which run twice as fast as others."""
    p = k * d
    return 0.5 * (3 * m**3 / 6.0 + 40 * (0.5 * m * m * p + m * p * p))


# -- the fit -----------------------------------------------------------------------------------------


class _Descent(NamedTuple):
    atoms: Array
    value: float
    rounds: int


def _descended(cumulants: Array, V: Array, atoms: Array, metric: CumulantMetric) -> _Descent:
    """Atoms that fit best near some: Gauss-Newton with a step that is damped until it helps."""
    target = metric.whiten(cumulants)
    m, p = len(V), atoms.size

    def left(atoms: Array) -> Array:
        return np.asarray(target - metric.whiten(((V @ atoms.T) ** 4).sum(1)))

    rest = left(atoms)
    value, damping, rounds = float(rest @ rest), 1e-2, 0
    while rounds < 2 * ROUNDS and not (rounds and over("more rounds of the fit")):
        rounds += 1
        charge(0.5 * (0.5 * m * m * p + m * p * p))
        slopes = metric.whiten(_slopes(V, atoms))
        normal, slope = slopes.T @ slopes, slopes.T @ rest
        scale = np.maximum(np.diag(normal), 1e-9 * float(np.trace(normal)) / p)
        gained = 0.0
        while damping < 1e8:
            trial = atoms + np.linalg.solve(normal + np.diag(damping * scale), slope).reshape(atoms.shape)
            new = left(trial)
            error = float(new @ new)
            if error < value:
                atoms, rest, gained, value = trial, new, value - error, error
                damping = max(damping / 5.0, 1e-9)
                break
            damping *= 4.0
        if gained < _GAIN * value:
            break
    return _Descent(atoms, value, rounds)


def _slopes(V: Array, atoms: Array) -> Array:
    """Derivatives of the cumulants by the numbers of the atoms, (m, k d)."""
    return np.asarray((4.0 * (V @ atoms.T) ** 3)[:, :, None] * V[:, None, :]).reshape(len(V), -1)


class _Fit(NamedTuple):
    atoms: Array
    errors: Array
    value: float
    ratio: float
    needed: bool
    metric: CumulantMetric


def _explained(cumulants: Array, V: Array, atoms: Array, back: Array, count: float, rng: np.random.Generator) -> _Fit:
    """Least squares in the metric of the sources that were found, twice; what is left of it, and errors of atoms.

    `back`: from the coordinates of the atoms to rows, (columns, d).
    """
    d, value = V.shape[1], float("nan")
    whiten = np.linalg.pinv(back)
    metric: CumulantMetric | None = None
    for _ in range(2):
        units, variances, kurtosis, noise = _sources(atoms, back)
        seen = (
            V
            @ whiten
            @ np.concatenate([units * np.sqrt(variances)[:, None], np.sqrt(noise) * np.diag(_spreads(back))]).T
        )
        seen = seen / np.linalg.norm(seen, axis=1, keepdims=True)
        del metric  # (one of these matrices at a time is enough)
        metric = CumulantMetric(seen, np.concatenate([kurtosis, np.zeros(len(back))]), sparse_moments)
        atoms, value, _ = _descended(cumulants, V, atoms, metric)
    assert metric is not None
    slopes = metric.whiten(_slopes(V, atoms))
    information = slopes.T @ slopes
    scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
    spread = np.linalg.pinv(information / np.outer(scale, scale), rcond=1e-12, hermitian=True) / np.outer(scale, scale)
    freedom = metric.rank(rng) - atoms.size
    ratio = value * count / freedom if freedom >= 1.0 else float("nan")
    errors = np.empty(len(atoms))
    for i, atom in enumerate(atoms):
        part, square = spread[i * d : (i + 1) * d, i * d : (i + 1) * d], max(float(atom @ atom), 1e-300)
        across = np.eye(d) - np.outer(atom, atom) / square
        errors[i] = np.sqrt(max(float(np.trace(across @ part @ across)), 0.0) / count / square)
    needed = True
    if len(atoms) > 1 and not ratio > _LIMIT:  # is one more than chance would give d more numbers?
        fewer = _descended(cumulants, V, np.delete(atoms, int(errors.argmax()), axis=0), metric)
        needed = bool((fewer.value - value) * count > _chance(d))
    return _Fit(atoms, np.minimum(errors, 1.0), value, ratio, needed, metric)


def _spreads(back: Array) -> Array:
    """Standard deviations of the columns; 1 for those that don't vary."""
    spread = np.linalg.norm(back, axis=1)
    return np.where(spread > 0.0, spread, 1.0)


def _chance(d: int) -> float:
    """How much d more numbers may lower the misfit by chance, times the rows, as far as its noise is known."""
    return _LIMIT * (d + DEVIATIONS * float(np.sqrt(2.0 * d)))


def _others(cumulants: Array, V: Array, tried: list[_Descent], fit: _Fit, count: float) -> bool:
    """Whether another start leads to other atoms that explain the cumulants as well."""
    for each in sorted(tried, key=lambda one: one.value)[1 : 1 + PATIENCE]:
        if fit.ratio > _LIMIT or _agree(each.atoms, fit.atoms) or over("other atoms"):
            continue
        found = _descended(cumulants, V, each.atoms, fit.metric)
        if (found.value - fit.value) * count < _chance(V.shape[1]) and not _agree(found.atoms, fit.atoms):
            return True
    return False


def _agree(a: Array, b: Array) -> bool:
    """Whether every atom of one dictionary is known from the other."""
    x, y = (each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-300) for each in (a, b))
    return bool(np.abs(x @ y.T).max(1).min() > 1.0 - 0.5 * _KNOWN**2)


def _sources(atoms: Array, back: Array) -> tuple[Array, Array, Array, float]:
    """Atoms of length 1 in the units of the rows, variances and kurtoses of their coefficients, the share of noise.

    The covariance is a sum over atoms, and for noise the same share of the variance of each column: of this only if it
    explains more, so that orthogonal atoms are not taken for it.
    """
    rows = atoms @ back.T
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    units, d, scale = rows / lengths[:, None], len(back), _spreads(back)
    i, j = np.triu_indices(d)
    weight = np.where(i == j, 1.0, np.sqrt(2.0))
    weight = weight / (scale[i] * scale[j])
    forms, goal = (units[:, i] * units[:, j] * weight).T, (back @ back.T)[i, j] * weight
    alone, rest = nnls(forms, goal, maxiter=30 * (len(atoms) + 1))
    both, less = nnls(np.column_stack([forms, np.where(i == j, 1.0, 0.0)]), goal, maxiter=30 * (len(atoms) + 2))
    needed = len(goal) * np.log(max(rest, 1e-300) / max(less, 1e-300)) > 1.0  # (Akaike's criterion)
    found = both if needed else np.append(alone, 0.0)
    variances = np.asarray(found[:-1], np.float64)
    kurtosis = np.where(variances > 0, lengths**4 / np.where(variances > 0, variances, 1.0) ** 2, 0.0)
    return units, variances, kurtosis, float(found[-1])


# -- what it means -----------------------------------------------------------------------------------


def _judged(fit: _Fit, order: Index, k: int, alike: int, rows: Array, other: bool) -> tuple[Code, str]:
    what = counted(k, "atom")
    if fit.ratio > _LIMIT:
        return Code.MISFIT, (
            f"Not certified. Combinations of {what} with independent coefficients don't explain the fourth cumulants, "
            f"or too many rows were clipped: the misfit is {fit.ratio:.3g} times the noise."
        )
    if np.isnan(fit.ratio):
        return Code.UNDETERMINED, (
            f"Not certified. {what} have as many numbers as there are cumulants, so nothing tests them. Make a larger "
            "sketch."
        )
    vague = [i + 1 for i, at in enumerate(order) if fit.errors[at] > _KNOWN]
    if vague:
        names = ", ".join(map(str, vague[:PATIENCE])) + (", ..." if len(vague) > PATIENCE else "")
        return Code.UNDETERMINED, (
            f"Not certified. The sketch does not determine atom{'s' * (len(vague) > 1)} {names} of {k}: ask for fewer, "
            "sketch more rows or make a larger sketch."
        )
    if not fit.needed:
        return Code.UNDETERMINED, (
            f"Not certified. {counted(k - 1, 'atom')} explain the cumulants as well, so some of the {k} are made of "
            "noise: ask for fewer."
        )
    if rows.min() < _FEWEST:
        return Code.UNDETERMINED, (
            f"Not certified. The covariance leaves about {rows.min():.0f} rows for the rarest atom, too few for fourth "
            "cumulants: outliers may have made it, or there are too few rows."
        )
    if other:
        return Code.UNDETERMINED, (
            f"Not certified. Other atoms explain the cumulants as well as these {k}: sketch more rows or ask for fewer."
        )
    if alike < 2 and k > 1:
        return Code.UNDETERMINED, (
            f"Not certified. The misfit is {fit.ratio:.3g} times the noise, but no two starts found the same atoms. "
            "Allow more starts or a larger budget."
        )
    return Code.RELIABLE, (
        "Reliable. The atoms explain the fourth cumulants down to their noise. Their relative errors are about "
        f"{float(fit.errors.max()):.2g} or less."
    )
