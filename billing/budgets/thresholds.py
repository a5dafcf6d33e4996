"""Alerts of budgets and wallets, made once each in the transaction that reaches a threshold.

Here are the thresholds that a transaction reached, and their messages. billing/alerts/outbox.py sends them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.budgets.spent import BudgetSum, TenantBudgets, add_to_sums, open_budgets
from billing.ledger.grant_spending import SpendableWallet
from billing.ledger.transactions import AnyRequest, Posting
from billing.money import to_text
from billing.tables.limits import Budget
from billing.tables.prices import Charge
from billing.tables.wallets import AlertTarget, BudgetAlert, Outbox
from core.ids import uuid7
from core.sql.database import insert_ignore, insert_rows

WALLET_SCOPE = "wallet"
TOPIC = "alert"
WEBHOOK = "webhook"
EMAIL = "email"

AlertKey = tuple[Any, ...]


@dataclass(frozen=True)
class ReachedThreshold:
    """A threshold that was reached, with the facts of its message."""

    row: BudgetAlert
    facts: Mapping[str, Any]

    @property
    def key(self) -> AlertKey:
        """The row's primary key."""
        row = self.row
        counted = (row.tenant_id, row.scope, row.scope_id, row.period)
        return (*counted, row.window_start_ms, row.limit_nano, row.threshold)


async def alert_on(
    session: AsyncSession, postings: Sequence[Posting], requests: Sequence[AnyRequest]
) -> None:
    """Bring budgets' sums up to the end of these postings, and alert on thresholds that they and wallets
    reached."""
    now_ms = postings[0].txns[0].posted_ms
    reached: list[ReachedThreshold] = []
    billed = [request for request in requests if not isinstance(request, Charge)]
    budgets = await open_budgets(session, {posting.head.tenant_id for posting in postings}, billed)
    if budgets:
        sums = await add_to_sums(session, budgets, postings, billed)
        for of in budgets:
            reached += budgets_reached(of, sums[of.tenant_id], now_ms)
    for posting in postings:
        if posting.wallet is not None and posting.wallet.uses:
            reached += wallet_reached(posting.wallet)
    await store_alerts(session, reached, now_ms)


def limit_at(budget: Budget, now_ms: int) -> int:
    """The limit in force, in nano-USD: an override until its time."""
    if budget.override_nano is not None and now_ms < (budget.override_until_ms or 0):
        return budget.override_nano
    return budget.limit_nano


def budgets_reached(of: TenantBudgets, sums: Mapping[BudgetSum, int], now_ms: int) -> list[ReachedThreshold]:
    """The thresholds at or below these sums."""
    found: list[ReachedThreshold] = []
    for key, spent_nano in sums.items():
        for budget in of.budgets_on(key.counted, key.period):
            limit_nano = limit_at(budget, now_ms)
            found += [
                _budget_reached(budget, key, limit_nano, spent_nano, threshold, now_ms)
                for threshold in budget.thresholds
                if spent_nano > 0 and spent_nano * 100 >= limit_nano * threshold
            ]
    return found


def _budget_reached(
    budget: Budget, key: BudgetSum, limit_nano: int, spent_nano: int, threshold: int, now_ms: int
) -> ReachedThreshold:
    row = BudgetAlert(
        tenant_id=budget.tenant_id,
        scope=key.counted.scope,
        scope_id=key.counted.scope_id,
        period=key.period,
        window_start_ms=key.window.start_ms,
        limit_nano=limit_nano,
        threshold=threshold,
        budget_id=budget.id,
        spent_nano=spent_nano,
        created_ms=now_ms,
    )
    facts = {
        "type": "budget.threshold",
        "budget": budget.id,
        "scope": row.scope,
        "scope_id": row.scope_id,
        "period": row.period,
        "window_start_ms": key.window.start_ms,
        "window_end_ms": key.window.end_ms,
        "threshold": threshold,
        "hard": budget.hard,
        "mode": budget.mode,
        **_money("limit", limit_nano),
        **_money("spent", spent_nano),
    }
    return ReachedThreshold(row, facts)


def wallet_reached(wallet: SpendableWallet) -> list[ReachedThreshold]:
    """Per cents of the last top-up that the rest has fallen to."""
    left_nano, top_up = wallet.left_nano, wallet.top_up
    return [
        ReachedThreshold(
            BudgetAlert(
                tenant_id=wallet.tenant_id,
                scope=WALLET_SCOPE,
                scope_id=top_up.grant_id,
                period="",
                window_start_ms=0,
                limit_nano=top_up.amount_nano,
                threshold=percent,
                budget_id="",
                spent_nano=top_up.amount_nano - left_nano,
                created_ms=wallet.now_ms,
            ),
            {
                "type": "wallet.low",
                "grant": top_up.grant_id,
                "threshold": percent,
                **_money("top_up", top_up.amount_nano),
                **_money("left", left_nano),
            },
        )
        for percent in wallet.low_percents
        if left_nano * 100 <= top_up.amount_nano * percent
    ]


async def store_alerts(session: AsyncSession, reached: Sequence[ReachedThreshold], now_ms: int) -> None:
    """Store thresholds that were not reached before, with a message for each of the tenant's targets."""
    if not reached:
        return
    ordered = {each.key: each for each in sorted(reached, key=lambda each: each.key)}
    new = set(await insert_ignore(session, [each.row for each in ordered.values()]))
    told = [each for key, each in ordered.items() if key in new]
    if not told:
        return
    tenants = sorted({each.row.tenant_id for each in told})
    statement = select(AlertTarget).where(
        col(AlertTarget.tenant_id).in_(tenants), col(AlertTarget.ended_ms).is_(None)
    )
    targets = (await session.exec(statement)).all()
    messages = [
        message(target, ":".join(str(part) for part in ("alert", *each.key[1:])), each.facts, now_ms)
        for each in told
        for target in targets
        if target.tenant_id == each.row.tenant_id
    ]
    await insert_rows(session, messages)


def message(target: AlertTarget, cause: str, facts: Mapping[str, Any], now_ms: int) -> Outbox:
    """Message to a target because of `cause`. Its id lets the receiver recognise a repetition."""
    message_id = uuid7(now_ms)
    return Outbox(
        tenant_id=target.tenant_id,
        id=message_id,
        topic=TOPIC,
        target_id=target.id,
        idempotency_key=f"{cause}:{target.id}",
        payload={"id": message_id, "tenant": target.tenant_id, "created_ms": now_ms, **facts},
        next_attempt_ms=now_ms,
        created_ms=now_ms,
    )


def _money(name: str, nano: int) -> dict[str, Any]:
    return {f"{name}_nano": nano, f"{name}_usd": to_text(nano)}
