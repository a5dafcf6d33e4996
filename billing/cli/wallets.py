"""`parley wallets`: prepaid tenants' money."""

from typing import Any

import click
from msgspec import UNSET

from billing.cli.arguments import PER_CENTS
from billing.cli.moves import MoneyMove, check_booked, moved
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.cli.wallet_undo import claw_back_command, pay_out_command, void_command
from billing.money import to_display
from billing.operations import wallet_views as views
from billing.operations import wallets
from billing.operations.wallet_views import (
    AsOf,
    GrantFacts,
    GrantState,
    ListOwed,
    SetOwed,
    SetWalletAlert,
    WalletHistory,
)
from billing.operations.wallets import ExpireGrants, GrantMade, GrantMoney
from billing.unit_of_work.listing import ListQuestion
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


ALREADY = "was granted before: nothing is changed"

for _command in (void_command, claw_back_command, pay_out_command):
    wallets_command.add_command(_command)


@wallets_command.command("grant")
@asks(wallets.grant, options={"kind": {"show_default": True}})
def grant_command(ask: GrantMoney, how: CommandTerms) -> None:
    """Put money into a tenant's wallet. The first grant makes the tenant a prepaid one.

    What the tenant owes for requests that no grant paid is paid first (`parley wallets owed`); --dry-run says
    how much that is.
    """
    move = moved(wallets.grant, ask, how, yes=True)
    show(_granted(move, how), how.as_json)
    check_booked(move, how)


def _granted(move: MoneyMove[GrantMade], how: CommandTerms) -> dict[str, Any]:
    made = move.answer
    if move.booked:
        facts = _facts(made.grant, how.as_json) | _money("paid_owed", made.paid_owed.value, how.as_json)
        return facts | {"done": "granted" if made.new else ALREADY}
    nothing = "nothing: a dry run" if not move.waits else move.state
    left_nano = made.grant.left.value if made.new else 0
    return {
        **_money("amount", made.grant.amount.value, how.as_json),
        **_money("pays_owed", made.paid_owed.value, how.as_json),
        **_money("left", left_nano, how.as_json),
        "done": nothing if made.new else ALREADY,
    }


@wallets_command.command("list")
@asks(views.list_wallets, omitted=("limit", "after"))
def list_command(ask: ListQuestion, how: CommandTerms) -> None:
    """The tenants that have a wallet, with what is left now."""
    rows = [facts_of(each, how.as_json) for each in all_pages(views.list_wallets, ask, how)]
    show_table(rows, how.as_json, "no tenant is prepaid: see `parley wallets grant --help`")


@wallets_command.command("show")
@click.option("--history", is_flag=True, help="What came in and went out, with the balance after each.")
@asks(views.show_history, options={"last": {"show_default": True}})
def show_command(ask: WalletHistory, how: CommandTerms, history: bool) -> None:
    """Show what is left of each grant and when it ends; or the history of the wallet."""
    if history:
        moves = answered(views.show_history, ask, how)
        show_table([facts_of(each, how.as_json) for each in moves.movements], how.as_json, "nothing moved")
        owed_nano = moves.owed.value
    else:
        shown = answered(views.show_wallet, AsOf(tenant=ask.tenant, as_of=ask.as_of), how)
        rows = [_facts(each, how.as_json) for each in shown.grants]
        show_table(rows, how.as_json, "the tenant is postpaid: it has no grant")
        if not how.as_json:
            left = sum(each.left.value for each in shown.grants if each.state is not GrantState.EXPIRED)
            print_line(f"left in all: {to_display(left)}")
        owed_nano = shown.owed.value
    if not how.as_json:
        print_owed(owed_nano)


@wallets_command.command("owed")
@asks(views.set_owed)
def owed_command(ask: SetOwed, how: CommandTerms) -> None:
    """List what a tenant owes for requests that no grant paid, the oldest first; or change what becomes of
    it.

    A request costs more than is left where its correction adds to it, or where Redis lost what it held.
    """
    if ask.paid_by is not UNSET:
        answered(views.set_owed, ask, how)
    owed = all_pages(views.list_owed, ListOwed(tenant=ask.tenant), CommandTerms(how.as_json))
    show_table([facts_of(each, how.as_json) for each in owed], how.as_json, "nothing is owed")
    if not how.as_json:
        print_owed(sum(each.owed.value for each in owed))


def print_owed(owed_nano: int) -> None:
    """Print the line on owed money; nothing where none is owed."""
    if owed_nano:
        print_line(f"owed beyond the wallet: {to_display(owed_nano)} (see `parley wallets owed --help`)")


@wallets_command.command("expire")
@asks(wallets.expire_grants)
def expire_command(ask: ExpireGrants, how: CommandTerms) -> None:
    """Book the rest of grants whose time is over. The biller does so by itself; again it changes nothing."""
    show(facts_of(answered(wallets.expire_grants, ask, how), how.as_json), how.as_json)


@wallets_command.command("alert")
@asks(
    views.set_alert,
    options={"thresholds": {"type": PER_CENTS, "multiple": False, "required": True}},
)
def alert_command(ask: SetWalletAlert, how: CommandTerms) -> None:
    """Alert when no more than these per cents of the last top-up are left, at first 20,5."""
    alerts = answered(views.set_alert, ask, how)
    show({"tenant": ask.tenant, "thresholds": ",".join(map(str, alerts.thresholds))}, how.as_json)


def _facts(grant: GrantFacts, as_json: bool) -> dict[str, Any]:
    facts = facts_of(grant, as_json)
    if not as_json and not grant.taken_back.value:
        facts["taken_back"] = ""
    return facts


def _money(name: str, nano: int, as_json: bool) -> dict[str, int | str]:
    return {f"{name}_nano": nano} if as_json else {name: to_display(nano)}
