"""`parley wallets`: prepaid tenants' money."""

from typing import Any
from zoneinfo import ZoneInfo

import click

from billing.approvals.money_actions import GrantAction
from billing.cli.arguments import instant_of, nano_of
from billing.cli.money_actions import MoneyActionOptions, MoneyActionOutcome, print_unbooked, run_money_action
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
)
from billing.cli.wallet_undo import claw_back_command, pay_out_command, void_command
from billing.enforcement.wallet_watch import expire_all, publish_wallet_changed
from billing.ledger.grant_spending import GrantKind
from billing.money import to_display
from billing.tables.tenants import Tenant
from billing.wallets import wallets
from billing.wallets.owed import Owed, OwedTerm, owed_by, owed_by_each, owing_requests, set_owed_term
from billing.wallets.statements import GrantLeft, WalletMovement, grants_as_of, statement
from core.clock import now_ms
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database
from core.terminal.terminal import print_line


@click.group("wallets")
def wallets_command() -> None:
    """Prepaid money: what tenants have, and what it went into.

    A tenant is prepaid from its first grant on: nothing is served to it beyond what is left.

    \b
        parley wallets grant --tenant acme --amount "100.00 USD" --key invoice-17
        parley wallets grant --tenant acme --kind promo --amount "5 USD" --expires 2027-01-01 --key welcome
        parley wallets show --tenant acme --as-of 2026-10-31
    """


NO_WALLET = "the tenant has no wallet: see `parley wallets grant --help`"
ALREADY = "was granted before: nothing is changed"

for _command in (void_command, claw_back_command, pay_out_command):
    wallets_command.add_command(_command)

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")
_as_of = click.option("--as-of", help="As the books said at this time, like 2026-10-01T12:00:00+02:00.")


