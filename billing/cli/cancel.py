"""`--cancel` of the commands that shut somebody out: ends their queued and running requests too."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from billing.audit.log import record_separately
from billing.cli.operations import CommandTerms
from billing.cli.run_command import run_with_redis, tenant_named
from billing.quota.open_requests import OwnerFilter
from core.actions import action
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.sql.database import Database

cancel_option = click.option(
    "--cancel", is_flag=True, help="End what is queued and running too; what was sampled is billed."
)


@dataclass(frozen=True)
class Cancelled:
    """`left`: number of the cancelled requests that have not ended yet."""

    told: int
    left: int


def facts_of(cancelled: Cancelled | None) -> dict[str, Any]:
    """Facts for `show`; None: nothing was to be cancelled."""
    if cancelled is None:
        return {}
    return {"cancelled": cancelled.told} | ({"not_ended_yet": cancelled.left} if cancelled.left else {})


def cancelled_after(how: CommandTerms, cancel: bool, tenant: str, **of: str) -> Cancelled | None:
    """Cancel the requests of a tenant, or `of` its project, key or user, once a command has shut them out;
    None: nothing was to be cancelled."""
    if not cancel or how.dry_run:
        return None

    async def end(db: Database, redis: RedisClient) -> Cancelled:
        owner = (await tenant_named(db, tenant)).tenant_id
        return await cancel_requests(db, redis, OwnerFilter(owner, **of))

    return run_with_redis(end)


async def cancel_requests(db: Database, redis: RedisClient, whose: OwnerFilter) -> Cancelled:
    """Cancel all open requests of an owner, and record it in the audit log."""
    settings = Settings()
    stored = partial(action("running_requests"), db, redis, settings, whose)
    cancelled = Cancelled(*await action("cancel_requests")(redis, settings, whose, stored))
    of = {name: value for name in ("project", "key", "user") if (value := getattr(whose, name))}
    target = next(iter(of.values()), whose.tenant)
    await record_separately(db, whose.tenant, "request.cancel", target, {**of, **facts_of(cancelled)})
    return cancelled
