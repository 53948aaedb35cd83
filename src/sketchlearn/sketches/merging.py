"""One sketch from several: sums, weights, boxes, records and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sketchlearn.features.base import agreed
from sketchlearn.sketches.checks import at_bits, check_noise, check_range, merged_record
from sketchlearn.sketches.origin import Origin
from sketchlearn.sketches.parts import Parts

if TYPE_CHECKING:
    from sketchlearn.sketches.value import Sketch


def noise_of(sketches: Sequence[Sketch], weight: int, bits: int) -> float:
    """Known noise of averages over this weight whose sums are sums or differences of those of some sketches."""
    total = sum(s.noise * float(s.weight << (bits - s.weight_bits)) ** 2 for s in sketches if s.noise)
    noise = float(total / float(weight) ** 2) if total and weight else 0.0
    check_noise(sketches[0].features, weight, noise)
    return noise


def merged(sketches: list[Sketch], pool: bool = False) -> Sketch:
    """The sketch of all rows behind sketches of one map; `pool` adds guarantees up, whoever is behind them."""
    filled = [s for s in sketches if not s.is_empty] or sketches[:1]
    features = agreed(s.features for s in filled)
    bits = max(s.weight_bits for s in sketches)
    scaled = [at_bits(s, bits) for s in sketches]
    weight = sum(w for _, w in scaled)
    check_range(features, weight)
    sums = scaled[0][0]
    for part, _ in scaled[1:]:
        sums = features.add_sums(sums, part)
    return replace(
        filled[0],
        features=features,
        sums=sums,
        weight=weight,
        weight_bits=bits,
        lower=np.min([s.lower for s in sketches], axis=0) + 0.0,  # of -0.0 and 0.0 always the same
        upper=np.max([s.upper for s in sketches], axis=0) + 0.0,
        skipped=sum(s.skipped for s in sketches),
        squared_weights=sum(s.squared_weights for s in sketches),
        privacy=merged_record([s.privacy for s in filled], pool),
        # what this version doesn't know can only be kept where all agree on it
        extra={k: v for k, v in filled[0].extra.items() if all(k in s.extra and s.extra[k] == v for s in filled)},
        noise=noise_of(sketches, weight, bits),
        origin=Origin.together([s.origin for s in filled]),
        parts=Parts.together(map(Parts.of, sketches)) if any(s.parts is not None for s in sketches) else None,
    ).reduced()
