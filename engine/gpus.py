"""The node's GPUs as NVIDIA's management library sees them: temperature, memory errors, Xids. Starts nothing
and changes nothing. Raises OSError without such a library or device, and guesses nothing."""

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from core.files import file_lock

# Errors of the application and not of the device (NVIDIA's Xid catalogue; its Kubernetes device plugin skips
# the same).
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
COOLED_CELSIUS = 5
EVENTS_MAX = 64


class DeviceHealth(msgspec.Struct, frozen=True):
    """One GPU. None: this device does not report it. `ecc_uncorrected` counts since its driver was loaded;
    `name` is the maker's."""

    index: int
    uuid: str
    temperature: int | None
    slowdown_at: int | None
    ecc_uncorrected: int | None
    lost: bool
    memory_used_mib: int | None
    memory_total_mib: int | None
    name: str = ""


class DeviceWatch:
    """Decides whether one GPU can be worked with. Pure: `see` takes a reading, `fault` gives the reason
    against it.

    Memory errors and Xids stay until the supervisor starts anew; heat passes.
    """

    def __init__(self, first: DeviceHealth) -> None:
        self._first = first
        self._lasting = ""
        self._hot = ""

    def see(self, now: DeviceHealth, xids: list[int]) -> None:
        """Take a reading, with the Xids since the last one."""
        serious = [xid for xid in xids if xid not in APPLICATION_XIDS]
        errors = (now.ecc_uncorrected or 0) - (self._first.ecc_uncorrected or 0)
        if not self._lasting:
            self._lasting = _lasting_fault(now, serious, errors)
        self._hot = self._heat(now)

    @property
    def fault(self) -> str:
        """The reason why no worker may use it; empty where it is well."""
        return self._lasting or self._hot

    def _heat(self, now: DeviceHealth) -> str:
        if now.temperature is None or now.slowdown_at is None:
            return ""
        limit = now.slowdown_at - (COOLED_CELSIUS if self._hot else 0)
        return f"GPU {now.index}: {now.temperature} °C" if now.temperature >= limit else ""


def _lasting_fault(now: DeviceHealth, xids: list[int], errors: int) -> str:
    if now.lost:
        return f"GPU {now.index}: lost"
    if xids:
        return f"GPU {now.index}: Xid {xids[0]}"
    return f"GPU {now.index}: {errors} uncorrected memory errors" if errors > 0 else ""


class Devices:
    """The GPUs that this process may see; `open` finds them."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
        self._uuids = [nvml.nvmlDeviceGetUUID(handle) for handle in self._handles]
        self._events = nvml.nvmlEventSetCreate()
        for handle in self._handles:
            self._or_none(
                nvml.nvmlDeviceRegisterEvents, handle, nvml.nvmlEventTypeXidCriticalError, self._events
            )

    @classmethod
    def open(cls, library: str = "pynvml") -> "Devices":
        """The GPUs of this node. Raises OSError with the reason where nothing can be read."""
        if find_spec(library) is None:
            raise OSError("NVML's Python binding is not installed")
        nvml: Any = importlib.import_module(library)
        try:
            nvml.nvmlInit()
            return cls(nvml)
        except nvml.NVMLError as error:
            raise OSError(str(error)) from error

    def read(self) -> list[DeviceHealth]:
        """Every GPU now. Takes milliseconds."""
        return [self._health(index, handle) for index, handle in enumerate(self._handles)]

    def xids(self) -> dict[str, list[int]]:
        """Critical errors since the last call, by GPU."""
        found: dict[str, list[int]] = {}
        for _ in range(EVENTS_MAX):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # a timeout: no more events are pending
                break
            found.setdefault(self._nvml.nvmlDeviceGetUUID(event.device), []).append(int(event.eventData))
        return found

    def _health(self, index: int, handle: Any) -> DeviceHealth:
        nvml, ask = self._nvml, self._or_none
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        slowdown = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        uncorrected = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        return DeviceHealth(
            index=index,
            uuid=self._uuids[index],
            temperature=ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            slowdown_at=ask(nvml.nvmlDeviceGetTemperatureThreshold, handle, slowdown),
            ecc_uncorrected=ask(nvml.nvmlDeviceGetTotalEccErrors, handle, *uncorrected),
            lost=self._is_lost(handle),
            memory_used_mib=memory.used >> 20 if memory else None,
            memory_total_mib=memory.total >> 20 if memory else None,
            name=_text(ask(nvml.nvmlDeviceGetName, handle)),
        )

    def _is_lost(self, handle: Any) -> bool:
        try:
            self._nvml.nvmlDeviceGetTemperature(handle, self._nvml.NVML_TEMPERATURE_GPU)
        except self._nvml.NVMLError as error:
            return error.value == self._nvml.NVML_ERROR_GPU_IS_LOST
        return False

    def _or_none(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None


def _text(value: str | bytes | None) -> str:
    """Text of a value; older bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else value or ""


class GpuReservation(msgspec.Struct, frozen=True):
    """A GPU reserved for this process, while `lock` is open."""

    device: DeviceHealth
    lock: int


class GpuAssignment(msgspec.Struct, frozen=True):
    """The GPU of a worker index, and the environment that keeps its worker from using another."""

    device: DeviceHealth
    environment: dict[str, str]


def reserve(
    devices: list[DeviceHealth], visible: str | None, wanted: int, folder: Path
) -> list[GpuReservation]:
    """Reserve the first `wanted` GPUs that may be used and that no other supervisor of this node has,
    whatever its pool or data folder. The locks in `folder`, which all of them share, end with their
    holder."""
    taken: list[GpuReservation] = []
    names = None if visible is None else {part.strip() for part in visible.split(",")}
    for device in devices:
        if len(taken) == wanted or not (names is None or names & {str(device.index), device.uuid}):
            continue
        try:
            lock = file_lock.acquire(folder / f"parley-{device.uuid}.lock", 0)
        except OSError:  # another user's
            continue
        if lock is not None:
            taken.append(GpuReservation(device, lock))
    return taken


def assign(index: int, visible: str | None, devices: list[DeviceHealth]) -> GpuAssignment | None:
    """The GPU of a worker index, in turn over those that CUDA_VISIBLE_DEVICES names (`visible`), else over
    all; None where there is none."""
    if visible is None:
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # the management library's numbering
        named = [(each, {"CUDA_VISIBLE_DEVICES": str(each.index), **order}) for each in devices]
    else:
        by_name = {key: each for each in devices for key in (str(each.index), each.uuid)}
        names = [name for name in (part.strip() for part in visible.split(",")) if name in by_name]
        named = [(by_name[name], {"CUDA_VISIBLE_DEVICES": name}) for name in names]
    return GpuAssignment(*named[index % len(named)]) if named else None
