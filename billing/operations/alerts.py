"""Operations on where a tenant's alerts go, and which thresholds of budgets and wallets were reached."""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.alerts import targets
from billing.alerts.addresses import checked_url
from billing.alerts.webhooks import check_resolved
from billing.audit.log import record
from billing.budgets.thresholds import EMAIL, WEBHOOK
from billing.limits import Scope
from billing.operations.budgets import BUDGET_READERS
from billing.operations.limited import names_of
from billing.operations.shared_fields import AUDIT, NameTenant
from billing.tables.wallets import AlertTarget, BudgetAlert, Outbox
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look, Stores
from core.clock import iso_time
from core.errors import Refused, bad_request, unknown
from core.operations import (
    ADMINS,
    MONEY,
    OPERATORS,
    PAYERS,
    ListedPage,
    MoneyAmount,
    Role,
    Secret,
    Uses,
    operation,
)

ALERT_EDITORS = OPERATORS | ADMINS
ALERT_READERS = OPERATORS | MONEY | PAYERS | {Role.SUPPORT}
TEST_EVERY_MS, DAY_MS = 60_000, 86_400_000
TESTS_A_DAY = 20


class ListAlertTargets(ListQuestion, frozen=True, kw_only=True):
    """Whose targets."""

    tenant: Annotated[str, Meta(description="The tenant's name or id.")]


class ListAlerts(ListQuestion, frozen=True, kw_only=True):
    """Whose alerts."""

    tenant: Annotated[str, Meta(description="The tenant's name or id.")]


class AddAlertTarget(NameTenant, frozen=True, kw_only=True):
    """Where alerts are to go: to one of the two."""

    webhook: Annotated[str, Meta(description="An https:// URL of the public internet.")] = ""
    email: Annotated[str, Meta(description="A mail address.")] = ""


class NameAlertTarget(NameTenant, frozen=True, kw_only=True):
    """Which target."""

    target: Annotated[str, Meta(description="The target's id.")]


class AlertTargetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where alerts go. `last`: what became of the newest message to it: waiting, sent or failed, and `error`
    why; empty: there was none."""

    target: str
    kind: str
    address: str
    author: str
    added: str | None
    last: str = ""
    last_at: str | None = None
    error: str = ""


class NewAlertTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A new target; a webhook's secret, by which its receiver knows that a message is ours."""

    target: AlertTargetFacts
    secret: Secret


class ReachedAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that was reached. `scope` wallet: of the last top-up; `of`: whom the budget is for."""

    reached: str | None
    scope: str
    of: str
    period: str
    percent: int
    limit: MoneyAmount
    spent: MoneyAmount
    budget: str


class SentTest(msgspec.Struct, frozen=True):
    """The message of a test, which waits to be sent."""

    message: str


@operation(
    "alerts.targets",
    "GET /tenants/{tenant}/alert-targets",
    may=ALERT_READERS,
    uses=Uses(reads="tenant alert_target outbox"),
)
async def list_alert_targets(look: Look, ask: ListAlertTargets) -> ListedPage[AlertTargetFacts]:
    """List where a tenant's alerts go, oldest first, and what became of the last message to each."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    statement = select(AlertTarget).where(
        col(AlertTarget.tenant_id) == owner, col(AlertTarget.ended_ms).is_(None)
    )
    page: ListedPage[AlertTarget] = await listed_page(
        look, ask, statement, col(AlertTarget.id), lambda row: row
    )
    last = await targets.last_messages(look.db, owner, [row.id for row in page.items])
    return ListedPage([_facts(row, last.get(row.id)) for row in page.items], page.next)


@operation(
    "alerts.list",
    "GET /tenants/{tenant}/alerts",
    may=BUDGET_READERS,
    uses=Uses(reads="tenant budget_alert tenant_user"),
)
async def list_alerts(look: Look, ask: ListAlerts) -> ListedPage[ReachedAlert]:
    """List the thresholds of budgets and wallets that were reached, newest first."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    statement = select(BudgetAlert).where(col(BudgetAlert.tenant_id) == owner)
    key = (
        *(col(getattr(BudgetAlert, name)) for name in ("created_ms", "scope", "scope_id", "period")),
        *(col(getattr(BudgetAlert, name)) for name in ("window_start_ms", "limit_nano", "threshold")),
    )
    page: ListedPage[BudgetAlert] = await listed_page(
        look, ask, statement, key, lambda row: row, newest_first=True
    )
    names = await names_of(look.db, owner, [row.scope_id for row in page.items if row.scope == Scope.USER])
    return ListedPage([_reached(row, names.get(row.scope_id, row.scope_id)) for row in page.items], page.next)


async def leads_outside(stores: Stores, _: OperationActor, ask: AddAlertTarget) -> None:
    """Raise Refused where a webhook's name leads inside a network. Resolving may take a while."""
    if ask.webhook and not stores.settings.alert_private_targets:
        await check_resolved(checked_url(ask.webhook, private=False))


