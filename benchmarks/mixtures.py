"""Mixtures from a sketch against EM on the rows: held-out likelihood and time, measured in one run.

    python benchmarks/mixtures.py                       # the grid, one data set per cell
    python benchmarks/mixtures.py --seeds 0 1 2 --pycle # more data sets; pycle's decoder (pip install pycle)
    python benchmarks/mixtures.py --part misspecified   # Student's t clusters, digits in 10 principal components
    python benchmarks/mixtures.py --part stretched      # axes 30:1
    python benchmarks/mixtures.py --part efficiency     # divergence from the truth, over EM's
    python benchmarks/mixtures.py --part stable
    python benchmarks/mixtures.py --part sweep

Data: centres N(0, separation I), weights 10:1, standard deviations log-uniform in [0.5, 2] (full and tied: random
axes, variances log-uniform with ratios up to 10).  EM is GaussianMixture(n_init=5); "gap" is its mean log-likelihood
on fresh rows minus ours (negative: we are better); "EM 1" is the time of GaussianMixture(n_init=1).
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from types import SimpleNamespace

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from sketchlearn.decoders.certificate.whitened import Whitened
from sketchlearn.decoders.families import GAUSSIANS, sample_stable
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.sweep_gmm import sweep_gmm
from sketchlearn.designs.gmm import design_gmm
from sketchlearn.learn.mixture import CompressiveGaussianMixture
from sketchlearn.learn.stable import CompressiveStableMixture

KINDS = ("spherical", "diag", "full", "tied")
SIZES = ((3, 2), (5, 5), (10, 10))
SEPARATIONS = (100, 10)


def mixture(k, d, separation, kind, rng, stretch=1.0):
    """Weights, means and covariance matrices."""
    weights = np.exp(rng.uniform(0, np.log(10), k))
    weights[0], weights[-1] = 1.0, 10.0
    means = rng.normal(size=(k, d)) * np.sqrt(separation)
    if kind in ("spherical", "diag"):
        deviations = np.exp(rng.uniform(np.log(0.5), np.log(2), (k, d if kind == "diag" else 1)))
        matrices = (deviations**2)[:, :, None] * np.eye(d)
    else:
        turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
        matrices = (turns * np.exp(rng.uniform(-0.5, 0.5, (k, 1, d)) * np.log(10))) @ turns.swapaxes(1, 2)
        matrices = np.repeat(matrices[:1], k, 0) if kind == "tied" else matrices
    if stretch > 1 and kind != "spherical":
        axes = np.exp(np.linspace(0, np.log(stretch), d))[rng.permutation(d)]
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0] if kind in ("full", "tied") else np.eye(d)
        by = turn * axes
        means, matrices = means @ by.T, by @ matrices @ by.T
    return weights / weights.sum(), means, matrices


def draw(parameters, n, rng):
    weights, means, matrices = parameters
    owner = rng.choice(len(weights), n, p=weights)
    return means[owner] + np.einsum(
        "nab,nb->na", np.linalg.cholesky(matrices)[owner], rng.normal(size=(n, means.shape[1]))
    )


def clock(function):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def pycle_diagonal(X, k, size, fresh, seed):
    """pycle's CL-OMPR for diagonal Gaussians: its own scale estimate, same size of sketch; likelihood and time."""
    from pycle.compressive_learning import CLOMP_dGMM
    from pycle.sketching import SimpleFeatureMap, computeSketch, drawFrequencies, estimate_Sigma

    np.random.seed(seed)
    sigma = estimate_Sigma(X, min(size, 500), c=20, n0=2000)
    phi = SimpleFeatureMap("ComplexExponential", drawFrequencies("AR", X.shape[1], size, sigma))
    z = computeSketch(X, phi, batch_size=1000)
    solver = CLOMP_dGMM(phi, k, np.stack([X.min(0), X.max(0)]), z)
    _, seconds = clock(solver.fit_once)
    weights, means, matrices = solver.get_GMM()
    keep = weights > 0
    model = GaussianMixture(int(keep.sum()), covariance_type="diag")
    model.weights_, model.means_ = weights[keep] / weights[keep].sum(), means[keep]
    model.covariances_ = np.diagonal(matrices, axis1=1, axis2=2)[keep]
    model.precisions_cholesky_ = 1 / np.sqrt(model.covariances_)
    return model.score(fresh), seconds


