"""The loop that other tests' time is: it leaps to what is due, and never hangs."""

import asyncio

import pytest

from core.clock import now_ms
from tests.server.virtual.loop import Stuck, played


def test_time_leaps_to_what_is_due():
    """The gateway's clock goes with it, and order is kept."""

    async def day() -> list[str]:
        said = list[str]()

        async def say(what: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            said.append(what)

        began_ms = now_ms()
        await asyncio.gather(say("evening", 86_400), say("morning", 3_600), say("noon", 43_200))
        assert now_ms() - began_ms == pytest.approx(86_400_000, abs=1)
        return said

    assert played(day()) == ["morning", "noon", "evening"]


async def _waits_for_nothing() -> None:
    await asyncio.Event().wait()


async def _goes_on_and_on() -> None:
    loop = asyncio.get_running_loop()

    def again() -> None:
        loop.call_soon(again)

    again()
    await _waits_for_nothing()


@pytest.mark.parametrize("work", [_waits_for_nothing, _goes_on_and_on])
def test_what_would_never_end_is_an_error(work: object):
    """Nothing is due; or something is always due at once, as of a machine whose timer has always come."""
    with pytest.raises(Stuck):
        played(work())  # pyright: ignore[reportCallIssue, reportUnknownArgumentType]
