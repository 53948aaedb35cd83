"""A task of one's own: the location of the rows, with a decoder, an estimator and a model that saves and reports."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import sketchlearn as sl
from sketchlearn.accepts import whole
from sketchlearn.decoders import Code, register_decoder
from sketchlearn.features.characteristic import characteristic
from sketchlearn.learn import SketchEstimator
from sketchlearn.learn.parameters import estimator, parameter
from sketchlearn.models import Model, register_model


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Place(Model):
    task: str = "toy-location"
    layout: ClassVar[dict] = {"location": ("d",)}
    attributes: ClassVar[dict] = {"location_": "location"}
    location: np.ndarray


@register_decoder("toy-location", "phase")
def phase(sketch, k, *, rng, trace):
    """The phase of the characteristic function at low frequencies is linear in the mean."""
    operator = characteristic(sketch.features, "a location").operator(dtype=np.float64)
    low = np.argsort(operator.squared_norms)[: 4 * sketch.features.dim]
    w = operator.rows(low).frequencies()
    location = np.linalg.lstsq(w, np.angle(sketch.mean[low]), rcond=None)[0]
    facts = {"residual": 0.0, "noise_floor": 1.0, "ratio": 0.0, "code": Code.RELIABLE, "verdict": "found"}
    return Place(decoder="phase", iterations=1, location=location, **facts)


@estimator
class Location(SketchEstimator):
    task, model = "toy-location", Place
    n_components: int = parameter(default=1, accepts=whole(), kw_only=False)

    def design_request(self):
        return {"task": "kmeans", "n_components": 2}


def test_the_whole_way(tmp_path):
    X = np.random.default_rng(0).normal([0.3, -0.2], 1.0, size=(20_000, 2))
    found = Location(random_state=0).fit(X)
    np.testing.assert_allclose(found.location_, X.mean(0), atol=0.05)
    assert (found.partial_fit(X).reliable_, found.verdict_, found.sketch_.count) == (True, "found", 40_000)
    sl.Model.of(found).save(tmp_path / "place.json")
    assert sl.Model.load(tmp_path / "place.json").location.tobytes() == found.location_.tobytes()
