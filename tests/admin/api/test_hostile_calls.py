"""Calls that nobody makes by mistake: each is answered as what it is, never as a fault of ours."""

import base64

import msgspec
import pytest

from admin.api.callers import OPERATORS_SIDE
from tests.admin.api.conftest import ApiSite


def forged(cursor: str, position: object) -> str:
    """A cursor of the same list with another position."""
    digest, _ = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return base64.urlsafe_b64encode(msgspec.msgpack.encode((digest, position))).decode().rstrip("=")


async def test_a_cursor_is_of_its_list_whatever_it_holds(site: ApiSite) -> None:
    """Positions that no row ever had, cut ones, and text that is none."""
    ann = await site.signed_in()
    for name in ("a", "b"):
        await ann.post("/api/tenants", json={"name": name, "reason": "r"})
    cursor = (await ann.get("/api/tenants?limit=1")).json()["next"]
    good = await ann.get("/api/tenants", params={"after": cursor})
    assert [each["name"] for each in good.json()["items"]] == ["b"]
    positions = (0, -1, 1 << 63, "a\0", None, [], b"\xff")
    for after in (*(forged(cursor, each) for each in positions), cursor[:-3], "é", "a" * 999, "\x7f"):
        reply = await ann.get("/api/tenants", params={"after": after})
        assert (reply.status_code, reply.json()["field"]) == (400, "after"), after


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/tenants/a%00b", b"", 400),
        ("GET", "/api/tenants/%ff%fe", b"", 404),
        ("GET", "/api/tenants/%ed%a0%80", b"", 404),
        ("GET", "/api/tenants/%F0%9F%98%80", b"", 404),
        ("GET", "/api/tenants/..%2F..%2Fme", b"", 404),
        ("GET", "/api/tenants/" + "x" * 5000, b"", 404),
        ("POST", "/api/tenants", b'{"name": "a\\u0000", "reason": "r"}', 400),
        ("POST", "/api/tenants", b'{"name": "\\ud800", "reason": "r"}', 400),
        ("POST", "/api/tenants", b'{"name": ' + b"[" * 100_000, 400),
        ("POST", "/api/tenants", b'{"name": "a", "reason": "r"' + b" " * (1 << 20) + b"}", 413),
        ("PATCH", "/api/tenants/acme/terms", b'{"slots_max": 9223372036854775808, "reason": "r"}', 400),
        ("PATCH", "/api/tenants/acme/terms", b'{"slots_max": 1e300, "reason": "r"}', 400),
        ("PATCH", "/api/tenants/acme/terms", b'{"weight": 1e999, "reason": "r"}', 400),
        (
            "POST",
            "/api/tenants/acme/budgets",
            b'{"limit": {"nano": "9999999999999999999"}, "reason": "r"}',
            400,
        ),
        ("POST", "/api/tenants/acme/keys", b'{"expires": "9999-99-99T99:99:99Z", "reason": "r"}', 400),
        ("POST", "/api/tenants/acme/keys", b'{"expires": "0001-01-01T00:00:00+23:59", "reason": "r"}', 400),
        ("PATCH", "/api/tenants/acme", b'{"time_zone": "../../etc/passwd", "reason": "r"}', 400),
        ("BREW", "/api/tenants", b"", 405),
    ],
)
async def test_what_no_store_takes_is_refused_before_it(
    site: ApiSite, method: str, path: str, body: bytes, status: int
) -> None:
    """With a problem, and nothing is written."""
    ann = await site.signed_in()
    await ann.post("/api/tenants", json={"name": "acme", "reason": "r"})
    before = (await ann.get("/api/tenants")).json()
    reply = await ann.request(method, path, content=body)
    assert reply.status_code == status, reply.text
    assert (await ann.get("/api/tenants")).json() == before


async def test_a_stranger_learns_nothing_by_hostile_calls(site: ApiSite) -> None:
    """Who calls is looked at before what is called."""
    stranger = await site.browser(OPERATORS_SIDE)
    for headers in ({}, {"authorization": "Bearer pt_\x7f"}, {"cookie": "parley_staff=%00; parley_staff=a"}):
        reply = await stranger.post("/api/tenants", content=b"[" * 100_000, headers=headers)
        assert reply.status_code == 401
