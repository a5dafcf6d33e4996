"""`parley spend refusals`, `spend errors` and `spend pools`: whose limits refused requests, which ended in an
error, and what own pools cost."""

from typing import Any

import click

from billing.cli.operations import CommandTerms, answered, asks
from billing.cli.run_command import show_table
from billing.money import to_display
from billing.operations import spend_errors, spend_pools, spend_refusals
from billing.operations.spend_errors import AskErrors, EndedErrors
from billing.operations.spend_pools import AskOwnPools, OwnPoolFacts
from billing.operations.spend_refusals import AskRefusals, LimitRefusals
from core.operations import flat_facts
from core.terminal.terminal import print_line

HOUR_SECONDS = 3600


@click.command("refusals")
@asks(spend_refusals.show_refusals)
def refusals_command(ask: AskRefusals, how: CommandTerms) -> None:
    """Show who was refused in a month, and by whose limit. A refused request costs nothing."""
    found = answered(spend_refusals.show_refusals, ask, how)
    rows = [flat_facts(each) if how.as_json else _in_words(each) for each in found.limits]
    if not how.as_json:
        print_line(f"{found.refused:,} of {found.requests:,} requests of {found.month}.", err=True)
        if found.more:
            rows.append({"limit": f"{found.more:,} other limits", "refused": found.others})
    show_table(rows, how.as_json, "no limit refused a request")


def _in_words(each: LimitRefusals) -> dict[str, Any]:
    return {
        "code": each.status,
        "limit": each.limit,
        "whose": each.whose.value,
        "refused": each.refused,
        "last": each.last,
    }


@click.command("errors")
@asks(spend_errors.show_errors)
def errors_command(ask: AskErrors, how: CommandTerms) -> None:
    """Show which requests of a month ended in an error, and what they cost.

    What a request used before it failed is billed.
    """
    found = answered(spend_errors.show_errors, ask, how)
    rows = [flat_facts(each) if how.as_json else _error_in_words(each, found.requests) for each in found.ways]
    if not how.as_json:
        print_line(f"{found.errors:,} of {found.requests:,} requests of {found.month}.", err=True)
        if found.more:
            rows.append({"ended": f"{found.more:,} other ways", "requests": found.others})
    show_table(rows, how.as_json, "no request ended in an error")


def _error_in_words(each: EndedErrors, requests: int) -> dict[str, Any]:
    return {
        "ended": each.reason,
        "code": each.code,
        "requests": each.requests,
        "of_all": f"{each.requests / max(1, requests):.2%}",
        "cost": to_display(each.cost.value),
        "last": each.last,
    }


@click.command("pools")
@asks(spend_pools.show_own_pools)
def own_pools_command(ask: AskOwnPools, how: CommandTerms) -> None:
    """Show a tenant's own pools in a month: GPU-hours used and idle, what they cost, waits, commitments."""
    found = answered(spend_pools.show_own_pools, ask, how)
    rows = [flat_facts(each) if how.as_json else _pool_in_words(each) for each in found.pools]
    show_table(rows, how.as_json, "the tenant had no pool of its own")


def _pool_in_words(pool: OwnPoolFacts) -> dict[str, Any]:
    return {
        "pool": pool.pool,
        "ready_hours": round(pool.ready_gpu_seconds / HOUR_SECONDS, 1),
        "idle_hours": round(pool.idle_gpu_seconds / HOUR_SECONDS, 1),
        "used": to_display(pool.used.value),
        "idle": to_display(pool.idle.value),
        "cost": to_display(pool.cost.value),
        "longest_wait_ms": pool.longest_wait_ms,
        "committed_until": max((each.until or "" for each in pool.commitments), default=""),
    }
