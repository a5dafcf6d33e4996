"""What each message looks like on the wire, and how long the fields of a client's may be."""

import enum
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from core.errors import Refusal
from server.http.replies import STATUSES, refused_reply
from server.protocol import messages as m
from server.protocol.codec import Malformed, Subprotocol, decode, encode
from server.protocol.codes import HELLO_REFUSED, RETRYABLE, CloseCode, ErrorCode, of_queue, refusal
from server.protocol.flags import EndSafety

USAGE = m.EndUsage(1, UNSET, 2, 3)
TIMING = m.Timing(1, 2, 3)
USAGE_SAID, TIMING_SAID = {"input": 1, "output": 2, "total": 3}, {"queue_ms": 1, "ttft_ms": 2, "total_ms": 3}
COST_SAID = {"nano": 0, "currency": "USD"}
BEATS, LIMITS = m.HeartbeatTimes(1, 2), m.WireLimits(1, 2, 3, 4, 5)
SAID: list[tuple[m.ServerMessage, dict[str, Any]]] = [
    (
        m.Welcome("s", "c", "r", 9, BEATS, LIMITS, "full", [m.WelcomeRequest("x", "gone", why="late")], 7),
        {
            "t": "welcome",
            "session": "s",
            "connection": "c",
            "resume_token": "r",
            "resume_expires_at": 9,
            "heartbeat": {"interval_ms": 1, "timeout_ms": 2},
            "limits": {"events": 1, "bytes": 2, "frame": 3, "requests": 4, "connection_bytes": 5},
            "resumed": "full",
            "requests": [{"id": "x", "state": "gone", "why": "late"}],
            "now": 7,
        },
    ),
    (
        m.Accepted("x", 1, 2, False, "bulk", m.QueuePosition(3, 4)),
        {
            "t": "accepted",
            "id": "x",
            "g": 1,
            "epoch": 2,
            "dup": False,
            "priority": "bulk",
            "queue": {"position": 3, "wait_ms": 4},
            "quota": {},
        },
    ),
    (m.Delta(1, 2, 3, 4, "x", 5), {"t": "delta", "g": 1, "a": 2, "b": 3, "p": 4, "x": "x", "i": 5}),
    (
        m.Delta(1, 2, 3, 4, "x", 5, 6, 0),
        {"t": "delta", "g": 1, "a": 2, "b": 3, "p": 4, "x": "x", "i": 5, "batch": 6, "ms": 0},
    ),
    (m.Event(1, "paused"), {"t": "event", "g": 1, "k": "paused"}),
    (m.Event(1, "moved", 0, {}), {"t": "event", "g": 1, "k": "moved", "o": 0, "v": {}}),
    (m.Snap(1, 2, 3, ""), {"t": "snap", "g": 1, "epoch": 2, "o": 3, "x": ""}),
    (
        m.Retract(1, 2, 3, "c", "p"),
        {"t": "retract", "g": 1, "o": 2, "p": 3, "category": "c", "policy": "p"},
    ),
    (
        m.End(1, 2, "stop", USAGE, UNSET, TIMING, "h"),
        {"t": "end", "g": 1, "o": 2, "reason": "stop", "usage": USAGE_SAID, "timing": TIMING_SAID, "h": "h"},
    ),
    (
        m.End(1, 2, "blocked", USAGE, UNSET, TIMING, "h", "safety_blocked", EndSafety("card", "tenant")),
        {
            "t": "end",
            "g": 1,
            "o": 2,
            "reason": "blocked",
            "usage": USAGE_SAID,
            "timing": TIMING_SAID,
            "h": "h",
            "code": "safety_blocked",
            "safety": {"category": "card", "scope": "tenant"},
        },
    ),
    (m.CancelOk("x", "ended"), {"t": "cancel_ok", "id": "x", "state": "ended"}),
    (m.AuthRequired(5), {"t": "auth_required", "expires_in_ms": 5}),
    (m.AuthOk(), {"t": "auth_ok"}),
    (m.GoAway("drain", 5), {"t": "go_away", "why": "drain", "in_ms": 5}),
    (m.Error("c", "m", False), {"t": "error", "code": "c", "message": "m", "retry": False}),
    (m.ServerPing(1), {"t": "ping", "ts": 1}),
    (m.ServerPong(None), {"t": "pong", "ts": None}),
]


@pytest.mark.parametrize(("message", "said"), SAID, ids=[said["t"] for _, said in SAID])
def test_what_is_not_known_is_left_out(message: m.ServerMessage, said: dict[str, Any]):
    """Docs name what may be absent; the rest is there also where it is nothing."""
    assert msgspec.json.decode(encode(message, Subprotocol.JSON)) == said


