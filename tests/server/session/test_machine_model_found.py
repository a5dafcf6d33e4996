"""What the models of the session machine found, each as the shortest play that shows it."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

import asyncio
from typing import Any, cast

from engine.api import Entry
from server.protocol import messages as m
from server.reading.sources import LiveSource
from server.reading.subscriptions import FollowedRequest, RequestName
from server.session import effects as fx
from server.session import events as ev
from tests.server.playbook import delta, end, reading_one, text


def test_a_reader_whose_log_was_trimmed_still_gets_its_end():
    """The stored answer that takes the place of a log read is read on like any other."""
    play = reading_one()
    play >> ev.LogGrew("r", [], 2)
    play << fx.ReadLog("r", 1, 0, 256, 32 * 1024)
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 1, 2, "ended", snap="done"))
    play << m.Attached(1, "r", 1, 2, 2, "ended") << fx.Follow("r")
    play << m.Snap(1, 1, 1, "done") << fx.ReadLog("r", 1, 1, 256, 32 * 1024 - 4)
    play >> ev.LogRead("r", 1, [end(2)])
    assert play.message(m.End).o == 2


def test_acks_on_their_way_when_a_log_was_replaced_are_not_held_against_the_client():
    """It could not know yet that its cursor was moved back; what was never sent at all stays a fault."""
    play = reading_one()
    play >> ev.LogGrew("r", [], 0) >> ev.LogGrew("r", [text(1), text(2), text(3)], 3) << delta(1, 3, "aaa")
    play >> ev.LogBroken("r") << fx.Reopen("r", 1, 3)
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 2, 0, 1, "running", snap=""), asked=False)
    play << m.Attached(1, "r", 2, 1, 1, "running") << fx.Follow("r") << m.Snap(1, 2, 0, "")
    play << fx.ReadLog("r", 2, 0, 256, 32 * 1024)
    for o in (1, 2, 3, 3):
        play >> m.Ack([(1, o)])
    play.nothing()
    play >> m.Ack([(1, 4)])
    assert play.message(m.Error).code == "bad_message"


async def test_a_log_replaced_before_anyone_listened_is_noticed():
    """Between opening a request and following it the pool began its log again."""
    followed, told = FollowedRequest(RequestName("pool", "tenant", "r")), list[str]()

    class Hears:
        """A listener that notes what it hears."""

        def news(self, entries: list[Entry], head: int) -> None:
            told.append(f"{len(entries)} of {head}")

        def broken(self) -> None:
            told.append("broken")

    class OneFollowed:
        """A hub that follows one request."""

        def join(self, *_: object) -> FollowedRequest:
            return followed

    hub = cast(Any, OneFollowed())
    early, late = (LiveSource(hub, cast(Any, None), followed.name) for _ in range(2))
    early.seen(1)
    late.seen(2)
    for source in (early, late):
        source.listen(Hears())
    await asyncio.sleep(0)
    assert told == ["0 of 0", "broken", "0 of 0"]
