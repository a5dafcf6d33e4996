"""Finds sends under an id that came before: each is answered and billed once, however late it comes again."""

from billing.api import SETTLED_KEEP_MS, AdmissionState, Principal, Quota, is_billed
from core.clock import now_ms
from core.errors import Refused
from core.ids import uuid7_ms
from core.sql.database import Database
from server.access.authorization import owns
from server.conversations.store import ConversationStore
from server.protocol.codes import ErrorCode, refusal
from server.reading.sources import OpenedRequest, RequestReaders
from server.reading.subscriptions import RequestName
from server.requests.parse import ParsedSend

CLOCKS_DIFFER_MS = 60_000


class ReusedIds:
    """Finds a repeated send's earlier request. `ahead_seconds_max`: the most that an id's time may be
    ahead."""

    def __init__(
        self,
        ahead_seconds_max: int,
        db: Database,
        quota: Quota,
        conversations: ConversationStore,
        readers: RequestReaders,
    ) -> None:
        self._ahead_seconds_max = ahead_seconds_max
        self._db = db
        self._quota = quota
        self._conversations = conversations
        self._readers = readers

    async def find(self, principal: Principal, send: ParsedSend) -> OpenedRequest | None:
        """The earlier request of a send; None for a new one, or one whose gateway died before the enqueue."""
        known = await self._quota.directory(principal.tenant, send.id)
        if known is None:
            return await self._stored(principal, send.id)
        if known.body_hash != send.body_hash or not owns(principal, known.project, known.key, known.user):
            problem = "this id was used for another send: make a new one"
            raise Refused(refusal(ErrorCode.ID_CONFLICT, problem))
        if known.state is AdmissionState.ENDED:
            return await self._readers.open(principal, send.id, None, 0)
        name = RequestName(known.pool, principal.tenant, send.id)
        opening = await self._readers.open_log(name, send.body_hash, None, 0)
        if opening is None and send.conversation is not None:
            # The rows it left would make its own conversation busy; they are written again.
            await self._conversations.abandon(principal.tenant, send.id)
        return opening

    async def _stored(self, principal: Principal, id: str) -> OpenedRequest | None:
        """The stored answer of a send that the directory does not know; None where it never ran. Raises
        Refused where it ran and its answer is gone: a second event of a billed request would be held back."""
        made_ms = uuid7_ms(id)
        assert made_ms is not None, "a checked send has a UUIDv7"
        if now_ms() < _known_until(made_ms, self._ahead_seconds_max):
            return None
        if await self._conversations.answer_row(principal.tenant, id) is not None:
            return await self._readers.open(principal, id, None, 0)
        if await is_billed(self._db, principal.tenant, id):
            problem = "this id was used before, and its answer is kept no longer: make a new one"
            raise Refused(refusal(ErrorCode.ID_CONFLICT, problem))
        return None


def _known_until(made_ms: int, ahead_seconds: int) -> int:
    """Unix ms until which the directory knows any send under an id of `made_ms`, made that far ahead."""
    return made_ms - ahead_seconds * 1000 + SETTLED_KEEP_MS - CLOCKS_DIFFER_MS
