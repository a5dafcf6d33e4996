"""`parley noisy`: tenants that take more of a pool than their share while others wait."""

from typing import Any

import click

from billing.cli.run_command import iso_time, json_option, run_on_database, run_with_redis, show, show_table
from billing.noisy.findings import accept, dismiss, find_finding, is_throttling, list_findings
from billing.tables.noisy import NoisyFinding
from billing.tenants.tenancy import tenant_names
from core.sql.database import Database
from core.terminal.terminal import print_line

_finding = click.argument("finding")
_reason = click.option("--reason", required=True, help="Why; kept with the finding and in the audit log.")


@click.group("noisy")
def noisy_command() -> None:
    """Noisy neighbours: who took far more of a pool than its share, and made others wait.

    PARLEY_NOISY_NEIGHBOURS says what is done: off (nothing is looked for), propose (findings only), throttle
    (who is found runs no more requests at once than its share of them, until it is calm).
    """


@noisy_command.command("list")
@click.option("--all", "with_closed", is_flag=True, help="Also those that are over.")
@json_option
def list_command(with_closed: bool, as_json: bool) -> None:
    """List present findings, newest first; more of one with `parley noisy show`.

    Shares are of the pool's work, waits the others' p95 until the first token, now and before.
    """

    async def read(db: Database) -> list[dict[str, Any]]:
        names = await tenant_names(db)
        return [_row(each, names, as_json) for each in await list_findings(db, with_closed)]

    show_table(run_on_database(read), as_json, "nobody is noisy")


@noisy_command.command("show")
@_finding
@json_option
def show_command(finding: str, as_json: bool) -> None:
    """Show FINDING with all its numbers, and the pool of its own that the tenant would need."""
    found = run_on_database(lambda db: find_finding(db, finding))
    show(_facts(found), as_json)
    if not as_json and found.closed_ms is None:
        print_line()
        print_line(_advice(found))


@noisy_command.command("accept")
@_finding
@_reason
@json_option
def accept_command(finding: str, reason: str, as_json: bool) -> None:
    """Hold the tenant of FINDING to its share until it is calm, whatever the setting says.

    It runs no more requests at once than the finding says; the others of its requests wait.
    """
    show(_facts(run_with_redis(lambda db, redis: accept(db, redis, finding, reason))), as_json)


@noisy_command.command("dismiss")
@_finding
@_reason
@json_option
def dismiss_command(finding: str, reason: str, as_json: bool) -> None:
    """Dismiss FINDING: its throttle ends, and the tenant is not reported for that pool for a day."""
    show(_facts(run_with_redis(lambda db, redis: dismiss(db, redis, finding, reason))), as_json)


def _advice(found: NoisyFinding) -> str:
    pool = found.proposal
    return (
        f"A pool of its own with {pool['workers']} workers ({pool['slots']} requests at once,"
        f" {pool['kv_tokens']:,} tokens in memory) would hold what the tenant runs.\n"
        f"Until then `parley noisy accept {found.id}`"
        f" lets it run {found.slots_max} requests at once."
    )


def _row(found: NoisyFinding, names: dict[str, str], as_json: bool) -> dict[str, Any]:
    if as_json:
        return _facts(found)
    return {
        "finding": found.id,
        "tenant": names.get(found.tenant_id, found.tenant_id),
        "pool": found.pool,
        "state": found.state,
        "since": iso_time(found.opened_ms),
        "share": f"{found.share_permille / 10:.0f} %",
        "fair": f"{found.fair_permille / 10:.0f} %",
        "others_wait_ms": found.others_wait_ms,
        "before_ms": found.baseline_wait_ms,
        "slots_max": found.slots_max if is_throttling(found) else None,
    }


def _facts(found: NoisyFinding) -> dict[str, Any]:
    return {
        "finding": found.id,
        "tenant": found.tenant_id,
        "pool": found.pool,
        "state": found.state,
        "opened": iso_time(found.opened_ms),
        "updated": iso_time(found.updated_ms),
        "closed": iso_time(found.closed_ms),
        "reason": found.reason,
        "share_permille": found.share_permille,
        "fair_permille": found.fair_permille,
        "used_tokens": found.used_tokens,
        "others_wait_ms": found.others_wait_ms,
        "baseline_wait_ms": found.baseline_wait_ms,
        "throttled": is_throttling(found),
        "slots_max": found.slots_max,
        "throttled_at": iso_time(found.throttled_ms),
        "lifted_at": iso_time(found.lifted_ms),
        "own_pool": found.proposal,
    }
