"""Sketches from many hands: an HTTP endpoint that adds them up, secure aggregation, and an app for Flower."""

from sketchlearn.federation.client import RoundError, contribute
from sketchlearn.federation.endpoint import Collector
from sketchlearn.federation.rounds import SecureRound
from sketchlearn.federation.store import Store

__all__ = ["Collector", "RoundError", "SecureRound", "Store", "contribute"]
