"""The environment of a worker's process: what libraries read from it when they load."""

import sys

import pytest

from core.settings import Settings
from engine.backends.environment import engine_environment, usable_cpus
from tests.support.patience import finished

FORKING = """
import os, torch
computed = torch.ones(64, 64) @ torch.ones(64, 64)
if os.fork() == 0:
    computed = torch.ones(512, 512) @ torch.ones(512, 512)
    print(len(os.sched_getaffinity(0)), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.usefixtures("torch_installed")
def test_a_forked_engine_core_may_run_on_every_core(settings: Settings):
    """Two workers on two cores would share the first one else, and leave the other idle."""
    environment = engine_environment(settings, {}, cpu=True)
    command = [sys.executable, "-c", FORKING]
    done = finished(command, env=environment).stdout
    assert int(done) == usable_cpus()


def test_on_a_cpu_nothing_is_compiled(settings: Settings):
    """What torch compiles takes a compiler, and each start on a new machine most of its CPU time. What the
    operator set, stays."""
    assert engine_environment(settings, {}, cpu=True)["TORCHDYNAMO_DISABLE"] == "1"
    assert "TORCHDYNAMO_DISABLE" not in engine_environment(settings, {}, cpu=False)
    asked = {"TORCHDYNAMO_DISABLE": "0"}
    assert engine_environment(settings, asked, cpu=True)["TORCHDYNAMO_DISABLE"] == "0"