def compare(name, X, fresh, k, kind, seed, args):
    phi = design_gmm(X[np.random.default_rng(seed).permutation(len(X))[:2000]], k, kind, seed=seed)
    s, pass_seconds = clock(lambda: sl.sketch(X, phi, progress=False))
    ours = CompressiveGaussianMixture(k, covariance_type=kind, random_state=seed)
    _, decode = clock(lambda: ours.fit_sketch(s))
    em, em_seconds = clock(lambda: GaussianMixture(k, covariance_type=kind, n_init=5, random_state=seed).fit(X))
    _, one = clock(lambda: GaussianMixture(k, covariance_type=kind, random_state=seed).fit(X))
    gap = em.score(fresh) - ours.score(fresh)
    line = (
        f"{name:<28} {kind:<9} m={phi.size:<5} gap {gap:+.5f}  ratio {ours.solution_.ratio:6.2f} "
        f"{'certified' if ours.converged_ else 'flagged  '}  pass {pass_seconds:5.2f} s  decode {decode:5.2f} s  "
        f"EM 1 {one:5.2f} s  EM 5 {em_seconds:5.2f} s"
    )
    if args.pycle and kind == "diag":
        score, seconds = pycle_diagonal(X, k, phi.size, fresh, seed)
        line += f"  pycle: gap {em.score(fresh) - score:+.5f} in {seconds:.2f} s ({seconds / decode:.1f} x ours)"
    print(line, flush=True)
    return gap, ours.converged_


def run_grid(args, stretch=1.0):
    gaps, certified = [], []
    for seed in args.seeds:
        for kind in args.kinds:
            for k, d in SIZES:
                for separation in SEPARATIONS:
                    rng = np.random.default_rng([seed, k, d, separation, KINDS.index(kind)])
                    truth = mixture(k, d, separation, kind, rng, stretch)
                    X, fresh = draw(truth, args.n, rng), draw(truth, 20_000, rng)
                    gap, ok = compare(f"k={k} d={d} separation={separation}", X, fresh, k, kind, seed, args)
                    gaps.append(gap)
                    certified.append(ok)
    print(
        f"gap: median {np.median(gaps):+.5f}, largest {max(gaps):+.5f}, at most 0.02 in "
        f"{np.mean(np.array(gaps) <= 0.02):.1%}; certified {np.mean(certified):.1%} of {len(gaps)}"
    )


def divergence(truth, model, rng, n=200_000):
    """Kullback-Leibler divergences of two mixtures in both directions, summed (of r - 1 - log r, never negative)."""
    means, matrices = model.means_, model.covariances_
    d = means.shape[1]
    if model.covariance_type == "spherical":
        matrices = matrices[:, None, None] * np.eye(d)
    elif model.covariance_type == "diag":
        matrices = matrices[:, :, None] * np.eye(d)
    elif model.covariance_type == "tied":
        matrices = np.broadcast_to(matrices, (len(means), d, d))
    fitted, total = (model.weights_, means, matrices), 0.0
    for one, other in ((truth, fitted), (fitted, truth)):
        rows = draw(one, n, rng)
        log = logarithm(other, rows) - logarithm(one, rows)
        total += float(np.mean(np.expm1(log) - log))
    return total


def logarithm(parameters, rows):
    """Logarithm of the density of a mixture."""
    parts = [
        np.log(max(a, 1e-300)) + multivariate_normal(mean, matrix).logpdf(rows)
        for a, mean, matrix in zip(*parameters, strict=True)
    ]
    return logsumexp(parts, axis=0)


def most(s, kind, truth):
    """What the sketch allows: generalised least squares with the whole covariance of its noise, begun at the truth."""
    problem = Problem.from_sketch(s)
    weights, means, matrices = truth
    shaped = GAUSSIANS[kind].from_covariances(matrices / problem.scale**2, weights)
    truth = State(GAUSSIANS[kind], weights, problem.normalised(means), shaped)
    work = Whitened.of(problem, truth, dense=True)
    work.settle(5)
    state = work.state
    return SimpleNamespace(
        weights_=state.weights,
        means_=problem.points(state.means),
        covariances_=state.covariances * problem.scale**2,
        covariance_type=kind,
    )


def run_efficiency(args):
    """Divergence from the truth, over that of EM on all rows, at k=5, d=10, n=10^5, m=15kd."""
    k, d, n = 5, 10, 100_000
    for kind in args.kinds:
        for separation in SEPARATIONS:
            ratios, allowed, certified = [], [], []
            for seed in args.seeds:
                rng = np.random.default_rng([seed, 5, separation, KINDS.index(kind)])
                truth = mixture(k, d, separation, kind, rng)
                X = draw(truth, n, rng)
                s = sl.sketch(X, design_gmm(X[:2000], k, kind, size=15 * k * d, seed=seed), progress=False)
                ours = CompressiveGaussianMixture(k, covariance_type=kind, random_state=seed).fit_sketch(s)
                # from our own answer, so that EM's is the maximum of likelihood and no local one
                em = GaussianMixture(k, covariance_type=kind, means_init=ours.means_, tol=1e-7, max_iter=1000).fit(X)
                unit = divergence(truth, em, rng)
                ratios.append(divergence(truth, ours, rng) / unit)
                certified.append(ours.converged_)
                if kind != "tied":
                    allowed.append(divergence(truth, most(s, kind, truth), rng) / unit)
            print(
                f"{kind:<9} separation={separation:<4} divergence over EM's: median {np.median(ratios):.2f}, "
                f"{min(ratios):.2f} to {max(ratios):.2f} ({len(ratios)} data sets, {sum(certified)} certified)"
                + (f"; the sketch allows {np.median(allowed):.2f}" if allowed else ""),
                flush=True,
            )


