"""Operations that show operators what shared pools cost while idle, by tenants' shares of tokens."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.dedicated_pools.idle_shares import idle_shares
from billing.dedicated_pools.reports import whole_hours
from billing.money import to_text
from billing.operations.known_times import begun_month
from billing.periods import UTC_ZONE, Calendar, month_text
from billing.reports.exports import CSV, Rows, csv_pieces
from billing.tenants.tenancy import tenant_names
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.file_answer import FileAnswer
from core.operations import MONEY, OPERATORS, MoneyAmount, Uses, operation

COLUMNS = ("pool", "tenant", "name", "tokens", "of_tokens", "usd")


class AskIdle(msgspec.Struct, frozen=True, kw_only=True):
    """Which month."""

    month: Annotated[str | None, Meta(description="As 2026-10, in UTC; by default this one.")] = None


class IdleShareFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's share of a shared pool's idle cost, by its `tokens` of all `of_tokens`. `tenant` empty:
    nobody used the pool; `idle` null: nobody said what its GPUs cost."""

    pool: str
    tenant: str
    name: str
    tokens: int
    of_tokens: int
    idle: MoneyAmount | None


class IdleCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of a month, by pool, the largest first."""

    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    shares: list[IdleShareFacts]


USES = Uses(reads="tenant pool_interval pool_owner gpu_cost usage_line charge rollup_hour")


@operation("chargeback.idle", "GET /chargeback/idle", may=OPERATORS | MONEY, uses=USES)
async def show_idle(look: Look, ask: AskIdle) -> IdleCosts:
    """Show what shared pools cost while idle, told apart by tenants' shares of their tokens. No bill has
    it."""
    calendar = Calendar(UTC_ZONE)
    window = whole_hours(begun_month(ask.month, calendar, look.now_ms()))
    found = await idle_shares(look.db, window)
    names = await tenant_names(look.db, {each.tenant_id for each in found if each.tenant_id})
    return IdleCosts(
        month=month_text(calendar.month_at(window.start_ms)),
        start=iso_time(window.start_ms),
        end=iso_time(window.end_ms),
        shares=[
            IdleShareFacts(
                pool=each.pool,
                tenant=each.tenant_id,
                name=names.get(each.tenant_id, each.tenant_id),
                tokens=each.tokens,
                of_tokens=each.of_tokens,
                idle=None if each.idle_nano is None else MoneyAmount.of(each.idle_nano),
            )
            for each in found
        ],
    )


@operation("chargeback.idle_export", "GET /chargeback/idle/export", may=OPERATORS | MONEY, uses=USES)
async def export_idle(look: Look, ask: AskIdle) -> FileAnswer:
    """Give these shares as a CSV file, in which no cell is a formula."""
    told = await show_idle(look, ask)
    return FileAnswer(f"parley-idle-{told.month}.csv", CSV, csv_pieces(_page(told.shares), mark=True))


async def _page(shares: Sequence[IdleShareFacts]) -> AsyncGenerator[Rows]:
    yield [COLUMNS, *map(_row, shares)]


def _row(share: IdleShareFacts) -> list[str]:
    """A share as its row of a table. Pure."""
    idle = "" if share.idle is None else to_text(share.idle.value)
    return [share.pool, share.tenant, share.name, str(share.tokens), str(share.of_tokens), idle]


OPERATIONS = (show_idle, export_idle)
