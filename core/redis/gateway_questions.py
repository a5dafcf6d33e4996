"""Questions to gateways about their connections: asked over the channel of news, answered in Redis.

Only a gateway knows its connections and how far each reads. It tells when somebody asks, and writes nothing
of it otherwise. What is told is looked at; nothing is decided by it.
"""

import asyncio
import secrets
from collections.abc import Collection
from typing import Annotated

import msgspec
from msgspec import Meta

from core.access.processes import CONTROL
from core.clock import monotonic
from core.redis.client import RedisClient
from core.redis.members import reading, set_aside
from core.redis.unreadable import Unreadable, read

CONNECTIONS_ASKED = "connections_asked"  # a kind of news
ANSWER_SECONDS_MAX = 0.2
POLL_SECONDS = 0.005
POLL_SECONDS_MAX = 0.04
ANSWER_KEEP_MS = 5_000
TOLD_MAX = 1_001  # connections, or readers of a request, that one gateway tells of
UNHEARD_MAX = 100  # named: a worker can write of gateways that there are not


class GatewayQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """News that asks. `key`: the question's id. `request`: only who reads it; else the tenant's connections,
    the last opened first, older than `before`, of one `user` or of all."""

    kind: str
    tenant: str
    key: str
    request: str = ""
    before: str = ""
    user: str = ""
    limit: Annotated[int, Meta(ge=1, le=TOLD_MAX)] = TOLD_MAX


class ConnectionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One connection. `since_ms`: when it was opened; `client`: what the client calls itself; `reads`:
    requests that it reads; `unacked_bytes`: sent to it and not acknowledged."""

    connection: str
    session: str
    gateway: str
    key: str
    user_id: str
    client: str
    protocol: str
    since_ms: int
    reads: int = 0
    unacked_bytes: int = 0


class ReaderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One reader of a request. `state`: reading, paused (its window is shut) or stuck. `sent` and `acked` are
    offsets in the log, `behind`: entries of the log not acknowledged; `window_…`: what may be unacknowledged,
    by the client and by what its other requests leave. Times are Unix ms, 0: it is not."""

    connection: str
    session: str
    gateway: str
    client: str
    protocol: str
    since_ms: int
    state: str
    sent: int
    acked: int
    behind: int
    unacked_events: int
    window_events: int
    unacked_bytes: int
    window_bytes: int
    paused_since_ms: int = 0
    stuck_since_ms: int = 0


class GatewayAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one gateway tells; one of both is empty."""

    readers: list[ReaderFacts] = []
    connections: list[ConnectionFacts] = []


class GatewayAnswers(msgspec.Struct, frozen=True):
    """What all gateways told. `unheard`: those that did not, in time or at all, 100 at most."""

    readers: list[ReaderFacts]
    connections: list[ConnectionFacts]
    unheard: list[str]


_answer = msgspec.json.Decoder(GatewayAnswer)


async def ask_gateways(
    redis: RedisClient,
    gateways: Collection[str],
    tenant: str,
    *,
    request: str = "",
    before: str = "",
    user: str = "",
    limit: int = TOLD_MAX,
) -> GatewayAnswers:
    """Ask these gateways, and wait for their answers a fifth of a second at most."""
    if not gateways:
        return GatewayAnswers([], [], [])
    question = GatewayQuestion(
        kind=CONNECTIONS_ASKED,
        tenant=tenant,
        key=secrets.token_hex(8),
        request=request,
        before=before,
        user=user,
        limit=limit,
    )
    key, until, wait = answers_key(question), monotonic() + ANSWER_SECONDS_MAX, POLL_SECONDS
    await redis.publish(CONTROL, msgspec.json.encode(question))
    while True:
        packed: dict[bytes, bytes] = await reading(key, redis.hgetall(key), {})
        heard = {name.decode(errors="replace"): value for name, value in packed.items()}
        if heard.keys() >= set(gateways) or monotonic() >= until:
            return _told(key, heard, gateways)
        await asyncio.sleep(wait)
        wait = min(2 * wait, POLL_SECONDS_MAX)


async def answer_question(
    redis: RedisClient, question: GatewayQuestion, gateway: str, answer: GatewayAnswer
) -> None:
    """Answer for one gateway."""
    key = answers_key(question)
    pipe = redis.pipeline(transaction=False)
    pipe.hset(key, mapping={gateway: msgspec.json.encode(answer)}).pexpire(key, ANSWER_KEEP_MS)
    await pipe.execute()


def answers_key(question: GatewayQuestion) -> str:
    """Gateway -> its answer."""
    return f"{{t:{question.tenant}}}asked:{question.key}"


def _told(key: str, heard: dict[str, bytes], gateways: Collection[str]) -> GatewayAnswers:
    answers = {name: read("an answer", _answer.decode, packed) for name, packed in heard.items()}
    good = [each for each in answers.values() if not isinstance(each, Unreadable)]
    set_aside(key, len(answers) - len(good))
    return GatewayAnswers(
        readers=sorted((one for each in good for one in each.readers), key=lambda one: one.connection),
        connections=sorted(
            (one for each in good for one in each.connections), key=lambda one: one.connection, reverse=True
        ),
        unheard=sorted(set(gateways) - heard.keys())[:UNHEARD_MAX],
    )
