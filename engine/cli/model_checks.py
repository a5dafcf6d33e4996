"""What a version of a model has to pass when it is added, each check in a process that may fail or hang.

Each is printed as it passes, with its seconds, and stored with the version. Raises StartupError at the first
that fails: the version is not added.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.environment import child_environment
from core.runtime.leash import spawn
from engine.models.known import RECORD
from engine.models.provision import read_manifest
from engine.models.registry import ModelRecord
from engine.models.vocabulary import load_tokenizer, stop_ids
from engine.node.model_memory import lacking, machine_memory, weights_bytes
from engine.operations.model_facts import ANSWER

TEMPLATE_SECONDS_MAX = 60.0
Tell = Callable[[str], None]
Checks = list[dict[str, Any]]


async def checked(record: ModelRecord, settings: Settings, tell: Tell, *, answers: bool) -> Checks:
    """Check a prepared version. `answers`: also by an answer, where this machine has an engine and room."""
    passed = Checks()

    async def passes(name: str, run: Awaitable[str]) -> None:
        began = time.monotonic()
        try:
            seen = await run
        except StartupError as error:
            raise StartupError(f"{record.name} {record.version} is not added: {name}: {error}") from error
        seconds = round(time.monotonic() - began, 1)
        tell(f"{name}: {seen} ({seconds} s)")
        facts = {"seconds": seconds, "node": settings.node, "at_ms": now_ms()}
        passed.append({"name": name, "seen": seen, **facts})

    await passes("tokenizer", asyncio.to_thread(_tokenizer, record))
    template = ["server.models.template_check", str(record.folder)]
    await passes("template", _template(template, settings))
    if untried := "--no-answer" if not answers else _untried(record, settings):
        tell(f"{ANSWER}: not tried ({untried}): the first worker proves it, before a pool switches to it")
        return passed
    tell(f"{ANSWER}: an engine loads it, at most {settings.worker_start_seconds_max} s")
    await passes(ANSWER, _answer(record, settings))
    return passed


def _tokenizer(record: ModelRecord) -> str:
    tokenizer = load_tokenizer(record.folder)
    stops = len(stop_ids(record.folder, tokenizer))
    return f"{tokenizer.get_vocab_size():,} tokens, {stops} of them end an answer"


async def _template(arguments: list[str], settings: Settings) -> str:
    tokens = await _last_line(arguments, settings, TEMPLATE_SECONDS_MAX, {})
    return f"a small conversation has {tokens} tokens"


async def _answer(record: ModelRecord, settings: Settings) -> str:
    environment = {RECORD: json.dumps(asdict(record), default=str)}
    arguments = ["engine.worker.answer_check"]
    return await _last_line(arguments, settings, settings.worker_start_seconds_max, environment)


def _untried(record: ModelRecord, settings: Settings) -> str:
    """Why this machine cannot answer with a version; empty where it can."""
    if find_spec("vllm") is None:
        return "this machine has no engine"
    size = weights_bytes(read_manifest(record.folder), record.folder)
    return "" if size is None else lacking(size, settings, machine_memory(), now=True)


async def _last_line(
    arguments: list[str], settings: Settings, seconds_max: float, more: Mapping[str, str]
) -> str:
    """Run one of our modules in a leashed child; its last line of output. Raises StartupError where it fails
    or takes too long."""
    log = settings.home / "logs" / "model-check.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    environment = {**child_environment(os.environ), **more}
    child = await spawn([sys.executable, "-m", *arguments], environment, log)
    try:
        async with asyncio.timeout(seconds_max):
            code = await child.wait()
    except TimeoutError as error:
        raise StartupError(f"it takes more than {seconds_max:.0f} s (see {log})") from error
    finally:
        child.kill()
    lines = log.read_text(errors="replace").strip().splitlines() or [f"exit code {code}"]
    if code:
        raise StartupError(f"{lines[-1]} (see {log})")
    return lines[-1]
