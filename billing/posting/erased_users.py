"""Removes erased people's words from events that arrive late, before they are booked.

A dead node's journal or an old entry of a stream may hold labels, and a user by the name that was once their
id. Amounts, times and ids are booked as for everybody.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.booking.assess import Assessed, decode_event
from billing.ledger.proofs import OPAQUE_USER, words_proof
from billing.ledger.rows import UsageEventRow
from billing.tables.tenants import Tenant, TenantUser, UsageQuarantine
from billing.tenants.erasure import lock_out_erasure
from billing.tenants.tenancy import RESERVED_SUFFIX
from billing.usage import NOTHING_SAID, UsageEvent, encode

Who = tuple[str, str]  # tenant, user


class ErasedOwners(msgspec.Struct, frozen=True):
    """The erased ones of some tenants and users. `nameless`: users whose id was their name, and that no table
    knows any more since users were erased."""

    tenants: Collection[str] = ()
    users: Collection[Who] = ()
    nameless: Collection[Who] = ()

    def has(self, who: Who) -> bool:
        """True where this user's words must be removed."""
        return who[0] in self.tenants or who in self.users or who in self.nameless

    def id_of(self, who: Who) -> str:
        """The id under which this user is booked."""
        named = who in self.nameless or (who[0] in self.tenants and not OPAQUE_USER.fullmatch(who[1]))
        return "" if named else who[1]


async def redact(session: AsyncSession, good: Sequence[Assessed], held: Sequence[UsageQuarantine]) -> None:
    """Remove erased people's words from rows about to be written, in their transaction. A concurrent erasure
    runs before or after it, never within."""
    rows = [each.row for each in good if each.row.words_proof]
    events = [(each, event) for each in held if (event := decode_event(each.event)) and _says(event)]
    wanted = {(row.tenant_id, row.user_id) for row in rows} | {_of(event) for _, event in events}
    if not wanted:
        return
    gone = await _gone(session, wanted)
    for row in rows:
        _redact_row(row, gone)
    for each, event in events:
        if gone.has(_of(event)):
            owner = msgspec.structs.replace(event.owner, user=gone.id_of(_of(event)), metadata=NOTHING_SAID)
            each.event = encode(msgspec.structs.replace(event, owner=owner))


def _redact_row(row: UsageEventRow, gone: ErasedOwners) -> None:
    who = (row.tenant_id, row.user_id)
    if gone.has(who):
        row.user_id, row.request_metadata = gone.id_of(who), {}
        row.words_proof = words_proof(row.user_id, {})


def _of(event: UsageEvent) -> Who:
    return event.tenant, event.owner.user


def _says(event: UsageEvent) -> bool:
    user = event.owner.user
    return event.owner.metadata != NOTHING_SAID or bool(user and not OPAQUE_USER.fullmatch(user))


async def _gone(session: AsyncSession, wanted: Collection[Who]) -> ErasedOwners:
    tenants, users = sorted({who[0] for who in wanted}), sorted({who[1] for who in wanted if who[1]})
    await lock_out_erasure(session, tenants)
    own = (col(TenantUser.tenant_id).in_(tenants), col(TenantUser.id).in_(users))
    names = (
        await session.exec(select(TenantUser.tenant_id, TenantUser.id, TenantUser.name).where(*own))
    ).all()
    erased = select(Tenant.tenant_id).where(
        col(Tenant.tenant_id).in_(tenants), col(Tenant.name).endswith(RESERVED_SUFFIX, autoescape=True)
    )
    return ErasedOwners(
        frozenset((await session.exec(erased)).all()),
        frozenset((tenant, id) for tenant, id, name in names if name is None),
        await _nameless(session, wanted, {(tenant, id) for tenant, id, _ in names}),
    )


async def _nameless(session: AsyncSession, wanted: Iterable[Who], there: Collection[Who]) -> frozenset[Who]:
    unknown = {who for who in wanted if who[1] and who not in there and not OPAQUE_USER.fullmatch(who[1])}
    if not unknown:
        return frozenset()
    some = select(TenantUser.tenant_id).where(
        col(TenantUser.tenant_id).in_(sorted({who[0] for who in unknown})),
        col(TenantUser.erased_ms).is_not(None),
    )
    tenants = set((await session.exec(some.distinct())).all())
    return frozenset(who for who in unknown if who[0] in tenants)
