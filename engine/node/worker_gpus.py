"""The GPUs of a supervisor's worker indexes: one for each while any is free, else shared in turn."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from engine.gpus import DeviceHealth, GpuAssignment, GpuReservation, assign, reserve


class WorkerGpus:
    """GPUs reserved for worker indexes. `visible`: CUDA_VISIBLE_DEVICES, None where it is not set."""

    def __init__(self, visible: str | None) -> None:
        self._visible = visible
        self._reserved: list[GpuReservation] = []
        self._taken: dict[int, str] = {}

    @property
    def reserved(self) -> int:
        """How many GPUs are reserved."""
        return len(self._reserved)

    def reserve(self, devices: Sequence[DeviceHealth], wanted: int) -> None:
        """Reserve GPUs until there are `wanted`, as far as any is free."""
        ours = {each.device.uuid for each in self._reserved}
        others = [device for device in devices if device.uuid not in ours]
        more = max(0, wanted - len(self._reserved))
        self._reserved += reserve(others, self._visible, more, Path(tempfile.gettempdir()))

    def take(self, index: int, devices: Sequence[DeviceHealth]) -> GpuAssignment | None:
        """The GPU of a worker index that starts to run; None where there is none."""
        used = set(self._taken.values())
        free = [each.device for each in self._reserved if each.device.uuid not in used]
        if not free:
            self.reserve(devices, len(self._reserved) + 1)
            free = [each.device for each in self._reserved if each.device.uuid not in used]
        turn = 0 if free else index
        given = assign(turn, self._visible, free or [each.device for each in self._reserved])
        if given is not None:
            self._taken[index] = given.device.uuid
        return given

    def give_back(self, index: int) -> None:
        """Let others have the GPU of a worker index that has ended, unless another index uses it."""
        uuid = self._taken.pop(index, None)
        if uuid is None or uuid in self._taken.values():
            return
        for each in [each for each in self._reserved if each.device.uuid == uuid]:
            self._reserved.remove(each)
            os.close(each.lock)

    def close(self) -> None:
        """Let others have all of them."""
        while self._reserved:
            os.close(self._reserved.pop().lock)
