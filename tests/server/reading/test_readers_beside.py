"""A reader that acks nothing, and those beside it: what they hear and when is what they hear without it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from core.clock import now_ms
from core.configuration.settings import Settings
from core.tasks import cancel_tasks
from tests.server.connection.gateway_play import key
from tests.server.connection.gateway_play import model as model
from tests.server.connection.gateway_play import playing as playing
from tests.server.virtual.gateway import VirtualGateway
from tests.server.virtual.held import AnswerScript
from tests.server.virtual.peer import VirtualPeer, welcomed

LOGGED = ("delta", "event", "end")
ANSWER = "0123456789" * 150
WINDOW = {"events": 8}
Heard = list[tuple[Any, ...]]
Playing = Callable[[Callable[[VirtualGateway], Awaitable[None]]], None]


class Listening:
    """One connection's client: takes what comes, by request, and acks it but for the `silent` ones."""

    def __init__(self, peer: VirtualPeer, silent: tuple[str, ...] = ()) -> None:
        self._peer, self._silent = peer, silent
        self._began_ms = now_ms()
        self.heard: dict[str, Heard] = {}
        self._came: dict[tuple[str, str], asyncio.Event] = {}

    async def run(self) -> None:
        """For ever."""
        names: dict[int, str] = {}
        while True:
            frame = await self._peer.hear()
            if frame["t"] == "ping":
                await self._peer.tell("pong", ts=frame["ts"])
            elif frame["t"] in ("accepted", "attached"):
                names[frame["g"]] = frame["id"]
                self.heard[frame["id"]] = []
                self._of(frame["t"], frame["id"]).set()
            elif frame["t"] in LOGGED:
                await self._take(names[frame["g"]], frame)

    async def _take(self, id: str, frame: dict[str, Any]) -> None:
        said = [frame.get(name) for name in ("t", "k", "o", "a", "b", "x")]
        self.heard[id].append(((now_ms() - self._began_ms) / 1000, *said))
        offset = frame.get("b", frame.get("o"))
        if id not in self._silent and offset is not None:
            await self._peer.tell("ack", a=[[frame["g"], offset]])
        if frame["t"] == "end":
            self._of("end", id).set()

    def _of(self, kind: str, id: str) -> asyncio.Event:
        return self._came.setdefault((kind, id), asyncio.Event())

    async def until(self, kind: str, id: str) -> None:
        """It was accepted, or read to its end."""
        await self._of(kind, id).wait()


async def _heard(gateway: VirtualGateway, stuck: bool) -> tuple[Heard, Heard, Heard, Heard]:
    """Of a request by its first reader, stuck or not; by another one; of another request on the first's own
    socket; and of a third on a further socket."""
    secret, _ = key(gateway)
    hello: dict[str, Any] = {"window": WINDOW}
    async with (
        welcomed(gateway, secret, **hello) as first,
        welcomed(gateway, secret, **hello) as second,
        welcomed(gateway, secret, **hello) as third,
    ):
        shared, beside, apart = await first.send(), await first.send(), await third.send()
        listening = [Listening(first, (shared,) if stuck else ()), Listening(second), Listening(third)]
        tasks = [asyncio.create_task(each.run()) for each in listening]
        await listening[0].until("accepted", shared)
        await second.tell("attach", id=shared, o=0)
        gateway.pool.work(AnswerScript(ANSWER, step_seconds=0.05))
        of_first, of_second, of_third = listening
        await of_second.until("end", shared)
        await of_first.until("end", beside)
        await of_third.until("end", apart)
        await cancel_tasks(tasks)
    return of_first.heard[shared], of_second.heard[shared], of_first.heard[beside], of_third.heard[apart]


def test_a_reader_that_acks_nothing_changes_nothing_for_those_beside_it(playing: Playing, settings: Settings):
    """INV-20: Neither on its socket nor at its gateway nor of its own request: the same frames at the same
    times, over longer than it takes to be stuck and parked."""
    told: list[tuple[Heard, ...]] = []

    async def play(gateway: VirtualGateway) -> None:
        told.append(await _heard(gateway, stuck=bool(told)))

    playing(play)
    playing(play)
    (quick, *others), (slow, *beside) = told
    assert len(slow) < len(quick) / 2
    assert "paused" in [frame[2] for frame in slow]
    assert others[0][-1][0] > 2 * settings.stuck_seconds
    assert beside == others