def run_misspecified(args):
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    for seed in args.seeds:
        rng = np.random.default_rng(seed)
        n, k, d = 50_000, 5, 5
        centers, deviations = 10 * rng.normal(size=(k, d)), np.exp(rng.uniform(np.log(0.5), np.log(2), (k, d)))
        owner = rng.choice(k, n + 20_000, p=rng.dirichlet(5 * np.ones(k)))
        tails = np.sqrt(5 / rng.chisquare(5, len(owner)))[:, None]
        X = centers[owner] + rng.normal(size=(len(owner), d)) * tails * deviations[owner]
        for kind in ("diag", "full"):
            compare("Student t(5), k=5 d=5", X[:n], X[n:], k, kind, seed, args)
        digits = rng.permutation(PCA(10, random_state=0).fit_transform(load_digits().data))
        for kind in ("diag", "full"):
            compare("digits, 10 components", digits[:1400], digits[1400:], 10, kind, seed, args)


def run_stable(args):
    hits = []
    for seed in args.seeds:
        for k, d in ((3, 2), (5, 5)):
            for alpha in (1.2, 1.5, 1.8):
                rng = np.random.default_rng([seed, k, int(10 * alpha)])
                weights, scatters = rng.dirichlet(5 * np.ones(k)), 8 / rng.chisquare(10, (k, d))
                centers = 3 * k ** (1 / d) * rng.normal(size=(k, d))
                numbers = rng.multinomial(200_000, weights)
                X = np.concatenate(
                    [sample_stable(c, alpha, centers[i], scatters[i], rng) for i, c in enumerate(numbers)]
                )
                X = X[rng.permutation(len(X))]
                model, seconds = clock(lambda X=X, k=k: CompressiveStableMixture(k, random_state=0).fit(X))
                apart = np.linalg.norm(centers[:, None] - model.locations_[None], axis=2)
                rows, columns = linear_sum_assignment(apart)
                off = (apart[rows, columns] / np.sqrt(scatters.mean(1))[rows]).max()
                error = np.abs(model.alphas_ - alpha).max()
                hits.append(error < 0.03 and off < 0.1)
                print(
                    f"stable k={k} d={d} alpha={alpha}: error of alpha {error:.4f}, of centres {off:.4f} scales, "
                    f"ratio {model.solution_.ratio:.2f}, {seconds:.2f} s with the pass",
                    flush=True,
                )
    print(f"alpha within 0.03 and centres within 0.1: {np.mean(hits):.1%} of {len(hits)}")


def run_sweep(args):
    errors = {True: [], False: []}
    for seed in args.seeds:
        for kind in args.kinds:
            for k, d in ((3, 2), (5, 5), (10, 10)):
                rng = np.random.default_rng([seed, k, d, KINDS.index(kind)])
                X = draw(mixture(k, d, 10, kind, rng), args.n, rng)
                s = sl.sketch(X, design_gmm(X[:2000], k + 4, kind, seed=seed), progress=False)
                sweep, seconds = clock(lambda s=s, k=k, kind=kind: sweep_gmm(
                    s, range(max(1, k - 3), k + 5), kind, rng=np.random.default_rng(0), exhaustive=False))  # fmt: skip
                errors[d >= 5].append(sweep.recommended - k)
                print(f"sweep {kind:<9} k={k} d={d}: {sweep.recommended} components, {seconds:.1f} s", flush=True)
    for large, name in ((True, "d >= 5"), (False, "d = 2")):
        e = np.array(errors[large])
        print(
            f"{name}: exact {np.mean(e == 0):.0%}, within 2 {np.mean(abs(e) <= 2):.0%}, too many {np.mean(e > 0):.0%}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"misspecified": run_misspecified, "stable": run_stable, "sweep": run_sweep, "efficiency": run_efficiency}
    parser.add_argument("--part", default="grid", choices=["grid", "stretched", *parts])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--pycle", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if arguments.part == "grid":
        run_grid(arguments)
    elif arguments.part == "stretched":
        run_grid(arguments, 30.0)
    else:
        parts[arguments.part](arguments)
