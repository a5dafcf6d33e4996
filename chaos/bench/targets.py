"""What a load can be aimed at: raw AsyncLLM, vLLM's own OpenAI server, Parley over WebSocket.

Each target is started once, stays up beside the others (an idle one costs no core) and runs rounds on
request, so that all are compared in one run on one machine with the same engine arguments.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

from chaos.bench import load
from chaos.bench.crowd import CrowdSetting
from chaos.bench.wire import BenchSocket
from chaos.figures.samples import Sample

START_SECONDS_MAX = 240.0
PORTS = 10_000, 20_000  # tests take theirs from above these
LINE_BYTES_MAX = 64 * 1024 * 1024


class BenchTarget(Protocol):
    """A started target."""

    name: str

    async def run(self, concurrency: int, requests: int, max_tokens: int, first: int) -> list[Sample]:
        """One round."""
        ...

    async def stop(self) -> None:
        """End every process of it."""
        ...


@dataclass(frozen=True)
class EngineArguments:
    """The engine arguments that all targets share."""

    folder: Path
    slots: int
    kv_mib: int
    batched_tokens: int
    max_model_len: int
    long_prefill_tokens: int = 0

    def as_vllm(self) -> dict[str, Any]:
        """Keyword arguments of AsyncEngineArgs."""
        return {
            "max_num_seqs": self.slots,
            "kv_cache_memory_bytes": self.kv_mib << 20,
            "max_num_batched_tokens": self.batched_tokens,
            "max_model_len": self.max_model_len,
            **(
                {"long_prefill_token_threshold": self.long_prefill_tokens} if self.long_prefill_tokens else {}
            ),
            "distributed_executor_backend": "uni",
            "enforce_eager": True,
        }

    def as_flags(self) -> list[str]:
        """The same as command-line flags of vLLM's server."""
        flags: list[str] = []
        for name, value in self.as_vllm().items():
            flags.append("--" + name.replace("_", "-"))
            if value is not True:
                flags.append(str(value))
        return flags


async def _child(*arguments: str, environment: dict[str, str] | None = None, piped: bool = False) -> Any:
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
    pipe = asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=None if os.environ.get("PARLEY_BENCH_LOGS") else asyncio.subprocess.DEVNULL,
        env=os.environ | quiet | (environment or {}),
        limit=LINE_BYTES_MAX,
    )


def free_port() -> int:
    """A loopback port that nobody listens on at this moment, and no outgoing connection takes meanwhile."""
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def _ready(client: httpx.AsyncClient, url: str, process: Any) -> None:
    async with asyncio.timeout(START_SECONDS_MAX):
        while process.returncode is None:
            try:
                if (await client.get(url)).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.25)
    raise RuntimeError(f"{url} never became ready: exit code {process.returncode}")


class RawEngineTarget:
    """AsyncLLM in a process of its own (chaos/bench/raw_engine.py)."""

    name = "raw AsyncLLM"

    def __init__(self, process: Any) -> None:
        self._process = process

    @classmethod
    async def start(cls, arguments: EngineArguments) -> "RawEngineTarget":
        """Start the engine and wait until it is loaded."""
        process = await _child(
            sys.executable,
            "-m",
            "chaos.bench.raw_engine",
            str(arguments.folder),
            json.dumps(arguments.as_vllm()),
            piped=True,
        )
        target = cls(process)
        await target._line()
        return target

    async def _line(self) -> Any:
        while line := await self._process.stdout.readline():
            if line[:1] in (b'"', b"["):  # vLLM prints on stdout, too
                try:
                    return json.loads(line)
                except ValueError:
                    continue
        raise RuntimeError("the raw engine ended; PARLEY_BENCH_LOGS=1 shows why")

    async def run(self, concurrency: int, requests: int, max_tokens: int, first: int) -> list[Sample]:
        """One round inside the engine's process."""
        what = {"concurrency": concurrency, "requests": requests, "max_tokens": max_tokens, "first": first}
        return await self.obey("load", **what)

    async def probed(self, setting: CrowdSetting) -> list[Sample]:
        """Probes beside a crowd, inside the engine's process."""
        return await self.obey("probed", **asdict(setting))

    async def obey(self, command: str, **what: Any) -> list[Sample]:
        """What chaos/bench/raw_engine.py makes of a command."""
        self._process.stdin.write(json.dumps({"command": command, **what}).encode() + b"\n")
        return [
            Sample(started, tuple((at, count) for at, count in arrivals))
            for started, arrivals in await self._line()
        ]

    async def stop(self) -> None:
        """Closing stdin ends it."""
        self._process.stdin.close()
        await self._process.wait()


