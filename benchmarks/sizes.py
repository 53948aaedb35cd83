"""False alarm rates of the tests on sketches, over laws and maps, and power beside a permutation test on the rows.

python benchmarks/sizes.py [--pairs 400] [--rows 500] [--start 0] [--only Cauchy] [--power 40]

A line a law: the share of samples of one law with p < 0.05 and p < 0.01, in percent, for `compare`, `drift` (three
sketches against the first, every p-value counted), `goodness_of_fit` (against the law itself, where that is a mixture)
and `independence`.  For verification it is the share of impostors whose likelihood ratio is 20 and 100 or more: for a
ratio that is what it says these are at most 5 and 1 %.  A p-value that was withheld (NaN) counts in the column of that
name.  With 400 pairs a true 5 % shows as 2.9 to 7.1 in 95 % of all runs, a true 1 % as up to 2.
The last columns are the power of `compare` at 5 % against a shift of one column, and of a permutation test of the same
statistic on the rows themselves.
"""

import argparse

import numpy as np

import sketchlearn as sl
from sketchlearn.comparison import changes

NORMAL = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
LAWS = {
    "normal": lambda g, n: g.normal(size=(n, 2)),
    "Student, 3 degrees": lambda g, n: g.standard_t(3, size=(n, 2)),
    "Cauchy": lambda g, n: g.standard_cauchy((n, 2)),
    "Pareto 1.5": lambda g, n: g.pareto(1.5, (n, 2)),
    "95 % zeros": lambda g, n: g.normal(size=(n, 2)) * (g.random((n, 2)) < 0.05),
    "lattice": lambda g, n: g.poisson(1.0, (n, 2)).astype(float),
    "one-hot": lambda g, n: np.eye(6)[g.integers(6, size=n)][:, :2],
    "30 rows": lambda g, n: g.normal(size=(30, 2)),
    "8 rows": lambda g, n: g.normal(size=(8, 2)),
    "weights": lambda g, n: g.normal(size=(n, 2)),
    "heavy weights": lambda g, n: g.normal(size=(n, 2)),
    "features_per_row": lambda g, n: g.normal(size=(n, 2)),
    "one-bit": lambda g, n: g.normal(size=(n, 2)),
    "private": lambda g, n: g.normal(size=(n, 2)),
}
IS_NORMAL = {"normal", "30 rows", "8 rows", "weights", "heavy weights", "features_per_row", "one-bit", "private"}


def feature_map(name, pilot, seed):
    """Frequencies for compare, drift and goodness of fit, at the scale of the pilot's middle half."""
    low, high = np.quantile(pilot, [0.25, 0.75])
    options = {"features_per_row": {"features_per_row": 20}, "one-bit": {"quantized": True}}.get(name, {})
    return sl.FourierFeatures.draw(dim=2, size=100, scale=max(high - low, 0.5), seed=seed, **options)


def sketched(name, rows, phi, rng):
    """One sketch of some rows, with the weights or the noise that the name asks for."""
    drawn = {"weights": rng.integers(1, 4, len(rows)) / 2, "heavy weights": rng.lognormal(0.0, 1.5, len(rows))}
    weights = drawn.get(name)
    s = sl.sketch(rows, phi, sample_weight=weights, workers=1, progress=False)
    return sl.privatize(s, 5.0, delta=1e-6, public_map=True) if name == "private" else s


def share(p, alpha):
    """Percent below alpha of those that were not withheld."""
    p = np.array([value for value in p if value is not None and value == value])
    return f"{100 * np.mean(p < alpha):5.1f}" if len(p) else "    -"


def verified(name, law, pilot, pairs, rows, rng):
    """For impostors, one over the likelihood ratio of the claim: speakers differ by shifts of the mean."""
    unit = 0.3 * np.subtract(*np.quantile(pilot, [0.75, 0.25], axis=0)).clip(0.5)
    people, each = 20, max(rows // 5, 20)

    def spoken():
        return law(rng, each)[:each] + unit * rng.normal(size=(1, 2))

    voices = [spoken() for _ in range(people)]
    verifier = sl.CompressiveVerifier(2, features=feature_map(name, pilot, 0), random_state=0)
    verifier.fit(np.concatenate(voices), np.repeat(np.arange(people), [len(v) for v in voices]))
    verifier.enroll("other", spoken())
    ratios = [verifier.enroll("claimed", spoken()).log_ratio("claimed", spoken()) for _ in range(pairs)]
    return np.exp(-np.array(ratios))


def permutation_p(a, b, phi, rng, times=99):
    """p-value of the mean squared difference of average features, over permutations of the rows of both."""
    z = phi(np.r_[a, b])

    def statistic(order):
        return np.sum(np.abs(z[order[: len(a)]].mean(0) - z[order[len(a) :]].mean(0)) ** 2)

    first = statistic(np.arange(len(z)))
    return (1 + sum(statistic(rng.permutation(len(z))) >= first for _ in range(times))) / (1 + times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--only")
    parser.add_argument("--power", type=int, default=40, help="pairs for the power; 0 for none")
    given = parser.parse_args()
    print(
        f"{'':20}{'compare':>12}{'drift':>12}{'fit':>12}{'independence':>14}{'verification':>14}{'withheld':>9}{'power':>8}{'rows':>6}"
    )
    for name, law in LAWS.items():
        if given.only and given.only != name:
            continue
        p = {key: [] for key in ("compare", "drift", "fit", "independence", "verified")}
        found = {"sketch": [], "rows": []}
        pilot = law(np.random.default_rng(10**6), 2000)
        for seed in range(given.start, given.start + given.pairs):
            rng = np.random.default_rng(seed)
            phi = feature_map(name, pilot, seed)
            rows = [law(rng, given.rows) for _ in range(4)]
            a, b, c, d = (sketched(name, x, phi, rng) for x in rows)
            p["compare"].append(sl.compare(a, b).p_value)
            if seed % 4 == 0:
                p["drift"] += [change.p_value for change in changes([a, b, c, d])]
            p["fit"].append(sl.goodness_of_fit(a, NORMAL).p_value if name in IS_NORMAL else None)
            if name not in ("features_per_row", "one-bit", "private"):
                pair = sl.design_independence(pilot[:500], first=[0], size=20, seed=seed)
                free = np.column_stack([rows[0][:, 0], rng.permutation(rows[1][:, 1])])
                p["independence"].append(sl.independence(sketched(name, free, pair, rng)).p_value)
            if seed < given.start + given.power:
                moved = rows[1] + [0.06 * np.subtract(*np.quantile(pilot[:, 0], [0.9, 0.1])), 0.0]
                found["sketch"].append(sl.compare(a, sketched(name, moved, phi, rng)).p_value)
                if name not in ("weights", "private", "features_per_row", "one-bit"):
                    found["rows"].append(permutation_p(rows[0], moved, phi, rng))
        if name not in ("features_per_row", "one-bit", "private"):
            p["verified"] = verified(name, law, pilot, given.pairs, given.rows, np.random.default_rng(given.start))
        withheld = sum(v is not None and v != v for values in p.values() for v in values)
        cells = "".join(f" {share(values, 0.05)}{share(values, 0.01)}" for values in p.values())
        print(f"{name:20}{cells} {withheld:9}  {share(found['sketch'], 0.05)} {share(found['rows'], 0.05)}", flush=True)


if __name__ == "__main__":
    main()