@operation(
    "alerts.add_target",
    "POST /tenants/{tenant}/alert-targets",
    may=ALERT_EDITORS,
    audit="alert_target.add",
    before=leads_outside,
    uses=Uses(reads="tenant", writes=f"tenant alert_target {AUDIT}"),
)
async def add_alert_target(change: Change, ask: AddAlertTarget) -> NewAlertTarget:
    """Add where a tenant's alerts go: each goes to all. A webhook's secret is shown this once."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    if bool(ask.webhook) == bool(ask.email):
        raise bad_request(
            "name a webhook's URL or a mail address", field="webhook" if ask.webhook else "email"
        )
    row = await targets.add_target(
        change.db,
        owner,
        WEBHOOK if ask.webhook else EMAIL,
        ask.webhook or ask.email,
        private=change.settings.alert_private_targets,
        author=change.who.author.name,
    )
    return NewAlertTarget(target=_facts(row, None), secret=Secret(row.secret))


@operation(
    "alerts.remove_target",
    "POST /tenants/{tenant}/alert-targets/{target}/remove",
    may=ALERT_EDITORS,
    audit="alert_target.remove",
    uses=Uses(reads="tenant", writes=f"tenant alert_target {AUDIT}"),
)
async def remove_alert_target(change: Change, ask: NameAlertTarget) -> AlertTargetFacts:
    """Remove a target: what was not sent to it will not be."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    row = await targets.remove_target(change.db, owner, ask.target)
    if row is None:
        raise _no_target(ask)
    return _facts(row, None)


@operation(
    "alerts.test",
    "POST /tenants/{tenant}/alert-targets/{target}/test",
    may=ALERT_EDITORS,
    audit="alert.test",
    uses=Uses(reads="tenant alert_target", writes=f"outbox {AUDIT}"),
)
async def send_test_alert(change: Change, ask: NameAlertTarget) -> SentTest:
    """Send a test to a target: a tenant sends one a minute, and 20 a day. Its target says how it went."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    now = change.now_ms()
    made = await targets.tests_since(change.db, owner, now - DAY_MS)
    if len(made) >= TESTS_A_DAY or any(at > now - TEST_EVERY_MS for at in made):
        told = f"a tenant sends one test a minute, and {TESTS_A_DAY} a day: wait"
        raise bad_request(told, field="target")
    if ask.target not in {row.id for row in await targets.list_targets(change.db, owner)}:
        raise _no_target(ask)
    sent = await targets.send_test(change.db, owner, ask.target)
    async with change.db.transaction() as session:
        await record(session, owner, "alert.test", ask.target, None, {"message": sent.id})
    return SentTest(sent.id)


def _facts(row: AlertTarget, last: Outbox | None) -> AlertTargetFacts:
    return AlertTargetFacts(
        target=row.id,
        kind=row.kind,
        address=row.address,
        author=row.author,
        added=iso_time(row.created_ms),
        last=last.state if last else "",
        last_at=iso_time(last.created_ms) if last else None,
        error=last.last_error if last else "",
    )


def _reached(row: BudgetAlert, of: str) -> ReachedAlert:
    return ReachedAlert(
        reached=iso_time(row.created_ms),
        scope=row.scope,
        of=of,
        period=row.period,
        percent=row.threshold,
        limit=MoneyAmount.of(row.limit_nano),
        spent=MoneyAmount.of(row.spent_nano),
        budget=row.budget_id,
    )


def _no_target(ask: NameAlertTarget) -> Refused:
    return unknown(f"there is no target {ask.target!r}", field="target")


OPERATIONS = (
    list_alert_targets,
    list_alerts,
    add_alert_target,
    remove_alert_target,
    send_test_alert,
)
