"""`parley models`: what models this installation can run."""

import asyncio

import click
from rich.console import Console
from rich.table import Table

from core.database import Database, migrate
from core.embedded import ensure_home
from core.settings import Settings
from engine.models.provision import prepare, register
from engine.models.registry import ModelRecord, list_models

FINGERPRINT_CHARACTERS = 12


@click.group()
def command() -> None:
    """The models that requests can name."""


@command.command()
@click.argument("model")
def add(model: str) -> None:
    """Make MODEL ready: smollm2, a folder (config, tokenizer, template, safetensors) or a hub id.

    A hub id is looked up again: where it has a newer commit, that becomes the newest version.
    """
    record = asyncio.run(_add(Settings(), model))
    click.echo(f"{record.name} {record.version} is ready in {record.folder}")


@command.command("list")
def list_command() -> None:
    """The newest version of each model."""
    records = asyncio.run(_list(Settings()))
    table = Table("name", "version", "fingerprint", "pool", "tokens at most", "folder")
    for record in records:
        fingerprint = record.fingerprint[:FINGERPRINT_CHARACTERS]
        facts = (record.name, record.version, fingerprint, record.pool, f"{record.max_model_len:,}")
        table.add_row(*facts, str(record.folder))
    Console().print(table if records else "No model yet: parley models add smollm2")


async def _add(settings: Settings, model: str) -> ModelRecord:
    await asyncio.to_thread(ensure_home, settings)
    await migrate(settings.database_endpoint)
    folder = await prepare(model, settings.home, click.echo, refresh=True)
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
