"""`parley users export`, `users erase` and `tenants erase`: shows and erases data on somebody."""

from collections.abc import AsyncGenerator
from shlex import quote
from typing import Any

import click
from sqlmodel import col, select

from billing.audit.log import record_separately
from billing.cli.run_command import json_option, run_with_redis, show, tenant_named
from billing.money import to_display
from billing.quota.client import Quota
from billing.quota.lapsed_requests import release_lapsed
from billing.quota.open_requests import OwnerFilter, open_of
from billing.reconciliation.tenant_keys import look_at_streams
from billing.tables.audit import AuditLog
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.prices import Charge
from billing.tables.refusals import RefusalHour, RefusalMinute
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey, TenantUser
from billing.tables.wallets import BudgetAlert
from billing.tenants import erasure, users
from billing.tenants.tenancy import publish_news
from billing.wallets.wallets import wallet_state
from core.actions import action
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient
from core.redis.pools import announced_pools
from core.sql.database import Database
from core.sql.write_ahead_log import empty_log
from core.terminal.terminal import print_json

LOG_TRIES = 20  # half a second each
STILL_LOGGED = "still has it, as somebody reads the database: gateways empty it with their next deletion"

_user = click.argument("user")
_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")
_yes = click.option("--yes", is_flag=True, help="Do it: nothing brings back what is erased.")


@click.command("export")
@_tenant
@_user
def export_user_command(tenant: str, user: str) -> None:
    """Print everything that is held of USER: JSON, one object a line, each with its `kind`.

    Their keys without secrets, limits, alerts, requests with labels and cost, those that were held back too,
    conversations with all messages, and what administrators did about them. Deleted conversations are in it
    until they are purged.
    """

    async def export(db: Database, _redis: RedisClient) -> None:
        owner = (await tenant_named(db, tenant)).tenant_id
        found = await _user_named(db, owner, user)
        await record_separately(db, owner, "user.export", found.id, None)
        async for line in held_of(db, found):
            print_json(line)

    run_with_redis(export)


@click.command("erase")
@_tenant
@_user
@_yes
@json_option
def erase_user_command(tenant: str, user: str, yes: bool, as_json: bool) -> None:
    """Erase USER, who must be closed: their name, conversations, messages and labels, and their keys.

    What they used stays in the books under an id that is nobody's name. `users export` shows first what is
    held of them.
    """

    async def erase(db: Database, redis: RedisClient) -> dict[str, Any]:
        settings, owner = Settings(), (await tenant_named(db, tenant)).tenant_id
        found = await _user_named(db, owner, user)
        if found.closed_ms is None:
            close = f"parley users close --tenant {quote(tenant)} --cancel -- {quote(user)}"
            raise StartupError(f"close the user first: {close}")
        _confirm(yes)
        await _require_quiet(redis, settings, OwnerFilter(owner, user=found.id))
        id, gone = await erase_known(db, redis, settings, owner, found.id)
        return {"user": id, **_erased(*gone), **await _log(db), **_backups(settings)}

    show(run_with_redis(erase), as_json)


@click.command("erase")
@click.argument("tenant")
@_yes
@json_option
def erase_tenant_command(tenant: str, yes: bool, as_json: bool) -> None:
    """Erase TENANT (name or id), which must be closed: all conversations, messages, labels, names, keys and
    alert targets.

    Its books stay, with amounts and ids, and so does money left in its wallet, which is told. Nothing brings
    the rest back.
    """

    async def erase(db: Database, redis: RedisClient) -> dict[str, Any]:
        settings, found = Settings(), await tenant_named(db, tenant)
        if found.closed_ms is None:
            raise StartupError(f"close the tenant first: parley tenants close {quote(tenant)} --cancel")
        _confirm(yes)
        await _require_quiet(redis, settings, OwnerFilter(found.tenant_id))
        gone = await action("erase_texts")(db, redis, settings, found.tenant_id, None)
        count = await erasure.erase_tenant(db, found.tenant_id)
        await publish_news(redis, found.tenant_id)
        return {"tenant": found.tenant_id, "users": count} | {
            **_erased(*gone),
            **await wallet_facts(db, found.tenant_id, as_json),
            **await _log(db),
            **_backups(settings),
        }

    show(run_with_redis(erase), as_json)


async def wallet_facts(db: Database, tenant_id: str, as_json: bool) -> dict[str, Any]:
    """What is left of a tenant's prepaid money, for who erases it; nothing where nothing is."""
    state = await wallet_state(db, tenant_id, now_ms())
    return left_facts(0 if state is None else state.limit_nano - state.posted_nano, as_json)


