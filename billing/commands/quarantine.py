"""`parley quarantine`: usage events that were held back, until somebody decides on them."""

from typing import Any

import click

from billing import quarantine
from billing.commands.running import iso_time, json_option, run_on_database, show, show_table
from billing.tables import UsageQuarantine

_event = click.argument("event")
_reason = click.option("--reason", required=True, help="Why; kept with the event.")


@click.group("quarantine")
def quarantine_command() -> None:
    """Usage events that cannot be billed as they came: they contradict what was billed, or their own prices.

    Nothing is billed for them until somebody decides. Prompts and answers are not in them.
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
    done = run_on_database(lambda db: quarantine.accept(db, event, reason))
    show({"event": event, "done": done}, as_json)


@quarantine_command.command("dismiss")
@_event
@_reason
@json_option
def dismiss_command(event: str, reason: str, as_json: bool) -> None:
    """Decide that EVENT does not count."""
    run_on_database(lambda db: quarantine.dismiss(db, event, reason))
    show({"event": event, "done": "dismissed"}, as_json)


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
