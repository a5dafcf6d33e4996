"""`parley budgets`: limits on money, and their spending."""

from collections.abc import Sequence
from typing import Any

import click

from billing.cli.arguments import PER_CENTS
from billing.cli.last_month import month_shown
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import budgets
from billing.operations.budget_facts import BudgetInUse, StoredBudget
from billing.operations.budgets import ListBudgets, NameBudget, OverrideBudget, SetBudget
from core.errors import StartupError

BUDGET = ("budget",)
UNKNOWN = "unknown"


@click.group("budgets")
def budgets_command() -> None:
    """Limits on what may be spent in a day, week or month of the tenant's time zone, or ever.

    \b
        parley budgets set --tenant acme --limit "250.00 USD"
        parley budgets set --tenant acme --limit "5 USD" --scope user --period day --soft
        parley budgets set --tenant acme --limit "40 USD" --scope project --of web --thresholds 50,90,100
        parley budgets override --tenant acme BUDGET --limit "400 USD" --until 2026-12-01

    Without --of, each project, key, user or model has the budget for itself; one that is named has its own
    in its place. A key and what it is rotated into have one.
    A hard budget ends answers at the limit; a soft one only alerts (`parley alerts`). A request
    counts in the window in which it was accepted. An edit gives a budget a new id; old ones still name it.
    """


@budgets_command.command("set")
@asks(
    budgets.set_budget,
    options={
        "scope": {"show_default": True},
        "period": {"show_default": True},
        "mode": {"show_default": True},
        "thresholds": {"type": PER_CENTS, "multiple": False},
    },
)
def set_command(ask: SetBudget, how: CommandTerms) -> None:
    """Set a budget, in place of the one that counts the same. What is spent already counts.

    --dry-run also tells whom it would have refused last month, by whole hours."""
    answer = answered(budgets.set_budget, ask, how)
    show(_facts(answer, how.as_json) | month_shown(answer.last_month, how.as_json), how.as_json)


@budgets_command.command("list")
@asks(budgets.list_all_budgets, omitted=("limit", "after"))
def list_command(ask: ListBudgets, how: CommandTerms) -> None:
    """List each budget's money spent, held by open requests and left now, and when it begins anew.

    Of a budget that each has for itself, whoever spent the most: `parley budgets show` tells more.
    """
    _print(all_pages(budgets.list_all_budgets, ask, how), how)


@budgets_command.command("show")
@asks(budgets.show_budget, arguments=BUDGET)
def show_command(ask: NameBudget, how: CommandTerms) -> None:
    """Show BUDGET (its id); where each has it for itself, those who spent the most."""
    _print(answered(budgets.show_budget, ask, how).standings, how)


@budgets_command.command("override")
@asks(budgets.override_budget, arguments=BUDGET)
@click.option("--end", "ends", is_flag=True, help="End the override that there is.")
def override_command(ask: OverrideBudget, how: CommandTerms, ends: bool) -> None:
    """Put another limit in the place of BUDGET's (its id) for some time.

    --dry-run also tells whom it would have refused last month, by whole hours."""
    if ends == (ask.limit is not None) or (ask.limit is None) != (not ask.until):
        raise StartupError("give --limit and --until, or --end")
    answer = answered(budgets.override_budget, ask, how)
    show(_facts(answer, how.as_json) | month_shown(answer.last_month, how.as_json), how.as_json)


@budgets_command.command("end")
@asks(budgets.end_budget, arguments=BUDGET)
def end_command(ask: NameBudget, how: CommandTerms) -> None:
    """End BUDGET (its id) at once. What was spent is not forgotten, should it be set again."""
    facts = _facts(answered(budgets.end_budget, ask, how), how.as_json)
    show({**facts, "done": "ended"}, how.as_json)


def _print(standings: Sequence[BudgetInUse], how: CommandTerms) -> None:
    rows = [_facts(each, how.as_json) for each in standings]
    names = list(dict.fromkeys(name for row in rows for name in row))
    full = [{name: row.get(name) for name in names} for row in rows]
    show_table(full, how.as_json, "no budgets: see `parley budgets set --help`")


def _facts(answer: StoredBudget, as_json: bool) -> dict[str, Any]:
    """Facts as `facts_of`; money that Redis does not tell is unknown."""
    held: dict[str, Any] = {"held_nano": None} if as_json else {"held": UNKNOWN}
    shown: dict[str, Any] = {}
    for name, value in facts_of(answer, as_json).items():
        if name == "held" and value is None:
            shown |= held
        else:
            shown[name] = ",".join(map(str, value)) if name == "thresholds" else value
    return shown
