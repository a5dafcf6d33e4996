"""`parley spend`: a tenant's money as its portal shows it."""

from typing import Any

import click

from billing.cli.operations import CommandTerms, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.cli.spend_refused import errors_command, own_pools_command, refusals_command
from billing.cli.spend_where import bridge_command, cache_command, series_command
from billing.money import to_display
from billing.operations import spend_summary
from billing.operations.spend_facts import LastsUntil
from billing.operations.spend_summary import AskSpend, SpendSummary
from core.operations import flat_facts


@click.group("spend")
def spend_command() -> None:
    """A tenant's money as its portal shows it: what a month costs, why, and how long money lasts.

    Statements and exports are in `parley usage`.
    """


OTHERS = (series_command, bridge_command, cache_command, refusals_command, errors_command, own_pools_command)
for _command in OTHERS:
    spend_command.add_command(_command)


@spend_command.command("summary")
@asks(spend_summary.show_spend)
def summary_command(ask: AskSpend, how: CommandTerms) -> None:
    """Show what a month costs so far, what it is expected to cost, and how long budgets and wallet last."""
    found = answered(spend_summary.show_spend, ask, how)
    if how.as_json:
        show(flat_facts(found), how.as_json)
        return
    show(_facts(found), how.as_json)
    rows = [
        {name: facts.get(name) for name in BUDGET_FACTS} | {"lasts": _day(each.lasts or None)}
        for each in found.budgets
        for facts in [facts_of(each, how.as_json)]
    ]
    show_table(rows, how.as_json, "no budget is near its end")


BUDGET_FACTS = ("budget", "scope", "of", "period", "kind", "limit", "spent", "left", "percent", "exhausted")


def _facts(found: SpendSummary) -> dict[str, Any]:
    """The facts in a few lines, for people."""
    facts: dict[str, Any] = {
        "month": f"{found.month}, {found.state.value}",
        "time_zone": found.time_zone,
        "cost": to_display(found.cost.value),
    }
    if found.compared:
        cost, before = found.compared.cost.value, found.compared.before.value
        facts["compared"] = (
            f"{to_display(cost)} to {found.compared.by}, {to_display(before)} to {found.compared.before_by}"
        )
    if found.forecast:
        low, high = found.forecast.low.value, found.forecast.high.value
        facts["forecast"] = f"about {to_display(found.forecast.cost.value)}"
        facts["4_of_5_times"] = f"{to_display(low)} to {to_display(high)}"
    if found.wallet:
        facts["wallet"] = to_display(found.wallet.left.value)
        facts["wallet_lasts"] = _day(found.wallet.lasts)
    return facts | {"booked": found.booked, "closes": found.closes, "lacks": found.lacks}


def _day(lasts: LastsUntil | None) -> str:
    """The day on which money ends, and between which ones 4 of 5 times."""
    if lasts is None or lasts.day is None:
        return ""
    return f"{lasts.day} ({lasts.early or '–'} to {lasts.late or '–'})"
