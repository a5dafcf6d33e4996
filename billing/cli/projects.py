"""`parley projects` and `parley cost-centers`: the payers of a tenant's usage."""

import click

from billing.cli.cancel import cancel_option, cancelled_after
from billing.cli.cancel import facts_of as cancel_facts
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import projects
from billing.operations.projects import (
    ChargeProject,
    CloseCostCenter,
    CreateCostCenter,
    CreateProject,
    ListOfTenant,
    NameCostCenter,
    NameProject,
)

PROJECT, CENTER = ("project",), ("cost_center",)
TIME = click.DateTime(["%Y-%m-%dT%H:%M:%S%z"])


@click.group("projects")
def projects_command() -> None:
    """Projects of a tenant. Each API key belongs to one, and is charged to it."""


@projects_command.command("create")
@asks(projects.create_project, arguments=("name",))
def create_project_command(ask: CreateProject, how: CommandTerms) -> None:
    """Create the project NAME. Give it a key next: `parley keys create --tenant T --project NAME`."""
    show(facts_of(answered(projects.create_project, ask, how), how.as_json), how.as_json)


@projects_command.command("close")
@asks(projects.close_project, arguments=PROJECT)
@cancel_option
def close_project_command(ask: NameProject, how: CommandTerms, cancel: bool) -> None:
    """Refuse the keys of PROJECT (name or id) from now on, and close their connections.

    What they have queued and running goes on unless --cancel ends it, now or by closing again.
    """
    closed = answered(projects.close_project, ask, how)
    cancelled = cancelled_after(how, cancel, ask.tenant, project=closed.project)
    show(facts_of(closed, how.as_json) | cancel_facts(cancelled), how.as_json)


@projects_command.command("reopen")
@asks(projects.reopen_project, arguments=PROJECT)
def reopen_project_command(ask: NameProject, how: CommandTerms) -> None:
    """Let the keys of PROJECT (name or id) in again."""
    show(facts_of(answered(projects.reopen_project, ask, how), how.as_json), how.as_json)


@projects_command.command("list")
@asks(projects.list_projects, omitted=("limit", "after"))
def list_projects_command(ask: ListOfTenant, how: CommandTerms) -> None:
    """A tenant's projects and the cost center of each."""
    rows = [facts_of(each, how.as_json) for each in all_pages(projects.list_projects, ask, how)]
    show_table(rows, how.as_json, "there are no projects")


@projects_command.command("charge-to")
@asks(
    projects.charge_project,
    arguments=("project", "cost_center"),
    options={"start": {"names": ["--from"], "type": TIME}},
)
def charge_to_command(ask: ChargeProject, how: CommandTerms) -> None:
    """Charge PROJECT (name or id) to COST_CENTER (code or id) from now or a later time on.

    An empty COST_CENTER, "", charges nobody. What was charged before stays where it was.
    """
    show(facts_of(answered(projects.charge_project, ask, how), how.as_json), how.as_json)


@click.group("cost-centers")
def cost_centers_command() -> None:
    """Cost centers of a tenant: who pays for a project."""


@cost_centers_command.command("create")
@asks(projects.create_cost_center, arguments=("code",))
def create_cost_center_command(ask: CreateCostCenter, how: CommandTerms) -> None:
    """Create the cost center CODE. Charge a project to it next: `parley projects charge-to`."""
    show(facts_of(answered(projects.create_cost_center, ask, how), how.as_json), how.as_json)


@cost_centers_command.command("list")
@asks(projects.list_cost_centers, omitted=("limit", "after"))
def list_cost_centers_command(ask: ListOfTenant, how: CommandTerms) -> None:
    """A tenant's cost centers by code."""
    rows = [facts_of(each, how.as_json) for each in all_pages(projects.list_cost_centers, ask, how)]
    show_table(rows, how.as_json, "there are no cost centers")


@cost_centers_command.command("close")
@asks(projects.close_cost_center, arguments=CENTER)
def close_cost_center_command(ask: CloseCostCenter, how: CommandTerms) -> None:
    """Close COST_CENTER (code or id): no project is charged to it any more, and reports keep what was.

    Projects that it pays for are named, or charged to --move-to or --to-nobody from now on.
    """
    show(facts_of(answered(projects.close_cost_center, ask, how), how.as_json), how.as_json)


@cost_centers_command.command("reopen")
@asks(projects.reopen_cost_center, arguments=CENTER)
def reopen_cost_center_command(ask: NameCostCenter, how: CommandTerms) -> None:
    """Let projects be charged to COST_CENTER (code or id) again."""
    show(facts_of(answered(projects.reopen_cost_center, ask, how), how.as_json), how.as_json)
