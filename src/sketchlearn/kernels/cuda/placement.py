"""On which device a call runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sketchlearn.kernels.cuda.device import Device
from sketchlearn.kernels.cuda.rows import DeviceRows, HostRows


class Placement:
    """Shares calls out over devices: rows on a device stay there, others go where least is going on."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = list(devices)
        self._busy = dict.fromkeys(range(len(self.devices)), 0)
        self._lock = threading.Lock()

    @contextmanager
    def device_for(self, rows: HostRows | DeviceRows) -> Iterator[Device]:
        """The device for a call, as long as the call takes."""
        with self._lock:
            number = self._number(rows)
            self._busy[number] += 1
        try:
            yield self.devices[number]
        finally:
            with self._lock:
                self._busy[number] -= 1

    def _number(self, rows: HostRows | DeviceRows) -> int:
        if not isinstance(rows, DeviceRows):
            return min(self._busy, key=lambda i: (self._busy[i], i))
        for number, device in enumerate(self.devices):
            if device.number == rows.device:
                return number
        raise ValueError(f"the rows are on GPU {rows.device}, which is not among those in use")


def too_little(error: Exception) -> str:
    """What to say when even small chunks don't fit."""
    return (
        f"the GPU has too little free memory even for small chunks of rows ({error}): free memory there, "
        "use fewer features or workers, or engine='threads', which gives the same bytes"
    )
