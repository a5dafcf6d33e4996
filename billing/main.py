"""Commands of the biller process and of the schema. Operators' commands are in billing/cli."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from billing.posting import biller
from core.access.access_folder import POSTGRES_URLS, access_folder, password_in, url_option
from core.access.database_roles import password_statements, role_names, statements
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime import service
from core.sql.database import MIGRATION_LOCK, Database, database_url, migrate
from core.sql.store_errors import database_failure
from core.terminal.terminal import print_line, print_lines


@click.command("biller")
def biller_command() -> None:
    """Post the usage of ended requests to the database, each exactly once.

    Reads the pools named by PARLEY_POOL (several: separated by commas). Any number of billers may run.
    """
    service.run(Settings(), "biller", biller.main)


@click.group("db")
def db_command() -> None:
    """The database."""


@db_command.command("roles")
@click.option("--folder", type=click.Path(path_type=Path), help="By default PARLEY_HOME/access.")
@click.option(
    "--url",
    callback=url_option(POSTGRES_URLS, "postgresql://host:5432/parley"),
    help="Where Postgres is, as postgresql://host/parley: <role>.url then has it whole.",
)
@click.option("--apply", "at_once", is_flag=True, help="Run it, as the owner of the tables.")
def roles_command(folder: Path | None, url: str | None, at_once: bool) -> None:
    """Postgres roles: one for each kind of process, with the tables it reads and writes.

    Prints the SQL without passwords, or runs it. The folder has a password for each, made once (mode 0600).
    Run it again after each `parley db migrate`. docs/hardening.md goes through it.
    """
    settings = Settings()
    folder = access_folder(settings, folder)
    if settings.database_endpoint.startswith("sqlite") and (at_once or not url):
        by_url = "" if at_once else ", or by --url"
        raise StartupError(f"SQLite knows no roles: name Postgres in PARLEY_DATABASE_URL{by_url}")
    name = (make_url(url) if url else database_url(settings.database_endpoint)).database or "parley"
    of = {role: password_in(folder, role, url) for role in role_names()}
    if not at_once:
        print_lines(";\n".join(["BEGIN", *statements(name), "COMMIT", ""]))
        made = f"run this as the tables' owner, and ALTER ROLE … PASSWORD with each {folder}/<role>.password"
    else:
        asyncio.run(_apply(settings, of))
        print_line(f"{len(of)} roles have what core/access/tables.py declares")
        made = f"passwords are in {folder}/<role>.password"
    then = f"PARLEY_DATABASE_URL_FILE={folder}/parley_gateway.url, and so on" if url else "--url makes URLs"
    print_line(f"next: {made}; each process comes in as its role: {then}", err=not at_once)


async def _apply(settings: Settings, passwords: Mapping[str, str]) -> None:
    db = Database(settings.database_endpoint)
    try:
        async with db.engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": MIGRATION_LOCK})
            name = (await connection.execute(text("SELECT current_database()"))).scalar_one()
            for statement in (*statements(name), *password_statements(passwords)):
                await connection.exec_driver_sql(statement)
    except (SQLAlchemyError, OSError) as error:
        raise StartupError(f"roles not made: {database_failure(error)}") from error
    finally:
        await db.close()


@db_command.command("migrate")
def migrate_command() -> None:
    """Bring the schema to the newest version.

    The database is PARLEY_DATABASE_URL, by default SQLite under PARLEY_HOME. Safe to run at any time, also by
    several processes at once.
    """
    asyncio.run(migrate(Settings().database_endpoint))
    print_line("The database schema is up to date.")
