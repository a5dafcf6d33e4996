"""`parley tenants`: the customers of an installation, and their terms in the pools."""

from typing import Any

import click

from billing.cli.cancel import cancel_option, cancelled_after
from billing.cli.cancel import facts_of as cancel_facts
from billing.cli.erasure import erase_tenant_command, left_facts
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import tenants
from billing.operations.tenants import CreateTenant, ListTenants, NameTenant, SetTenant, SetTerms, TenantFacts
from core.operations import MoneyAmount

TENANT = ("tenant",)


@click.group("tenants")
def tenants_command() -> None:
    """Tenants: the customers of this installation."""


tenants_command.add_command(erase_tenant_command)


@tenants_command.command("create")
@asks(tenants.create_tenant, arguments=("name",), options={"price_book": {"show_default": True}})
def create_tenant_command(ask: CreateTenant, how: CommandTerms) -> None:
    """Create the tenant NAME with one project, `default`.

    Give it a key next: `parley keys create --tenant NAME`.
    """
    show(_facts(answered(tenants.create_tenant, ask, how), how.as_json), how.as_json)


@tenants_command.command("list")
@asks(tenants.list_tenants, omitted=("limit", "after"))
def list_tenants_command(ask: ListTenants, how: CommandTerms) -> None:
    """List all tenants, oldest first."""
    rows = [_facts(each, how.as_json) for each in all_pages(tenants.list_tenants, ask, how)]
    show_table(rows, how.as_json, "there are no tenants: see `parley tenants create`")


@tenants_command.command("show")
@asks(tenants.show_tenant, arguments=TENANT)
def show_tenant_command(ask: NameTenant, how: CommandTerms) -> None:
    """Show TENANT (name or id): its terms, and of a prepaid one its money."""
    shown = answered(tenants.show_tenant, ask, how)
    facts = _facts(shown, how.as_json)
    del facts["money"]
    show(facts | facts_of(shown.money, how.as_json), how.as_json)


@tenants_command.command("set")
@asks(
    tenants.set_tenant,
    arguments=TENANT,
    options={
        "shows_costs": {"names": ["--show-costs/--hide-costs"], "default": None},
        "cache_by": {"names": ["--prefix-cache-scope"]},
    },
)
def set_command(ask: SetTenant, how: CommandTerms) -> None:
    """Change TENANT (name or id). What is not named stays as it is."""
    show(_facts(answered(tenants.set_tenant, ask, how), how.as_json), how.as_json)


@tenants_command.command("close")
@asks(tenants.close_tenant, arguments=TENANT)
@cancel_option
def close_command(ask: NameTenant, how: CommandTerms, cancel: bool) -> None:
    """Refuse all keys of TENANT (name or id) from now on, and close its connections.

    What it used stays in the books, and what it still runs is finished and billed, unless --cancel ends it,
    now or by closing again. `reopen` lets it in again. Money left in its wallet stays there, and is told.
    """
    closed = answered(tenants.close_tenant, ask, how)
    cancelled = cancelled_after(how, cancel, closed.tenant)
    facts = _facts(closed, how.as_json) | cancel_facts(cancelled)
    shown = answered(tenants.show_tenant, NameTenant(tenant=closed.tenant), CommandTerms(how.as_json))
    left_nano = shown.money.left.value if isinstance(shown.money.left, MoneyAmount) else 0
    show(facts | left_facts(left_nano, how.as_json), how.as_json)


@tenants_command.command("reopen")
@asks(tenants.reopen_tenant, arguments=TENANT)
def reopen_command(ask: NameTenant, how: CommandTerms) -> None:
    """Let the keys of TENANT (name or id) in again."""
    show(_facts(answered(tenants.reopen_tenant, ask, how), how.as_json), how.as_json)


@tenants_command.command("terms")
@asks(tenants.set_terms, arguments=TENANT)
def terms_command(ask: SetTerms, how: CommandTerms) -> None:
    """Show what TENANT (name or id) may take of the pools, or change it.

    Changes hold within a second, for requests that wait too. A share counts only while others wait: an idle
    pool is anybody's. Example: `parley tenants terms acme --weight 4 --slots-max 16 --tokens-max none`.
    """
    if ask == SetTerms(tenant=ask.tenant):
        terms = answered(tenants.show_terms, NameTenant(tenant=ask.tenant), how)
    else:
        terms = answered(tenants.set_terms, ask, how)
    show(facts_of(terms, how.as_json), how.as_json)


def _facts(answer: TenantFacts, as_json: bool) -> dict[str, Any]:
    """Facts as `facts_of`; people know a plan by its name."""
    facts = facts_of(answer, as_json)
    if not as_json:
        del facts["plan_id"]
    return facts
