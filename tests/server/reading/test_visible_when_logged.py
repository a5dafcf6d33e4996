"""What a reader sees is in the log: while an append hangs, fails or is refused, nobody sees a word of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.exceptions import ConnectionError as NoRedisError

from engine.api import Append, AppendCode, Hint, HintChannel, PoolQueue
from tests.engine.builders import append_to, end_entry, pool, text, usage_event
from tests.server.conftest import gateway as gateway
from tests.server.site import RawPeer, Site
from tests.support.patience import soon, wait_until
from tests.support.redis import Redis

ANSWER = "in the log first"


class Gate:
    """Appends come here before they reach the pool, and wait or fail until it is open."""

    def __init__(self, patch: pytest.MonkeyPatch, hangs: bool) -> None:
        self.waiting = 0
        self._hangs = hangs
        self._open = asyncio.Event()
        self._append = PoolQueue.append

        async def held(queue: PoolQueue, worker: str, items: Sequence[Append]) -> Any:
            self.waiting += sum(len(item.entries) for item in items)
            if self._hangs:
                await self._open.wait()
            elif not self._open.is_set():
                raise NoRedisError
            return await self._append(queue, worker, items)

        patch.setattr(PoolQueue, "append", held)

    def open(self) -> None:
        """From now on the pool takes them."""
        self._open.set()


async def seen(peer: RawPeer) -> str:
    """All text that has come to a reader by now."""
    await peer.tell("ping", ts=1)
    await peer.hear("pong")
    return "".join(frame["x"] for frame in peer.passed if frame["t"] in ("delta", "snap"))


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_word_whose_append_is_under_way_is_seen_by_nobody(
    hangs: bool, gateway: Site, monkeypatch: pytest.MonkeyPatch
):
    """INV-8: Neither by who asked nor by who attaches meanwhile; once it is logged both read the same."""
    gate = Gate(monkeypatch, hangs)
    async with gateway.answering(ANSWER), gateway.welcomed() as peer, gateway.welcomed() as other:
        id = await peer.send()
        await wait_until(lambda: gate.waiting)
        await other.tell("attach", id=id, o=0)
        assert (await other.hear("attached"))["head"] == 2  # queued, running
        assert [await seen(peer), await seen(other)] == ["", ""]
        gate.open()
        for reader in (peer, other):
            await reader.hear("end")
            assert await seen(reader) == ANSWER


@asynccontextmanager
async def heard(redis: Redis, name: str) -> AsyncGenerator[HintChannel]:
    """What a gateway hears of a pool."""
    hints = HintChannel(redis, "g1")
    await hints.follow(name)
    try:
        yield hints
    finally:
        await hints.close()


async def test_an_append_that_is_not_taken_is_no_news(redis: Redis):
    """INV-8: Of who lost its claim, from behind a gap, to an unknown or an ended request: none is hinted."""
    p = pool(redis)
    old, ended = [await p.running(gateway="g1") for _ in range(2)]
    last = append_to(ended, entries=[end_entry(3, 0)], end=usage_event(ended.tenant, ended.id))
    await p.queue.append("w1", [last])
    await p.queue.unclaim("w1", old.tenant, old.id, old.ck, "lost")
    (new,) = await p.claim()
    refused = {
        AppendCode.FENCED: append_to(old, ids=(1,), x="a", o0=new.o, entries=[text(new.o + 1, "a", 0, 1)]),
        AppendCode.GAP: append_to(new, ids=(1,), x="b", o0=9, entries=[text(10, "b", 0, 1)]),
        AppendCode.MISSING: append_to(new, ids=(1,), x="c", id="unknown"),
        AppendCode.ENDED: append_to(ended, ids=(1,), x="d", o0=3, entries=[text(4, "d", 0, 1)]),
    }
    async with heard(redis, p.name) as hints:
        answers = await p.queue.append("w1", list(refused.values()))
        assert [answer.code for answer in answers] == list(refused)
        await p.queue.append("w1", [append_to(new, ids=(1,), x="e")])
        first: Hint = await soon(anext(aiter(hints)))
    assert (first.id, [entry.x for entry in first.entries]) == (new.id, ["e"])
