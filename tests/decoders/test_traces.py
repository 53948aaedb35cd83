"""Traces: every decoder with stages says which ran, why, and what each found, and the accepted one ends it."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.families import Known, sample_stable

KEYS = {"stage", "why", "found", "accepted", "seconds"}


def _clusters(k=3, d=2, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return 8.0 * np.arange(k)[rng.integers(k, size=n), None] * np.ones(d) + rng.normal(size=(n, d))


def _rows(task):
    rng = np.random.default_rng(0)
    if task == "stable":
        return sample_stable(6000, 1.5, np.zeros(2), np.eye(2), rng), 1, {}
    if task == "subspaces":
        lines = np.eye(4)[rng.integers(2, size=4000)] * rng.normal(size=(4000, 1))
        return lines + 0.05 * rng.normal(size=(4000, 4)), 2, {"dim": 1}
    options = {"gmm": {"covariance_type": "spherical"}, "family": {"family": Known(1.0)}}.get(task, {})
    return _clusters(), 3, options


@pytest.mark.parametrize(
    ("task", "last"),
    [
        ("kmeans", "certificate"),
        ("kmedians", "certificate"),
        ("gmm", "noise weights"),
        ("stable", "search for 1 stable component"),
        ("family", "certificate"),
        ("subspaces", "1 component inside each subspace"),
    ],
)
def test_the_accepted_stage_is_named(task, last):
    X, k, options = _rows(task)
    shape = {"covariance_type": "spherical"} if task == "gmm" else {}
    phi = sl.design(
        X[:1000], n_components=k, task="kmeans" if task in ("family", "kmedians") else task, seed=0, **shape
    )
    model = sl.decode(sl.sketch(X, phi, progress=False), k, task=task, random_state=0, **options)
    assert all(set(step) >= KEYS and step["why"] and step["found"] for step in model.trace)
    assert [step["stage"] for step in model.trace if step["accepted"]][-1] == last, model.explain()


def test_a_stage_that_fails_says_what_failed():
    X = np.random.default_rng(0).uniform(-1, 1, (4000, 2)) ** 3
    model = sl.decode(sl.sketch(X, sl.design(X[:1000], n_components=2, seed=0), progress=False), 2, random_state=0)
    assert not model.reliable
    assert not any(step["accepted"] for step in model.trace)
    tried = [step["stage"] for step in model.trace if step["stage"] != "grade"]  # of centres, whatever they came from
    assert tried[-1] in ("over-complete mixture", "own widths")
