"""Bodies of calls are only so large, only so long on their way, and only so many of one caller."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from admin.api import bodies
from admin.api.bodies import BODIES_AT_ONCE, SIGN_IN_BYTES_MAX
from tests.admin.api.conftest import ApiSite
from tests.support.patience import wait_until


async def never_ending(went: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    """The beginning of a body whose rest does not come."""
    yield b"{"
    await (went or asyncio.Event()).wait()
    yield b"}"


async def test_who_is_nobody_yet_sends_little(site: ApiSite) -> None:
    """A sign-in is a few fields: a stranger's megabytes are not taken in."""
    stranger = await site.browser()
    large = b'{"by": "link", "code": "' + b"a" * SIGN_IN_BYTES_MAX + b'"}'
    assert (await stranger.post("/api/sign-in", content=large)).status_code == 413
    ann = await site.signed_in()
    assert (await ann.post("/api/second-factor", content=large)).status_code == 413


async def test_a_body_that_does_not_come_is_not_waited_for(
    site: ApiSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stranger, and of who is signed in."""
    ann, stranger = await site.signed_in(), await site.browser()
    monkeypatch.setattr(bodies, "BODY_SECONDS_MAX", 0.01)
    for browser, path in ((stranger, "/api/sign-in"), (ann, "/api/tenants")):
        reply = await browser.post(path, content=never_ending())
        assert (reply.status_code, "did not arrive" in reply.json()["detail"]) == (400, True)


async def test_one_caller_sends_so_many_bodies_at_once(site: ApiSite) -> None:
    """More are refused at once; others, and afterwards the same caller, are not held up."""
    ann, olga, went = await site.signed_in(), await site.signed_in(name="Olga"), asyncio.Event()
    path, ask = "/api/tenants?dry_run=true", {"name": "acme", "reason": "r"}
    sent = [asyncio.create_task(ann.post(path, content=never_ending(went))) for _ in range(BODIES_AT_ONCE)]

    async def is_refused() -> bool:
        return (await ann.post(path, json=ask)).status_code == 429

    await wait_until(is_refused)
    assert (await olga.post(path, json=ask)).status_code == 200
    went.set()
    assert {(await each).status_code for each in sent} == {400}
    assert (await ann.post(path, json=ask)).status_code == 200
