"""Where publications disagree with each other, with the theory or with the rows; and what the rows taught."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from experiments.registry import Row
from experiments.rulers import SUCCESS, better, by_seed, column, median, number, pick, rate_shown, spaced

All = dict[str, list[Row]]
"""Rows of all experiments by name."""


class Disagreement(NamedTuple):
    """A published claim, what stands against it, and what the rows show (or a sentence, if no row can)."""

    claim: str
    against: str
    here: str | Callable[[All], str]


def _cost(rows: list[Row], **setting: object) -> str:
    return number(median(column(rows, "rse", **setting)))


def _stuck(rows: list[Row], **setting: object) -> str:
    return rate_shown([v >= SUCCESS for v in column(rows, "rse", **setting)])


def _box(every: All) -> str:
    stuck = _stuck(every["initialisation"], data="clusters", method="Lloyd, box")
    digits = _stuck(every["initialisation"], data="digits, spectral", method="Lloyd, box")
    return f"one box start is stuck (cost above 1.05) on {stuck} data sets of clusters, {digits} of digits"


def _plus_plus(every: All) -> str:
    plain = _stuck(every["phase-kmeans"], panel="phase", k=10, size=10, method="k-means++ ×3")
    greedy = _stuck(every["initialisation"], data="clusters", method="scikit-learn ×3")
    return f"three runs of plain k-means++ are stuck on {plain} data sets, three of scikit-learn's on {greedy}"


def _speed(every: All) -> str:
    rows = every["large-n"]
    n = max((r["n"] for r in rows), default=0)
    at = {m: median(column(rows, "seconds", n=n, method=m)) for m in ("k-means", "CL-OMPR")}
    ratio = number(at["k-means"] / at["CL-OMPR"], 1)
    return f"synthetic clusters, n = {spaced(n)}: decoding is {ratio} times as fast as k-means"


def _phase(every: All, size: float, *methods: str) -> str:
    rows = pick(every["phase-kmeans"], panel="phase", k=10, d=10, size=size)
    return ", ".join(f"{m} {_cost(rows, method=m)}" for m in methods)


def _collapse(every: All) -> str:
    some = pick(every["phase-kmeans"], panel="collapse", k=10, d=10)
    ratio = [number(median(column(some, "rse_published", size=m))) for m in (5, 10)]
    best = [_phase(every, m, "CL-OMPR").removeprefix("CL-OMPR ") for m in (5, 10)]
    return (
        f"CL-OMPR at 5 and 10kd: {' and '.join(ratio)} of the published reference on data and scale of Keriven, "
        f"{' and '.join(best)} of the best known cost on those of Chatalic"
    )


def _rule(every: All, name: str) -> str:
    some = pick(every["kernel-scale"], panel="rules", method=f"rule {name}")
    return f"squared scale {number(median(column(some, 'factor_found')))} of the squared separation, cost {_cost(some)}"


def _factors(every: All, law: str, *factors: float) -> str:
    some = pick(every["kernel-scale"], panel="scale", method="CL-OMPR", k=10, radial=law, size=4)
    return ", ".join(f"{_cost(some, factor=f)} at {f:g}" for f in factors)


def _adapted(every: All) -> str:
    some = pick(every["kernel-scale"], panel="scale", method="CL-OMPR", k=10, size=4)
    best = [
        number(min(median(column(some, "rse", radial=law, factor=f)) for f in (0.5, 1, 2, 4)))
        for law in ("gaussian", "adapted")
    ]
    return f"at 4kd the best cost is {best[0]} for the Gaussian law and {best[1]} for the adapted radius"


def _failing_law(every: All) -> str:
    return f"median {number(median(column(every['frequency-law'], 'log_kl', d=20, method='Gaussian, learned')), 2)}"


def _labels(every: All) -> str:
    rows = every["spectral"]
    factors = sorted({r["factor"] for r in rows if r["factor"]})
    greedy = min(
        (pick(rows, method="CL-OMPR", factor=f) for f in factors), key=lambda s: median(column(s, "rse")), default=[]
    )
    text = [
        f"{name} {_cost(some)}, {number(median(column(some, 'ari')), 2)}"
        for name, some in (("CL-OMPR", greedy), ("k-means", pick(rows, method="k-means, best")))
    ]
    return f"cost and ARI on digits: {'; '.join(text)}"


def _candidates(every: All) -> str:
    errors = [
        rate_shown([v < 1e-6 for v in column(every["greedy-diracs"], "sse", method=m)])
        for m in ("CL-OMPR", "CL-OMPR ×20")
    ]
    costs = _phase(every, 2, "CL-OMPR", "CL-OMPR ×20")
    return f"exact recovery in {errors[0]} with one candidate per step, {errors[1]} with twenty; cost at 2kd: {costs}"


def _bits(every: All) -> str:
    from experiments.catalogue.one_bit import half

    at = [half(every["one-bit"], m, 1.1) for m in ("CL-OMPR", "CL-OMPR, one-bit")]
    ratio = number(at[1] / at[0], 2)
    return f"half of the data sets succeed at {number(at[0], 1)}kd, with one bit at {number(at[1], 1)}kd: {ratio} times"


def _masks(every: All) -> str:
    rows = pick(every["private-large"], size=4, method="CL-OMPR ×20")
    levels = sorted({r["epsilon"] for r in rows})
    text = ", ".join(
        f"{_cost(rows, epsilon=e, per_row=0)} and {_cost(rows, epsilon=e, per_row=1)} at ε = {e:g}"
        for e in (levels[:1] + levels[-1:])
    )
    return f"pure ε, cost with all features of a row and with one: {text}"


def _threshold(every: All) -> str:
    from experiments.catalogue.private_kmeans import _smallest

    rows = every["private-kmeans"]
    counts = sorted({r["n"] for r in rows})
    text = ", ".join(f"{number(_smallest(rows, 'CL-OMPR ×20', n, 0.0), 2)} for {spaced(n)} rows" for n in counts)
    return f"smallest ε tried that works: {text}"


def _on_par(every: All) -> str:
    rows = pick(every["gmm-em"], k=5, n=10**5)
    em, greedy = (by_seed(pick(rows, method=m), "log_kl") for m in ("EM ×10", "CL-OMPR"))
    words = "EM is better" if better(em, greedy) else "no difference beyond chance"
    text = " and ".join(number(median(list(v.values())), 2) for v in (em, greedy))
    return f"log KL of EM ×10 and CL-OMPR for k = 5, 10⁵ rows: {text}; {words}"


DISAGREEMENTS: tuple[Disagreement, ...] = (
    Disagreement(
        "CL-OMPR is on par with k-means at 10kd (Keriven 2017, Figure 5.7)",
        "the reference is one run of Lloyd's algorithm from uniform points",
        _box,
    ),
    Disagreement(
        "sketched methods beat k-means (Chatalic 2020, Figure 6.2)",
        "the reference is three runs of plain k-means++",
        _plus_plus,
    ),
    Disagreement(
        "the survey's Figure 6 shows spectral features of augmented MNIST, 1.5 orders faster than k-means",
        "the same experiment in Keriven 2017, Figure 5.7, is on synthetic clusters, and says two orders",
        _speed,
    ),
    Disagreement(
        "MNIST with 784 columns is clustered from 400 features (survey)",
        "the features are of ten spectral columns, so 400 is 4kd",
        "columns are stated everywhere",
    ),
    Disagreement(
        "a background model of 1000 hours of speech on one laptop, against EM on five hours (survey, Box 1)",
        "200 parts on a cluster, and EM on 1/667 of the frames, about one hour (Keriven 2017)",
        "`background-large` has synthetic speakers, 2·10⁸ rows, and 667 times fewer for EM",
    ),
    Disagreement(
        "at 2kd only CL-OMPR works (Chatalic 2020, section 9.3)",
        "at 2kd CL-AMP works and CL-OMPR does not (Figure 6.2 of the same thesis)",
        lambda every: f"cost at 2kd: {_phase(every, 2, 'CL-OMPR', 'CL-AMP')}",
    ),
    Disagreement(
        "CL-OMP succeeds from 2kd on (Chatalic 2020, Figure 9.1)",
        "CL-OMPR, which is better, needs 5 to 10kd (Figure 6.2)",
        lambda every: f"cost at 2kd: {_phase(every, 2, 'CL-OMP', 'CL-OMPR', 'CL-OMPR ×20')}",
    ),
    Disagreement(
        "twice the error of k-means at 5kd (bibliographic report)",
        "parity at 10kd (Keriven 2017, Figure 5.7), success at 5 to 10kd (Chatalic 2020, Figure 6.2)",
        _collapse,
    ),
    Disagreement(
        "the learned scale is as good as the best one (Keriven 2017, section 5.3)",
        "estimates of the width within clusters are highly inaccurate (Chatalic 2020, section 4.1.3)",
        lambda every: f"for k-means at 4kd, Gaussian law: {_rule(every, 'keriven')}",
    ),
    Disagreement(
        "the best squared scale is the variance between clusters (Chatalic 2020, Figure 4.5)",
        "it is the squared separation (Figures 4.6 to 4.8), 4.3 times as large at k = d = 10",
        lambda every: f"cost by squared scale over squared separation: {_factors(every, 'gaussian', 0.25, 0.5, 1)}",
    ),
    Disagreement(
        "the guarantees ask for a squared scale of separation² / (16 log ek) (Chatalic 2020)",
        "or of separation² / (64 log ek) (Gribonval et al. 2021); decoders fail at either",
        lambda every: f"with 16: {_rule(every, 'theory')}",
    ),
    Disagreement(
        "the adapted radius is the better law (Keriven 2017), with a wider window (Chatalic 2020, Figure 4.10)",
        "its best cost for k-means is higher",
        _adapted,
    ),
    Disagreement(
        "log KL of the Gaussian law at d = 20 is 32.4 (Keriven 2017, Table 5.1)",
        "the value depends on the smallest variance that is allowed",
        _failing_law,
    ),
    Disagreement(
        "standard deviations of centres are c²k^(1/d), ck^(1/d) and (ck^(1/d))² in three sections of Keriven 2017",
        "only one can be meant",
        "ck^(1/d) everywhere",
    ),
    Disagreement(
        "CL-OMPR has lower cost and better labels than k-means (Keriven 2017; bibliographic report)",
        "k-means with enough runs has the lower cost; labels do not follow the cost",
        _labels,
    ),
    Disagreement(
        "replicates and starts do not matter for CL-OMPR (bibliographic report)",
        "the candidates of its first step do",
        _candidates,
    ),
    Disagreement(
        "the starts of CL-OMPR are drawn inversely to the distance (Keriven 2017)",
        "k-means++ draws in proportion to the squared distance",
        "in proportion",
    ),
    Disagreement(
        "CL-OMPR is on par with ten runs of EM (Keriven 2017, Figure 5.11)",
        "on a logarithmic axis a factor of two is hard to see",
        _on_par,
    ),
    Disagreement(
        "one-bit features cost 25 % more features (survey, section 6.2)",
        "visible at 4kd and gone at 10kd (Chatalic 2020, Figure 9.4)",
        _bits,
    ),
    Disagreement(
        "masks of features leave ε as it is (survey, section 8)",
        "true for pure ε and masks of fixed size; Gaussian noise grows by the root of m / r ([privacy](privacy.md))",
        _masks,
    ),
    Disagreement(
        "a threshold of √(2·10³kd)/ε rows (Chatalic 2020, section 9.2.4), with ε = 0.14, 0.014, 0.0014 beside it",
        "those numbers need kd outside the root",
        _threshold,
    ),
    Disagreement(
        "constants for replaced rows and quadratic features in Chatalic 2020",
        "they spend up to twice the ε that is stated",
        "corrected sensitivities in all private experiments",
    ),
    Disagreement(
        "private principal components of rows centred and scaled by themselves (Chatalic 2020, Figures 9.6 and 9.7)",
        "that is not private",
        "rows are clipped to a public radius",
    ),
    Disagreement(
        "one and five replicates (Chatalic 2020, caption of Figure 5.9)",
        "50 in the text",
        "costs are over the best known one, not over replicates",
    ),
    Disagreement(
        "features with 2π and a width of 1/σ (survey, Figure 11)",
        "the width of the kernel is then σ/2π",
        "exp(iωᵀx) without 2π",
    ),
    Disagreement(
        "m of the order of k²d (Gribonval et al. 2021) or k²d² (Keriven 2017) is enough",
        "with the constants of the proofs that is a million to a billion times kd",
        lambda every: (
            f"cost of the default at 2kd: {_phase(every, 2, 'default').removeprefix('default ')} "
            "([theory and practice](theory/guarantees.md))"
        ),
    ),
)

LEARNED = """\
- **The reference decides the result.** One run of Lloyd's algorithm from uniform points is often stuck, and so are
  three runs of plain k-means++. Parity with them says little; every cost here is over the best known one
  ([starts](#starts-and-what-the-published-references-are-worth)).
- **BIRCH is the rival to beat** for the cost of k-means in one pass. Rows and coresets of the same bytes are worse than
  a sketch, unless that has fewer than about kd features, where it fails. What a sketch has beyond a low cost is exact
  merging and deletion, private releases, and other models later ([quality per byte](#quality-per-byte)).
- **Greedy decoders depend on the kernel scale and on the start of step 1**, more than was published; the default has no
  scale to choose ([kernel scale](#the-kernel-scale), [point masses](#point-masses-without-noise)).
- **A decoder that is told the noise** can stand far more of it ([noise](#noise-on-the-sketch)).
- **Seconds are not the reason to sketch.** With the pass over the rows counted, the gain over one run of k-means is
  small, and k-means on ten thousand rows is faster than both. Memory, one pass and merging are the reasons
  ([many rows](#many-rows-seconds-and-bytes)).
"""
