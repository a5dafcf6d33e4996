"""`parley plans`: offers of prices, priority, place in the pools and limits, and their tenants."""

import click

from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import plans
from billing.operations.plans import AssignPlan, CreatePlan, NamePlan, SetPlanLimit
from billing.unit_of_work.listing import ListQuestion
from core.terminal.terminal import print_line

PLAN = ("plan",)


@click.group("plans")
def plans_command() -> None:
    """Plans: prices, priority, place in the pools and limits under one name.

    What a tenant has of its own (`parley tenants set`, `parley tenants terms`, `parley limits`) goes before
    what its plan says.
    """


@plans_command.command("create")
@asks(plans.create_plan, arguments=("name",), options={"price_book": {"show_default": True}})
def create_command(ask: CreatePlan, how: CommandTerms) -> None:
    """Create the plan NAME. Its prices, priority and place never change: another offer is another plan.

    Give it limits next: `parley plans set-limit NAME --dimension tokens_per_minute --limit 60000`.
    """
    show(facts_of(answered(plans.create_plan, ask, how), how.as_json), how.as_json)


@plans_command.command("list")
@asks(plans.list_plans, omitted=("limit", "after"))
def list_command(ask: ListQuestion, how: CommandTerms) -> None:
    """All plans, oldest first, and how many open tenants have each."""
    rows = [facts_of(each, how.as_json) for each in all_pages(plans.list_plans, ask, how)]
    show_table(rows, how.as_json, "there are no plans: see `parley plans create`")


@plans_command.command("show")
@asks(plans.show_plan, arguments=PLAN)
def show_command(ask: NamePlan, how: CommandTerms) -> None:
    """Show PLAN (name or id) with its limits."""
    facts = facts_of(answered(plans.show_plan, ask, how), how.as_json)
    if how.as_json:
        show(facts, how.as_json)
        return
    limits = facts.pop("limits")
    show(facts, how.as_json)
    print_line()
    show_table(limits, how.as_json, "no limits: see `parley plans set-limit --help`")


@plans_command.command("set-limit")
@asks(
    plans.set_plan_limit,
    arguments=PLAN,
    options={name: {"show_default": True} for name in ("scope", "models", "mode")},
)
def set_limit_command(ask: SetPlanLimit, how: CommandTerms) -> None:
    """Set a limit of PLAN (name or id) in place of the one that counts the same.

    Every tenant of the plan has it within a second. With the scope key each of a tenant's keys has the limit
    for itself, and so on. What was counted goes on to count.
    """
    show(facts_of(answered(plans.set_plan_limit, ask, how), how.as_json), how.as_json)


@plans_command.command("assign")
@asks(plans.assign_plan, arguments=("tenant", "plan"))
def assign_command(ask: AssignPlan, how: CommandTerms) -> None:
    """Move TENANT (name or id) to PLAN (name or id; `none`: to none).

    Its limits and place change within a second, its prices from the next request on. A price book, a priority
    or terms of its own stay; what is printed holds from now on.
    """
    facts = facts_of(answered(plans.assign_plan, ask, how), how.as_json)
    if not how.as_json:
        del facts["plan_id"]  # people know it by its name
    show(facts, how.as_json)


@plans_command.command("end")
@asks(plans.end_plan, arguments=PLAN)
def end_command(ask: NamePlan, how: CommandTerms) -> None:
    """Give PLAN (name or id) to nobody from now on. Tenants who have it keep it."""
    show(facts_of(answered(plans.end_plan, ask, how), how.as_json), how.as_json)