@pytest.mark.parametrize(
    ("struct", "said"),
    [
        (
            m.WelcomeRequest("x", "running", 1, 2, 3, 4),
            {"id": "x", "state": "running", "g": 1, "epoch": 2, "from": 3, "head": 4},
        ),
        (m.QuotaLeft(tokens=m.Left(5, 0)), {"tokens": {"limit": 5, "remaining": 0}}),
        (m.Left(5, 0, 9), {"limit": 5, "remaining": 0, "resets_at_ms": 9}),
        (
            m.EndPayload("stop", USAGE, m.Cost(0, "USD"), TIMING, "h"),
            {"reason": "stop", "usage": USAGE_SAID, "cost": COST_SAID, "timing": TIMING_SAID, "h": "h"},
        ),
    ],
)
def test_parts_leave_out_what_is_not_known(struct: msgspec.Struct, said: dict[str, Any]):
    """As messages do."""
    assert msgspec.json.decode(msgspec.json.encode(struct)) == said


HELLO: dict[str, Any] = {"t": "hello", "v": 1}


def resume(**part: Any) -> dict[str, Any]:
    """The part of a hello that asks for what was open."""
    return HELLO | {"resume": part}


@pytest.mark.parametrize(
    ("message", "field", "most"),
    [
        ({"t": "hello", "v": 1}, "token", 2048),
        ({"t": "auth"}, "token", 2048),
        ({"t": "send"}, "id", 64),
        ({"t": "attach", "o": 0}, "id", 64),
        ({"t": "detach"}, "id", 64),
        ({"t": "cancel"}, "id", 64),
    ],
)
def test_a_text_has_a_longest(message: dict[str, Any], field: str, most: int):
    """One more character is no message."""
    assert decode(msgspec.json.encode(message | {field: "x" * most}).decode(), Subprotocol.JSON, 10**6)
    with pytest.raises(Malformed):
        decode(msgspec.json.encode(message | {field: "x" * (most + 1)}).decode(), Subprotocol.JSON, 10**6)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (resume(token="x" * 2048), resume(token="x" * 2049)),
        (resume(requests=[{"id": "x" * 64}] * 64), resume(requests=[{"id": "x"}] * 65)),
        (resume(requests=[{"id": "x", "o": 0}]), resume(requests=[{"id": "x", "o": -1}])),
        (resume(requests=[{"id": "x"}]), resume(requests=[{"id": "x" * 65}])),
        (HELLO | {"caps": ["x"] * 16}, HELLO | {"caps": ["x"] * 17}),
        *(
            (HELLO | {"agent": {name: "x" * 100}}, HELLO | {"agent": {name: "x" * 101}})
            for name in ("name", "version")
        ),
        *((HELLO | {"window": {name: 0}}, HELLO | {"window": {name: -1}}) for name in ("events", "bytes")),
        ({"t": "attach", "id": "x", "o": 0}, {"t": "attach", "id": "x", "o": -1}),
        ({"t": "ack", "a": [[1, 0]], "w": {"1": 0}}, {"t": "ack", "a": [[1, -1]]}),
        ({"t": "ack", "a": []}, {"t": "ack", "a": [], "w": {"1": -1}}),
    ],
)
def test_what_is_one_more_is_no_message(good: dict[str, Any], bad: dict[str, Any]):
    """The same of lists, and of numbers below nothing."""
    decode(msgspec.json.encode(good).decode(), Subprotocol.JSON, 10**6)
    with pytest.raises(Malformed):
        decode(msgspec.json.encode(bad).decode(), Subprotocol.JSON, 10**6)


def test_a_request_that_is_asked_for_begins_at_its_start():
    """Where the client names no offset."""
    hello = decode('{"t":"hello","v":1,"resume":{"requests":[{"id":"x"}]}}', Subprotocol.JSON, 4096)
    assert isinstance(hello, m.Hello)
    assert hello.resume is not None
    assert hello.resume.requests == [m.ResumeRequest("x", None, 0)]


def test_control_messages_are_as_long_as_they_may_be():
    """The limit itself is good, in bytes; one more is not."""
    for text in ("y", "ü"):
        frame = f'{{"t":"bye","y":"{text}"}}'
        size = len(frame.encode())
        decode(frame, Subprotocol.JSON, size)
        with pytest.raises(Malformed, match=f"bye is longer than {size - 1} bytes") as bad:
            decode(frame, Subprotocol.JSON, size - 1)
        assert (bad.value.re, bad.value.id, bad.value.refusal.limit) == ("bye", None, size - 1)


