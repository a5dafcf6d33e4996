"""Sends under ids that the directory may have forgotten: each is answered and billed once, however late it
comes again."""

from billing.api import SETTLED_KEEP_MS, Principal, is_billed
from core.clock import now_ms
from core.errors import Refused
from core.ids import uuid7_ms
from server.context import GatewayContext
from server.protocol.codes import ErrorCode, refusal
from server.reading.sources import OpenedRequest, RequestReaders

CLOCKS_DIFFER_MS = 60_000


async def stored_answer_of(
    edge: GatewayContext, readers: RequestReaders, principal: Principal, id: str
) -> OpenedRequest | None:
    """The stored answer of a send that the directory does not know; None where it never ran.

    Raises Refused where it ran and its answer is gone: another event of a billed request is held back."""
    made_ms = uuid7_ms(id)
    assert made_ms is not None, "a checked turn has a UUIDv7"
    if now_ms() < _known_until(made_ms, edge.settings.id_ahead_seconds_max):
        return None
    if await edge.conversations.answer_row(principal.tenant, id) is not None:
        return await readers.open(principal, id, None, 0)
    if await is_billed(edge.db, principal.tenant, id):
        problem = "this id was used before, and its answer is kept no longer: make a new one"
        raise Refused(refusal(ErrorCode.ID_CONFLICT, problem))
    return None


def _known_until(made_ms: int, ahead_seconds: int) -> int:
    """Until when the directory knows whatever was sent under an id, which may have been so far ahead."""
    return made_ms - ahead_seconds * 1000 + SETTLED_KEEP_MS - CLOCKS_DIFFER_MS