@wallets_command.command("grant")
@_tenant
@click.option("--amount", required=True, help="Like '250.00 USD'; at most nine decimals.")
@click.option("--key", required=True, help="Your name for this grant: said again, it is not made again.")
@click.option("--kind", type=click.Choice([*map(str, GrantKind)]), default="paid", show_default=True)
@click.option("--expires", help="When what is left of it ends, in the tenant's time zone; by default never.")
@click.option("--priority", type=int, help="The lowest is spent first; by default 10 for promo, 50 for paid.")
@click.option("--note", default="", help="Kept with the grant.")
@click.option("--dry-run", is_flag=True, help="Show what it would do, and grant nothing.")
@json_option
def grant_command(
    tenant: str,
    amount: str,
    key: str,
    kind: str,
    expires: str | None,
    priority: int | None,
    note: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put money into a tenant's wallet. The first grant makes the tenant a prepaid one.

    What the tenant owes for requests that no grant paid is paid first (`parley wallets owed`); --dry-run says
    how much that is.
    """
    amount_nano = nano_of(amount)

    def move(owner: Tenant) -> GrantAction:
        ends_ms = instant_of(expires, ZoneInfo(owner.time_zone)) if expires else None
        return GrantAction(GrantKind(kind), amount_nano, key, priority, ends_ms, note)

    ask = MoneyActionOptions(dry_run, True, as_json)
    outcome = run_money_action(tenant, move, ask)
    row, plan = outcome.moved.granted, outcome.moved.plan
    if row is not None:
        paid = _money("paid_owed", 0 if outcome.moved.done else row.amount_nano - row.left_nano, as_json)
        said = ALREADY if outcome.moved.done else "granted"
        show({**_facts(GrantLeft(row, row.left_nano, False), as_json), **paid, "done": said}, as_json)
    elif plan is not None:
        show(_planned(plan, amount_nano, outcome, as_json), as_json)
    print_unbooked(outcome, ask)


def _planned(
    planned: wallets.GrantPreview, amount_nano: int, outcome: MoneyActionOutcome, as_json: bool
) -> dict[str, Any]:
    nothing = "nothing: a dry run" if outcome.proposal is None else outcome.state
    return {
        **_money("amount", amount_nano, as_json),
        **_money("pays_owed", planned.pays_owed_nano, as_json),
        **_money("left", planned.left_nano, as_json),
        "done": nothing if planned.known is None else ALREADY,
    }


@wallets_command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """The tenants that have a wallet, with what is left now."""

    async def read(db: Database) -> tuple[list[tuple[Tenant, wallets.WalletState]], dict[str, int]]:
        found = await wallets.list_wallets(db, now_ms())
        return found, await owed_by_each(db, [owner.tenant_id for owner, _ in found])

    states, owed = run_on_database(read)
    rows = [
        {
            "tenant": owner.tenant_id,
            "name": owner.name,
            **_money("left", state.limit_nano - state.posted_nano, as_json),
            **_money("used", state.posted_nano, as_json),
            **_money("owed", owed.get(owner.tenant_id, 0), as_json),
            "next_expiry": iso_time(state.next_expiry_ms),
            "closed": iso_time(owner.closed_ms),
        }
        for owner, state in states
    ]
    show_table(rows, as_json, "no tenant is prepaid: see `parley wallets grant --help`")


@wallets_command.command("show")
@_tenant
@_as_of
@click.option("--history", is_flag=True, help="What came in and went out, with the balance after each.")
@click.option("--last", type=click.IntRange(1, 10_000), default=100, show_default=True)
@json_option
def show_command(tenant: str, as_of: str | None, history: bool, last: int, as_json: bool) -> None:
    """Show what is left of each grant and when it ends; or the history of the wallet."""

    async def read(db: Database) -> tuple[list[GrantLeft], list[WalletMovement], int]:
        owner = await tenant_named(db, tenant)
        at_ms = instant_of(as_of, ZoneInfo(owner.time_zone)) if as_of else now_ms()
        owed_nano = await owed_by(db, owner.tenant_id)
        if history:
            return [], list(await statement(db, owner.tenant_id, at_ms, last)), owed_nano
        return await grants_as_of(db, owner.tenant_id, at_ms), [], owed_nano

    grants, movements, owed_nano = run_on_database(read)
    if history:
        show_table([_movement(each, as_json) for each in movements], as_json, "nothing moved")
    else:
        rows = [_facts(each, as_json) for each in grants]
        show_table(rows, as_json, "the tenant is postpaid: it has no grant")
    if not as_json and not history:
        left = sum(each.left_nano for each in grants if not each.expired)
        print_line(f"left in all: {to_display(left)}")
    if not as_json:
        print_owed(owed_nano)


@wallets_command.command("owed")
@_tenant
@click.option(
    "--paid-by",
    "term",
    type=click.Choice([*map(str, OwedTerm)]),
    help="What becomes of it: the next grant pays it first, or it stays to be invoiced.",
)
@json_option
def owed_command(tenant: str, term: str | None, as_json: bool) -> None:
    """List what a tenant owes for requests that no grant paid, the oldest first; or change what becomes of
    it.

    A request costs more than is left where its correction adds to it, or where Redis lost what it held.
    """

    async def read(db: Database) -> list[Owed]:
        owner = await tenant_named(db, tenant)
        if term is not None and not await set_owed_term(db, owner.tenant_id, OwedTerm(term)):
            raise StartupError(NO_WALLET)
        async with db.session() as session:
            return await owing_requests(session, owner.tenant_id)

    owed = run_on_database(read)
    rows = [
        {
            "request": each.request_id,
            **_money("owed", each.owed_nano, as_json),
            "accepted": iso_time(each.accepted_ms),
        }
        for each in owed
    ]
    show_table(rows, as_json, "nothing is owed")
    if not as_json:
        print_owed(sum(each.owed_nano for each in owed))


def print_owed(owed_nano: int) -> None:
    """Print the line on owed money; nothing where none is owed."""
    if owed_nano:
        print_line(f"owed beyond the wallet: {to_display(owed_nano)} (see `parley wallets owed --help`)")


@wallets_command.command("expire")
@click.option("--tenant", help="Only this one's; by default all tenants'.")
@json_option
def expire_command(tenant: str | None, as_json: bool) -> None:
    """Book the rest of grants whose time is over. The biller does so by itself; again it changes nothing."""

    async def expire(db: Database, redis: RedisClient) -> int:
        if tenant is None:
            return await expire_all(db, redis, now_ms())
        owner = await tenant_named(db, tenant)
        ended = await wallets.expire(db, owner.tenant_id, now_ms())
        await publish_wallet_changed(db, redis, owner.tenant_id)
        return len(ended)

    show({"expired": run_with_redis(expire)}, as_json)


@wallets_command.command("alert")
@_tenant
@click.argument("percents", nargs=-1, type=click.IntRange(1, 100))
@json_option
def alert_command(tenant: str, percents: tuple[int, ...], as_json: bool) -> None:
    """Alert when no more than these PERCENTS of the last top-up are left; none: never. At first: 20 and 5."""

    async def change(db: Database) -> None:
        owner = await tenant_named(db, tenant)
        if not await wallets.set_low_percents(db, owner.tenant_id, percents):
            raise StartupError(NO_WALLET)

    run_on_database(change)
    show({"tenant": tenant, "percents": ", ".join(str(each) for each in sorted(percents))}, as_json)


def _facts(found: GrantLeft, as_json: bool) -> dict[str, Any]:
    row = found.grant
    return {
        "grant": row.id,
        "kind": row.kind,
        "priority": row.priority,
        **_money("amount", row.amount_nano, as_json),
        **_money("left", found.left_nano, as_json),
        "expires": iso_time(row.expires_ms),
        **_taken(row.taken_nano, as_json),
        "state": _state(found),
        "key": row.idempotency_key,
        "author": row.author,
        "note": row.note,
        "granted": iso_time(row.created_ms),
    }


def _state(found: GrantLeft) -> str:
    if found.grant.taken_nano == found.grant.amount_nano:
        return "voided"
    return "expired" if found.expired else ("open" if found.left_nano else "spent")


def _taken(nano: int, as_json: bool) -> dict[str, int | str]:
    return _money("taken_back", nano, as_json) if as_json or nano else {"taken_back": ""}


def _movement(found: WalletMovement, as_json: bool) -> dict[str, Any]:
    return {
        "time": iso_time(found.posted_ms),
        "kind": found.kind,
        "cause": found.cause,
        **_money("amount", found.amount_nano, as_json),
        **_money("balance", found.balance_nano, as_json),
    }


def _money(name: str, nano: int, as_json: bool) -> dict[str, int | str]:
    return {f"{name}_nano": nano} if as_json else {name: to_display(nano)}
