"""Maps and decoders in the form in which they were published; the library's defaults are stronger than these."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import sketchlearn as sl
from sketchlearn.datasets import separated_variance
from sketchlearn.designs.scale import expected_separation

Array = npt.NDArray[np.float64]
ADAPTED_SECOND_MOMENT = 2.3039
"""E R² of the adapted radius before scaling: Keriven's scale times sqrt(d / 2.3039) is the scale here."""

KMEANS: dict[str, tuple[str, dict[str, Any]]] = {
    "CL-OMP": ("clomp", {"starts": 1}),
    "CL-OMPR": ("clompr", {"starts": 1}),
    "CL-OMPR ×20": ("clompr", {"starts": 20}),
    "CL-AMP": ("cl-amp", {"prior": "flat", "restarts": 1, "polish": False}),
    "CL-AMP (normal prior)": ("cl-amp", {}),
}
"""Decoders of k-means by the names of the page: one candidate per step is the published form, 20 is the library's; the
library's CL-AMP has a normal prior and descents."""


def chatalic_scale(k: int, d: int, variance: float) -> float:
    """Expected smallest distance of two centres (Chatalic 2020, eq. 4.14)."""
    return expected_separation(k, d) * math.sqrt(variance)


def far_of(k: int, d: int) -> float:
    """Four standard deviations of a column of separated clusters: a public box."""
    return float(4.0 * np.sqrt(separated_variance(k, d) + 1.0))


def published_map(d: int, size: int, scale: float, seed: int, radial: str = "adapted", **options: Any) -> Any:
    """Independent frequencies of one scale; the library's own are orthogonal and stratified."""
    return sl.FourierFeatures.draw(
        dim=d, size=size, scale=scale, radial=radial, seed=seed, directions="iid", radii="iid", **options
    )


def public_map(k: int, d: int, size: int, seed: int, *, designed: bool, **options: Any) -> Any:
    """A map from public constants: the default's from a box, or the published one at the scale of equation 4.14."""
    if designed:
        far = far_of(k, d)
        return sl.design(bounds=(-far, far), dim=d, n_components=k, size=size, seed=seed, **options)
    return published_map(d, size, chatalic_scale(k, d, separated_variance(k, d)), seed, **options)


def designed_map(rows: Array, k: int, size: int, seed: int, **options: Any) -> Any:
    """The map of the library's default for k-means, from a thousand pilot rows."""
    return sl.design(rows[:1000], n_components=k, size=size, seed=seed, **options)


def pass_over(rows: Array, phi: Any, **options: Any) -> sl.Sketch:
    """The sketch of some rows."""
    return sl.sketch(rows, phi, progress=False, **options)


def centers_of(sketch: sl.Sketch, k: int, method: str, seed: int, **options: Any) -> Any:
    """Centres by a method of the page; "default" is the library's own decoder."""
    decoder, chosen = ("auto", {}) if method == "default" else KMEANS[method]
    return sl.decode(sketch, k, decoder=decoder, random_state=seed, **{**chosen, **options}).centers


def boxed(sketch: sl.Sketch, lower: npt.ArrayLike, upper: npt.ArrayLike) -> sl.Sketch:
    """A sketch whose decoders look in a given box: a release holds none, and that of heavy tails says nothing."""
    d = sketch.features.dim
    low, high = (np.broadcast_to(np.asarray(edge, np.float64), (d,)).copy() for edge in (lower, upper))
    return replace(sketch, lower=low, upper=high)


def private_centers_of(sketch: sl.Sketch, setting: dict[str, Any], method: str, seed: int) -> Any:
    """Centres from a private release of a sketch; CL-OMPR has twenty candidates a step and the public box."""
    from sketchlearn.privacy import insecure_noise  # needs SciPy, which a machine that only sketches may lack

    k, d, epsilon = setting["k"], setting["d"], setting["epsilon"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise from a seed, many releases of one sketch: nothing here is published
        with insecure_noise(1000 * seed + int(1000 * epsilon) % 997):
            released = sl.privatize(sketch, epsilon, setting.get("delta", 0.0), public_map=True)
        boxed_or_not = released if method == "default" else boxed(released, -far_of(k, d), far_of(k, d))
        return centers_of(boxed_or_not, k, method, seed)


def with_noise(sketch: sl.Sketch, variance: float, seed: int, *, told: bool) -> sl.Sketch:
    """A sketch plus normal noise of this variance per feature; decoders know of it if `told`."""
    unit = 2.0**22 * sketch.weight * math.sqrt(variance / 2)
    drawn = np.random.default_rng([seed, 31]).standard_normal(sketch.sums.shape)
    noisy = replace(sketch, sums=sketch.sums + np.rint(unit * drawn).astype(np.int64))
    return noisy.with_noise(variance) if told else noisy
