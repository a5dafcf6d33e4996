"""What a session benchmark runs on: a data folder, Valkey, SQLite, a tenant, and real gateways and workers.

Everything is a process of its own on loopback, on a leash: nothing outlives the benchmark. The model is a
folder of single-byte tokens: prompts are rendered by it, and answers come from a feeder or a scripted engine.
"""

import asyncio
import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from billing.api import create_key, create_project, create_tenant
from billing.pools import edit_pool, fill_pool
from chaos.bench.targets import free_port
from chaos.figures.figures import progress
from chaos.installation.measure import CpuUsage
from core.configuration.settings import Settings
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.runtime.leash import LeashedProcess, spawn
from core.sql.database import Database, migrate
from engine.api import register_model

MODEL = "bytes"
CONTEXT = 1 << 20
# One address and one key ask for all of a load.
UNLIMITED = {
    "calls_per_address_per_second": 0,
    "sockets_per_address_per_second": 0,
    "silent_sockets_per_address_max": 0,
    "calls_per_caller_per_second": 0,
    "sends_per_caller_per_second": 0,
    "asks_per_caller_per_second": 0,
    "frames_per_connection_per_second": 0,
    "prompt_characters_per_tenant_per_second": 0,
}
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 40.0
LOG_TAIL_CHARACTERS = 2000
LOG_LINES_SHOWN = 5
EOS = "<eos>"
TEMPLATE = (
    "{% for message in messages %}<s>{{ message.role }}\n{{ message.content }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@dataclass
class RunningProcess:
    """One of the platform's processes. `url` is a gateway's, without a path."""

    process: LeashedProcess
    log: Path
    url: str = ""
    profiled: bool = False

    @property
    def usage(self) -> CpuUsage:
        """What it has used so far."""
        return CpuUsage.of(self.process.pid)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    def profile(self, begin: bool) -> None:
        """Begin or end its profile, where it was started with one."""
        if self.profiled:
            os.kill(self.process.pid, signal.SIGUSR1 if begin else signal.SIGUSR2)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL where that takes too long."""
        self.process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@dataclass
class SessionTestbed:
    """One installation with one tenant; its processes are stopped with it."""

    settings: Settings
    tenant: str
    key: str
    fingerprint: str
    stack: AsyncExitStack
    valkey: EmbeddedValkey
    _started: int = field(default=0, init=False)

    async def gateway(self, profile: tuple[str, Path] | None = None, **settings: object) -> RunningProcess:
        """A gateway that answers its health check. `settings` are fields of Settings.

        `profile`: cpu or memory, and the file for it (chaos/bench/session/profiled.py)."""
        port = free_port()
        program = ["chaos.bench.session.profiled", *map(str, profile)] if profile else ["core.cli"]
        running = await self.start(["-m", *program, "gateway"], port=port, **settings)
        running.profiled = profile is not None
        running.url = f"http://127.0.0.1:{port}"
        await answers(running, "/healthz")
        return running

    async def start(self, arguments: Sequence[str], **settings: object) -> RunningProcess:
        """A Python process with this installation's settings, and these on top."""
        self._started += 1
        log = self.settings.home / "logs" / f"{self._started}.log"
        process = await spawn([sys.executable, *arguments], self.environment(**settings), log)
        running = RunningProcess(process, log)
        self.stack.push_async_callback(running.stop)
        return running

    def environment(self, **settings: object) -> dict[str, str]:
        """The environment of a child process: ours without its PARLEY_ settings, plus the installation's."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
        given: dict[str, object] = {
            "home": self.settings.home,
            "model": MODEL,
            "log_format": "json",
            "connections_per_key_max": 1_000_000,
            **UNLIMITED,
            "queue_requests_per_tenant_max": 100_000,
            "queue_requests_max": 100_000,
            **settings,
        }
        return own | {f"PARLEY_{name.upper()}": str(value) for name, value in given.items()}


async def answers(running: RunningProcess, path: str, seconds_max: float = START_SECONDS_MAX) -> None:
    """Wait until the gateway answers 200 on this path. A RuntimeError shows why it ended."""
    deadline = time.monotonic() + seconds_max
    async with httpx.AsyncClient() as client:
        while running.alive and time.monotonic() < deadline:
            try:
                if (await client.get(running.url + path)).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
    raise RuntimeError(f"{path} never answered 200: {running.log.read_text()[-LOG_TAIL_CHARACTERS:]}")


@asynccontextmanager
async def session_testbed(**settings: object) -> AsyncGenerator[SessionTestbed]:
    """A fresh installation, removed at the end. File descriptors are raised to what the system allows."""
    _raise_descriptors()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-"))
        own = Settings.model_validate({"home": Path(folder), "model": MODEL, **settings})
        ensure_home(own)
        own.require_edge()  # what its processes share
        valkey = EmbeddedValkey(own)
        await valkey.start()
        stack.push_async_callback(valkey.stop)
        await migrate(own.database_endpoint)
        database = Database(own.database_endpoint)
        try:
            record = await register_model(database, byte_model(own.home / "models" / MODEL), own)
            await fill_pool(database, own.pool, record.name, record.version, 1)
            tenant = await create_tenant(database, "bench")
            project = await create_project(database, tenant.tenant_id, "load")
            _, key = await create_key(database, tenant.tenant_id, project.id)
        finally:
            await database.close()
        made = SessionTestbed(own, tenant.tenant_id, key, record.fingerprint, stack, valkey)
        try:
            yield made
        except BaseException:
            _complain(own.home / "logs")
            raise


async def serve_model(database: Database, folder: Path, settings: Settings) -> None:
    """Let the installation's pool run the model of a provisioned folder."""
    record = await register_model(database, folder, settings)
    await edit_pool(database, settings.pool, {"model": record.name, "version": record.version})


def _complain(logs: Path) -> None:
    """Show what the processes logged as errors: their folder goes away."""
    for log in sorted(logs.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        wrong = [line for line in lines if '"level": "error"' in line or not line.startswith("{")]
        for line in wrong[-LOG_LINES_SHOWN:]:
            progress(f"{log.name}: {line}")


def byte_model(folder: Path) -> Path:
    """A provisioned model folder whose tokens are single bytes."""
    folder.mkdir()
    tokenizer = Tokenizer(BPE(vocab={_shown(byte): byte for byte in range(256)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True), AddedToken("<s>", special=True)])
    text = tokenizer.to_str()
    manifest = {
        "name": MODEL,
        "version": "1",
        "max_model_len": CONTEXT,
        "sha256": {"tokenizer.json": hashlib.sha256(text.encode()).hexdigest()},
    }
    (folder / "tokenizer.json").write_text(text)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOS}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _shown(byte: int) -> str:
    """GPT-2's printable stand-in for a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte) if byte in plain else chr(256 + [b for b in range(256) if b not in plain].index(byte))


def _raise_descriptors() -> None:
    """As many open files as this system lets us have; children inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
