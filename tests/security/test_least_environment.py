"""What child processes find in their environment: what they need, and of secrets only their own."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from admin.child_processes import ChildProcess
from core.access.processes import BILLER, GATEWAY, OTEL_HEADERS, PROCESSES, SUPERVISOR, WORKER, ProcessKind
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files.secret_files import secret_names
from core.runtime.environment import child_environment
from engine.models.known import record_of
from tests.engine.node.supervised import crew, supervised  # noqa: F401 # pyright: ignore[reportUnusedImport]
from tests.engine.workers import PoolWorkers
from tests.support.patience import finished
from tests.support.redis import Redis

CANARY = "canary-Zq7x"
NEEDED = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "0", "TOKENIZERS_PARALLELISM": "false"}
FOREIGN = {
    "AWS_SECRET_ACCESS_KEY": CANARY,
    "HF_TOKEN": CANARY,
    "VLLM_API_KEY": CANARY,
    "STRIPE_API_KEY": CANARY,
    "DATABASE_URL": CANARY,
}
OURS = {f"PARLEY_{name.upper()}": f"{CANARY} {name}" for name in secret_names(Settings)}
FILES = {f"{name}_FILE": f"/run/{CANARY}" for name in OURS}
BASE = {**NEEDED, **FOREIGN, **OURS, "PARLEY_POOL": "default", "OTEL_EXPORTER_OTLP_HEADERS": CANARY}
SELF = """
import json, os, subprocess, sys
from core.configuration.settings import Settings
from engine.backends.environment import restarted_with
settings = Settings()
restarted_with(settings)
child = subprocess.run(["cat", "/proc/self/environ"], capture_output=True, text=True).stdout
again = Settings()
print(json.dumps([open("/proc/self/environ").read(), child, settings.redis_endpoint, again.redis_endpoint]))
"""


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_each_process_gets_its_own_secrets(process: ProcessKind):
    """By variable and by file; nothing else that looks like one."""
    for given in (BASE, {**NEEDED, **FOREIGN, **FILES, "PARLEY_POOL": "default"}):
        found = child_environment(given, process)
        assert NEEDED.items() <= found.items()
        assert found["PARLEY_POOL"] == "default"
        expected = {f"PARLEY_{name.upper()}" for name in process.secrets if name != OTEL_HEADERS}
        assert {
            name.removesuffix("_FILE") for name, value in found.items() if CANARY in value
        } - expected <= {"OTEL_EXPORTER_OTLP_HEADERS"}
        assert ("OTEL_EXPORTER_OTLP_HEADERS" in found) <= (OTEL_HEADERS in process.secrets)


def test_who_is_no_process_of_ours_gets_no_secret():
    """Valkey, a model's conversion, and an engine."""
    assert not [name for name, value in child_environment(BASE).items() if CANARY in value]


def test_who_needs_what():
    """As docs/hardening.md has it."""
    assert "secret" in GATEWAY.secrets
    for process in (WORKER, SUPERVISOR, BILLER):
        assert not {"secret", "secret_old"} & set(process.secrets)
    assert not {"database_url", "admission_key", "smtp_password"} & set(WORKER.secrets)
    assert {name for each in PROCESSES for name in each.secrets} == {*secret_names(Settings), OTEL_HEADERS}


def test_what_up_starts_gets_no_more(home: Path, monkeypatch: pytest.MonkeyPatch):
    """The biller, beside a gateway's secret."""
    for name, value in BASE.items():
        monkeypatch.setenv(name, value)
    child = ChildProcess(BILLER, ["biller"], home, {}, print)
    assert "PARLEY_SECRET" not in child.environment
    assert "PARLEY_DATABASE_URL" in child.environment


def test_an_engine_finds_no_secret(home: Path):
    """A worker starts itself anew before it loads one: it keeps what it needs to itself, and neither its own
    environment nor that of what it starts has any."""
    environment = {
        **os.environ,
        "PARLEY_HOME": str(home),
        "PARLEY_REDIS_URL": f"redis://:{CANARY}@127.0.0.1:1",
        "PARLEY_SECRET": CANARY * 4,
        "PARLEY_MODEL_RECORD": "what its supervisor told it",
        "AWS_SECRET_ACCESS_KEY": CANARY,
    }
    done = finished([sys.executable, "-c", SELF], env=environment)
    own, child, *endpoints = json.loads(done.stdout)
    assert CANARY not in own + child
    assert "PARLEY_MODEL_RECORD=what its supervisor told it" in own
    assert endpoints == [environment["PARLEY_REDIS_URL"]] * 2


async def test_what_a_supervisor_starts(
    crew: PoolWorkers,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    redis: Redis,
):
    """Real workers have no signing secret and no database: their model is told to them."""
    for name in ("SECRET", "DATABASE_URL", "SMTP_PASSWORD"):
        monkeypatch.setenv(f"PARLEY_{name}", CANARY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    async with supervised(crew, crew.settings, workers=1) as views:
        worker = psutil.Process(int(views[0].info["pid"]))
        family = [worker, *worker.children(recursive=True), *filter(None, [worker.parent()])]
        seen = [process.environ() for process in family if process.pid != os.getpid()]
        assert seen[0]["PARLEY_REDIS_URL"]
        assert not any(CANARY in value for environment in seen for value in environment.values())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": 1}', "[" * 100_000])
def test_a_record_that_is_none_is_told(text: str):
    with pytest.raises(StartupError, match="parley models list --json"):
        record_of(text)
