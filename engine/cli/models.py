"""`parley models`: what models this installation can run."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from billing.pools import read_pools
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.embedded import ensure_home
from core.sql.database import Database, migrate, require_schema
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.formatting import NOTHING
from engine.models.provision import prepare, register
from engine.models.registry import ModelRecord, limit_answers, list_models, resolve

FINGERPRINT_CHARACTERS = 12


@dataclass(frozen=True)
class ListedModel:
    """A model, and the names of the pools that serve it, in order."""

    record: ModelRecord
    pools: tuple[str, ...]


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
    added = asyncio.run(_add(Settings(), model))
    print_line(f"{added.record.name} {added.record.version} is ready in {added.record.folder}")
    _say_unserved([added])


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def list_command(as_json: bool) -> None:
    """The newest version of each model, and the pools that serve it, each in a version of its own."""
    models = asyncio.run(_list(Settings()))
    if as_json:
        for each in models:
            print_json(asdict(each.record) | {"pools": each.pools})
        return
    if not models:
        print_line("No model yet: parley models add smollm2")
        return
    table = Table(ruled=True)
    table.columns("name", "version", "fingerprint", "pools", "tokens at most", "folder")
    for each in models:
        record, pools = each.record, ", ".join(each.pools) or NOTHING
        fingerprint = record.fingerprint[:FINGERPRINT_CHARACTERS]
        facts = (record.name, record.version, fingerprint, pools, f"{record.max_model_len:,}")
        table.row(*facts, str(record.folder))
    print_blocks(table)
    _say_unserved(models)


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


def _say_unserved(models: Sequence[ListedModel]) -> None:
    for each in models:
        if not each.pools:
            create = f"parley pools create POOL --model {each.record.name}"
            print_line(f"no pool serves {each.record.name}, so its requests are refused: {create}")


async def _add(settings: Settings, model: str) -> ListedModel:
    await asyncio.to_thread(ensure_home, settings)
    await migrate(settings.database_endpoint)
    folder = await prepare(model, settings.home, print_line, refresh=True)
    db = Database(settings.database_endpoint)
    try:
        return (await _with_pools(db, [await register(db, folder, settings)]))[0]
    finally:
        await db.close()


async def _list(settings: Settings) -> list[ListedModel]:
    await asyncio.to_thread(ensure_home, settings)
    await migrate(settings.database_endpoint)
    db = Database(settings.database_endpoint)
    try:
        return await _with_pools(db, await list_models(db))
    finally:
        await db.close()


async def _with_pools(db: Database, records: Sequence[ModelRecord]) -> list[ListedModel]:
    pools = await read_pools(db)
    return [
        ListedModel(each, tuple(row.pool for row in pools if row.model == each.name and not row.draining))
        for each in records
    ]
