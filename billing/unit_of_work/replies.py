"""Calls that their caller names by a key are done once: the reply is kept for a day, without secrets, in the
transaction of what it did.

A change that is refused keeps nothing. An order keeps its key as under way before it acts: where its process
dies then, nobody can know what it did, and repeating the call says so.
"""

from dataclasses import dataclass

import msgspec
from sqlalchemy import delete, tuple_
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.replies import KeptReply
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from core.clock import now_ms
from core.errors import Refusal, Refused
from core.operations import Operation, no_secrets
from core.signing.signed_text import Keyring, mac
from core.sql.batches import batch
from core.sql.database import Database, insert_ignore

PURPOSE = b"parley kept reply v1"
KEPT_MS = 24 * 3_600_000
CLEARED_AT_ONCE = 500
UNDER_WAY, DONE = "under_way", "done"
KEY_USED = "this key was used for another call: take a new one"
KEY_UNDER_WAY = (
    "a call of this key is under way, or was cut off: look at what it was to do, then take a new key"
)


class RepliedBefore(Exception):  # noqa: N818  (an answer, not a fault)
    """Ends an order that another call of its key has done meanwhile."""

    def __init__(self, kept: KeptReply) -> None:
        super().__init__()
        self.kept = kept


@dataclass(frozen=True)
class CallKey:
    """Whose call it is, by which name. `digests`: of what was asked, under the installation's secret and the
    one before it, as it may hold a password; the first is stored."""

    tenant: str
    caller: str
    key: str
    digests: tuple[str, ...]


def call_key(
    keyring: Keyring,
    who: OperationActor,
    key: str,
    operation: Operation,
    ask: msgspec.Struct,
    version: int | None,
) -> CallKey:
    """The key of a call: callers do not share theirs. Pure."""
    whole = msgspec.json.encode((operation.name, ask, version), order="sorted", enc_hook=no_secrets)
    digests = tuple(mac(whole, each).hex() for each in keyring.keys(PURPOSE))
    return CallKey(who.tenant or PLATFORM, who.caller, key, digests)


async def claim(session: AsyncSession, call: CallKey) -> KeptReply | None:
    """Take a key in this transaction: None, the call is to be done now. Otherwise the reply that was kept.
    A call of the same key that is under way in another transaction is waited for.

    Raises Refused where the key was used for another call, or for an order without a reply yet."""
    now = now_ms()
    mine = (col(KeptReply.tenant_id) == call.tenant, col(KeptReply.caller) == call.caller)
    await session.exec(delete(KeptReply).where(*mine, col(KeptReply.made_ms) < now - KEPT_MS))
    row = KeptReply(
        tenant_id=call.tenant,
        caller=call.caller,
        key=call.key,
        digest=call.digests[0],
        state=UNDER_WAY,
        reply="null",
        made_ms=now,
    )
    if await insert_ignore(session, [row]):
        return None
    kept = await reply_of(session, call)
    assert kept is not None, "the row that was in the way"
    return kept


async def reply_of(session: AsyncSession, call: CallKey) -> KeptReply | None:
    """The reply that was kept for a key; None: the key is new. Raises Refused as `claim`."""
    kept = await session.get(KeptReply, (call.tenant, call.caller, call.key))
    if kept is None:
        return None
    if kept.digest not in call.digests:
        raise Refused(Refusal("key_conflict", KEY_USED, field="idempotency-key"))
    if kept.state == UNDER_WAY:
        raise Refused(Refusal("under_way", KEY_UNDER_WAY, field="idempotency-key"))
    return kept


async def keep(
    session: AsyncSession, call: CallKey, answer: object, version: int | None, proposal: str = ""
) -> None:
    """Keep the reply of a call that was claimed. `proposal`: what it became."""
    row = await session.get(KeptReply, (call.tenant, call.caller, call.key))
    assert row is not None, "a call is claimed before its reply is kept"
    row.state, row.version, row.proposal = DONE, version, proposal
    row.reply = msgspec.json.encode(answer, enc_hook=no_secrets).decode()
    session.add(row)


async def clear_replies(db: Database, now: int, most: int = CLEARED_AT_ONCE, staff: bool = True) -> int:
    """Delete some replies that are older than a day; return how many. Those of callers who call again go with
    their next key. `staff` False: none of the platform's."""
    key = (col(KeptReply.tenant_id), col(KeptReply.caller), col(KeptReply.key))
    old = select(*key).where(col(KeptReply.made_ms) < now - KEPT_MS).limit(most)
    if not staff:
        old = old.where(col(KeptReply.tenant_id) != PLATFORM)
    async with db.transaction() as session:
        some = delete(KeptReply).where(tuple_(*key).in_(batch(old)))
        return (await session.exec(some)).rowcount
