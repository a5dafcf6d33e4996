"""The biller process, and the schema's command. What operators do is in billing/commands."""

import asyncio

import click

from billing.posting import biller
from core import service
from core.database import migrate
from core.printed import say
from core.settings import Settings


@click.command("biller")
def biller_command() -> None:
    """Post the usage of ended requests to the database, each exactly once.

    Reads the pools named by PARLEY_POOL (several: separated by commas). Any number of billers may run.
    """
    service.run(Settings(), "biller", biller.main)


@click.group("db")
def db_command() -> None:
    """The database."""


@db_command.command("migrate")
def migrate_command() -> None:
    """Bring the schema to the newest version.

    The database is PARLEY_DATABASE_URL, by default SQLite under PARLEY_HOME. Safe to run at any time, also by
    several processes at once.
    """
    for line in asyncio.run(migrate(Settings().database_endpoint)):
        say(line)
    say("The database schema is up to date.")
