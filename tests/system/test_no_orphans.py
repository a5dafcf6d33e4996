"""SIGKILL of any process of a running platform: answers go on, and nothing is left behind (INV-17)."""

import os
import signal

import pytest

from tests.support.patience import ENGINE_TEST_SECONDS, wait_until
from tests.support.platform import Platform
from tests.system.killing import alive, family, kill_mid_answer, kill_up, one

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(ENGINE_TEST_SECONDS), pytest.mark.last]


async def test_killing_any_process_leaves_no_orphan(platform: Platform):
    """INV-17: Worker, its leash, the supervisor, then `parley up` itself, one at a time. This is the end of
    the platform that other tests share. That answers go on after a supervisor's death is shown without an
    engine (test_supervisor_death.py): one start of vLLM less."""
    worker = one(platform, "engine.main", " worker ")
    await kill_mid_answer(platform, worker, family(worker))

    worker = one(platform, "engine.main", " worker ")
    leash = worker.parent()
    assert leash is not None
    await kill_mid_answer(platform, leash, family(leash))

    supervisor = one(platform, "core.cli", " supervisor ")
    left = family(supervisor)
    os.kill(supervisor.pid, signal.SIGKILL)
    await wait_until(lambda: not alive(left))

    await kill_up(platform)
