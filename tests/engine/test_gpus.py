"""What a GPU must show to be taken out, and that a machine without one says so. The library's own names are
checked against the copy that vLLM brings, where that is installed."""

import os
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from engine.gpus import EVENTS_MAX, DeviceHealth, Devices, DeviceWatch, GpuReservation, assign, reserve

WELL = DeviceHealth(
    index=0,
    uuid="GPU-0",
    temperature=50,
    slowdown_at=87,
    ecc_uncorrected=2,
    lost=False,
    memory_used_mib=1000,
    memory_total_mib=2000,
)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """NVIDIA's binding, from the copy in vLLM, without importing the rest of that."""
    vllm = find_spec("vllm")
    if vllm is None or vllm.origin is None:
        pytest.skip("needs vLLM's copy of the library")
    name = "nvml_in_vllm"
    spec = spec_from_file_location(name, Path(vllm.origin).parent / "third_party" / "pynvml.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # it looks itself up there
    spec.loader.exec_module(module)
    return module


def changed(**values: Any) -> DeviceHealth:
    """The same GPU a second later."""
    return msgspec.structs.replace(WELL, **values)


@pytest.mark.parametrize(
    ("seen", "xids", "fault"),
    [
        (WELL, [], ""),
        (WELL, [13, 31, 43], ""),
        (WELL, [79], "GPU 0: Xid 79"),
        (changed(ecc_uncorrected=3), [], "GPU 0: 1 uncorrected memory errors"),
        (changed(temperature=87), [], "GPU 0: 87 °C"),
        (changed(lost=True, temperature=None), [], "GPU 0: lost"),
        (changed(temperature=None, slowdown_at=None, ecc_uncorrected=None), [], ""),
    ],
)
def test_a_gpu_is_taken_out_for_what_it_shows(seen: DeviceHealth, xids: list[int], fault: str):
    """Errors of the device, not of the application; what it does not tell is no fault."""
    watch = DeviceWatch(WELL)
    watch.see(seen, xids)
    assert watch.fault == fault


def test_heat_passes_and_errors_stay():
    """Hot until 5 °C below the limit, so that it does not flap; an Xid until the supervisor starts anew."""
    watch = DeviceWatch(WELL)
    faults: list[str] = []
    for temperature in (86, 87, 84, 82, 81):
        watch.see(changed(temperature=temperature), [])
        faults.append(watch.fault)
    assert faults == ["", "GPU 0: 87 °C", "GPU 0: 84 °C", "GPU 0: 82 °C", ""]
    watch.see(WELL, [79])
    watch.see(WELL, [])
    assert watch.fault == "GPU 0: Xid 79"


def test_places_take_turns_over_the_gpus_they_may_use():
    """Over all, or over those that the operator named."""
    gpus = [changed(index=at, uuid=f"GPU-{at}") for at in range(3)]
    everywhere = [assign(at, None, gpus) for at in range(4)]
    assert [each.device.index for each in everywhere if each] == [0, 1, 2, 0]
    named = [assign(at, "2, GPU-1", gpus) for at in range(3)]
    assert [each.environment for each in named if each] == [
        {"CUDA_VISIBLE_DEVICES": "2"},
        {"CUDA_VISIBLE_DEVICES": "GPU-1"},
        {"CUDA_VISIBLE_DEVICES": "2"},
    ]
    assert assign(0, "", gpus) is None
    assert assign(0, None, []) is None


def test_a_machine_without_the_library_says_so():
    """Nothing is made up."""
    with pytest.raises(OSError, match="not installed"):
        Devices.open("no_such_library")


def test_a_machine_without_a_driver_says_so(library: ModuleType):
    """In the library's own words. Where there is one, it can be read."""
    if Path("/dev/nvidiactl").exists():
        assert all(device.temperature for device in Devices.open(library.__name__).read())
        return
    with pytest.raises(OSError, match=r"Not Found|Not Loaded"):
        Devices.open(library.__name__)


class _RefusedError(Exception):
    value = 3


def _nvml(**changes: Any) -> Any:
    """A driver with one GPU that answers with these."""

    def refuse(*_: Any) -> Any:
        raise _RefusedError

    events = [SimpleNamespace(device="h0", eventData=79), SimpleNamespace(device="h0", eventData=13)]
    answers: dict[str, Any] = {
        "NVMLError": _RefusedError,
        "NVML_ERROR_GPU_IS_LOST": 15,
        "NVML_TEMPERATURE_GPU": 0,
        "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": 1,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "NVML_VOLATILE_ECC": 0,
        "nvmlEventTypeXidCriticalError": 8,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda at: f"h{at}",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlEventSetCreate": lambda: "events",
        "nvmlDeviceRegisterEvents": refuse,
        "nvmlEventSetWait_v2": lambda *_: events.pop(0) if events else refuse(),
        "nvmlDeviceGetName": lambda _: b"NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=5 << 20, total=9 << 20),
        "nvmlDeviceGetTemperature": lambda *_: 61,
        "nvmlDeviceGetTemperatureThreshold": lambda *_: 87,
        "nvmlDeviceGetTotalEccErrors": refuse,
        **changes,
    }
    return SimpleNamespace(**answers)


def test_what_a_gpu_refuses_to_tell_is_absent():
    """A device without ECC or events is read all the same; its Xids come once."""
    devices = Devices(_nvml())
    (seen,) = devices.read()
    assert (seen.temperature, seen.slowdown_at, seen.ecc_uncorrected, seen.lost) == (61, 87, None, False)
    assert (seen.memory_used_mib, seen.memory_total_mib) == (5, 9)
    assert devices.xids() == {"GPU-h0": [79, 13]}
    assert devices.xids() == {}


def test_a_lost_gpu_and_a_storm_of_errors():
    """The first is told by the library's own code; the second is read in bounded portions."""

    class LostError(_RefusedError):
        value = 15

    def lost(*_: Any) -> Any:
        raise LostError

    storm = SimpleNamespace(device="h0", eventData=79)
    devices = Devices(_nvml(nvmlDeviceGetTemperature=lost, nvmlEventSetWait_v2=lambda *_: storm))
    assert devices.read()[0].lost
    assert len(devices.xids()["GPU-h0"]) == EVENTS_MAX


def test_the_library_has_the_names_we_use(library: ModuleType):
    """Each name that the driver above answers to is one of NVIDIA's own."""
    assert [name for name in vars(_nvml()) if not hasattr(library, name)] == []


def test_supervisors_of_a_node_share_no_gpu(tmp_path: Path):
    """Whatever their pools and folders: the second gets what is left, then none, until the first has gone."""
    gpus = [changed(index=index, uuid=f"GPU-{index}") for index in range(3)]

    def uuids(taken: list[GpuReservation]) -> list[str]:
        return [each.device.uuid for each in taken]

    first = reserve(gpus, None, 2, tmp_path)
    assert uuids(first) == ["GPU-0", "GPU-1"]
    assert reserve(gpus, "0,GPU-1", 1, tmp_path) == []
    second = reserve(gpus, None, 8, tmp_path)
    assert uuids(second) == ["GPU-2"]
    assert reserve(gpus, None, 1, tmp_path) == []
    for each in first:
        os.close(each.lock)
    third = reserve(gpus, "GPU-1", 8, tmp_path)
    assert uuids(third) == ["GPU-1"]
    for each in second + third:
        os.close(each.lock)


def test_a_link_that_another_user_put_where_locks_lie_is_not_followed(tmp_path: Path):
    """All users share that folder: it would make a file of ours wherever it leads, or lock one."""
    (tmp_path / "parley-GPU-0.lock").symlink_to(tmp_path / "elsewhere")
    gpus = [WELL, changed(index=1, uuid="GPU-1")]
    taken = reserve(gpus, None, 1, tmp_path)
    assert [each.device.uuid for each in taken] == ["GPU-1"]
    assert not (tmp_path / "elsewhere").exists()
    for each in taken:
        os.close(each.lock)
