"""The environment of a worker's process: what libraries read from it when they load."""

import sys

from core.configuration.settings import Settings
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


def test_our_setting_of_threads_is_for_workers_and_else_the_operators(settings: Settings):
    """Where nobody says, it is as many as there are cores."""
    three = settings.model_copy(update={"worker_threads": 3})
    for given, base, threads in (
        (three, {}, "3"),
        (three, {"OMP_NUM_THREADS": "5"}, "3"),
        (settings, {"OMP_NUM_THREADS": "5"}, "5"),
        (settings, {}, str(usable_cpus())),
    ):
        assert engine_environment(given, base, cpu=True)["OMP_NUM_THREADS"] == threads


def test_what_the_operator_preloads_is_not_replaced(settings: Settings):
    """Nor is another library told what is for Intel's."""
    made = engine_environment(settings, {"LD_PRELOAD": "/mine.so"}, cpu=True)
    assert (made["LD_PRELOAD"], "KMP_AFFINITY" in made) == ("/mine.so", False)


def test_no_engine_looks_anything_up_at_a_hub(settings: Settings):
    """With or without a GPU; nothing leaves the machine."""
    for cpu in (True, False):
        made = engine_environment(settings, {}, cpu)
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
            assert made[name] == "1", name
