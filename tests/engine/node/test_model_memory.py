"""Memory that a version needs, by its weights, beside what this machine has."""

from pathlib import Path

import pytest

from core.configuration.settings import Settings
from engine.node.model_memory import (
    ENGINE_MIB,
    MachineMemory,
    lacking,
    machine_memory,
    needed_mib,
    weights_bytes,
)

MIB = 1 << 20
SETTINGS = Settings(worker_kv_mib=512)


@pytest.mark.parametrize(("gpu", "cache"), [(False, 512), (True, 0)])
def test_a_worker_needs_weights_and_engine_and_on_a_cpu_its_cache(gpu: bool, cache: int):
    """To the MiB; one less does not hold it, and both numbers are said."""
    needs = 1_000 + ENGINE_MIB + cache
    enough = MachineMemory(needs, needs, gpu)
    assert needed_mib(1_000 * MIB, SETTINGS, enough) == needs
    assert lacking(1_000 * MIB, SETTINGS, enough) == ""
    told = lacking(1_000 * MIB + 1, SETTINGS, enough)
    assert f"about {needs + 1:,} MiB (1,001 of weights" in told
    assert f"has {needs:,} MiB in all" in told
    assert ("PARLEY_WORKER_KV_MIB" in told) is not gpu


def test_what_is_free_now_may_be_less_than_there_is():
    """A version may fit a machine, and not beside what runs there."""
    machine = MachineMemory(100_000, 1_000, gpu=False)
    assert lacking(MIB, SETTINGS, machine) == ""
    assert lacking(MIB, SETTINGS, machine, now=True).endswith("this machine has 1,000 MiB free")


def test_the_size_of_weights_is_the_manifests_or_the_folders(tmp_path: Path):
    """None where neither is here."""
    assert weights_bytes({}, tmp_path / "none") is None
    (tmp_path / "model.safetensors").write_bytes(b"12345")
    assert weights_bytes({}, tmp_path) == 5
    sizes = {"a.safetensors": 7, "b.safetensors": 8, "config.json": 9}
    assert weights_bytes({"bytes": sizes}, tmp_path) == 15


def test_this_machine_has_some():
    """More in all than is free."""
    machine = machine_memory()
    assert 0 < machine.free_mib <= machine.total_mib
