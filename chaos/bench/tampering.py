"""Whether edits of a database past the commands are found by the verification that operators run."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
from sqlalchemy import text

from billing.usage import ENDED_FIELD, ended_stream
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.tampering.edits import EDITS
from chaos.tampering.filling import Type, fill, typing
from chaos.tampering.trying import Tried, Typed, tried
from core.configuration.settings import Settings
from core.redis.client import connect
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.runtime.leash import spawn
from core.sql.database import Database, migrate

SECRET = "bench" * 8
BOOK_SECONDS_MAX = 60.0
KINDS_LEAST = 40


@click.command()
@json_option
def tampering(as_json: bool) -> None:
    """Every kind of single edit in a copy of a filled database (SQLite), each verified by `audit verify`.

    Two tenants with prices, tiers, terms, limits, budgets, grants, commitments, corrections and a closed
    month are made by commands, and their requests booked by a biller. One line a kind: found, with what was
    said, or missed. Exit code 1 where one is missed.
    """
    began = time.monotonic()
    results = asyncio.run(_tried())
    missed = [each for each in results if not each.found]
    for each in results:
        click.echo(f"{'found ' if each.found else 'MISSED'}  {each.name}: {each.fault}", err=as_json)
    figures = _figures(results, time.monotonic() - began)
    show("tampering", figures, as_json, {"missed": [each.name for each in missed]})
    if missed:
        sys.exit(1)


def _figures(results: Sequence[Tried], seconds: float) -> list[Figure]:
    return [
        Figure("kinds of edit", len(results), "", least=KINDS_LEAST),
        Figure("missed", sum(not each.found for each in results), "", most=0),
        Figure("all, with filling", round(seconds, 1), "s"),
    ]


async def _tried() -> list[Tried]:
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-tampering-")))
        settings = Settings.model_validate({"home": home, "secret": SECRET})
        ensure_home(settings)
        await migrate(settings.database_endpoint)
        valkey = EmbeddedValkey(settings)
        await valkey.start()
        stack.push_async_callback(valkey.stop)
        environment = {
            "PARLEY_HOME": str(home),
            "PARLEY_DATABASE_URL": settings.database_endpoint,
            "PARLEY_REDIS_URL": settings.redis_endpoint,
            "PARLEY_SECRET": SECRET,
        }
        type_line = typing(environment)
        ids = await _filled(settings, type_line, environment)
        return await asyncio.to_thread(_try_all, home, type_line, ids)


async def _filled(settings: Settings, type_line: Type, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Beside a biller, which is gone in the end: nobody else writes the copies."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    command = [sys.executable, "-m", "core.cli", "biller"]
    biller = await spawn(command, {**inherited, **environment}, settings.home / "biller.log")

    def book(events: Sequence[bytes]) -> None:
        asyncio.run(_booked(settings, events))

    try:
        return await asyncio.to_thread(fill, settings.home, type_line, book, SECRET)
    finally:
        biller.terminate()
        await biller.wait()


async def _booked(settings: Settings, events: Sequence[bytes]) -> None:
    """Once the biller has posted them."""
    redis, database = connect(settings), Database(settings.database_endpoint)
    try:
        wanted = await _requests(database) + len(events)
        for event in events:
            await redis.xadd(ended_stream(settings.pool), {ENDED_FIELD: event})
        async with asyncio.timeout(BOOK_SECONDS_MAX):
            while await _requests(database) < wanted:  # noqa: ASYNC110  (nothing says when)
                await asyncio.sleep(0.05)
    finally:
        await database.close()
        await redis.aclose()


async def _requests(database: Database) -> int:
    async with database.engine.connect() as connection:
        return int((await connection.execute(text("SELECT count(*) FROM usage_event"))).scalar_one())


def _try_all(home: Path, type_line: Type, ids: Mapping[str, str]) -> list[Tried]:
    results: list[Tried] = []
    for each in tried(home / "parley.db", Typed(home, type_line), EDITS, ids):
        results.append(each)
        progress(f"{len(results)} of {len(EDITS)} kinds")
    return results
