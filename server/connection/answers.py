"""Tells who asks which connections this gateway has, and how far each reads a request
(core/redis/gateway_questions.py)."""

import heapq

from redis.exceptions import RedisError

from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.gateway_questions import (
    TOLD_MAX,
    ConnectionFacts,
    GatewayAnswer,
    GatewayQuestion,
    ReaderFacts,
    answer_question,
)
from server.connection.registry import ConnectionRegistry, OpenSocket
from server.session.stream import ReaderStanding

repeated = RepeatedWarning(logger(__name__))


class QuestionAnswers:
    """The answers of one gateway. An answer looks at each of its sessions once."""

    def __init__(self, redis: RedisClient, registry: ConnectionRegistry, gateway: str) -> None:
        self._redis = redis
        self._registry = registry
        self._gateway = gateway

    def start(self, question: GatewayQuestion) -> None:
        """Answer a question; one that cannot be answered is not heard."""
        self._registry.work.start(self._answer(question))

    async def _answer(self, question: GatewayQuestion) -> None:
        sockets = [socket for socket, record in self._registry.sessions() if record.tenant == question.tenant]
        if question.request:
            answer = GatewayAnswer(readers=_readers(sockets, question.request))
        else:
            answer = GatewayAnswer(connections=_connections(sockets, question))
        try:
            await answer_question(self._redis, question, self._gateway, answer)
        except (RedisError, OSError) as error:
            repeated.warning("connection.question_not_answered", error=error_summary(error))


def _readers(sockets: list[OpenSocket], id: str) -> list[ReaderFacts]:
    found = list[ReaderFacts]()
    for socket in sockets:
        standing = socket.standing(id)
        facts = socket.facts() if standing is not None else None
        if standing is not None and facts is not None and len(found) < TOLD_MAX:
            found.append(reader_facts(facts, standing))
    return found


def _connections(sockets: list[OpenSocket], question: GatewayQuestion) -> list[ConnectionFacts]:
    older = (each for each in sockets if not question.before or each.id < question.before)
    asked = (each for each in older if not question.user or _is_of(each, question.user))
    newest = heapq.nlargest(question.limit, asked, key=lambda socket: socket.id)
    return [facts for socket in newest if (facts := socket.facts()) is not None]


def _is_of(socket: OpenSocket, user: str) -> bool:
    return socket.principal is not None and socket.principal.user == user


def reader_facts(facts: ConnectionFacts, standing: ReaderStanding) -> ReaderFacts:
    """One reader, of its connection and how far it is. Pure."""
    paused, stuck = standing.paused_since, standing.stuck_since
    return ReaderFacts(
        connection=facts.connection,
        session=facts.session,
        gateway=facts.gateway,
        client=facts.client,
        protocol=facts.protocol,
        since_ms=facts.since_ms,
        state="stuck" if stuck is not None else "paused" if paused is not None else "reading",
        sent=standing.sent,
        acked=standing.acked,
        behind=max(0, standing.head - standing.acked),
        unacked_events=standing.sent - standing.acked,
        window_events=standing.window_events,
        unacked_bytes=standing.unacked_bytes,
        window_bytes=standing.window_bytes,
        paused_since_ms=int((paused or 0) * 1000),
        stuck_since_ms=int((stuck or 0) * 1000),
    )
