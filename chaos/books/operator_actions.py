"""What is done while customers ask: prices change, answers are corrected and refunded, money comes in, events
are held and decided on, processes are killed, Redis loses everything. It is written down for the oracle."""

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import msgspec
from redis.exceptions import RedisError

from billing.api import UsageEvent
from billing.usage import ENDED_FIELD, encode, ended_stream
from chaos.books import rows
from chaos.books.asking import Askers
from chaos.books.customers import COVERED, CUSTOMERS, MODEL, OWN, SHARED, TIERED, flat, request_tiers, tiers
from chaos.books.pricing import cost
from chaos.books.terms import (
    ANY_MODEL,
    CACHED,
    INPUT,
    METERS,
    OUTPUT,
    REQUEST,
    ClientAnswer,
    Corrected,
    Prices,
)
from chaos.books.testbed import BooksTestbed
from chaos.faults import kill_worker
from chaos.faults.context import FaultContext
from chaos.installation.cluster import RestartedProcess

Act = Callable[[], Awaitable[bool]]
BOOKED_SECONDS_MAX = 60.0
GRANT_SECONDS = (6, 20)  # after which a promotion ends
WITHDRAWN_AHEAD_MS = 85_000  # a minute is asked for, and a busy machine takes its time
UNREAD_SECONDS = 2.0
DEAR = Prices(9_999_999_999, 8_888_888_888, 9_999_999_991, 77_777)
AOF_FOLDER = "appendonlydir"


