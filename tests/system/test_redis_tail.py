"""Redis dies, or comes back without its last writes: readers go on, start anew by `snap`, or get a typed end.

Never a silent divergence: what a reader holds at the end has the log's hash.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from billing.api import Quota
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import Database
from engine.api import EntryKind, visible_text
from engine.queue.redis_keys import log as log_key
from parley_client import Answer, Client, Ended, ProtocolError, Reset
from tests.support.gateways import LetterEngine, RunningGateways, running_gateways
from tests.support.home import settings_in
from tests.support.patience import patience, wait_until
from tests.support.redis import Redis

TOKENS = 150
LONG = {"max_tokens": TOKENS, "min_tokens": TOKENS}
HALF = TOKENS // 2
LOST = ("error log_lost", "log_lost", "not_resumable")


@dataclass
class Shaken:
    """A gateway on an embedded Valkey that tests kill."""

    fleet: RunningGateways
    valkey: EmbeddedValkey

    @property
    def file(self) -> Path:
        """Where Valkey appends what it was told."""
        [found] = (self.valkey.folder / "appendonlydir").glob("*.incr.aof")
        return found

    def kill(self) -> None:
        """SIGKILL the Valkey."""
        assert self.valkey.process is not None
        os.kill(self.valkey.process.pid, signal.SIGKILL)

    async def restart(self, size: int | None = None) -> None:
        """Start it again, knowing no more than the first `size` bytes of what it wrote."""
        assert self.valkey.process is not None
        await self.valkey.process.wait()
        if size is not None:
            os.truncate(self.file, size)
        await self.valkey.start()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """A connected client."""
        site = self.fleet.at(self.fleet.gateways[0])
        async with Client(site.url, site.key, backoff_seconds=0.1) as client:
            yield client

    async def check(self, answer: Answer) -> None:
        """The log is dense, ends once, and says what the reader holds."""
        site = self.fleet.site
        entries = await site.crew.log.read(site.tenant, answer.id, 0, 10_000)
        assert [entry.o for entry in entries] == list(range(1, len(entries) + 1))
        assert [entry.k for entry in entries].count(EntryKind.END) == 1
        assert answer.text == visible_text(entries)


@pytest.fixture
async def shaken(sqlite: Database, home: Path) -> AsyncGenerator[Shaken]:
    """One gateway, and a Valkey of its own that writes an append-only file as in production."""
    settings = settings_in(home)
    ensure_home(settings)
    valkey = EmbeddedValkey(settings)
    await valkey.start()
    redis = Redis.from_url(settings.redis_endpoint)
    try:
        async with running_gateways(settings, sqlite, redis, 1) as fleet:
            yield Shaken(fleet, valkey)
    finally:
        await redis.aclose()
        await valkey.stop()


async def outcome(answer: Answer) -> str:
    """How reading it came out: its end's reason and code, or the code of the error that the reader gets."""
    try:
        async with patience():
            end = await answer.end()
    except ProtocolError as error:
        return error.code
    assert end.verified
    return f"{end.reason} {end.code}" if end.code else end.reason


async def test_a_redis_that_was_killed_goes_on_from_its_file(shaken: Shaken):
    """kill -9 mid-stream and an immediate restart: every reader continues to the same text."""
    engine = LetterEngine(step_seconds=0.01)
    async with shaken.fleet.site.crew.worker(engine), shaken.client() as client:
        answers = [await client.send(f"{n}", options=LONG) for n in range(8)]
        reading = [asyncio.create_task(outcome(answer)) for answer in answers]
        await wait_until(lambda: min(len(answer.text) for answer in answers) > HALF)
        shaken.kill()
        await shaken.restart()
        assert await asyncio.gather(*reading) == ["length"] * 8
        for answer in answers:
            await shaken.check(answer)
        assert (client.counters.verified, client.counters.mismatched) == (8, 0)


async def test_a_lost_tail_is_written_again(shaken: Shaken):
    """Redis forgets what readers have seen; the worker appends the same again, and readers just go on."""
    engine = LetterEngine(step_seconds=0.01)
    async with shaken.fleet.site.crew.worker(engine), shaken.client() as client:
        answers = [await client.send(f"{n}", options=LONG) for n in range(4)]
        reading = [asyncio.create_task(outcome(answer)) for answer in answers]
        await wait_until(lambda: min(len(answer.text) for answer in answers) > 20)
        known = shaken.file.stat().st_size
        await wait_until(lambda: min(len(answer.text) for answer in answers) > HALF)
        shaken.kill()
        await shaken.restart(known)
        assert await asyncio.gather(*reading) == ["length"] * 4
        for answer in answers:
            await shaken.check(answer)
        assert (client.counters.verified, client.counters.mismatched, client.counters.gaps) == (4, 0, 0)


