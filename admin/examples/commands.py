"""`parley demo`: an installation that one only tries out, filled with examples."""

import asyncio

import click

from admin.examples.seed import Say, SeededExamples, SeedOrder, seed_examples
from admin.examples.tenants import COUNT_MAX
from billing.api import Stores, to_display
from core.api_address import require_local
from core.clock import monotonic
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.sql.database import require_schema
from core.sql.store_errors import store_failure
from core.sql.stores import open_stores
from core.terminal.refused_text import refused_text
from core.terminal.terminal import print_dated_line, print_json, print_line, progress
from core.terminal.terminal_tables import Table, print_blocks


@click.group("demo")
def demo_command() -> None:
    """Examples to look at, for an installation that is only tried out."""


@demo_command.command("seed")
@click.option("--days", default=60, show_default=True, type=click.IntRange(1, 400), help="Up to now.")
@click.option("--tenants", default=8, show_default=True, type=click.IntRange(1, COUNT_MAX))
@click.option(
    "--requests-per-day",
    default=400,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="On an average day, of all tenants together.",
)
@click.option("--seed", default=39, show_default=True, help="The same one draws the same requests.")
@click.option("--yes", is_flag=True, help="Also among tenants of your own.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def seed_command(days: int, tenants: int, requests_per_day: int, seed: int, yes: bool, as_json: bool) -> None:
    """Fill this installation with example tenants and two months of what they used, to try Parley out.

    Run it while `parley up` runs. The tenants (acme, globex, …) get plans, projects, users, keys, limits,
    budgets and wallets as `parley tenants` and the like make them; their requests, which no worker ran and
    which have no texts, are admitted and then booked by the running biller at the installation's prices, so
    that all books agree and months can be closed.

    Tenants and keys are made now, whatever the age of what they used. There is no way to take it back, as
    books only grow: `parley tenants close` shuts one tenant, a fresh PARLEY_HOME is an installation without
    them. So it refuses where there are tenants of your own, and where it was run before.
    """
    require_local("`parley demo`")
    began = monotonic()

    def say(line: str) -> None:
        progress("")
        if not as_json:
            print_dated_line(f"{monotonic() - began:6.1f} s", line)

    seeded = _seeded(SeedOrder(days, tenants, requests_per_day, seed, yes), say)
    if as_json:
        print_json(
            {"days": days, "requests": seeded.requests, "cost_nano": seeded.cost_nano}
            | {"seconds": round(monotonic() - began, 1)}
        )
        return
    table = Table()
    table.columns("tenant")
    table.columns("requests", "cost", right=True)
    for name, requests in seeded.requests.items():
        table.row(name, f"{requests:,}", to_display(seeded.cost_nano[name]))
    print_blocks(table)
    print_line("Look: the console, `parley usage show --tenant acme`, `parley reconcile`")


def _seeded(order: SeedOrder, say: Say) -> SeededExamples:
    settings = Settings()

    async def run() -> SeededExamples:
        async with open_stores(settings) as (db, redis):
            await require_schema(db)
            return await seed_examples(Stores(settings, db, lambda: redis), order, say, progress)

    try:
        return asyncio.run(run())
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused
    except Exception as error:
        why = store_failure(error, settings)
        if why is None:
            raise
        raise why from error
