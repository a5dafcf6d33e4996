"""`parley requests migrate`: move requests to another pool, or all that a pool has."""

from collections.abc import Sequence

import click

from billing.rendering import CommandTerms, Performer, answered, asks, performed, with_performer
from core.errors import StartupError
from core.terminal.terminal import print_json, print_line
from engine.cli.migration_pages import show_preview
from engine.operations.emptying import watch_migrations
from engine.operations.migrating import (
    MigratedPool,
    MigratePool,
    MigrateRequest,
    migrate_pool,
    migrate_request,
)
from engine.operations.migration_preview import MigrationOutcome

WHOSE = {"tenant": {"help": "The tenant's name or id. Without it, whoever's it is."}}
FROM = {"pool": {"names": ["--from-pool"], "help": "The pool to move from. By default PARLEY_POOL."}}


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every request of the pool, until it has none.")
@asks(migrate_pool, options={**WHOSE, **FROM})
def migrate(ask: MigratePool, how: CommandTerms, ids: tuple[str, ...], everything: bool) -> None:
    """Move the requests IDS, or with --all every one, to another pool.

    They go on there at the token they had reached: readers see a pause, and the answer is billed once. To
    empty a pool, let it take none first (`parley pools drain POOL`), then move what is left with --all.
    Repeating it changes nothing.
    """
    if bool(ids) == everything:
        raise click.UsageError("name requests, or say --all")
    if everything:
        if how.as_json:
            watch_migrations(print_json)
        _show_pool(answered(migrate_pool, ask, how), ask, how)
    else:
        _show_each(with_performer(lambda performer: _moved(performer, ask, ids, how)), how)


async def _moved(
    performer: Performer, ask: MigratePool, ids: Sequence[str], how: CommandTerms
) -> list[MigrationOutcome]:
    asked = [MigrateRequest(request=id, pool=ask.pool, tenant=ask.tenant, to=ask.to) for id in ids]
    return [await performed(migrate_request, performer, each, how) for each in asked]


def _show_each(outcomes: Sequence[MigrationOutcome], how: CommandTerms) -> None:
    for outcome in outcomes:
        where = f"moved from pool {outcome.source} to {outcome.to}"
        if how.dry_run:
            where = f"would be {where}"
        elif not outcome.moved:
            where = f"stays: {outcome.message}"
        if how.as_json:
            print_json(outcome)
        else:
            print_line(f"{outcome.id} {where}")
    if not how.dry_run and not all(outcome.moved for outcome in outcomes):
        raise SystemExit(1)


def _show_pool(result: MigratedPool, ask: MigratePool, how: CommandTerms) -> None:
    """Print what became of a pool, or would. Raises StartupError where it is not empty."""
    if how.dry_run:
        show_preview(result, result.preview, how.as_json)
        return
    if result.newcomers:
        raise StartupError(
            f"{result.moved} are moved, but new ones still come to pool {result.pool}: let it take none "
            f"first (`parley pools drain {result.pool}`)"
        )
    if result.stay:
        first, stay = result.stay[0], f"{len(result.stay)} stay in pool {result.pool}"
        raise StartupError(f"{result.moved} are moved, {stay}: {first.id}: {first.message}")
    if not how.as_json:
        whose = f" of tenant {ask.tenant}" if ask.tenant else ""
        print_line(
            f"pool {result.pool} has no requests{whose} any more: {result.moved} are moved to {result.to}"
        )
