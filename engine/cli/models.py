"""`parley models`: what models this installation can run."""

import asyncio
from dataclasses import asdict

import click

from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis import redis_errors
from core.redis.client import connect
from core.runtime.embedded import ensure_home
from core.sql.database import Database, migrate, require_schema
from core.sql.store_errors import redis_failure
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.models.provision import prepare, register
from engine.models.registry import ModelRecord, limit_answers, list_models, resolve, route
from engine.queue.client import PoolQueue

FINGERPRINT_CHARACTERS = 12


@click.group()
def command() -> None:
    """The models that requests can name."""


@command.command()
@click.argument("model")
def add(model: str) -> None:
    """Make MODEL ready: smollm2, a folder (config, tokenizer, template, safetensors) or a hub id.

    A hub id is looked up again: where it has a newer commit, that becomes the newest version.
    owner/name@commit is that commit and no other.
    """
    record = asyncio.run(_add(Settings(), model))
    print_line(f"{record.name} {record.version} is ready in {record.folder}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def list_command(as_json: bool) -> None:
    """The newest version of each model."""
    records = asyncio.run(_list(Settings()))
    if as_json:
        for record in records:
            print_json(asdict(record))
        return
    if not records:
        print_line("No model yet: parley models add smollm2")
        return
    table = Table(ruled=True)
    table.columns("name", "version", "fingerprint", "pool", "tokens at most", "folder")
    for record in records:
        fingerprint = record.fingerprint[:FINGERPRINT_CHARACTERS]
        facts = (record.name, record.version, fingerprint, record.pool, f"{record.max_model_len:,}")
        table.row(*facts, str(record.folder))
    print_blocks(table)


@command.command("route")
@click.argument("model")
@click.option("--to", "pool", required=True, help="The pool that new requests go to.")
def route_command(model: str, pool: str) -> None:
    """Send new requests of MODEL to another pool, within two seconds, where a worker must run it already.

    What is in the old pool stays there: `parley requests migrate --all --from-pool OLD --to POOL` moves it.
    `parley up` and `parley models add` route a model back to PARLEY_POOL. Pools that `parley pools create`
    made for the model go first.
    """
    before = asyncio.run(_route(Settings(), model, pool))
    print_line(f"new requests of {model} go to pool {pool}" + (f", no more to {before}" * (before != pool)))


@command.command("answers")
@click.argument("model")
@click.option("--tokens", type=click.IntRange(1), help="By default what PARLEY_ANSWER_TOKENS says.")
def answers_command(model: str, tokens: int | None) -> None:
    """Set how long an answer of MODEL gets whose sender does not say, within two seconds.

    It is the least of this and of what tenant, plan and project have (`parley limits`, dimension
    `answer_tokens`). Who asks for more gets more, up to what the model reads.
    """
    before = asyncio.run(_answers(Settings(), model, tokens))
    said = "the length that PARLEY_ANSWER_TOKENS says" if tokens is None else f"at most {tokens:,} tokens"
    print_line(f"answers of {model} have {said}" + (f", before {before:,}" if before else ""))


async def _answers(settings: Settings, model: str, tokens: int | None) -> int | None:
    db = Database(settings.database_endpoint)
    try:
        await require_schema(db)
        if await resolve(db, model) is None:
            raise StartupError(f"there is no model {model}: see `parley models list`")
        return await limit_answers(db, model, tokens)
    finally:
        await db.close()


async def _route(settings: Settings, model: str, pool: str) -> str:
    db, redis = Database(settings.database_endpoint), connect(settings)
    try:
        await require_schema(db)
        record = await resolve(db, model)
        if record is None:
            raise StartupError(f"there is no model {model}: see `parley models list`")
        workers = await PoolQueue(redis, pool, settings).workers()
        if not any(worker.alive and worker.fingerprint == record.fingerprint for worker in workers):
            missing = f"no worker of pool {pool} runs {model} {record.version}"
            raise StartupError(f"{missing}: start `parley supervisor --pool {pool}`")
        await route(db, model, pool)
        return record.pool
    except (redis_errors.RedisError, OSError) as error:
        raise redis_failure(error, settings) from error
    finally:
        await redis.aclose()
        await db.close()


async def _add(settings: Settings, model: str) -> ModelRecord:
    await asyncio.to_thread(ensure_home, settings)
    await migrate(settings.database_endpoint)
    folder = await prepare(model, settings.home, print_line, refresh=True)
    db = Database(settings.database_endpoint)
    try:
        return await register(db, folder, settings)
    finally:
        await db.close()


async def _list(settings: Settings) -> list[ModelRecord]:
    await asyncio.to_thread(ensure_home, settings)
    await migrate(settings.database_endpoint)
    db = Database(settings.database_endpoint)
    try:
        return await list_models(db)
    finally:
        await db.close()
