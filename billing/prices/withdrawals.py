"""Withdraws versions of price books before they begin: a withdrawn version never priced anything."""

from dataclasses import dataclass

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.prices.versions import number_at
from billing.tables.tenants import PriceBook, PriceVersion
from core.clock import now_ms
from core.errors import bad_request
from core.names import checked_name
from core.sql.database import Database

NOTICE_MS = 60_000  # gateways cache prices for seconds, and clocks differ
VERSION_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Withdrawn:
    """A version, and the number of the one in force at its time instead; None: none."""

    version: PriceVersion
    instead: int | None


async def withdraw_version(
    db: Database, book_id: str, number: int, reason: str, dry_run: bool = False
) -> Withdrawn:
    """Withdraw a version that has not begun. A dry run changes nothing.

    Raises Refused where there is no such version, it has begun or begins within a minute, or is withdrawn
    already."""
    now = now_ms()
    async with db.transaction() as session:
        if await lock_book(session, book_id) is None:
            raise bad_request(f"there is no price book {book_id!r}: see `parley prices show`")
        version = await withdrawable_version(session, book_id, number, now)
        assert version is not None
        others = number_at(version.book_id, version.tenant_id, version.valid_from_ms, but=number)
        instead = (await session.exec(select(others))).one()
        checked_name("reason", reason)
        if not dry_run:
            await withdraw(session, version, reason, now)
    return Withdrawn(version, instead)


async def lock_book(session: AsyncSession, book_id: str) -> PriceBook | None:
    """Lock the book until the transaction ends, so that its versions do not change."""
    statement = select(PriceBook).where(col(PriceBook.id) == book_id).with_for_update()
    return (await session.exec(statement)).first()


async def withdrawable_version(
    session: AsyncSession, book_id: str, number: int, now: int, again: bool = False
) -> PriceVersion | None:
    """Return the version. Raises Refused where it cannot be withdrawn; with `again`, returns None where it is
    withdrawn already."""
    in_bounds = 0 < number <= VERSION_MAX
    version = await session.get(PriceVersion, (book_id, number)) if in_bounds else None
    if version is None:
        raise bad_request(f"there is no version {number} of {book_id!r}: see `parley prices show`")
    if version.withdrawn_ms is not None and again:
        return None
    if version.withdrawn_ms is not None:
        raise bad_request(f"version {number} of {book_id!r} is withdrawn already")
    if version.valid_from_ms < now + NOTICE_MS:
        raise bad_request(
            f"version {number} of {book_id!r} has begun, or begins within a minute: import another one"
        )
    return version


async def withdraw(session: AsyncSession, version: PriceVersion, reason: str, now: int) -> None:
    """Mark a version as withdrawn, and record the reason."""
    version.withdrawn_ms = now
    session.add(version)
    await session.flush()
    says = {"valid_from_ms": version.valid_from_ms, "reason": checked_name("reason", reason)}
    target = f"{version.book_id}/{version.version}"
    await record(session, version.tenant_id, "price.withdraw", target, None, says)