async def test_a_lost_tail_and_a_lost_worker_never_diverge_in_silence(shaken: Shaken):
    """INV-19: Another worker samples something else for what readers have seen: they are told to forget
    it."""
    async with shaken.client() as client:
        answer = await client.send("once", options=LONG)
        resets: list[str] = []
        reading = asyncio.create_task(watched(answer, resets))
        async with shaken.fleet.site.crew.worker(LetterEngine(step_seconds=0.01, seed=1)):
            await wait_until(lambda: len(answer.text) > 20)
            known = shaken.file.stat().st_size
            await wait_until(lambda: len(answer.text) > HALF)
        shaken.kill()
        await shaken.restart(known)
        async with shaken.fleet.site.crew.worker(LetterEngine(step_seconds=0.01, seed=2)):
            end = await reading
        assert end.verified
        assert resets, "what was shown and then sampled anew is taken back"
        await shaken.check(answer)


async def test_a_request_that_redis_forgot_ends_log_lost(shaken: Shaken):
    """INV-19: Accepted, running, and nothing of it left: its readers get a typed end instead of silence."""
    async with shaken.fleet.site.crew.worker(LetterEngine(step_seconds=0.01)), shaken.client() as client:
        known = shaken.file.stat().st_size
        answer = await client.send("gone", options=LONG)
        await wait_until(lambda: shaken.file.stat().st_size > known)
        reading = asyncio.create_task(outcome(answer))
        await wait_until(lambda: len(answer.text) > 20)
        shaken.kill()
        await shaken.restart(known)
        assert await reading in LOST


async def test_a_request_whose_admission_alone_is_left_holds_no_place(shaken: Shaken):
    """Redis forgot what is in the pool and kept what is the tenant's: it ends, and is no open request."""
    site = shaken.fleet.site
    quota = Quota(site.redis, site.settings)
    async with site.crew.worker(LetterEngine(step_seconds=0.01)), shaken.client() as client:
        answer = await client.send("gone", options=LONG)
        reading = asyncio.create_task(outcome(answer))
        await wait_until(lambda: len(answer.text) > 20)
        assert await quota.open_requests(site.tenant) == 1
        pool = [key async for key in site.redis.scan_iter(match=f"{{p:{site.settings.pool}}}*{answer.id}")]
        await site.redis.delete(*pool)
        assert await reading in LOST
        assert await quota.open_requests(site.tenant) == 0


async def test_a_stored_turn_that_redis_forgot_ends_log_lost_once(shaken: Shaken):
    """The conversation's running row becomes an answer that failed; the next turn is taken."""
    async with shaken.fleet.site.crew.worker(LetterEngine(step_seconds=0.01)), shaken.client() as client:
        conversation = client.new_id()
        answer = await client.send("gone", conversation=conversation, options=LONG)
        reading = asyncio.create_task(outcome(answer))
        await wait_until(lambda: len(answer.text) > 20)
        await shaken.fleet.site.redis.flushall()
        assert await reading in LOST
        again = await client.send("and now?", conversation=conversation, options={"max_tokens": 5})
        assert await outcome(again) == "length"


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param(False, id="reading"),
        pytest.param(
            True,
            id="behind a shut window",
        ),
    ],
)
async def test_a_log_that_was_deleted_ends_its_readers(shaken: Shaken, behind: bool):
    """The request's record is there, its log is not: a reader that needs it gets a typed end, not silence."""
    site = shaken.fleet.at(shaken.fleet.gateways[0])
    window = {"events": 4} if behind else None
    async with (
        site.crew.worker(LetterEngine(step_seconds=0.02)),
        Client(site.url, site.key, window=window) as client,
    ):
        answer = await client.send("gone", options=LONG)
        log = log_key(site.settings.pool, site.tenant, answer.id)
        reading = None if behind else asyncio.create_task(outcome(answer))
        await wait_until(lambda: has_entries(site.redis, log, 20))
        await site.redis.delete(log)
        found = await (reading or outcome(answer))
        assert found in ("length", *LOST)


async def has_entries(redis: Redis, log: str, count: int) -> bool:
    """Whether a log is that long."""
    return await redis.xlen(log) >= count


async def watched(answer: Answer, resets: list[str]) -> Ended:
    """Read to the end; what replaced the text on the way is noted."""
    async with patience():
        async for event in answer.events():
            if isinstance(event, Reset):
                resets.append(event.text)
            if isinstance(event, Ended):
                return event
    raise AssertionError("no end")
