"""A feature map of one's own: counts of rows per cell of a grid, in one class, and everything else works with it."""

import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features import FeatureMap, register


@register
@dataclass(frozen=True, eq=False, repr=False)
class Histogram(FeatureMap):
    """Feature j is 1 where the sum of a row's columns falls into cell j."""

    kind: ClassVar[str] = "toy-histogram"
    dim: int
    size: int
    width: float = 1.0

    def draw_array(self):
        return np.zeros(0)

    def __call__(self, X):
        cell = np.floor(np.asarray(X).sum(1) / self.width).astype(int) % self.size
        return np.eye(self.size)[cell]


PHI = Histogram(dim=2, size=16, width=0.5)
X = np.random.default_rng(0).normal(size=(3000, 2))


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_it_is_sketched_by_every_engine(engine):
    s = sl.sketch(X, PHI, engine=engine, workers=2)
    assert s == sl.sketch((X[i : i + 7] for i in range(0, len(X), 7)), PHI)
    np.testing.assert_allclose(s.mean, PHI(X).mean(0), atol=1e-6)


def test_it_merges_forgets_groups_and_travels(tmp_path):
    a, b = sl.sketch(X[:1000], PHI), sl.sketch(X[1000:], PHI)
    assert a + b == sl.sketch(X, PHI)
    assert (a + b - b).sums.tobytes() == a.sums.tobytes()
    assert sl.sketch(X, PHI, group_by=np.arange(3000) % 3).union() == a + b
    (a + b).save(tmp_path / "toy.sketch")
    assert sl.load(tmp_path / "toy.sketch") == a + b
    assert pickle.loads(pickle.dumps(a)) == a
    assert sl.sketch(np.vstack([X, [[np.nan, 0]]]), PHI, on_invalid="skip").skipped == 1


def test_decoders_of_other_features_refuse_it():
    with pytest.raises(TypeError, match="needs Fourier features, the sketch has toy-histogram"):
        sl.CompressiveKMeans(2).fit_sketch(sl.sketch(X, PHI))
