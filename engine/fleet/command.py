"""The command `parley fleet`."""

import asyncio

import click

from core.configuration.settings import Settings
from core.runtime import service
from core.sql.database import require_schema
from core.sql.stores import open_stores
from core.web.metrics import FLEET_PLACE, serving_metrics
from engine.fleet.controller import FleetController
from engine.fleet.local_hands import LocalHands


@click.command("fleet")
@click.option("--one-user", is_flag=True, hidden=True, help="Supervisors come in to Redis as this process.")
def command(one_user: bool) -> None:
    """Keep each pool at the number of workers that it should have, on this machine.

    It runs a supervisor for each pool in the database, and logs why a pool is not as it should be. Of
    several one acts; the others wait.
    """

    async def main(settings: Settings, stop: asyncio.Event) -> None:
        await run(settings, stop, one_user)

    service.run(Settings(), "fleet", main)


async def run(settings: Settings, stop: asyncio.Event, one_user: bool) -> None:
    """Run until `stop`. Raises StartupError where the database is not migrated."""
    async with open_stores(settings) as (db, redis):
        await require_schema(db)
        with serving_metrics(settings, FLEET_PLACE, lambda: ""):
            await FleetController(settings, db, LocalHands(settings, db, redis, one_user)).run(stop)
