"""SIGKILL of any process of a running platform: answers go on, and nothing is left behind (INV-17)."""

import os
import signal

import psutil
import pytest

from tests.support.patience import ENGINE_SECONDS, ENGINE_TEST_SECONDS, patience, wait_until
from tests.support.platform import Platform, command_line
from tests.system.wire import wired

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(ENGINE_TEST_SECONDS), pytest.mark.last]
TOKENS = 120


def family(process: psutil.Process) -> set[psutil.Process]:
    """A process and all it started."""
    return {process, *process.children(recursive=True)}


def alive(processes: set[psutil.Process]) -> list[str]:
    """The command lines of those that still run."""
    return [
        command_line(each)
        for each in processes
        if each.is_running() and each.status() != psutil.STATUS_ZOMBIE
    ]


def one(platform: Platform, *words: str) -> psutil.Process:
    """The process itself, not the leash that holds it."""
    found = [each for each in platform.matching(*words) if "leash_main" not in command_line(each)]
    assert len(found) == 1, f"{words}: {[command_line(each) for each in platform.processes()]}"
    return found[0]


async def kill_mid_answer(
    platform: Platform, victim: psutil.Process, expect_dead: set[psutil.Process]
) -> str:
    """SIGKILL `victim` while an answer streams; the answer must complete and `expect_dead` must be gone."""
    async with wired(platform.url, platform.key) as wire:
        reading = await wire.send("Tell a story.", options={"max_tokens": TOKENS, "min_tokens": TOKENS})
        while reading.applied < 12:
            await wire.hear()
        os.kill(victim.pid, signal.SIGKILL)
        await wait_until(lambda: not alive(expect_dead))
        async with patience(ENGINE_SECONDS):
            await wire.finish(reading)
    assert reading.end is not None
    assert reading.end["usage"]["output"] == TOKENS
    assert "moved" in reading.kinds
    return reading.text


async def test_killing_any_process_leaves_no_orphan(platform: Platform):
    """Worker, its leash, the supervisor, then `parley up` itself, one at a time. This is the end of the
    platform that other tests share."""
    worker = one(platform, "engine.main", " worker ")
    await kill_mid_answer(platform, worker, family(worker))

    worker = one(platform, "engine.main", " worker ")
    leash = worker.parent()
    assert leash is not None
    await kill_mid_answer(platform, leash, family(leash))

    supervisor = one(platform, "core.cli", " supervisor ")
    await kill_mid_answer(platform, supervisor, family(supervisor))

    os.kill(platform.process.pid, signal.SIGKILL)
    platform.process.wait()
    await wait_until(lambda: not platform.processes())
