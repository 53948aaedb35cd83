"""Classifiers from private class means: the length of a mean less its noise, and a size that few rows bear."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sketchlearn as sl
from sketchlearn.privacy import private_size, privatize_table


def _release(rows, labels, size, epsilon, bounds, seed=0, delta=1e-6):
    phi = sl.design(bounds=bounds, task="classifier", size=size, seed=seed)
    table = sl.sketch(rows, phi, group_by=labels.tolist())
    return privatize_table(table, epsilon, delta, groups=sorted(set(labels.tolist())), public_map=True)


def test_private_digits_of_few_rows():
    """0.587 from products of all columns; 0.89 +- 0.01 here over splits, of which the mean of three has 0.006."""
    X, y = load_digits(return_X_y=True)
    bounds = np.zeros(64), np.full(64, 16.0)
    right = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:1400], order[1400:]
        size, words = private_size(10, 64, 1.0, 1e-6, rows=1400, task="classifier")
        assert "no useful" not in words
        model = sl.CompressiveClassifier(random_state=0).fit_sketch(
            _release(X[train], y[train], size, 1.0, bounds, seed)
        )
        right.append(np.mean(model.predict(X[test]) == y[test]))
    assert model.solution_.decoder == "mean"
    assert np.mean(right) > 0.86


def test_the_noise_of_a_length_is_taken_off():
    """Classes of very different size: the noisy mean of the small one is long, and nothing would be near it."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, 3], [20_000, 20_000, 20_000, 300])
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])[labels] + 0.1 * rng.normal(size=(60_300, 2))
    private = _release(rows, labels, 1000, 1.0, ([-1, -1], [2, 2]))
    model = sl.CompressiveClassifier("mean").fit_sketch(private)
    assert np.mean(model.predict(rows[labels == 3]) == 3) > 0.9
    assert np.mean(model.predict(rows) == labels) > 0.95


def test_numbers_of_rows_are_drawn_together_by_their_noise():
    from sketchlearn.decoders.classifier.ridge import counts_of

    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 100)
    rows = rng.uniform(-1, 1, size=(1000, 2))
    off = {"as released": [], "drawn": []}
    for seed in range(20):
        private = _release(rows, labels, 200, 0.3, ([-1, -1], [1, 1]), seed)
        off["as released"] += [s.count - 100.0 for s in private.values()]
        off["drawn"] += (counts_of(private) - 100.0).tolist()
    # all classes are alike: what is left of the noise is that of the mean, a third or less of its size
    assert np.std(off["drawn"]) < 0.6 * np.std(off["as released"])
    exact = sl.sketch(rows, private.features, group_by=labels.tolist())
    assert (counts_of(exact) == 100).all()


def test_the_size_follows_the_noise():
    sizes = [private_size(10, 64, e, 1e-6, rows=1400, task="classifier")[0] for e in (0.3, 1.0, 3.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 100 < sizes[1] < 1000 < sizes[2]
    assert private_size(10, 64, 1.0, 0.0, rows=1400, task="classifier")[0] < 100
    assert "no useful result" in private_size(10, 64, 0.05, 1e-6, rows=1400, task="classifier")[1]
    with pytest.raises(ValueError, match="kmeans, gmm, pca, classifier and columns"):
        private_size(10, 64, 1.0, rows=100, task="ica")


def test_a_map_from_bounds_looks_at_no_row():
    few, many = (sl.design(bounds=([0, 0], [1, 9]), task="classifier", size=m) for m in (50, 2000))
    assert few.scale > 2 * many.scale
    assert "no row looked at" in few.reason
    assert few.spread.tolist() == [0.5, 4.5]
    with pytest.raises(ValueError, match="needs a sample or bounds"):
        sl.design(dim=3, task="classifier")