def left_facts(left_nano: int, as_json: bool) -> dict[str, Any]:
    """An amount that is left in a wallet; nothing where nothing is. Pure."""
    if left_nano <= 0:
        return {}
    if as_json:
        return {"wallet_left_nano": left_nano}
    return {"wallet_left": f"{to_display(left_nano)}: `parley wallets pay-out` books what you pay back of it"}


async def erase_known(
    db: Database, redis: RedisClient, settings: Settings, tenant: str, user: str
) -> tuple[str, tuple[int, int]]:
    """Erase a closed user; return the id that stays, and the result of `erase_texts`. Their old id is removed
    from Redis first: afterwards no table has it, so nobody could repeat that."""
    gone = await action("erase_texts")(db, redis, settings, tenant, user)
    quota = Quota(redis, settings, db)
    await quota.forget_user(tenant, user)
    id = await erasure.erase_user(db, tenant, user)
    await quota.reseed(tenant)
    await publish_news(redis, tenant)
    return id, gone


async def held_of(db: Database, user: TenantUser) -> AsyncGenerator[dict[str, Any]]:
    """Everything that is stored about a user, each thing with its kind."""
    yield {"kind": "user", **user.model_dump(exclude={"tenant_id"})}
    for kind, table, which in (
        ("key", ApiKey, col(ApiKey.user_id) == user.id),
        ("limit", QuotaPolicy, (col(QuotaPolicy.scope) == "user") & (col(QuotaPolicy.scope_id) == user.id)),
        ("budget", Budget, (col(Budget.scope) == "user") & (col(Budget.scope_id) == user.id)),
        ("alert", BudgetAlert, (col(BudgetAlert.scope) == "user") & (col(BudgetAlert.scope_id) == user.id)),
        ("charge", Charge, col(Charge.user_id) == user.id),
        ("session", BrowserSession, col(BrowserSession.user_id) == user.id),
        ("refused", RefusalMinute, col(RefusalMinute.user_id) == user.id),
        ("refused_by_limit", RefusalHour, col(RefusalHour.user_id) == user.id),
        ("audit", AuditLog, (col(AuditLog.target) == user.id) | (col(AuditLog.author) == user.id)),
    ):
        async with db.session() as session:
            rows = (await session.exec(select(table).where(which, table.tenant_id == user.tenant_id))).all()
        for row in rows:
            yield {"kind": kind, **row.model_dump(exclude={"tenant_id", "secret_sha256", "token_sha256"})}
    async for page in erasure.requests_of(db, user.tenant_id, user.id):
        for request in page:
            yield {"kind": "request", **request.model_dump(exclude={"tenant_id"})}
    async for event in erasure.held_events_of(db, user.tenant_id, user.id):
        labels = event.owner.metadata.decode("utf-8", "replace")
        yield {"kind": "held", "request": event.request, "accepted_ms": event.accepted_ms, "labels": labels}
    async for words in action("texts_of")(db, user.tenant_id, user.id):
        yield words


async def _user_named(db: Database, tenant: str, user: str) -> TenantUser:
    found = await users.user_named(db, tenant, user)
    if found is None:
        raise StartupError(f"there is no user {user!r}: see `parley users list --tenant {quote(tenant)}`")
    return found


async def _require_quiet(redis: RedisClient, settings: Settings, whose: OwnerFilter) -> None:
    """Raises StartupError while requests run or usage is not booked: it would be booked with labels after the
    erasure."""
    await release_lapsed(Quota(redis, settings), settings, whose.tenant)
    if left := len(await open_of(redis, whose)):
        raise StartupError(f"{left} requests of theirs are not over yet: close with --cancel, then try again")
    if (await look_at_streams(redis, await announced_pools(redis, settings))).unread:
        raise StartupError("usage is on its way into the books: try again in a moment, while a biller runs")


def _confirm(yes: bool) -> None:
    if not yes:
        raise StartupError("nothing brings back what is erased: say --yes")


def _erased(conversations: int, messages: int) -> dict[str, Any]:
    return {"conversations": conversations, "messages_of_others": messages}


async def _log(db: Database) -> dict[str, Any]:
    """Empties SQLite's log; says so where somebody reads what is in it."""
    if await empty_log(db, LOG_TRIES):
        return {}
    return {"write_ahead_log": STILL_LOGGED}


def _backups(settings: Settings) -> dict[str, Any]:
    days = settings.backups_kept_days
    said = "how long yours last is not said (PARLEY_BACKUPS_KEPT_DAYS)"
    return {"backups": said if days is None else f"hold it for {days} days more"}
