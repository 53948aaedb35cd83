"""What an experiment is: settings, measurements, claims of the literature, a picture."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Setting = dict[str, Any]
"""Values that fix one cell of an experiment: numbers and words that JSON can hold."""
Row = dict[str, Any]
"""A setting, a seed, a method and what was measured."""
Values = dict[str, Any]

Code = Literal["reproduced", "partly", "not", "not run"]
ORDER: tuple[Code, ...] = ("reproduced", "partly", "not", "not run")


@dataclass(frozen=True)
class Cell:
    """A setting and how many data sets it is measured on (seeds 0, 1, ...)."""

    setting: Setting
    seeds: int


@dataclass(frozen=True)
class Finding:
    """What the rows say about a claim.

    Attributes
    ----------
    code : str
        Whether the published method in its published form did what was published.
    measured, default : str
        The number or two that decide it, of the published form and of the library's default.
    """

    code: Code
    measured: str
    default: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence or table of the literature, in other words, and a function of the rows that judges it."""

    source: str
    says: str
    judge: Callable[[list[Row]], Finding]


@dataclass(frozen=True)
class Experiment:
    """One experiment of the catalogue.

    Attributes
    ----------
    name, title : str
        Of the command, and of the section in the page.
    rank : int
        Place in the page; 0 comes first.
    about : str
        A paragraph for the page: what is measured and how.
    cells : callable
        ``cells(full)`` gives the cells of the quick or of the full version.
    methods : callable
        ``methods(setting)`` names the methods that are measured there.
    measure : callable
        ``measure(setting, seed, methods)`` yields ``(method, values)``; data and sketches are shared by the methods.
    claims : tuple of Claim
        What the literature says.
    draw : callable
        ``draw(rows, figure)`` draws on an empty matplotlib figure.
    assumed : dict
        Published settings that no text gives, and what was taken instead.
    recipe : int
        Raised when the meaning of rows changes: rows of another recipe are measured again.
    own : callable
        ``own(setting, method)`` says whether rows depend on the library's default decoder: ``--only default`` measures
        them again.
    learned : callable, optional
        ``learned(rows)`` gives paragraphs with what the rows show beyond the claims.
    losses : callable, optional
        ``losses(rows)`` says where something else is better than the library's default, or nothing; the page begins
        with that.
    size : tuple
        Width and height of the picture, in inches.
    """

    name: str
    title: str
    rank: int
    about: str
    cells: Callable[[bool], Iterable[Cell]]
    methods: Callable[[Setting], tuple[str, ...]]
    measure: Callable[[Setting, int, tuple[str, ...]], Iterator[tuple[str, Values]]]
    claims: tuple[Claim, ...]
    draw: Callable[[list[Row], Any], None]
    assumed: dict[str, str] = field(default_factory=dict)
    recipe: int = 1
    own: Callable[[Setting, str], bool] = lambda setting, method: method.startswith("default")
    learned: Callable[[list[Row]], list[str]] | None = None
    losses: Callable[[list[Row]], str] | None = None
    size: tuple[float, float] = (8.0, 3.6)


def catalogue() -> dict[str, Experiment]:
    """All experiments by name, in the order of the page."""
    package = importlib.import_module("experiments.catalogue")
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        found += [getattr(importlib.import_module(f"experiments.catalogue.{module.name}"), "EXPERIMENT", None)]
    experiments = sorted((e for e in found if e is not None), key=lambda e: e.rank)
    names = [e.name for e in experiments]
    if len(set(names)) < len(names):
        raise ValueError(f"two experiments have one name: {names}")
    return {e.name: e for e in experiments}
