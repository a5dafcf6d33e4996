"""What the Python client makes of a closed socket, of a refused upgrade, and of an address it is sent to."""

from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from parley_client.connection import DECODE, ENCODE, GatewayClosed, Stopped, _refusal, same_origin


@pytest.mark.parametrize(
    ("codes", "retryable"),
    [
        ((1001, 1005, 1006, 1011, 1012, 1013), True),
        ((1000, 1002, 1003, 1007, 1008, 1009, 1010, 1014, 1015), False),
        ((4000, 4001, 4002, 4004, 4008, 4013, 4499), True),
        ((3999, 4003, 4500, 4501, 4999, 5000), False),
    ],
)
def test_the_number_says_whether_to_come_back(codes: tuple[int, ...], retryable: bool):
    """4000 to 4499, but for a session that goes on elsewhere; of the web's own those that mean a fault."""
    assert {code: GatewayClosed(code).retryable for code in codes} == dict.fromkeys(codes, retryable)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (4003, "superseded"),
        (4500, "bad_message"),
        (4501, "unauthorized"),
        (4502, "hello_timeout"),
        (4504, "forbidden"),
        (4505, "connection_limit"),
        (4506, "version"),
        (4507, "account_suspended"),
        (4509, "too_large"),
        (1000, "closed"),
    ],
)
def test_an_end_has_a_name(code: int, name: str):
    """And says why: as the server did, else with its number."""
    stopped = GatewayClosed(code, "because").stopped()
    assert (stopped.code, stopped.message, str(stopped)) == (name, "because", f"{name}: because")
    assert GatewayClosed(code).stopped().message == f"the server closed the connection ({code})"
    assert str(GatewayClosed(code, "because")) == f"{code}: because"


@pytest.mark.parametrize(
    ("code", "fault", "wait_seconds", "waits"),
    [
        (4013, None, 0, 1.0),
        (4012, None, 0, 0.0),
        (4013, {"message": "m"}, 0, 1.0),
        (4013, {"message": "m", "after_ms": 2500}, 0, 2.5),
        (4013, {"message": "m", "after_ms": 0}, 0, 0.0),
        (4000, {"message": "m", "after_ms": 2500}, 0, 2.5),
        (1006, None, 7.0, 7.0),
        (4013, {"message": "m", "after_ms": 2500}, 7.0, 7.0),
    ],
)
def test_how_long_to_stay_away(code: int, fault: dict[str, Any] | None, wait_seconds: float, waits: float):
    """As the error before it said; a rate that was exceeded is waited out for a second at least."""
    closed = GatewayClosed(code, "", fault, wait_seconds)
    assert (closed.wait_seconds, closed.reason) == (waits, "m" if fault else "")
    assert GatewayClosed(code, "own", fault).reason == "own"


def refused(status: int, body: bytes = b"", **headers: str) -> Stopped | GatewayClosed:
    """What an upgrade that is answered so comes to."""
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    return _refusal(InvalidStatus(Response(status, "", named, body)))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (401, "unauthorized"),
        (403, "forbidden"),
        (400, "bad_request"),
        (404, "bad_request"),
        (499, "bad_request"),
    ],
)
def test_a_refused_upgrade_ends_the_client(status: int, name: str):
    """It would be the same next time. The first line of what was said is told, 200 characters of it."""
    found = refused(status)
    assert isinstance(found, Stopped)
    problem = f"the server refused the WebSocket with HTTP {status}"
    assert (found.code, found.message) == (name, problem)
    long = refused(status, b"\n " + b"x" * 300 + b"\nmore")
    assert isinstance(long, Stopped)
    assert long.message == f"{problem}: {'x' * 200}"


@pytest.mark.parametrize(
    ("status", "after", "waits"),
    [
        (408, "", 0),
        (429, "7", 7),
        (500, "60", 60),
        (503, "61", 60),
        (599, "0", 0),
        (503, "-1", 0),
        (503, "Wed, 21 Oct 2026 07:28:00 GMT", 0),
    ],
)
def test_an_upgrade_that_may_work_later_is_tried_again(status: int, after: str, waits: float):
    """After as long as the server asks, a minute at most."""
    found = refused(status, b"busy", retry_after=after)
    assert isinstance(found, GatewayClosed)
    assert (found.code, found.wait_seconds, found.retryable) == (1006, waits, True)
    assert found.reason == f"the server refused the WebSocket with HTTP {status}: busy"


OURS = "wss://gw.example/v1/ws"


@pytest.mark.parametrize(
    ("ours", "named", "to"),
    [
        (OURS, "wss://gw.example/other", "wss://gw.example/other"),
        (OURS, "https://gw.example/v1/ws?x", "wss://gw.example/v1/ws?x"),
        (OURS, "/v2/ws", "wss://gw.example/v2/ws"),
        (OURS, "wss://gw.example:443/o", "wss://gw.example:443/o"),
        ("ws://gw.example:80/v1/ws", "http://gw.example/o", "ws://gw.example/o"),
        (OURS, "wss://gw.example:444/o", OURS),
        (OURS, "ws://gw.example/o", OURS),
        (OURS, "http://gw.example/o", OURS),
        (OURS, "wss://evil.example/o", OURS),
        (OURS, "//evil.example/o", OURS),
        (OURS, "wss://[", OURS),
        (OURS, None, OURS),
        (OURS, 7, OURS),
    ],
)
def test_a_client_goes_to_its_own_server_only(ours: str, named: object, to: str):
    """Its key is for nobody else."""
    assert same_origin(ours, named) == to


def test_both_encodings_carry_frames():
    """Text frames and binary ones."""
    frame = {"t": "bye", "x": "ü"}
    assert ENCODE["json"](frame) == '{"t":"bye","x":"ü"}'
    assert isinstance(ENCODE["msgpack"](frame), bytes)
    for each in ("json", "msgpack"):
        assert DECODE[each](ENCODE[each](frame)) == frame  # type: ignore[index]
