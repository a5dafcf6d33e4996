"""Work that takes a processor for long: who waits for a turn takes no thread from others."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from core.errors import Refused
from engine.policies.one_at_a_time import AFTER_MS, WAITING_MAX, WAITING_OF_ONE_MAX, OneAtATime
from tests.support.patience import HANG_SECONDS, wait_until


@dataclass
class Work:
    """Work that ends when it may; it counts the threads that are at it."""

    may_end: threading.Event = field(default_factory=threading.Event)
    at_work: int = 0
    begun: list[int] = field(default_factory=list[int])
    most: int = 0

    def __call__(self, number: int) -> int:
        self.at_work += 1
        self.begun.append(number)
        self.most = max(self.most, self.at_work)
        assert self.may_end.wait(HANG_SECONDS)
        self.at_work -= 1
        return number


@pytest.fixture
def work() -> Iterator[Work]:
    """It ends at the latest with the test."""
    work = Work()
    yield work
    work.may_end.set()


async def begun(turns: OneAtATime, work: Work, count: int) -> list[asyncio.Task[int]]:
    """So many callers of as many tenants, the first of whom is at work."""
    callers = [asyncio.create_task(turns.run(f"t{number}", work, number)) for number in range(count)]
    await wait_until(lambda: work.begun == [0])
    return callers


async def test_who_waits_takes_no_thread(work: Work) -> None:
    """One thread works for all of them, in the order in which they came; meanwhile others get a thread at
    once."""
    turns, before = OneAtATime(), threading.active_count()
    callers = await begun(turns, work, WAITING_MAX)
    assert threading.active_count() <= before + 1
    assert await asyncio.to_thread(lambda: "another's") == "another's"
    work.may_end.set()
    assert await asyncio.gather(*callers) == list(range(WAITING_MAX))
    assert (work.most, work.begun) == (1, list(range(WAITING_MAX)))


async def test_one_too_many_is_refused(work: Work) -> None:
    """And told when to ask again. Who leaves the line gives a place to another one."""
    turns = OneAtATime()
    callers = await begun(turns, work, WAITING_MAX)
    with pytest.raises(Refused, match="others' questions") as refused:
        await turns.run("t99", work, 99)
    assert (refused.value.refusal.code, refused.value.refusal.after_ms) == ("overloaded", AFTER_MS)
    callers[3].cancel()
    await asyncio.wait([callers[3]])
    later = asyncio.create_task(turns.run("t8", work, 8))
    work.may_end.set()
    assert await later == 8
    assert work.begun == [0, 1, 2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("whose", "told"), [("acme", "your tenant's own"), ("", "the platform's staff's own")]
)
async def test_one_who_asks_much_leaves_places_to_others(work: Work, whose: str, told: str) -> None:
    """It has few places, and is told that its own questions have them; others come in."""
    turns = OneAtATime()
    own = [asyncio.create_task(turns.run(whose, work, number)) for number in range(WAITING_OF_ONE_MAX)]
    await wait_until(lambda: work.begun == [0])
    with pytest.raises(Refused, match=told) as refused:
        await turns.run(whose, work, 99)
    assert (refused.value.refusal.code, refused.value.refusal.after_ms) == ("overloaded", AFTER_MS)
    others = asyncio.create_task(turns.run("globex", work, 7))
    await asyncio.sleep(0)
    work.may_end.set()
    assert await asyncio.gather(*own, others) == [0, 1, 7]
    assert work.begun == [0, 7, 1], "who has had no turn goes before who has had one"
    assert await turns.run(whose, work, 8) == 8


async def test_turns_go_round_those_who_ask_again_and_again() -> None:
    """Each gets as many as another one, however many questions it has at once."""
    turns, begun = OneAtATime(), list[str]()

    async def asks(whose: str) -> None:
        while len(begun) < 30:
            await turns.run(whose, begun.append, whose)

    await asyncio.gather(*(asks(whose) for whose in ("acme", "acme", "globex", "initech")))
    counted = [begun[:30].count(whose) for whose in ("acme", "globex", "initech")]
    assert max(counted) - min(counted) <= 1, begun


async def test_who_leaves_as_the_turn_comes_gives_it_on(work: Work) -> None:
    """Whether it was theirs already or not."""
    turns = OneAtATime()
    first, second, third = await begun(turns, work, 3)
    first.add_done_callback(lambda _: second.cancel())
    work.may_end.set()
    assert await first == 0
    assert await third == 2
    assert await turns.run("t1", work, 3) == 3


async def test_work_keeps_its_turn_when_its_caller_is_gone(work: Work) -> None:
    """Its thread goes on, and the next one begins only after it."""
    turns = OneAtATime()
    first, second = await begun(turns, work, 2)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    await asyncio.sleep(0)
    assert (work.begun, work.at_work) == ([0], 1)
    work.may_end.set()
    assert await second == 1
    assert work.most == 1


async def test_what_fails_gives_its_turn_on() -> None:
    """Its caller is told, and nobody is where the caller is gone."""
    turns, may_fail = OneAtATime(), threading.Event()

    def failing() -> None:
        assert may_fail.wait(HANG_SECONDS)
        raise ValueError("no such pattern")

    gone = asyncio.create_task(turns.run("t", failing))
    await asyncio.sleep(0)
    gone.cancel()
    may_fail.set()
    with pytest.raises(ValueError, match="no such pattern"):
        await turns.run("t", failing)
    assert await turns.run("t", lambda: 1) == 1


def test_a_line_is_of_one_event_loop(work: Work) -> None:
    """The next loop of a process begins with an empty line, though the last one ended with some waiting."""
    turns = OneAtATime()

    async def left() -> None:
        for caller in await begun(turns, work, WAITING_MAX):
            caller.cancel()
        work.may_end.set()

    async def two() -> list[int]:
        return list(await asyncio.gather(turns.run("t", work, 1), turns.run("t", work, 2)))

    asyncio.run(left())
    assert asyncio.run(two()) == [1, 2]
