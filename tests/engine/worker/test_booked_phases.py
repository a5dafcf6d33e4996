"""A request's life as its workers make it, down to the books: a kill, a move, a wait for a grant."""

from typing import Any

from msgspec import structs

from billing.api import Admission, Bindings, Quota, booked_of
from billing.posting.biller import post
from billing.usage import ENDED_FIELD, ended_stream
from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import Enqueue, Enqueued, Migrator
from engine.request import EndReason
from tests.engine.builders import PRICES, START_MS, TENANT
from tests.engine.tokens import ids_of
from tests.engine.worker.claims import a_claim
from tests.engine.workers import PoolWorkers, open_answer, paused_at, saying
from tests.support.redis import Redis

TEXT = "An answer of some length, from three workers."


async def test_a_life_of_a_killed_worker_and_a_move_is_booked(
    redis: Redis, settings: Settings, sqlite: Database
):
    """Its first worker is killed, its second one is in the pool that it is taken out of, its third one ends
    it in another: the books have each of them, in order, and what it was between them."""
    a, b = PoolWorkers(redis, settings, "a"), PoolWorkers(redis, settings, "b")
    asked = a.request_of()
    await admit(redis, settings, asked)
    assert isinstance(await a.queue.enqueue(asked), Enqueued)
    async with a.worker(paused_at(3, TEXT)) as killed:
        await a.reaches(asked.id, 3)
    await a.lose(killed.name)
    async with a.worker(paused_at(9, TEXT)), b.worker(ScriptedEngine(saying(TEXT), step_seconds=0)):
        await a.reaches(asked.id, 9)
        await Migrator(redis, settings, settings.keyring).migrate("a", TENANT, asked.id, "b")
        assert (await b.ended(asked.id))["reason"] == "stop"
    client: Any = redis
    ((_, fields),) = await client.xrange(ended_stream("b"))
    await post(sqlite, "b", [fields[ENDED_FIELD.encode()]])
    booked = await booked_of(sqlite, TENANT, asked.id)
    assert booked is not None
    assert [phase.kind for phase in booked.phases] == [
        *("queued", "claimed", "decode", "lost", "claimed", "decode"),
        *("moved", "queued", "claimed", "decode", "ended"),
    ]
    times = [phase.at_ms for phase in booked.phases]
    accepted, ended = booked.steps[0].at_ms, booked.steps[3].at_ms
    assert times == sorted(times)
    assert times[-1] == ended - accepted


def test_waits_for_grants_are_phases_of_their_own():
    """The engine lets go of it, and reads it again once more is allowed: its next token is a phase again,
    no other token is."""
    answer = open_answer(structs.replace(a_claim(), granted=2, phases=[("queued", 1), ("claimed", 5)]))
    answer.take(ids_of("ab"), 0, START_MS + 10)
    answer.wait()
    assert [answer.waited_ms(START_MS + ms) for ms in (20, 60)] == [0, 40]
    answer.grant(10, final=False)
    answer.go_on()
    for at, id in enumerate(ids_of("cd")):
        answer.take([id], 0, START_MS + 70 + at)
    answer.end(EndReason.STOP)
    append = answer.append("default", START_MS + 80)
    assert append is not None
    assert answer.event is not None
    assert answer.event.phases == [
        *(("queued", 1), ("claimed", 5), ("decode", 10), ("grant", 20), ("decode", 70), ("ended", 80))
    ]


async def admit(redis: Redis, settings: Settings, e: Enqueue) -> None:
    """As its gateway does, to pool a."""
    admission = Admission(
        tenant=e.tenant,
        id=e.id,
        body_hash=e.body_hash,
        owner_key="k1",
        project="p1",
        user="",
        model=e.model,
        pool="a",
        fingerprint=e.fingerprint,
        input_tokens=e.prompt_tokens,
        chunk_tokens=256,
        deadline_ms=e.deadline_ms,
        prices=PRICES,
    )
    await Quota(redis, settings, bindings=Bindings(settings.keyring, settings.installation)).admit(admission)
