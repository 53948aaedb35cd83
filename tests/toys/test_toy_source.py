"""A source of one's own: rows behind an object that nobody knows, in one function."""

from dataclasses import dataclass

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sources import Batch, Source, register


@dataclass(frozen=True)
class Sensor:
    """A device that gives readings by number."""

    seed: int
    readings: int

    def read(self, start, stop):
        return np.random.default_rng(self.seed).normal(size=(self.readings, 2))[start:stop]


@dataclass(frozen=True)
class Readings:
    sensor: Sensor

    def __call__(self, size, start=0):
        for i in range(start, self.sensor.readings, size):
            yield Batch(self.sensor.read(i, min(i + size, self.sensor.readings)))


@register(0)
def open_sensor(data, selection):
    """Sensors have two columns, and nothing to choose from."""
    if not isinstance(data, Sensor):
        return None
    selection.refuse("a sensor", "query", "where", "weight_column")
    return Source(Readings(data), data.readings, names=("x", "y"))


PHI = sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, seed=0)
SENSOR = Sensor(5, 2500)


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_it_is_sketched_by_every_engine(engine):
    assert sl.sketch(SENSOR, PHI, engine=engine) == sl.sketch(SENSOR.read(0, 2500), PHI)


def test_estimators_and_readers_take_it():
    km = sl.CompressiveKMeans(1, random_state=0).fit(SENSOR)
    assert list(km.feature_names_in_) == ["x", "y"]
    assert sl.read(SENSOR).length == 2500
    assert sl.read(SENSOR).sample(10, seed=0).shape == (10, 2)


def test_what_it_can_not_do_is_an_error():
    with pytest.raises(ValueError, match="sensor"):
        sl.sketch(SENSOR, PHI, where="x > 0")
