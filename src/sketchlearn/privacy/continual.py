"""A private sketch every day: releases of a stream by a binary tree of sums.

Days are the leaves of a binary tree; the sketch of every node is released once, when its last day is over.  A row is in
one node of each of ``L = log2(days) + 1`` levels, so all nodes together are one vector that one person moves by at most
sqrt(L) times as far (or L times, in absolute values) as one sketch.  Any run of days is the sum of at most ``2 L``
nodes: its noise grows with the logarithm of the number of days, not with the number (Dwork, Naor, Pitassi and Rothblum
2010; Chan, Shi and Song 2011).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import noise
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.mechanism import MECHANISMS, Mechanism, choose_mechanism, draw
from sketchlearn.privacy.release import charge, check_ledger, check_sketch, map_origin, released, warn_if_weak
from sketchlearn.privacy.sensitivity import row_bounds
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch, check_same_features, merge


class ContinualRelease:
    """Private sketches of a growing stream: the sum of all days so far, and of any consecutive days, under one
    guarantee.

    One guarantee covers everything that is released: epsilon and delta are spent once, at the beginning.

    Parameters
    ----------
    features : FeatureMap
        The map of all days.
    epsilon, delta : float
        The guarantee of all releases together.
    periods : int
        The largest number of days (hours, batches), known beforehand.
    records_per_user : int
        The largest number of rows that one person may have, in all days together.
    public_map, pilot, mechanism, ledger, dataset
        As in :func:`sketchlearn.privatize`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import ContinualRelease
    >>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0)
    >>> stream = ContinualRelease(phi, epsilon=1.0, delta=1e-6, periods=30, public_map=True)
    >>> rng = np.random.default_rng(0)
    >>> for day in range(10):
    ...     so_far = stream.add(sl.sketch(rng.normal(size=(5000, 1)), phi))
    >>> bool(abs(so_far.count - 50_000) < 2000), so_far.privacy.epsilon
    (True, 1.0)
    >>> bool(abs(stream.range(3, 7).count - 20_000) < 2000)
    True
    """

    def __init__(
        self,
        features: FeatureMap,
        epsilon: float,
        delta: float = 0.0,
        *,
        periods: int,
        records_per_user: int = 1,
        public_map: bool = False,
        pilot: PrivacyRecord | None = None,
        mechanism: str = "auto",
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        if mechanism not in MECHANISMS:
            raise ValueError(f"mechanism={mechanism!r}: choose one of {', '.join(MECHANISMS)}")
        if isinstance(periods, bool) or not isinstance(periods, int) or not 1 <= periods <= 2**40:
            raise ValueError(f"periods must be a positive integer, got {periods!r}")
        check_ledger(ledger, dataset)
        self.features, self.periods = features, periods
        self.levels = (periods - 1).bit_length() + 1
        self._users = records_per_user
        self._origin = map_origin(features, public_map, pilot, "add-remove", records_per_user)
        self._pilot = pilot
        self._bounds = row_bounds(features)
        self._chosen = self._mechanism(epsilon, delta, mechanism)
        noise.ready()
        what = f"stream of up to {periods} sketches of {features.size} {features.kind} features, {self._chosen.name}"
        charged = charge(ledger, dataset, [(what, self._chosen.spent)], "add-remove", records_per_user, pilot)
        self._more: dict[str, Any] = {
            "release": secrets.token_hex(16), "composition": "tree of sums", "levels": self.levels,
            **({"charged": charged} if charged else {}),
        }  # fmt: skip
        self._done = 0
        self._open: list[Sketch] = [Sketch.empty(features)] * self.levels
        self._nodes: dict[tuple[int, int], Sketch] = {}

    @property
    def state(self) -> dict[str, Any]:
        """All but the sketches, as values of JSON; see :meth:`resumed`."""
        return {
            "mechanism": asdict(self._chosen), "periods": self.periods, "done": self._done, "origin": self._origin,
            "records_per_user": self._users, "more": self._more,
            "pilot": None if self._pilot is None else self._pilot.to_json(),
        }  # fmt: skip

    @property
    def open_sums(self) -> tuple[Sketch, ...]:
        """Exact sums of the days since the last node of each level: secret, like the rows."""
        return tuple(self._open)

    @property
    def nodes(self) -> Mapping[tuple[int, int], Sketch]:
        """What was released: sketches by level and number."""
        return self._nodes

    @classmethod
    def resumed(
        cls, features: FeatureMap, state: Mapping[str, Any], open_sums: Sequence[Sketch],
        nodes: Mapping[tuple[int, int], Sketch],
    ) -> ContinualRelease:  # fmt: skip
        """The release that was kept as :attr:`state`, :attr:`open_sums` and :attr:`nodes`; nothing is charged again.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> from sketchlearn.privacy import ContinualRelease
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> stream = ContinualRelease(phi, epsilon=1.0, delta=1e-6, periods=4, public_map=True)
        >>> first = stream.add(sl.sketch([[1.0], [2.0]], phi))
        >>> again = ContinualRelease.resumed(phi, stream.state, stream.open_sums, stream.nodes)
        >>> again.range(0, 1) == first, again.done
        (True, 1)
        """
        made = cls.__new__(cls)
        made.features, made.periods = features, int(state["periods"])
        made.levels = (made.periods - 1).bit_length() + 1
        made._users, made._origin, made._more = state["records_per_user"], state["origin"], dict(state["more"])
        made._pilot = None if state["pilot"] is None else PrivacyRecord.from_json(state["pilot"])
        made._bounds, made._chosen = row_bounds(features), Mechanism(**state["mechanism"])
        made._done, made._open, made._nodes = int(state["done"]), list(open_sums), dict(nodes)
        if len(made._open) != made.levels:
            raise ValueError(f"a stream of {made.periods} periods has {made.levels} open sums, got {len(made._open)}")
        return made

    def _mechanism(self, epsilon: float, delta: float, mechanism: str) -> Mechanism:
        """Noise of each node, with the guarantee of all of them: the quieter of the ways that are allowed."""
        arguments = "add-remove", self._users
        options = []
        if mechanism != "gaussian":
            node = choose_mechanism(
                self._bounds, self.features.size, epsilon / self.levels, 0.0, *arguments, "laplace"
            )  # fmt: skip
            options.append(replace(node, epsilon=float(epsilon), rho=0.5 * epsilon**2))
        if mechanism == "gaussian" or (mechanism == "auto" and delta > 0.0):
            single = choose_mechanism(
                self._bounds, self.features.size, epsilon, delta, *arguments, "gaussian", 2 * self.periods
            )  # fmt: skip
            grown = single.scale * math.sqrt(self.levels) * (1.0 + 1e-12)
            options.append(replace(single, scale=grown))
        return min(options, key=lambda option: option.energy(self._bounds))

    # -- days --------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Days that are over."""
        return self._done

    def add(self, day: Sketch) -> Sketch:
        """End a day: the private sketch of all days so far.

        Parameters
        ----------
        day : Sketch
            Exact sums of the rows of the day; empty if there were none.

        Returns
        -------
        Sketch
        """
        if self._done >= self.periods:
            raise ValueError(f"all {self.periods} periods are over: start another stream, with another budget")
        check_sketch(day, "add-remove", self._users)
        check_same_features(Sketch.empty(self.features), day)
        self._open = [total + day for total in self._open]
        self._done += 1
        for level in range(self.levels):
            if self._done % 2**level == 0:
                exact, self._open[level] = self._open[level], Sketch.empty(self.features)
                sums, rows = draw(exact.sums, exact.weight, self._bounds, self._chosen)
                self._nodes[level, self._done >> level] = released(
                    self.features, sums, rows, self._chosen, self._bounds, "add-remove", self._users, self._origin,
                    self._more, self._pilot,
                )  # fmt: skip
        so_far = self.range(0, self._done)
        if self._done == 1:
            warn_if_weak(self._chosen.epsilon, self._chosen.delta, so_far.count)
        return so_far

    def range(self, first: int, last: int) -> Sketch:
        """The private sketch of the days `first` to ``last - 1``, counted from 0.

        Parameters
        ----------
        first, last : int
            Days that are over.

        Returns
        -------
        Sketch
        """
        if not 0 <= first < last <= self._done:
            raise ValueError(f"days {first} to {last}: there are {self._done}, from 0")
        return merge(self._nodes[node] for node in _cover(first, last))

    def __repr__(self) -> str:
        return (
            f"ContinualRelease({self._done} of {self.periods} periods, epsilon={self._chosen.epsilon:.6g}, "
            f"delta={self._chosen.delta:.3g})"
        )


def _cover(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The fewest nodes (level, number of its last day in units of its length) that make up a run of days."""
    while first < last:
        level = 0
        while first % 2 ** (level + 1) == 0 and first + 2 ** (level + 1) <= last:
            level += 1
        first += 2**level
        yield level, first >> level
