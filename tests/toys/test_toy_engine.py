"""An engine of one's own: rows backwards, one accumulator a batch, merged as a tree; the bytes are the same."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines import Engine, register_engine


@register_engine("toy-tree")
class Tree(Engine):
    """Sums batches in the wrong order and adds them in pairs."""

    def run(self, job):
        mode = "skip" if job.skip_invalid else "raise"
        leaves = []
        for batch in job.source.stream(100):
            leaves.append(sl.Accumulator(job.features, on_invalid=mode))
            leaves[-1].update(batch.rows[::-1], None if batch.weights is None else batch.weights[::-1])
        while len(leaves) > 1:
            for a, b in zip(leaves[::2], leaves[1::2], strict=False):
                a.merge(b)
            leaves = leaves[::2]
        return leaves[0].sketch() if leaves else None


RNG = np.random.default_rng(0)
X = RNG.normal(size=(1234, 3)) + np.repeat([[0, 0, 0], [9, 0, 0]], 617, axis=0)
MAPS = {
    "fourier": sl.FourierFeatures.draw(dim=3, size=50, scale=2.0, seed=1),
    "quadratic": sl.QuadraticFeatures.draw(dim=3, radius=20.0),
    "centred": sl.design(X, n_components=2, seed=0),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(
    "weights", [None, RNG.integers(0, 4, 1234), RNG.uniform(size=1234)], ids=["no", "whole", "any"]
)
def test_bytes_are_those_of_the_threads(name, weights):
    got = sl.sketch(X, MAPS[name], sample_weight=weights, engine="toy-tree")
    assert got.to_bytes() == sl.sketch(X, MAPS[name], sample_weight=weights).to_bytes()


def test_it_serves_sources_and_models(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    s = sl.sketch(tmp_path / "rows.npy", MAPS["centred"], engine=Tree())
    assert s == sl.sketch(X, MAPS["centred"])
    assert sl.CompressiveKMeans(2, random_state=0).fit_sketch(s).reliable_
    assert sl.compare(s, sl.sketch(X[::2], MAPS["centred"])).p_value > 1e-3
    bad = np.vstack([X, [[np.inf, 0, 0]]])
    assert sl.sketch(bad, MAPS["fourier"], on_invalid="skip", engine="toy-tree").skipped == 1