class OpenAIServer:
    """`python -m vllm.entrypoints.openai.api_server`, read as server-sent events."""

    name = "vLLM OpenAI server"

    def __init__(self, process: Any, port: int, model: str) -> None:
        self._process = process
        self._model = model
        self._client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=120, limits=httpx.Limits(max_connections=None)
        )

    @classmethod
    async def start(cls, arguments: EngineArguments) -> "OpenAIServer":
        """Start the server and wait for its health check."""
        port = free_port()
        process = await _child(
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(arguments.folder)),
            *("--host", "127.0.0.1", "--port", str(port), "--disable-uvicorn-access-log"),
            *arguments.as_flags(),
        )
        target = cls(process, port, str(arguments.folder))
        await _ready(target._client, "/health", process)
        return target

    async def _ask(self, prompt: str, max_tokens: int) -> AsyncIterator[int]:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "stream": True,
            "max_tokens": max_tokens,
            "min_tokens": max_tokens,
            "temperature": 1.0,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        seen = 0
        async with self._client.stream("POST", "/v1/chat/completions", json=body) as reply:
            async for line in reply.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                total = json.loads(line[6:])["usage"]["completion_tokens"]
                yield total - seen
                seen = total

    async def run(self, concurrency: int, requests: int, max_tokens: int, first: int) -> list[Sample]:
        """One round from this process."""
        return await load.run(self._ask, concurrency, requests, max_tokens, first)

    async def stop(self) -> None:
        """SIGTERM, then wait."""
        await self._client.aclose()
        self._process.terminate()
        await self._process.wait()


class ParleyTarget:
    """`parley up` on a home of its own, read over one WebSocket for each 16 callers."""

    name = "Parley WebSocket"

    def __init__(
        self, process: Any, home: tempfile.TemporaryDirectory[str], wires: list[BenchSocket]
    ) -> None:
        self._process = process
        self._home = home
        self._wires = wires

    @classmethod
    async def start(cls, arguments: EngineArguments, connections: int) -> "ParleyTarget":
        """Start the platform, wait for /readyz, connect."""
        home = tempfile.TemporaryDirectory(prefix="parley-")
        port = free_port()
        process = await _child(
            *(sys.executable, "-m", "core.cli", "up", "--model", str(arguments.folder)),
            environment={
                "PARLEY_HOME": home.name,
                "PARLEY_PORT": str(port),
                "PARLEY_CONSOLE_PORT": str(free_port()),
                "PARLEY_WORKER_SLOTS": str(arguments.slots),
                "PARLEY_WORKER_KV_MIB": str(arguments.kv_mib),
                "PARLEY_WORKER_BATCHED_TOKENS": str(arguments.batched_tokens),
                "PARLEY_WORKER_MAX_MODEL_LEN": str(arguments.max_model_len),
            },
        )
        async with httpx.AsyncClient() as client:
            await _ready(client, f"http://127.0.0.1:{port}/readyz", process)
        up = json.loads((Path(home.name) / "up.json").read_text())
        return cls(process, home, [await BenchSocket.open(up["url"], up["key"]) for _ in range(connections)])

    def _ask(self, prompt: str, max_tokens: int) -> AsyncIterator[int]:
        return min(self._wires, key=lambda wire: wire.open_requests).ask(prompt, max_tokens)

    async def run(self, concurrency: int, requests: int, max_tokens: int, first: int) -> list[Sample]:
        """One round from this process."""
        return await load.run(self._ask, concurrency, requests, max_tokens, first)

    async def stop(self) -> None:
        """Close the sockets, SIGTERM, wait, remove the home."""
        for wire in self._wires:
            await wire.close()
        self._process.terminate()
        await self._process.wait()
        self._home.cleanup()
