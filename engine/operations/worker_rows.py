"""A worker as operators see it: by its own lease and by its supervisor's report. Pure."""

import msgspec

from engine.gpus import DeviceHealth
from engine.node.reports import NodeReport, WorkerProcessState, WorkerReport
from engine.queue.types import WorkerView


class WorkerRow(msgspec.Struct, frozen=True):
    """One worker, or a worker index of a supervisor where none is registered. `lease_ms`: what is left of it.

    `state`: a WorkerProcessState, or lapsed (its lease ended). None, in any field: nobody reported it;
    `gpu_missing` says why there is no `gpu`.
    """

    worker: str
    node: str
    model: str
    state: str
    claims: int
    running: int | None
    waiting: int | None
    kv_usage: float | None
    step_age_ms: int | None
    memory_mib: int | None
    lease_ms: int
    pid: int | None
    starts: int | None
    why: str
    gpu: DeviceHealth | None = None
    gpu_missing: str = ""


def registered(view: WorkerView, slot: WorkerReport | None, draining: bool, now: int) -> WorkerRow:
    """The row of a worker that has, or had, a lease. `slot`: what its supervisor says of it."""
    if not view.alive:
        state = "lapsed"
    elif draining or (slot is not None and slot.state is WorkerProcessState.DRAINING):
        state = WorkerProcessState.DRAINING.value
    else:
        state = WorkerProcessState.READY.value
    info = view.info
    return WorkerRow(
        worker=view.worker,
        node=str(info.get("node", "")),
        model=str(info.get("model", "")),
        state=state,
        claims=view.claims,
        running=view.count("running"),
        waiting=view.count("waiting"),
        kv_usage=view.number("kv_usage"),
        step_age_ms=view.count("step_age_ms"),
        memory_mib=slot.memory_mib if slot else None,
        lease_ms=max(0, view.lease_ms - now),
        pid=view.count("pid"),
        starts=slot.starts if slot else None,
        why=slot.why if slot else "",
    )


def unregistered(report: NodeReport, slot: WorkerReport) -> WorkerRow:
    """The row of a worker that only its supervisor knows."""
    return WorkerRow(
        worker=slot.worker,
        node=report.node,
        model="",
        state=slot.state.value,
        claims=0,
        running=None,
        waiting=None,
        kv_usage=None,
        step_age_ms=None,
        memory_mib=slot.memory_mib,
        lease_ms=0,
        pid=slot.pid or None,
        starts=slot.starts,
        why=slot.why,
    )


def with_gpu(row: WorkerRow, report: NodeReport | None, slot: WorkerReport | None) -> WorkerRow:
    """The row with the device that its node reports."""
    if report is None or slot is None:
        return row
    gpu = next((device for device in report.devices if device.index == slot.gpu), None)
    return msgspec.structs.replace(row, gpu=gpu, gpu_missing=report.devices_missing)
