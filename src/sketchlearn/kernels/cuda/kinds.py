"""Which plans a device can sum, and how: by kernels on the grid, group by group, or in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sketchlearn.kernels.cuda.device import Device, devices
from sketchlearn.kernels.cuda.floating import FloatSummer
from sketchlearn.kernels.cuda.recipes import on_grid
from sketchlearn.kernels.cuda.subsampled import SubsampledDeviceSummer
from sketchlearn.kernels.cuda.summer import CudaSummer
from sketchlearn.kernels.plan import Plan, Summer
from sketchlearn.kernels.subsampled import part_plans


def _in_floats(plan: Plan) -> bool:
    return plan.kind in ("squares", "products") and not np.issubdtype(plan.sums_dtype, np.integer)


def _by_groups(plan: Plan) -> bool:
    return plan.kind == "subsampled" and on_grid(part_plans(plan)[1][0])


def runs_on_device(plan: Plan) -> bool:
    """Whether a device can make the sums of a plan."""
    return on_grid(plan) or _in_floats(plan) or _by_groups(plan)


def device_summer(plan: Plan, on: Sequence[Device] | None = None) -> Summer:
    """The summer of a plan on devices; all that are visible by default."""
    on = devices() if on is None else on
    if _by_groups(plan):
        return SubsampledDeviceSummer(plan, on)
    return FloatSummer(plan, on) if _in_floats(plan) else CudaSummer(plan, on)
