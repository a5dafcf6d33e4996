"""`python -m chaos bench fuzz-scripts`: anything that a taken-over worker may send to Redis, on a Valkey of
its own: which script is slow or never ends, and which sweep does not go on behind it."""

import asyncio
import importlib
import os
import random
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from redis.exceptions import RedisError, ResponseError
from rich.markup import escape

from chaos.bench.fuzz.plants import POOL, TYPES, Command, Plants
from chaos.bench.fuzz.script_inputs import ScriptInputs
from chaos.bench.fuzz.sweeps import FuzzedSite, broken_by, with_tenants
from chaos.bench.fuzz.values import ROOT
from chaos.figures.figures import Figure, json_option, progress, show
from core.access.processes import WORKER
from core.access.redis_acl import rules, user_name
from core.configuration.settings import Settings
from core.redis.client import RedisClient, connect
from core.redis.redis_connections import connect_url
from core.redis.scripts import Script, known_scripts, load_scripts
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import Database, migrate

SLOW_MS = 50
# Scripts of less than a millisecond are not noted; one that runs for a second makes the server BUSY.
OPTIONS = {"slowlog-log-slower-than": 1_000, "slowlog-max-len": 10_000, "busy-reply-threshold": 1_000}
AT_ONCE = 10  # inputs in one round trip
CROWDED, CROWDS = 0.5, 4  # of batches have keys of 10,000 members, of so many kinds
AGAIN = 2
CANCELLED = 0.2  # of batches are followed by a command that waits for a second or more
SHOWN = 10
PASSWORD = "fuzz"
# Modules that make scripts, beside those that this one imports.
MODULES = (
    "billing.enforcement.take_credit",
    "billing.enforcement.limit_push",
    "billing.dedicated_pools.store",
    "server.connection.connection_limit",
    "server.connection.session_store",
)


@dataclass
class ScriptFindings:
    """What is wrong, by the inputs that show it."""

    inputs: int = 0
    answered: int = 0
    refused: int = 0
    busy: list[str] = field(default_factory=list[str])
    slow: list[str] = field(default_factory=list[str])
    broken: dict[str, str] = field(default_factory=dict[str, str])
    longest_ms: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def wrong(self) -> list[str]:
        """All that is, in words."""
        return [*self.busy, *self.slow, *(f"{what} in batch {seed!r}" for what, seed in self.broken.items())]


@dataclass(frozen=True)
class ScriptRun:
    """What to do. `batch`: calls on one Redis, then the sweeps; `only`: the number of the only batch."""

    seed: str
    inputs: int
    batch: int = 500
    only: int | None = None


class FuzzingWorker:
    """The worker's own user of Redis, and what the server says of the scripts that it runs."""

    def __init__(self, admin: Any, client: RedisClient) -> None:
        self._admin = admin
        self._client = client

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """The replies; an error stands in the place of its reply."""
        return await self._client.all_at_once(commands)

    async def slowest(self) -> dict[str, float]:
        """The longest run of each script in ms, since this was asked last."""
        names = {script.sha: script.name for script in known_scripts()}
        found: dict[str, float] = {}
        for entry in await self._admin.slowlog_get(-1):
            command, sha, *_ = (entry["command"] + b" ").split(b" ", 2)
            if command.upper() == b"EVALSHA" and (name := names.get(sha.decode(errors="replace"))):
                found[name] = max(found.get(name, 0.0), entry["duration"] / 1000)
        await self._admin.slowlog_reset()
        return found


