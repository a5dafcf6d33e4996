"""Memory that a version of a model needs to run, estimated from its weights, and what this machine has."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from core.configuration.settings import Settings
from engine.gpus import Devices

MIB = 1 << 20
ENGINE_MIB = 1_000  # a process with torch and vLLM, and what a step computes: less is never enough
WEIGHTS = ".safetensors"


@dataclass(frozen=True)
class MachineMemory:
    """Memory where one worker's model lies: of the largest GPU, without one the machine's."""

    total_mib: int
    free_mib: int
    gpu: bool


def machine_memory() -> MachineMemory:
    """This machine's, now."""
    try:
        read = Devices.open().read()
        sizes = [(each.memory_total_mib or 0, each.memory_used_mib or 0) for each in read]
    except OSError:
        sizes = []
    if sizes and (largest := max(sizes))[0]:
        return MachineMemory(largest[0], largest[0] - largest[1], True)
    memory = psutil.virtual_memory()
    return MachineMemory(memory.total // MIB, memory.available // MIB, False)


def weights_bytes(manifest: Mapping[str, Any], folder: Path) -> int | None:
    """Size of a version's weights: as its manifest has it, else of its files here; None: not known here."""
    sizes: Mapping[str, int] = manifest.get("bytes", {})
    known = [size for name, size in sizes.items() if name.endswith(WEIGHTS)]
    if not known:
        try:
            known = [each.stat().st_size for each in folder.glob(f"*{WEIGHTS}")]
        except OSError:
            return None
    return sum(known) or None


def needed_mib(weights: int, settings: Settings, machine: MachineMemory) -> int:
    """Memory that a worker needs at least: weights, the engine, and on a CPU its cache of keys and values,
    which on a GPU takes what is left. Pure."""
    cache = 0 if machine.gpu else settings.worker_kv_mib
    return -(-weights // MIB) + ENGINE_MIB + cache


def lacking(weights: int, settings: Settings, machine: MachineMemory, *, now: bool = False) -> str:
    """Why this machine cannot hold a worker of a version, however empty it is, or with what is free `now`;
    empty where it can. Pure."""
    needs, has = needed_mib(weights, settings, machine), machine.free_mib if now else machine.total_mib
    if needs <= has:
        return ""
    whose = "the largest GPU" if machine.gpu else "this machine"
    state = "free" if now else "in all"
    cache = "" if machine.gpu else f", {settings.worker_kv_mib:,} of them PARLEY_WORKER_KV_MIB"
    return (
        f"a worker needs about {needs:,} MiB ({-(-weights // MIB):,} of weights{cache}), "
        f"and {whose} has {has:,} MiB {state}"
    )
