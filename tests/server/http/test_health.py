"""How often a gateway looks whether it is ready, and what it says is missing. Its stores are words."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from redis.exceptions import ConnectionError as AwayError
from structlog.testing import capture_logs

from server.http.health import Health, missing_words
from tests.server.virtual.loop import passing, played
from tests.support.watch import StubClock


class StubModel(NamedTuple):
    """The default."""

    name: str = "m"
    version: str = "2"
    fingerprint: str = "fp"


class StubServed(NamedTuple):
    """One with the pool that serves it."""

    record: StubModel = StubModel()
    pool: str = "p"


class StubWorker(NamedTuple):
    """One that is registered."""

    alive: bool
    fingerprint: str


@dataclass
class HealthWorld:
    """What a gateway sees; `error`: instead of an answer."""

    model: StubModel | None = field(default_factory=StubModel)
    served: StubServed | None = field(default_factory=StubServed)
    registered: list[StubWorker] = field(default_factory=lambda: [StubWorker(True, "fp")])
    error: BaseException | None = None
    takes_seconds: float = 0
    looks: int = 0

    async def default(self) -> StubModel | None:
        """As the catalogue's."""
        return self.model

    async def served_default(self) -> StubServed | None:
        """As the catalogue's."""
        return self.served

    async def workers(self) -> list[StubWorker]:
        """As the queue's."""
        self.looks += 1
        if self.takes_seconds:
            await passing(self.takes_seconds)
        if self.error is not None:
            raise self.error
        return self.registered

    async def __aenter__(self) -> "HealthWorld":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def execute(self, _: object) -> None:
        """As a connection's."""

    def connect(self) -> "HealthWorld":
        """As an engine's."""
        return self

    def health(self) -> Health:
        """Of a gateway that sees this."""
        edge: Any = type("Edge", (), {})()
        edge.db = type("Db", (), {"engine": self})()
        edge.catalogue, edge.pools = self, SimpleNamespace(queues={"p": self})
        edge.settings = type("Settings", (), {"model": "main"})()
        return Health(edge)


@pytest.mark.parametrize(
    ("world", "missing"),
    [
        (HealthWorld(), []),
        (
            HealthWorld(registered=[StubWorker(False, "fp"), StubWorker(True, "other")]),
            ["no worker of m 2 is ready yet"],
        ),
        (HealthWorld(registered=[StubWorker(True, "other"), StubWorker(True, "fp")]), []),
        (HealthWorld(registered=[]), ["no worker of m 2 is ready yet"]),
        (HealthWorld(model=None), ["the model main is not installed (parley models add)"]),
        (
            HealthWorld(served=None),
            ["no pool serves the model m (parley pools create POOL --model m)"],
        ),
        (HealthWorld(error=AwayError("x")), ["Redis does not answer"]),
        (HealthWorld(error=OSError("x")), ["the database does not answer"]),
    ],
)
async def test_what_is_missing_has_words(world: HealthWorld, missing: list[str]):
    """For operators; strangers are told yes or no."""
    health = world.health()
    assert await health.missing() == missing
    request: Any = None
    reply = await health.readyz(request)
    assert (reply.status_code, reply.body) == (
        (503, b'{"ready":false}') if missing else (200, b'{"ready":true}')
    )
    assert (await health.healthz(request)).body == b"ok\n"


async def test_an_answer_is_kept_for_a_fifth_of_a_second(watch: StubClock):
    """Also a bad one; asked at once it is looked for once; a gateway that drains does not look."""
    for world in (HealthWorld(), HealthWorld(registered=[])):
        health, looks = world.health(), 0
        with capture_logs() as logs:
            for passed_ms, more in ((0, 1), (0, 0), (199, 0), (2, 1), (199, 0)):
                watch.ms += passed_ms
                await asyncio.gather(*(health.missing() for _ in range(3)))
                looks += more
                assert (world.looks, len(logs)) == (looks, 1), passed_ms
        assert [each["ready"] for each in logs] == [bool(world.registered)]  # said when it changes
        watch.ms += 1_000
        health.draining = True
        assert await health.missing() == ["the gateway is draining"]
        assert world.looks == looks


def test_who_takes_too_long_does_not_answer():
    """Two seconds; what the metrics' thread says is joined."""

    async def day(seconds: float) -> list[str]:
        return await HealthWorld(takes_seconds=seconds).health().missing()

    assert [played(day(seconds)) for seconds in (1.9, 2.1)] == [[], ["the database does not answer"]]


async def test_the_thread_of_the_metrics_asks_the_loop():
    """In words, joined; nothing where nothing is missing."""
    loop = asyncio.get_running_loop()
    for world, said in ((HealthWorld(), ""), (HealthWorld(registered=[]), "no worker of m 2 is ready yet")):
        assert await asyncio.to_thread(missing_words, world.health(), loop) == said