@asynccontextmanager
async def fuzzing_worker(admin: RedisClient, url: str) -> AsyncGenerator[FuzzingWorker]:
    """A worker that was taken over, on a server on which that client may do everything. `url`: unix://."""
    client: Any = admin
    before = await client.config_get(*OPTIONS)
    for option, value in OPTIONS.items():
        await client.config_set(option, value)
    await load_scripts(admin)
    name, allowed = user_name(WORKER, POOL), rules(WORKER, "parley", POOL)
    await client.execute_command("ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *allowed)
    own = connect_url(f"unix://{name}@{url.removeprefix('unix://')}?password={PASSWORD}")
    try:
        yield FuzzingWorker(admin, own)
    finally:
        await own.aclose()
        await client.execute_command("ACL", "DELUSER", name)
        for option, value in before.items():
            await client.config_set(option, value)


async def fuzz_scripts_of(
    site: FuzzedSite, worker: FuzzingWorker, scripts: Sequence[Script[Any, Any]], run: ScriptRun
) -> ScriptFindings:
    """So many calls of each of these, mixed, in batches. Where something was slow the batch is made
    again, since the machine itself may have stopped: what is slow each time counts."""
    found = ScriptFindings()
    calls = [script for script in scripts for _ in range(run.inputs)]
    random.Random(run.seed).shuffle(calls)
    for number, at in enumerate(range(0, len(calls), run.batch)):
        if run.only not in (None, number):
            continue
        progress(f"batch {number} of {len(calls) // run.batch}")
        part = calls[at : at + run.batch]
        slow = await _batch(site, worker, part, f"{run.seed} {number}", found)
        for _ in range(AGAIN):
            if any(ms > SLOW_MS for ms in slow.values()):
                again = await _batch(site, worker, part, f"{run.seed} {number}", ScriptFindings())
                slow = {each: min(ms, again.get(each, 0.0)) for each, ms in slow.items()}
        for name, ms in slow.items():
            found.longest_ms[name] = max(ms, found.longest_ms.get(name, 0.0))
            if ms > SLOW_MS:
                found.slow.append(f"{name} took {ms:.0f} ms in batch {number}")
    return found


async def _batch(
    site: FuzzedSite,
    worker: FuzzingWorker,
    scripts: Sequence[Script[Any, Any]],
    seed: str,
    found: ScriptFindings,
) -> dict[str, float]:
    generator = random.Random(seed)
    plants = Plants(generator)
    inputs = ScriptInputs(generator, plants)
    await site.begin()
    await worker.slowest()
    if generator.random() < CROWDED:
        crowds = [plants.crowd(kind) for kind in generator.sample(sorted(TYPES), k=CROWDS)]
        for commands in [plants.records(), *crowds]:
            await worker.send(commands)
    for at in range(0, len(scripts), AT_ONCE):
        commands: list[Command] = []
        for script in scripts[at : at + AT_ONCE]:
            commands += [*plants.some(), ("EVALSHA", *inputs.of(script))]
        try:
            _count(commands, await worker.send(commands), seed, found)
        except RedisError as error:
            found.busy.append(f"{type(error).__name__} in batch {seed!r}")
            await site.redis.execute_command("SCRIPT", "KILL")
    for broken in await broken_by(site, slow=generator.random() < CANCELLED):
        found.broken.setdefault(broken, seed)
    return await worker.slowest()


def _count(commands: Sequence[Command], replies: Sequence[Any], seed: str, found: ScriptFindings) -> None:
    for command, reply in zip(commands, replies, strict=True):
        if command[0] != "EVALSHA":
            continue
        found.inputs += 1
        if isinstance(reply, ResponseError):
            found.refused += 1
            if str(reply).startswith("BUSY"):
                found.busy.append(f"BUSY in batch {seed!r}")
        else:
            found.answered += 1


@click.command("fuzz-scripts")
@click.option("--inputs", default=2_000, show_default=True, type=click.IntRange(1), help="For each script.")
@click.option("--seed", help="Repeats a run; by default a new one, which is printed.")
@click.option("--script", "only", help="Only the script of this name, such as extend.")
@click.option("--batch", type=click.IntRange(0), help="Only the batch of this number, which a finding names.")
@json_option
def fuzz_scripts(inputs: int, seed: str | None, only: str | None, batch: int | None, as_json: bool) -> None:
    """Do what a taken-over worker may do to Redis: call every script with anything in every argument, and
    plant keys, members and records of every kind by plain commands, some with 10,000 members.

    It has a Valkey and books of its own and the worker's own Redis user. After every 500 calls everything
    that reads there runs: reapers, sweeps, billers, reconciliation, operators' commands. No script may take
    50 ms by Valkey's slow log or make it answer BUSY, no sweep may end in a traceback, what is due has to be
    ended, and a neighbour in another pool has to be served.

    \b
      python -m chaos bench fuzz-scripts --inputs 100
      python -m chaos bench fuzz-scripts --script settle --seed 1f2e3d4c --batch 3
    """
    run = ScriptRun(seed or os.urandom(4).hex(), inputs, only=batch)
    scripts = [script for script in scripts_of_workers() if only in (None, script.name)]
    if not scripts:
        raise click.BadParameter(f"there is no script {only!r}", param_hint="--script")
    progress(f"seed {run.seed}")
    with tempfile.TemporaryDirectory(prefix="parley-fuzz-") as home:
        found = asyncio.run(_run(Path(home), scripts, run))
    for each in found.wrong:
        progress(escape(each))
    figures = figures_of(found, len(scripts))
    title = f"fuzz-scripts, seed {run.seed}, {inputs} inputs a script"
    show(title, figures, as_json, {"seed": run.seed, "wrong": found.wrong, "longest_ms": found.longest_ms})
    raise SystemExit(0 if all(figure.reached is not False for figure in figures) else 1)


def scripts_of_workers() -> list[Script[Any, Any]]:
    """Those that a worker may call: all that are loaded, by name."""
    for module in MODULES:
        importlib.import_module(module)
    ours = [script for script in known_scripts() if ROOT in script.files[0].parents]
    return sorted(ours, key=lambda each: each.name)


def figures_of(found: ScriptFindings, scripts: int) -> list[Figure]:
    """Figures of a run."""
    longest = max(found.longest_ms, key=lambda name: found.longest_ms[name], default="none")
    return [
        Figure("scripts", scripts, ""),
        Figure("calls", found.inputs, ""),
        Figure("calls that a script answered", found.answered, ""),
        Figure("calls that were refused", found.refused, ""),
        Figure("calls that made the server BUSY", len(found.busy), "", most=0),
        Figure(f"longest run of a script: {longest}", found.longest_ms.get(longest, 0.0), "ms", most=SLOW_MS),
        Figure("sweeps that did not go on", len(found.broken), "", most=0),
    ]


async def _run(home: Path, scripts: Sequence[Script[Any, Any]], run: ScriptRun) -> ScriptFindings:
    settings = Settings(home=home)
    ensure_home(settings)
    async with AsyncExitStack() as stack:
        valkey = EmbeddedValkey(settings)
        await valkey.start()
        stack.push_async_callback(valkey.stop)
        await migrate(settings.database_endpoint)
        redis, db = connect(settings), Database(settings.database_endpoint)
        stack.push_async_callback(redis.aclose)
        stack.push_async_callback(db.close)
        await with_tenants(db)
        worker = await stack.enter_async_context(fuzzing_worker(redis, settings.redis_endpoint))
        return await fuzz_scripts_of(FuzzedSite(settings, redis, db), worker, scripts, run)
