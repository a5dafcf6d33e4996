"""`parley quarantine`: usage events that are held back until somebody decides on them."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from billing.approvals.one_person import OneDecision
from billing.booking.amount_bounds import AmountBounds
from billing.cli.run_command import iso_time, json_option, run_on_database, show, show_table
from billing.posting import quarantine
from billing.quota.client import Quota
from billing.tables.tenants import UsageQuarantine
from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.database import Database

T = TypeVar("T")

_event = click.argument("event")
_reason = click.option("--reason", required=True, help="Why; kept with the event.")


@click.group("quarantine")
def quarantine_command() -> None:
    """Usage events that cannot be billed as they came: they contradict what was billed, or their own prices,
    or no gateway's admission stands behind them.

    Nothing is billed for them until somebody decides. Prompts and answers are not in them. `it has no
    admission` is also said of an honest request whose input was damaged: look at its tenant, request and
    pool. By `accept` it is billed as the event says, by `dismiss` not at all.
    """


@quarantine_command.command("list")
@click.option("--resolved", is_flag=True, help="What was decided, newest first.")
@json_option
def list_command(resolved: bool, as_json: bool) -> None:
    """The events that wait for a decision, oldest first."""

    held = run_on_database(lambda db: quarantine.held_events(db, resolved))
    show_table([_facts(each) for each in held], as_json, "no event is held back")


@quarantine_command.command("accept")
@_event
@_reason
@json_option
def accept_command(event: str, reason: str, as_json: bool) -> None:
    """Let EVENT count: bill its request, or book the difference to what was billed."""
    show({"event": event, "done": accept_event(event, reason)}, as_json)


@quarantine_command.command("dismiss")
@_event
@_reason
@json_option
def dismiss_command(event: str, reason: str, as_json: bool) -> None:
    """Decide that EVENT does not count."""
    _decided(lambda db, quota: quarantine.dismiss(db, event, reason, quota))
    show({"event": event, "done": "dismissed"}, as_json)


def accept_event(event: str, reason: str) -> str:
    """Accept within the installation's limits of one person; return what was done."""
    limits = OneDecision(AmountBounds.of(Settings()))
    return _decided(lambda db, quota: quarantine.accept(db, event, reason, quota, limits))


def _decided(decide: Callable[[Database, Quota], Coroutine[Any, Any, T]]) -> T:
    """Run a decision with the database and the tenant's keys in Redis."""

    async def with_quota(db: Database) -> T:
        redis = connect(settings)
        try:
            return await decide(db, Quota(redis, settings, db))
        finally:
            await redis.aclose()

    settings = Settings()
    return run_on_database(with_quota, settings)


def _facts(held: UsageQuarantine) -> dict[str, Any]:
    return {
        "event": held.event_sha256,
        "held": iso_time(held.created_ms),
        "reason": held.reason,
        "detail": held.detail,
        "tenant": held.tenant_id,
        "request": held.request_id,
        "pool": held.pool,
        "resolved": iso_time(held.resolved_ms),
        "resolution": held.resolution,
    }