@pytest.mark.parametrize(("id", "told"), [("x" * 64, True), ("x" * 65, False), ("x\x1b", False), (7, False)])
def test_a_bad_message_is_named_by_what_may_be_repeated(id: Any, told: bool):
    """Neither long nor unprintable."""
    with pytest.raises(Malformed) as bad:
        decode(msgspec.json.encode({"t": "attach", "id": id}).decode(), Subprotocol.JSON, 4096)
    assert bad.value.id == (id if told else None)
    with pytest.raises(Malformed, match="no message type" if told else "`t` must be a text") as bad:
        decode(msgspec.json.encode({"t": id}).decode(), Subprotocol.JSON, 4096)
    assert bad.value.re == (id if told else None)


@pytest.mark.parametrize("frame", ['{"t":"send","id":"x","content":"\\ud800"}', '{"t":"bye","\\ud800":[1]}'])
def test_half_a_pair_is_a_bad_request(frame: str):
    """Also deep inside, in a list or as a name."""
    deep = frame.replace('"\\ud800"}', '{"a":[0,["\\ud800"]]}}')
    for each in (frame, deep):
        with pytest.raises(Malformed, match="surrogate") as bad:
            decode(each, Subprotocol.JSON, 4096)
        assert bad.value.refusal.code == "bad_request"


CLOSES = {
    "NORMAL": 1000, "DRAIN": 4000, "MAX_AGE": 4001, "REBALANCE": 4002, "SUPERSEDED": 4003, "SLOW": 4008,
    "STATE_LOST": 4010, "NO_PONG": 4012, "RATE_LIMITED": 4013, "AUTH_EXPIRED": 4014, "INTERNAL": 4015,
    "BAD_MESSAGE": 4500, "AUTH_INVALID": 4501, "HELLO_TIMEOUT": 4502, "FORBIDDEN": 4504,
    "CONNECTION_LIMIT": 4505, "VERSION": 4506, "SUSPENDED": 4507, "TOO_BIG": 4509,
}  # fmt: skip
STATUS_OF = {
    "unauthorized": 401, "token_expired": 401, "forbidden": 403, "cancel_denied": 403,
    "account_suspended": 402, "insufficient_quota": 402, "budget_exceeded": 402, "rate_limited": 429,
    "overloaded": 503, "too_large": 413, "unknown_conversation": 404, "unknown_model": 404,
    "id_conflict": 409, "conversation_busy": 409, "internal": 500,
}  # fmt: skip
RETRIED = {"token_expired", "rate_limited", "overloaded", "conversation_busy", "engine_lost", "internal"}


def members(of: type[enum.Enum]) -> dict[str, Any]:
    """Names and values."""
    return {each.name: each.value for each in of}


def test_numbers_are_the_protocols():
    """Clients have them in their code: written out once more, they do not change by accident."""
    assert members(CloseCode) == CLOSES
    assert {code.value: status for code, status in STATUSES.items()} == STATUS_OF
    assert set(RETRYABLE) == RETRIED
    assert HELLO_REFUSED == {
        "unauthorized": 4501,
        "forbidden": 4504,
        "account_suspended": 4507,
        "rate_limited": 4013,
    }
    for code in ErrorCode:
        assert refusal(code, "m").retry is (code.value in RETRIED)
        status = refused_reply(refusal(code, "m")).status_code
        assert status == STATUS_OF.get(code.value, 400)


@pytest.mark.parametrize(
    ("code", "retry"),
    [("overloaded", True), ("rate_limited", True), ("too_large", False), ("budget_exceeded", False)],
)
def test_the_queues_refusals_may_be_retried_as_the_protocol_says(code: str, retry: bool):
    """Whatever the queue thinks of that; whose limit it is stays as it says."""
    found = of_queue(Refusal(code, "m", not retry, scope="key"))
    assert (found.code, found.retry, found.scope) == (code, retry, "key")


def test_a_refusal_over_http_says_all_that_is_known():
    """Nobody stores it; a caller who is not known is asked to show a key."""
    facts: dict[str, Any] = {
        "scope": "user",
        "limit": 2,
        "dimension": "cost",
        "remaining": 3,
        "spent": 4,
        "held": 5,
    }
    full = Refusal("rate_limited", "m", True, 7, **facts, resets_at_ms=6)
    reply = refused_reply(full)
    said = {"code": "rate_limited", "message": "m", "retry": True, "after_ms": 7, **facts, "resets_at_ms": 6}
    assert msgspec.json.decode(reply.body) == {"error": said}
    assert (reply.headers["cache-control"], reply.headers["content-type"]) == ("no-store", "application/json")
    assert "www-authenticate" not in reply.headers
    bare = refused_reply(refusal(ErrorCode.UNAUTHORIZED, "m"))
    assert bare.headers["www-authenticate"] == "Bearer"
    assert msgspec.json.decode(bare.body)["error"] == {"code": "unauthorized", "message": "m", "retry": False}
    assert refused_reply(full, 418).status_code == 418
