"""What strangers may try against somebody's requests and conversations, and whose these are."""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

import httpx

from core.clock import now_ms
from core.ids import uuid7
from tests.server.conftest import gateway as gateway
from tests.server.site import RawPeer, Site
from tests.support.patience import pause

Frame = dict[str, Any]
Probe = Callable[[Site, str, "Owned"], Awaitable[list[Any]]]


@dataclass
class Owned:
    """What the victim has: ids to ask for. Unknown ones are fresh ids."""

    running: str
    ended: str
    stored: str
    conversation: str
    token: str = "not a token"

    @staticmethod
    def by_nobody() -> "Owned":
        """Ids that nobody ever used."""
        return Owned(*(uuid7(now_ms()) for _ in range(4)))

    def __iter__(self) -> Generator[tuple[str, str]]:
        """Names and ids of the requests."""
        yield from {"running": self.running, "ended": self.ended, "stored": self.stored}.items()


@dataclass
class Victim:
    """A connected owner that reads a running answer; whatever strangers do, it must not notice."""

    site: Site
    peer: RawPeer
    owned: Owned
    g: int

    async def is_unharmed(self) -> None:
        """Its answer grows without a gap, on the same socket, and nothing of it was cancelled."""
        frames = [await self.peer.hear("delta", g=self.g) for _ in range(3)]
        assert frames[1]["a"] == frames[0]["b"] + 1
        assert frames[2]["a"] == frames[1]["b"] + 1
        await self.peer.tell("ack", a=[[self.g, frames[2]["b"]]])
        assert not [frame for frame in self.peer.passed if frame["t"] in ("error", "go_away")]
        view = await self.site.crew.queue.view(self.site.tenant, self.owned.running)
        assert view is not None
        assert view.status == "running"


# What a stranger may try; each returns what it got to see.


async def attach(site: Site, key: str, owned: Owned) -> list[Any]:
    """Read them, from several places."""
    async with site.welcomed(key) as peer:
        for _, id in owned:
            for fields in ({"o": 0}, {"o": 2}, {"o": 2, "epoch": 1}, {"o": 10**6, "epoch": 7}):
                await peer.tell("attach", id=id, **fields)
        return await all_frames(peer, 4 * len(list(owned)))


async def cancel(site: Site, key: str, owned: Owned) -> list[Any]:
    """Cancel them."""
    async with site.welcomed(key) as peer:
        for _, id in owned:
            await peer.tell("cancel", id=id)
        return await all_frames(peer, len(list(owned)))


async def detach_and_ack(site: Site, key: str, owned: Owned) -> list[Any]:
    """Stop others' reading, acknowledge for them, open and shut their windows."""
    async with site.welcomed(key) as peer:
        for _, id in owned:
            await peer.tell("detach", id=id)
        await peer.tell("ack", a=[[g, 1] for g in range(1, 9)], w={str(g): 0 for g in range(1, 9)})
        await peer.tell("pong", ts=1, a=[[1, 1]])
        return await all_frames(peer)


async def resume_requests(site: Site, key: str, owned: Owned) -> list[Any]:
    """Name them in a hello, with and without an epoch."""
    frames: list[Any] = []
    for epoch in (1, None):
        requests = [{"id": id, "epoch": epoch, "o": 3} for _, id in owned]
        async with site.welcomed(key, resume={"requests": requests}) as peer:
            frames += [peer.welcome["resumed"], peer.welcome["requests"], *await all_frames(peer)]
    return frames


async def resume_token(site: Site, key: str, owned: Owned) -> list[Any]:
    """Take the session over."""
    async with site.welcomed(key, resume={"token": owned.token, "requests": []}) as peer:
        return [peer.welcome["resumed"], peer.welcome["requests"], *await all_frames(peer)]


async def converse(site: Site, key: str, owned: Owned) -> list[Any]:
    """Read, continue and delete the conversation over HTTP and the socket, and look for it in the list."""
    path = f"/v1/conversations/{owned.conversation}"
    async with httpx.AsyncClient(base_url=site.url, headers={"authorization": f"Bearer {key}"}) as http:
        replies = [
            await http.get(f"{path}/messages"),
            await http.delete(path),
            await http.get("/v1/conversations"),
        ]
    return [(reply.status_code, reply.json()) for reply in replies]


PROBES = [attach, cancel, detach_and_ack, resume_requests, resume_token, converse]


async def all_frames(peer: RawPeer, answers: int = 0) -> list[Frame]:
    """Everything the server has to say to what was asked so far: `answers` at least, and what is late."""
    frames = [await hear_answer(peer) for _ in range(answers)]
    await pause()
    await peer.tell("ping", ts=8)
    while (frame := await peer.hear()) != {"t": "pong", "ts": 8}:
        frames.append(frame)
    return frames


async def hear_answer(peer: RawPeer) -> Frame:
    """The next frame that is not a beat of the connection."""
    while (frame := await peer.hear())["t"] in ("ping", "pong"):
        pass
    return frame
