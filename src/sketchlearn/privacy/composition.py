"""What several releases guarantee together.

Releases with Gaussian noise alone compose without any loss: noise of standard deviation s on data that one person moves
by L is a shift of a normal law by ``mu = L / s``, and several are a shift by the root of the sum of the squares (Dong,
Roth and Su, "Gaussian differential privacy", 2022), also where later releases depend on earlier ones and the ledger
stops at a budget (Koskela, Tobaben and Honkela, "Individual privacy accounting with Gaussian differential privacy",
2023).  Discrete noise is continuous noise up to a margin (:mod:`sketchlearn.privacy.calibration`), and margins add.

Mixed releases compose by their privacy-loss distributions (Koskela, Jälkö and Honkela 2020; the package
dp-accounting, rounded against us), or by zero-concentrated privacy, or by adding epsilons and deltas, whatever is
smallest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import sketchlearn
from sketchlearn.privacy.calibration import (
    analytic_sigma,
    composed_discrete,
    composed_gaussian,
    concentrated_epsilon,
    gaussian_delta,
)
from sketchlearn.sketches.merging import noise_of
from sketchlearn.sketches.record import PrivacyRecord, added_variances, together
from sketchlearn.sketches.value import Sketch, check_same_features

USERS = ("disjoint", "same")
_TERMS = 8  # of a sum that are written out
_ROUNDED = 1e-6  # of epsilon: more than the margins of discrete noise and the error of composing it
_GRID = 1e-4  # of epsilon: step of privacy-loss distributions, rounded up


@dataclass(frozen=True)
class Spent:
    """A guarantee: epsilon and delta, and in zero-concentrated privacy where it is known.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    rho : float or None
        The same in zero-concentrated privacy.
    by : str
        How it was composed.
    margin : float or None
        Of Gaussian noise: by how much epsilon is larger because the noise is discrete.  None for other noise.
    """

    epsilon: float
    delta: float = 0.0
    rho: float | None = None
    by: str = "one release"
    margin: float | None = None


def compose(spent: Sequence[Spent], delta: float = 0.0) -> Spent:
    """The joint guarantee of several releases about the same people: the smallest epsilon of several methods, at
    `delta` or less.

    Basic: epsilons and deltas add.  Gaussian: exact, if all noise is Gaussian.  Privacy-loss distributions: nearly
    exact for any mixture, if dp-accounting is installed.  Zero-concentrated: rhos add, and are converted at `delta`
    (pure epsilon has ``rho = epsilon**2 / 2``).  A basic delta above `delta` counts only if there is no other way.

    Examples
    --------
    >>> from sketchlearn.privacy import compose
    >>> from sketchlearn.privacy.composition import Spent
    >>> compose([Spent(0.1), Spent(0.2)]).epsilon.__round__(6)
    0.3
    >>> many = compose([Spent(0.1, 1e-8, rho=0.0004)] * 100, delta=1e-6)
    >>> round(many.epsilon, 2), many.by
    (1.3, 'zero-concentrated')
    """
    if not spent:
        return Spent(0.0, 0.0, 0.0, "nothing released")
    if len(spent) == 1:
        return replace(spent[0], by="one release")
    rhos = [s.rho if s.rho is not None else (0.5 * s.epsilon**2 if s.delta == 0.0 else math.inf) for s in spent]
    rho = math.fsum(rhos)
    basic = Spent(
        math.fsum(s.epsilon for s in spent),
        math.fsum(s.delta for s in spent),
        rho if rho < math.inf else None,
        "adding",
    )
    if not delta > 0.0:
        return basic
    ways = []
    if rho < math.inf:
        ways.append(Spent(concentrated_epsilon(rho, delta), delta, rho, "zero-concentrated"))
    margins = [s.margin for s in spent if s.margin is not None]
    if len(margins) == len(spent) and rho < math.inf:
        exact = composed_gaussian(rhos, margins, [(s.epsilon, s.delta) for s in spent], delta)
        ways.append(Spent(exact, delta, rho, "Gaussian", math.fsum(margins)))
    elif margins:
        loss = loss_distribution_epsilon(spent, delta)
        ways.append(Spent(loss, delta, rho if rho < math.inf else None, "privacy-loss distributions"))
    ways = [way for way in ways if way.epsilon < math.inf]
    if not ways:
        return basic
    best = min(ways, key=lambda way: way.epsilon)
    return best if best.epsilon < basic.epsilon or basic.delta > delta else basic


def arithmetic(spent: Sequence[Spent], delta: float = 0.0) -> list[str]:
    """How :func:`compose` came to its result, line by line, so that it can be followed with a calculator.

    Examples
    --------
    >>> from sketchlearn.privacy.composition import Spent, arithmetic
    >>> print("\\n".join(arithmetic([Spent(0.1, 1e-8, rho=0.0004)] * 100, delta=1e-6)))
    adding: epsilon = 100 x 0.1 = 10, delta = 100 x 1e-08 = 1e-06
    zero-concentrated: rho = 100 x 0.0004 = 0.04, which is epsilon = 1.305 at delta = 1e-06
    the smallest counts: zero-concentrated, epsilon = 1.305, delta = 1e-06
    """
    if len(spent) < 2:
        return []
    total = compose(spent, delta)
    lines = [
        f"adding: epsilon = {_summed([s.epsilon for s in spent])}, delta = {_summed([s.delta for s in spent])}"
    ]  # fmt: skip
    rhos = [s.rho if s.rho is not None else (0.5 * s.epsilon**2 if s.delta == 0.0 else None) for s in spent]
    known = [rho for rho in rhos if rho is not None]
    if delta > 0.0 and len(known) == len(spent):
        at = concentrated_epsilon(math.fsum(known), delta)
        pure = " (rho = epsilon**2 / 2 where delta = 0)" if any(s.rho is None for s in spent) else ""
        lines.append(
            f"zero-concentrated: rho = {_summed(known)}{pure}, which is epsilon = {at:.4g} at delta = {delta:.3g}"
        )
    if total.by == "Gaussian":
        mu = math.sqrt(2.0 * math.fsum(known))
        lines.append(
            f"Gaussian: mu = sqrt(2 rho) = {mu:.4g} for all, which is epsilon = {total.epsilon:.4g} at delta = "
            f"{total.delta:.3g} by delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)"
        )
    elif total.by == "privacy-loss distributions":
        lines.append(
            f"privacy-loss distributions (dp-accounting): epsilon = {total.epsilon:.4g} at delta = {total.delta:.3g}"
        )
    lines.append(f"the smallest counts: {total.by}, epsilon = {total.epsilon:.4g}, delta = {total.delta:.3g}")
    return lines


def _summed(values: Sequence[float]) -> str:
    """A sum with its terms: ``"2 x 0.1 + 0.5 = 0.7"``."""
    terms = [f"{n} x {v:.4g}" if n > 1 else f"{v:.4g}" for v, n in Counter(values).items()]
    if len(terms) > _TERMS:
        terms = [*terms[:_TERMS], f"{len(terms) - _TERMS} more"]
    return f"{' + '.join(terms)} = {math.fsum(values):.4g}"


def divided(epsilon: float, delta: float, shares: Sequence[float]) -> list[float]:
    """The epsilon of each of several releases, at the same delta, that together guarantee (epsilon, delta).

    With Gaussian noise, the squares of the shifts add up. So a release with a share s has ``1 / sqrt(s)`` times the
    noise of a single release; dividing epsilon would need ``1 / s`` times the noise. Without delta, epsilon is divided.
    A ledger composes the releases in the same way.

    Examples
    --------
    >>> from sketchlearn.privacy import divided
    >>> [round(e, 3) for e in divided(1.0, 1e-6, [0.7, 0.3])]
    [0.825, 0.524]
    >>> divided(1.0, 0.0, [0.5, 0.5])
    [0.5, 0.5]
    """
    if not shares or not all(share > 0.0 for share in shares) or math.fsum(shares) > 1.0 + 1e-12:
        raise ValueError(f"shares must be positive and add up to 1 at most, got {list(shares)}")
    if not delta > 0.0:
        return [epsilon * share for share in shares]
    from scipy.optimize import brentq

    sigma = analytic_sigma(epsilon * (1.0 - _ROUNDED), delta)
    found = []
    for share in shares:
        own = sigma / math.sqrt(share)
        if gaussian_delta(own, 0.0) <= delta:
            raise ValueError(f"delta={delta:g} alone covers a share of {share:g}: take a smaller one")
        root = brentq(lambda e, own=own: math.log(gaussian_delta(own, e) / delta), 0.0, epsilon * (1.0 + 1e-9))
        found.append(float(root) * (1.0 - _ROUNDED))
    return found


def loss_distribution_epsilon(spent: Sequence[Spent], delta: float) -> float:
    """epsilon of releases together at `delta`, by privacy-loss distributions; infinite without dp-accounting.

    Gaussian releases are known by their shift, others as the worst that their epsilon and delta allow.
    """
    try:
        common = import_module("dp_accounting.pld.common")
        pld = import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        return math.inf
    total = None
    for one, times in Counter((s.epsilon, s.delta, s.rho, s.margin) for s in spent).items():
        epsilon, own, rho, shifted = one
        if shifted is not None and rho is not None:
            part = pld.from_gaussian_mechanism(1.0 / math.sqrt(2.0 * rho), value_discretization_interval=_GRID)
        else:
            parameters = common.DifferentialPrivacyParameters(epsilon, own)
            part = pld.from_privacy_parameters(parameters, value_discretization_interval=_GRID)
        part = part if times == 1 else part.self_compose(times)
        total = part if total is None else total.compose(part)
    assert total is not None
    discrete = [(s.epsilon, s.delta) for s in spent if s.margin is not None]
    margin = math.fsum(s.margin for s in spent if s.margin is not None)
    return composed_discrete(lambda epsilon: float(total.get_delta_for_epsilon(epsilon)), margin, discrete, delta)


def combine(sketches: Sequence[Sketch], users: str) -> Sketch:
    """The private sketch of all rows behind several private sketches.

    Parameters
    ----------
    sketches : sequence of Sketch
        All private, with the same map, relation and records per user.
    users : {"disjoint", "same"}
        Whether the same person can be in several of the sketches. If not (``"disjoint"``), the sum has the weakest
        guarantee among them (parallel composition). If so (``"same"``), the guarantees add up (sequential composition).
        The sketches don't show it, so you have to know it. Under ``"replace-one"``, ``"disjoint"`` means that a
        replaced row stays in the same part; the record says so. If a row may move to another part, say ``"same"``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import combine, privatize
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> shops = [sl.sketch(np.full((1000, 1), float(i)), phi) for i in range(2)]
    >>> a, b = (privatize(s, epsilon=1.0, public_map=True) for s in shops)
    >>> combine([a, b], users="disjoint").privacy.epsilon
    1.0
    >>> combine([a, b], users="same").privacy.epsilon
    2.0
    """
    if users not in USERS:
        raise ValueError(
            f"users={users!r}: say 'disjoint' (nobody is in two sketches) or 'same' (a person may be in several)"
        )
    parts = list(sketches)
    if not parts:
        raise ValueError("nothing to combine: no sketch was given")
    records = []
    for s in parts:
        if s.privacy is None:
            raise ValueError(
                "an exact sketch and a private one don't add: the result would be neither. Privatize it first, or add "
                "up exact sketches and privatize their sum, with less noise"
            )
        check_same_features(parts[0], s)
        records.append(s.privacy)
    first = records[0]
    for record in records[1:]:
        if (record.relation, record.records_per_user) != (first.relation, first.records_per_user):
            raise ValueError(
                f"the sketches protect different things: {first.relation}, {first.records_per_user} records per user, "
                f"and {record.relation}, {record.records_per_user}"
            )
    if len(parts) == 1:
        return parts[0]
    sums = parts[0].sums
    for s in parts[1:]:
        sums = parts[0].features.add_sums(sums, s.sums)
    weight = sum(s.weight for s in parts)
    return replace(
        parts[0], sums=sums, weight=weight, squared_weights=-1, privacy=combined_record(records, users), parts=None,
        noise=noise_of(parts, weight, 0),
    )  # fmt: skip


def combined_record(records: Sequence[PrivacyRecord], users: str) -> PrivacyRecord:
    """Record of the sum of private sketches."""
    first = records[0]
    rhos: list[float | None] = [record.details.get("rho") for record in records]
    margins: list[float | None] = [record.details.get("margin") for record in records]
    known = [rho for rho in rhos if rho is not None]
    if users == "disjoint":
        # whoever is behind one part only changes that part; the rest is post-processing
        epsilon, delta = max(r.epsilon for r in records), max(r.delta for r in records)
        rho = max(known) if len(known) == len(records) else None
    else:
        total = compose(
            [Spent(r.epsilon, r.delta, rho, margin=m) for r, rho, m in zip(records, rhos, margins, strict=True)],
            max(r.delta for r in records),
        )
        epsilon, delta, rho = total.epsilon, total.delta, total.rho
    names = sorted({r.mechanism for r in records})
    details: dict[str, Any] = {
        "composition": "parallel" if users == "disjoint" else "sequential",
        "parts": sum(int(r.details.get("parts", 1)) for r in records),
        "noise": together(r.details.get("noise") for r in records),
        "map": together(r.details.get("map") for r in records),
    }
    if rho is not None:
        details["rho"] = rho
    if users == "disjoint" and first.relation == "replace-one":
        details["replacement"] = "stays in the same part"
    details |= added_variances(records)
    return PrivacyRecord(
        mechanism=" + ".join(names),
        epsilon=epsilon,
        delta=delta,
        relation=first.relation,
        records_per_user=first.records_per_user,
        sums_variance=math.fsum(r.sums_variance for r in records),
        weight_variance=math.fsum(r.weight_variance for r in records),
        library=sketchlearn.__version__,
        details=details,
    )
