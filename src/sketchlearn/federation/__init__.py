"""Sketches from many hands: an HTTP endpoint that adds them up, and an app for Flower."""

from sketchlearn.federation.endpoint import Collector
from sketchlearn.federation.store import Store

__all__ = ["Collector", "Store"]
