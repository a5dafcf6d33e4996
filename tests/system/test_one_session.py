"""Several tabs that hold the same resume token: one of them has the session, whatever the order."""

import asyncio
import json
import random
from contextlib import AsyncExitStack

from websockets.exceptions import ConnectionClosed

from server.protocol.codes import CloseCode
from tests.server.site import RawPeer, Site
from tests.support.gateways import LetterEngine, RunningGateways
from tests.support.patience import BEAT_SECONDS, patience, pause

ROUNDS = 15
TABS = 5


async def test_tabs_that_resume_at_once_leave_one_connection(pair: RunningGateways):
    """Two gateways, five hellos with one token at the same moment: of the session's connections one lives on,
    the others are closed 4003; a token that came too late opens a session of its own."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    sites = [pair.at(gateway) for gateway in pair.gateways]
    async with pair.site.crew.worker(LetterEngine(step_seconds=0.05)):
        for _ in range(ROUNDS):
            async with AsyncExitStack() as stack:
                first = await stack.enter_async_context(sites[0].welcomed())
                tabs = [await stack.enter_async_context(chance.choice(sites).open()) for _ in range(TABS)]
                token = first.welcome["resume_token"]
                hellos = [say_hello(tab, pair.site, token, chance.random() / 300) for tab in tabs]
                sessions = await asyncio.gather(*hellos)
                mine = [
                    tab
                    for tab, session in zip(tabs, sessions, strict=True)
                    if session in (None, first.welcome["session"])
                ]
                fates = await asyncio.gather(*(fate(tab) for tab in (first, *mine)))
                assert sorted(fates, key=str) == [CloseCode.SUPERSEDED] * len(mine) + ["lives"], fates


async def say_hello(tab: RawPeer, site: Site, token: str, after: float) -> str | None:
    """The session that the tab was welcomed to; None where it was superseded before that."""
    await asyncio.sleep(after)
    try:
        await tab.tell("hello", v=1, token=site.key, resume={"token": token, "requests": []})
        return (await tab.hear())["session"]
    except ConnectionClosed:
        return None


async def fate(tab: RawPeer) -> int | str:
    """How a connection is closed; `lives` where it still answers after a while."""
    try:
        async with patience():
            for at in range(4):
                await tab.tell("ping", ts=at)
                while json.loads(await tab.socket.recv()) != {"t": "pong", "ts": at}:
                    pass
                await pause(BEAT_SECONDS)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else 0
    return "lives"
