"""Sketches in a database, a cell for each time bucket and group: roll-ups, windows, drift and models of any union."""

from sketchlearn.store.dataset import Dataset, Ingested
from sketchlearn.store.publication import Publication
from sketchlearn.store.query import Query
from sketchlearn.store.upkeep import Store

__all__ = ["Dataset", "Ingested", "Publication", "Query", "Store"]