@dataclass
class OperatorActions:
    """`done` counts what was done by its name; `events`: as the pool published them."""

    testbed: BooksTestbed
    crowd: Askers
    events: list[UsageEvent]
    chosen: random.Random
    done: Counter[str] = field(default_factory=Counter[str])
    touched: set[str] = field(default_factory=set[str])
    withdrawn_ms: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def orders(self, more: Sequence[Act], stop: asyncio.Event, per_second: float) -> None:
        """One order after the other, each kind in turn, `more` between these, until told to stop."""
        own: list[Act] = [self.correct, self.prices_now, self.refund, self.forge, self.grant, self.correct]
        kinds = [each for pair in zip_longest(own, more) for each in pair if each is not None]
        await self.withdraw()
        while not stop.is_set():
            for kind in kinds:
                began = time.monotonic()
                async with self.lock:  # no order is under way while Redis is away
                    self.done[kind.__name__] += await kind()
                left = began + 1 / per_second - time.monotonic()
                if stop.is_set():
                    return
                await asyncio.sleep(max(0.0, left))

    async def kills(self, scene: FaultContext, stop: asyncio.Event, per_second: float) -> None:
        """SIGKILL of a worker, a gateway or a biller, in turns."""
        kept = self.testbed.cluster
        while per_second and not stop.is_set():
            for victims in (None, kept.kept_billers, None, kept.kept_gateways):
                await asyncio.sleep(self.chosen.expovariate(per_second))
                if not self.crowd.gate.is_set() or stop.is_set():
                    continue  # nothing is killed while Redis is emptied: that is a fault of its own
                if victims is None:
                    with suppress(RedisError, OSError):  # it is away, so nobody says who is busy
                        done = await kill_worker.strike(scene, self.chosen)
                        self.done["kills of workers"] += done is not None
                else:
                    self._kill(self.chosen.choice(victims))
                    self.done[
                        "kills of billers" if victims is kept.kept_billers else "kills of gateways"
                    ] += 1

    def _kill(self, victim: RestartedProcess) -> None:
        if victim.running.alive:
            os.kill(victim.running.process.pid, signal.SIGKILL)

    async def withdraw(self) -> bool:
        """A version that would make everything dearer in a minute, and is taken back in time."""
        self.withdrawn_ms = time.time_ns() // 1_000_000 + WITHDRAWN_AHEAD_MS
        version = await self.testbed.price(SHARED, {ANY_MODEL: DEAR}, at_ms=self.withdrawn_ms)
        await self.testbed.commands.parley(
            "prices", "withdraw", SHARED, str(version.number), "--reason", "too dear"
        )
        self.testbed.history.versions.remove(version)
        self.testbed.history.versions.append(replace(version, withdrawn=True))
        self.done["versions withdrawn"] += 1
        return True

    async def prices_now(self) -> bool:
        """Another version of a book from this moment on."""
        book = self.chosen.choice((SHARED, SHARED, OWN, TIERED, COVERED))
        model = self.chosen.choice((MODEL, ANY_MODEL))
        of_tiers = {TIERED: tiers, COVERED: request_tiers}.get(book)
        await self.testbed.price(
            book, {model: flat(self.chosen)}, of_tiers(self.chosen, model) if of_tiers else None, now=True
        )
        return True

    async def grant(self) -> bool:
        """More money for a prepaid customer."""
        wanted = self.chosen.choice([each for each in CUSTOMERS if each.grants])
        kind, nano = self.chosen.choice((("promo", 30_001), ("paid", 60_007)))
        seconds = self.chosen.randint(*GRANT_SECONDS) if kind == "promo" else 0
        await self.testbed.grant(wanted.name, kind, nano, f"more-{self.done['grant']}", seconds)
        return True

    async def correct(self) -> bool:
        """Other tokens for an answer that was billed; twice for some."""
        told = await self.billed(again=self.chosen.random() < 0.3)
        if told is None:
            return False
        meters = self.chosen.sample((INPUT, CACHED, OUTPUT), self.chosen.randint(1, 3))
        new = {meter: self.chosen.randint(0, 2 * told.quantities[meter] + 9) for meter in meters}
        flags = [part for meter in meters for part in (f"--{meter.replace('_', '-')}", str(new[meter]))]
        await self._ordered("correct", told, flags, new)
        return True

    async def refund(self) -> bool:
        """All of what an answer cost, its own price too."""
        told = await self.billed(again=False)
        if told is None:
            return False
        await self._ordered("refund", told, [], dict.fromkeys(METERS, 0))
        return True

    async def _ordered(self, order: str, told: ClientAnswer, flags: list[str], new: dict[str, int]) -> None:
        cause = f"{order} {len(self.testbed.history.facts)}"
        await self.testbed.commands.parley(
            "usage", order, told.id, "--tenant", told.tenant, "--cause", cause, *flags
        )
        self.testbed.history.facts.append(Corrected(told.tenant, told.id, cause, new))

    async def billed(self, again: bool) -> ClientAnswer | None:
        """An answer that is in the books; `again`: one that was corrected before."""
        told = [each for each in self.crowd.told if (each.id in self.touched) is again and each.output]
        if not told:
            return None
        found = self.chosen.choice(told)
        self.touched.add(found.id)
        await self.booked({found.id})
        return found

    async def booked(self, ids: set[str]) -> None:
        """Wait until these are in the books."""
        until = time.monotonic() + BOOKED_SECONDS_MAX
        while time.monotonic() < until:
            read = await rows.read(self.testbed.cluster.database.engine, "usage_event")
            if ids <= {each["request_id"] for each in read["usage_event"]}:
                return
            await asyncio.sleep(0.2)

    async def forge(self) -> bool:
        """Another end of an answer that was billed, which is held until somebody accepts or dismisses it."""
        told = await self.billed(again=False)
        event = next((each for each in self.events if told and each.request == told.id), None)
        if told is None or event is None:
            return False
        output = max(0, event.output_text - self.chosen.randint(1, 5))
        prices = Prices(
            event.prices.input_nano,
            event.prices.cached_input_nano,
            event.prices.output_nano,
            event.prices.request_nano // 1_000_000,
        )
        counts = {INPUT: event.input_uncached, CACHED: event.input_cached, OUTPUT: output}
        nano = cost({**counts, REQUEST: 1}, prices)
        forged = msgspec.structs.replace(event, output_text=output, cost_nano=nano)
        await self.testbed.cluster.redis.xadd(ended_stream(event.pool), {ENDED_FIELD: encode(forged)})
        held = await self._held(told.id)
        verb = self.chosen.choice(("accept", "accept", "dismiss"))
        done = await self.testbed.commands.parley("quarantine", verb, held, "--reason", "looked at it")
        if verb == "accept" and str(done[0]["done"]).startswith("corrected"):
            cause = f"event {held[:16]}"
            self.testbed.history.facts.append(Corrected(told.tenant, told.id, cause, counts))
        return True

    async def _held(self, id: str) -> str:
        until = time.monotonic() + BOOKED_SECONDS_MAX
        while time.monotonic() < until:
            for each in await self.testbed.commands.parley("quarantine", "list"):
                if each["request"] == id:
                    return str(each["event"])
            await asyncio.sleep(0.2)
        raise RuntimeError(f"another end of {id} is not held")

    async def dismiss_second_ends(self) -> None:
        """Redis forgot a request whose end was journaled, its client sent it again, and it ran twice: one end
        is booked, and the other is held. The judge says whether it is the one that the client was told."""
        for each in await self.testbed.commands.parley("quarantine", "list"):
            if self.done["flushes"] and each["reason"] == "conflicting":
                of = (str(each["event"]), "--reason", "Redis had forgotten it")
                await self.testbed.commands.parley("quarantine", "dismiss", *of)
                self.done["second ends after a flush"] += 1

    async def flush(self, quiet: bool) -> None:
        """Redis is killed and comes back empty. `quiet`: when nothing is open and all ends were read; else
        billers are stopped for a moment before, so that there are ends that none has read."""
        async with self.lock:
            await self._flush(quiet)
        self.done["flushes"] += 1

    async def _flush(self, quiet: bool) -> None:
        cluster = self.testbed.cluster
        if quiet:
            self.crowd.gate.clear()
            while self.crowd.open:  # noqa: ASYNC110  (nothing says when)
                await asyncio.sleep(0.05)
            await self.booked({each.id for each in self.crowd.told})
        else:
            self._signal_billers(signal.SIGSTOP)
            await asyncio.sleep(UNREAD_SECONDS)
        process = cluster.site.valkey.process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        shutil.rmtree(cluster.site.valkey.folder / AOF_FOLDER)
        if not quiet:
            read = await rows.read(cluster.database.engine, "usage_event")
            booked = {each["request_id"] for each in read["usage_event"]}
            self.done["ends lost unread"] += sum(each.id not in booked for each in self.crowd.told)
            self._signal_billers(signal.SIGCONT)
        await cluster.site.valkey.start()
        self.crowd.gate.set()

    def _signal_billers(self, number: signal.Signals) -> None:
        for each in self.testbed.cluster.kept_billers:
            if each.running.alive:
                os.kill(each.running.process.pid, number)
