"""Takes a send in: checks, renders, admits, stores, and puts it in line. Every step can be repeated: after a
gateway's death between two of them, the same send, sent again, completes the rest."""

from billing.api import AdmissionState, Principal
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7_ms
from core.observability.telemetry import logger, tracer
from server import instruments
from server.access.authorization import CHAT_SCOPE
from server.access.rates import CallRates
from server.access.refusal_counts import RefusalNotes
from server.access.used_sessions import UsedSessions
from server.protocol.codes import ErrorCode, refusal
from server.protocol.messages import Send
from server.reading.sources import OpenedRequest, RequestReaders, Source
from server.requests.admit import SendAdmitter
from server.requests.enqueue import SendEnqueuer, StaleRoute
from server.requests.parse import ParsedSend, parse_send
from server.requests.prepare import SendPreparer
from server.requests.reused_ids import ReusedIds
from server.session.events import SendAccepted

log = logger(__name__)
spans = tracer("server")


class SendHandler:
    """Takes sends for all connections of a gateway: the steps in order."""

    def __init__(
        self,
        settings: Settings,
        rates: CallRates,
        refusals: RefusalNotes,
        used_sessions: UsedSessions,
        readers: RequestReaders,
        reused_ids: ReusedIds,
        preparer: SendPreparer,
        admitter: SendAdmitter,
        enqueuer: SendEnqueuer,
    ) -> None:
        self._settings = settings
        self._rates = rates
        self._refusals = refusals
        self._used_sessions = used_sessions
        self._readers = readers
        self._reused_ids = reused_ids
        self._preparer = preparer
        self._admitter = admitter
        self._enqueuer = enqueuer

    async def take(self, principal: Principal, send: Send) -> tuple[SendAccepted, Source]:
        """Take a send; the source reads its log from the start. Raises Refused, and then nothing remains."""
        try:
            self._rates.send(principal)
        except Refused as refused:  # counted, and not logged: a flood would fill the log
            self._refusals.note(principal, send.id, principal.user, refused.refusal)
            raise
        began = monotonic()
        outcome, facts = "failed", dict[str, object]()
        with spans.span("send.handle"):
            try:
                accepted, source = await self._take(principal, send, facts)
                outcome = "dup" if accepted.dup else "accepted"
                return accepted, source
            except Refused as refused:
                outcome = refused.refusal.code
                user = str(facts.pop("user", principal.user))
                self._refusals.note(principal, send.id, user, refused.refusal)
                raise
            finally:
                facts.pop("user", None)
                seconds = monotonic() - began
                instruments.TURNS.add(1, {"outcome": outcome})
                instruments.ACCEPT_SECONDS.record(seconds)
                log.info(
                    "send.handled",
                    request=send.id if uuid7_ms(send.id) else None,
                    tenant=principal.tenant,
                    key=principal.key,
                    outcome=outcome,
                    ms=round(seconds * 1000, 1),
                    **facts,
                )

    async def _take(
        self, principal: Principal, message: Send, facts: dict[str, object]
    ) -> tuple[SendAccepted, Source]:
        if CHAT_SCOPE not in principal.scopes:
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this key has no scope `chat`"))
        send = parse_send(message, now_ms(), self._settings)
        again = await self._reused_ids.find(principal, send)
        if again is not None:
            return _repeated(again)
        try:
            return await self._place(principal, send, facts)
        except StaleRoute:  # its tenant moved within the moment for which routes are kept
            self._preparer.routes_changed()
            return await self._place(principal, send, facts)

    async def _place(
        self, principal: Principal, send: ParsedSend, facts: dict[str, object]
    ) -> tuple[SendAccepted, Source]:
        """Put a send in line in its tenant's pool. Raises StaleRoute, and then nothing remains."""
        prepared = await self._preparer.prepare(principal, send, facts)
        facts |= {
            "model": prepared.record.name,
            "priority": prepared.priority.value,
            "prompt_tokens": len(prepared.prompt),
            "max_tokens": prepared.sampling.max_tokens,
        }
        await self._used_sessions.note(principal)
        with spans.span("send.admit"):
            admitted = await self._admitter.admit(principal, prepared)
        if admitted.state is AdmissionState.ENDED:  # another gateway took the same send, and it has ended
            return _repeated(await self._readers.open(principal, send.id, None, 0))
        if (bound := await self._admitter.bound(principal, prepared, admitted)) is not None:
            # Its gateway died before the enqueue, and the pool has changed its version since.
            prepared = await self._preparer.prepare(principal, send, facts, bound)
        with spans.span("send.enqueue"):
            in_line = await self._enqueuer.enqueue(principal, prepared, admitted)
            return in_line or _repeated(await self._readers.open(principal, send.id, None, 0))


def _repeated(opening: OpenedRequest) -> tuple[SendAccepted, Source]:
    return SendAccepted(opening.reading, True, opening.priority.value), opening.source
