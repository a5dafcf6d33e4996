"""The other side of chaos/bench/session/feeder.py: starts the process and tells it what to write."""

import asyncio
import json
import os
import sys
import time
from typing import Any

from chaos.installation.testbed import SessionTestbed

SLOTS = 32
LINE_BYTES_MAX = 16 << 20
LEAD_SECONDS = 0.3


class Feeder:
    """Workers without an engine, in a process of their own: one for each 32 streams, as real ones have."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.pid = process.pid
        self._process = process

    @classmethod
    async def start(cls, testbed: SessionTestbed, streams: int) -> "Feeder":
        """Start it for so many streams at a time; it ends with the testbed."""
        workers = -(-streams // SLOTS)
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "chaos.bench.session.feeder",
                testbed.fingerprint,
                str(workers),
                str(SLOTS),
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if os.environ.get("PARLEY_BENCH_LOGS") else asyncio.subprocess.DEVNULL,
            env=testbed.environment(),
            limit=LINE_BYTES_MAX,
        )
        feeder = cls(process)
        testbed.stack.push_async_callback(feeder.stop)
        return feeder

    async def claim(self, count: int) -> None:
        """Wait until it holds so many requests."""
        await self._ask("claim", count=count)

    async def write(self, tokens: int, rate: float = 0.0, per_entry: int = 8) -> dict[str, Any]:
        """Write so many tokens to each stream. What was done: tokens, entries, seconds, cpu_seconds."""
        return await self.write_at(time.monotonic() + LEAD_SECONDS, tokens, rate, per_entry)

    async def write_at(self, at: float, tokens: int, rate: float = 0.0, per_entry: int = 8) -> dict[str, Any]:
        """The same, from a moment of the monotonic clock on."""
        return await self._ask("write", at=at, tokens=tokens, rate=rate, per_entry=per_entry)

    async def trickle(self, pause: float) -> dict[str, float]:
        """Write a first token to each stream; by request id the moment just before its append."""
        return dict((await self._ask("trickle", pause=pause))["firsts"])

    async def end(self) -> None:
        """End all streams."""
        await self._ask("end")

    async def stop(self) -> None:
        """SIGTERM ends it, whatever it writes."""
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()

    async def _ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({command: arguments}).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the feeder ended; PARLEY_BENCH_LOGS=1 shows why")
        return json.loads(line)
