"""`parley alerts`: targets of budget and wallet alerts, and the state of their messages."""

from collections.abc import Mapping
from typing import Any

import click

from billing.alerts import targets
from billing.alerts.messages import summary
from billing.alerts.user_names import with_names
from billing.audit.log import record_separately
from billing.budgets.thresholds import EMAIL, WALLET_SCOPE, WEBHOOK
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    show,
    show_table,
    tenant_named,
    with_user_names,
)
from billing.money import to_display
from billing.tables.tenants import PLATFORM
from billing.tables.wallets import AlertTarget, BudgetAlert, Outbox
from core.actor import current_author
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database


@click.group("alerts")
def alerts_command() -> None:
    """Alerts: thresholds of budgets that were reached, and wallets that are low, each told once.

    A webhook is a POST of JSON with the headers `Parley-Message-Id`, the same for a repetition, and
    `Parley-Signature: t=<Unix seconds>,v1=<hex>`: v1 is the HMAC-SHA256, under the target's secret, of the
    time, a point and the body as it came. Refuse what is older than five minutes. Mail needs
    PARLEY_SMTP_HOST; until then it waits.

    \b
        parley alerts targets add --tenant acme --webhook https://example.com/parley
        parley alerts targets add --tenant acme --email ops@example.com
        parley alerts test --tenant acme TARGET
    """


_tenant = click.option("--tenant", help="The tenant's name or id.")
_platform = click.option("--platform", is_flag=True, help="The operators' own, instead of a tenant's.")


async def _owner(db: Database, tenant: str | None, platform: bool) -> str:
    if platform == (tenant is not None):
        raise StartupError("give --tenant or --platform")
    return PLATFORM if tenant is None else (await tenant_named(db, tenant)).tenant_id


@alerts_command.group("targets")
def targets_command() -> None:
    """Targets of a tenant's alerts, or with --platform of the operators': each alert goes to all of them."""


@targets_command.command("add")
@_tenant
@_platform
@click.option("--webhook", help="An https:// URL of the public internet.")
@click.option("--email", help="A mail address.")
@json_option
def add_command(
    tenant: str | None, platform: bool, webhook: str | None, email: str | None, as_json: bool
) -> None:
    """Add a target. A webhook's secret is shown once: it proves that a message is ours."""
    if (webhook is None) == (email is None):
        raise StartupError("give --webhook or --email")
    settings = Settings()

    async def add(db: Database) -> AlertTarget:
        owner = await _owner(db, tenant, platform)
        kind, address = (WEBHOOK, webhook) if webhook is not None else (EMAIL, email or "")
        return await targets.add_target(
            db,
            owner,
            kind,
            address,
            private=settings.alert_private_targets,
            author=current_author().name,
        )

    row = run_on_database(add, settings)
    show({**_target(row), "secret": row.secret}, as_json)


@targets_command.command("list")
@_tenant
@_platform
@json_option
def list_targets_command(tenant: str | None, platform: bool, as_json: bool) -> None:
    """List a tenant's targets."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = await _owner(db, tenant, platform)
        return [_target(row) for row in await targets.list_targets(db, owner)]

    show_table(run_on_database(read), as_json, "no target: see `parley alerts targets add --help`")


@targets_command.command("remove")
@_tenant
@_platform
@click.argument("target")
@json_option
def remove_command(tenant: str | None, platform: bool, target: str, as_json: bool) -> None:
    """Remove TARGET (its id): what was not sent to it will not be."""

    async def remove(db: Database) -> AlertTarget | None:
        owner = await _owner(db, tenant, platform)
        return await targets.remove_target(db, owner, target)

    row = run_on_database(remove)
    if row is None:
        raise StartupError(f"there is no target {target!r}: see `parley alerts targets list`")
    show({**_target(row), "done": "removed"}, as_json)


@alerts_command.command("list")
@_tenant
@_platform
@click.option("--messages", is_flag=True, help="What became of each message, instead of what was reached.")
@json_option
def list_command(tenant: str | None, platform: bool, messages: bool, as_json: bool) -> None:
    """The thresholds that were reached, newest first; or the messages of them."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = await _owner(db, tenant, platform)
        if messages:
            found = await targets.list_messages(db, owner)
            return [_message(row, await with_names(db, owner, row.payload)) for row in found]
        reached = [_alert(row, as_json) for row in await targets.list_alerts(db, owner)]
        return await with_user_names(db, owner, reached, "of")

    show_table(run_on_database(read), as_json, "no message" if messages else "no threshold was reached")


@alerts_command.command("retry")
@_tenant
@_platform
@click.argument("message", required=False)
@json_option
def retry_command(tenant: str | None, platform: bool, message: str | None, as_json: bool) -> None:
    """Send MESSAGE (its id) again now, or all that were given up, under the ids that they have."""

    async def again(db: Database) -> int:
        owner = await _owner(db, tenant, platform)
        number = await targets.retry(db, owner, message)
        if number:
            await record_separately(db, owner, "alert.retry", message or owner, {"messages": number})
        return number

    number = run_on_database(again)
    if message is not None and not number:
        raise StartupError(f"there is no message {message!r} to send: it was sent, or is being sent now")
    show({"to_send": number}, as_json)


@alerts_command.command("test")
@_tenant
@_platform
@click.argument("target")
@json_option
def test_command(tenant: str | None, platform: bool, target: str, as_json: bool) -> None:
    """Send a test to TARGET (its id), by the biller; `parley alerts list --messages` says how it went."""

    async def send(db: Database) -> Outbox:
        owner = await _owner(db, tenant, platform)
        sent = await targets.send_test(db, owner, target)
        await record_separately(db, owner, "alert.test", target, {"message": sent.id})
        return sent

    sent = run_on_database(send)
    show(_message(sent, sent.payload), as_json)


def _target(row: AlertTarget) -> dict[str, Any]:
    return {
        "target": row.id,
        "kind": row.kind,
        "address": row.address,
        "author": row.author,
        "added": iso_time(row.created_ms),
    }


def _message(row: Outbox, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "message": row.id,
        "target": row.target_id,
        "about": summary(payload),
        "state": row.state,
        "attempts": row.attempts,
        "next_attempt": iso_time(row.next_attempt_ms) if row.state == "waiting" else None,
        "ended": iso_time(row.ended_ms),
        "last_error": row.last_error,
        "made": iso_time(row.created_ms),
    }


def _alert(row: BudgetAlert, as_json: bool) -> dict[str, Any]:
    amounts: dict[str, Any] = {"limit_nano": row.limit_nano, "spent_nano": row.spent_nano}
    if not as_json:
        amounts = {"limit": to_display(row.limit_nano), "spent": to_display(row.spent_nano)}
    return {
        "reached": iso_time(row.created_ms),
        "scope": row.scope,
        "of": row.scope_id,
        "period": row.period,
        "percent": row.threshold,
        **amounts,
        "budget": row.budget_id,
        "window": None if row.scope == WALLET_SCOPE else iso_time(row.window_start_ms),
    }
