"""`parley projects` and `parley cost-centers`: the payers of a tenant's usage."""

from datetime import datetime
from typing import Any

import click

from billing.cli.cancel import Cancelled, cancel_option, cancel_requests, facts_of
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
)
from billing.quota.open_requests import OwnerFilter
from billing.tables.ledger import CostCenter
from billing.tables.tenants import Project
from billing.tenants import cost_centers, tenancy
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")


@click.group("projects")
def projects_command() -> None:
    """Projects of a tenant. Each API key belongs to one, and is charged to it."""


@projects_command.command("create")
@_tenant
@click.argument("name")
@json_option
def create_project_command(tenant: str, name: str, as_json: bool) -> None:
    """Create the project NAME. Give it a key next: `parley keys create --tenant T --project NAME`."""

    settings = Settings()

    async def create(db: Database) -> Project:
        owner = (await tenant_named(db, tenant)).tenant_id
        return await tenancy.create_project(db, owner, name, settings.projects_per_tenant_max)

    show(_project_facts(run_on_database(create, settings)), as_json)


@projects_command.command("close")
@_tenant
@click.argument("project")
@cancel_option
@json_option
def close_project_command(tenant: str, project: str, cancel: bool, as_json: bool) -> None:
    """Refuse the keys of PROJECT (name or id) from now on, and close their connections.

    What they have queued and running goes on unless --cancel ends it, now or by closing again.
    """
    closed, cancelled = _close(tenant, project, closed=True, cancel=cancel)
    show(_project_facts(closed) | facts_of(cancelled), as_json)


@projects_command.command("reopen")
@_tenant
@click.argument("project")
@json_option
def reopen_project_command(tenant: str, project: str, as_json: bool) -> None:
    """Let the keys of PROJECT (name or id) in again."""
    show(_project_facts(_close(tenant, project, closed=False)[0]), as_json)


def _close(tenant: str, project: str, closed: bool, cancel: bool = False) -> tuple[Project, Cancelled | None]:
    async def change(db: Database, redis: RedisClient) -> tuple[Project, Cancelled | None]:
        owner = (await tenant_named(db, tenant)).tenant_id
        found = await tenancy.find_project(db, owner, project)
        if found is None:
            raise StartupError(
                f"there is no project {project!r}: see `parley projects list --tenant {owner}`"
            )
        changed = await tenancy.close_project(db, redis, owner, found.id, closed)
        whose = OwnerFilter(owner, project=found.id)
        return changed, await cancel_requests(db, redis, whose) if cancel else None

    return run_with_redis(change)


def _project_facts(project: Project) -> dict[str, Any]:
    return {
        "project": project.id,
        "name": project.name,
        "created": iso_time(project.created_ms),
        "closed": iso_time(project.closed_ms),
    }


@projects_command.command("list")
@_tenant
@json_option
def list_projects_command(tenant: str, as_json: bool) -> None:
    """A tenant's projects and the cost center of each."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = (await tenant_named(db, tenant)).tenant_id
        codes = {center.id: center.code for center in await cost_centers.list_cost_centers(db, owner)}
        moves = [move for move in await cost_centers.charges_of(db, owner) if move.valid_from_ms <= now_ms()]
        now = {move.project_id: codes[move.cost_center_id] for move in moves}
        return [
            {
                "project": project.id,
                "name": project.name,
                "cost_center": now.get(project.id, ""),
                "created": iso_time(project.created_ms),
                "closed": iso_time(project.closed_ms),
            }
            for project in await tenancy.list_projects(db, owner)
        ]

    show_table(run_on_database(read), as_json, "there are no projects")


@projects_command.command("charge-to")
@_tenant
@click.argument("project")
@click.argument("cost_center")
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), help="By default now.")
@json_option
def charge_to_command(
    tenant: str, project: str, cost_center: str, start: datetime | None, as_json: bool
) -> None:
    """Charge PROJECT (name or id) to COST_CENTER (code or id) from now or a later time on.

    What was charged before stays where it was.
    """

    async def charge(db: Database) -> dict[str, Any]:
        owner = (await tenant_named(db, tenant)).tenant_id
        found = await tenancy.find_project(db, owner, project)
        center = await cost_centers.find_cost_center(db, owner, cost_center)
        if found is None:
            raise StartupError(
                f"there is no project {project!r}: see `parley projects list --tenant {owner}`"
            )
        if center is None:
            known = f"see `parley cost-centers list --tenant {owner}`"
            raise StartupError(f"there is no cost center {cost_center!r}: {known}")
        from_ms = int(start.timestamp() * 1000) if start else None
        row = await cost_centers.charge_project_to(db, owner, found.id, center.id, from_ms)
        return {"project": found.name, "cost_center": center.code, "from": iso_time(row.valid_from_ms)}

    show(run_on_database(charge), as_json)


@click.group("cost-centers")
def cost_centers_command() -> None:
    """Cost centers of a tenant: who pays for a project."""


@cost_centers_command.command("create")
@_tenant
@click.argument("code")
@click.option("--name", default="", help="What it is.")
@json_option
def create_cost_center_command(tenant: str, code: str, name: str, as_json: bool) -> None:
    """Create the cost center CODE. Charge a project to it next: `parley projects charge-to`."""

    async def create(db: Database) -> CostCenter:
        owner = (await tenant_named(db, tenant)).tenant_id
        return await cost_centers.create_cost_center(db, owner, code, name)

    show(_center_facts(run_on_database(create)), as_json)


@cost_centers_command.command("list")
@_tenant
@json_option
def list_cost_centers_command(tenant: str, as_json: bool) -> None:
    """A tenant's cost centers by code."""

    async def read(db: Database) -> list[dict[str, Any]]:
        owner = (await tenant_named(db, tenant)).tenant_id
        return [_center_facts(center) for center in await cost_centers.list_cost_centers(db, owner)]

    show_table(run_on_database(read), as_json, "there are no cost centers")


def _center_facts(center: CostCenter) -> dict[str, Any]:
    return {
        "cost_center": center.id,
        "code": center.code,
        "name": center.name,
        "created": iso_time(center.created_ms),
        "closed": iso_time(center.closed_ms),
    }
