"""Who is killed on a running platform, and what must be gone and go on after it."""

import os
import signal

import psutil

from tests.support.patience import ENGINE_SECONDS, patience, wait_until
from tests.support.platform import Platform, command_line
from tests.system.wire import wired

TOKENS = 120


def family(process: psutil.Process) -> set[psutil.Process]:
    """A process and all it started."""
    return {process, *process.children(recursive=True)}


def alive(processes: set[psutil.Process]) -> list[str]:
    """The command lines of those that still run."""
    return [command_line(each) for each in processes if _runs(each)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two questions
        return False


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


async def kill_up(platform: Platform) -> None:
    """SIGKILL `parley up` itself: nothing of the platform is left."""
    os.kill(platform.process.pid, signal.SIGKILL)
    await wait_until(lambda: platform.process.poll() is not None)
    await wait_until(lambda: not platform.processes())
