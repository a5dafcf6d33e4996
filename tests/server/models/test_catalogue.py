"""What a gateway keeps of models and prices: for how long, how many, and that news empty it."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from billing.pools import PoolRoutes, PoolRow
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from engine.api import ModelRecord
from server.models import catalogue as module
from server.models.catalogue import Catalogue
from tests.support.watch import StubClock

MANY = 10_000


class Offer(NamedTuple):
    """A price, and when the next begins."""

    number: int
    next_ms: float = float("inf")

    def at(self, now: int) -> str:
        """What it costs now."""
        return f"{self.number} at {now}"

    def begun(self, now: int) -> bool:
        """Whether another one holds."""
        return now >= self.next_ms


class CatalogueDatabase:
    """Models and prices, and every question; `news`: to whom they come while one is answered."""

    def __init__(self) -> None:
        self.names, self.versions = ["a"], ["1"]
        self.routes = PoolRoutes()
        self.read = 0
        self.asked = list[str]()
        self.next_ms = float("inf")
        self.news: Catalogue | None = None

    async def list_versions(self, _: Database) -> list[ModelRecord]:
        """As engine's."""
        self.read += 1
        return [
            ModelRecord(name, version, "fp", Path("/m"), "default", 9)
            for name in self.names
            for version in self.versions
        ]

    async def read_routes(self, _: Database) -> PoolRoutes:
        """As billing's."""
        return self.routes

    async def offered_prices(self, _: Database, tenant: str, model: str) -> Offer:
        """As billing's."""
        self.asked.append(f"{tenant} {model}")
        if self.news is not None:
            self.news.prices_changed()
        return Offer(len(self.asked), self.next_ms)


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> CatalogueDatabase:
    """Instead of SQL."""
    books = CatalogueDatabase()
    for name in ("list_versions", "read_routes", "offered_prices"):
        monkeypatch.setattr(module, name, getattr(books, name))
    return books


@pytest.fixture
def catalogue(books: CatalogueDatabase, watch: StubClock) -> Catalogue:
    """A gateway's, whose default is `main`."""
    nothing: Any = None
    return Catalogue(nothing, Settings(model="main"))


async def test_models_are_known_for_two_seconds(
    catalogue: Catalogue, books: CatalogueDatabase, watch: StubClock
):
    """Then they are read anew."""
    for passed_ms, read in ((0, 1), (2_000, 1), (1, 2), (2_000, 2), (1, 3)):
        watch.ms += passed_ms
        assert [model.name for model in await catalogue.models()] == ["a"]
        assert books.read == read, passed_ms


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        (["a"], None, "a"),
        (["a", "main"], None, "main"),
        (["a", "b"], None, None),
        ([], None, None),
        (["a", "b"], "b", "b"),
        (["a"], "b", None),
        (["a"], "", None),
    ],
)
async def test_the_default_is_the_configured_or_the_only_one(
    catalogue: Catalogue, books: CatalogueDatabase, names: list[str], asked: str | None, found: str | None
):
    """Who asks for what there is not is told what there is."""
    books.names = names
    if found is not None:
        assert (await catalogue.resolve(asked, "t")).name == found
        return
    with pytest.raises(Refused, match=f"there are: {', '.join(names) or 'none is installed yet'}$"):
        await catalogue.resolve(asked, "t")


async def test_prices_are_known_for_two_seconds(
    catalogue: Catalogue, books: CatalogueDatabase, watch: StubClock
):
    """Of each tenant and model; unless the next ones begin before."""
    assert await catalogue.prices("t", "m") == f"1 at {watch.ms}"
    for tenant, model in (("t", "m"), ("t", "n"), ("u", "m"), ("t", "m")):
        await catalogue.offer(tenant, model)
    assert books.asked == ["t m", "t n", "u m"]
    watch.ms += 1_999
    await catalogue.offer("t", "m")
    assert len(books.asked) == 3
    watch.ms += 1
    books.next_ms = watch.ms + 500
    await catalogue.offer("t", "m")
    watch.ms += 499
    await catalogue.offer("t", "m")
    assert len(books.asked) == 4
    watch.ms += 1
    await catalogue.offer("t", "m")
    assert len(books.asked) == 5


async def test_news_of_prices_are_heard_at_once(catalogue: Catalogue, books: CatalogueDatabase):
    """Also where they come while prices are read: what was read is answered, and not kept."""
    await catalogue.offer("t", "m")
    catalogue.prices_changed()
    books.news = catalogue
    assert (await catalogue.offer("t", "m")).at(0) == "2 at 0"
    books.news = None
    await catalogue.offer("t", "m")
    await catalogue.offer("t", "m")
    assert books.asked == ["t m"] * 3


async def test_ten_thousand_prices_are_kept(catalogue: Catalogue, books: CatalogueDatabase):
    """One more, and all are read anew."""
    for number in range(MANY):
        await catalogue.offer("t", f"m{number}")
    await catalogue.offer("t", "m0")
    assert len(books.asked) == MANY
    await catalogue.offer("t", "one more")
    await catalogue.offer("t", "m0")
    assert books.asked[MANY:] == ["t one more", "t m0"]


async def test_a_request_gets_the_version_of_the_pool_it_goes_to(
    catalogue: Catalogue, books: CatalogueDatabase, watch: StubClock
):
    """Not the newest one. A model that no pool is for goes where its row says; where that pool is drained or
    another tenant's it is refused, and is not sent there."""
    books.names, books.versions = ["a"], ["1", "2"]
    assert await catalogue.resolve("a", "t") == ModelRecord("a", "2", "fp", Path("/m"), "default", 9)

    async def now_with(**pools: str) -> None:
        facts: dict[str, Any] = {"model": "a", "version": "1", "workers": 1, "labels": {}, "made_ms": 1}
        books.routes = PoolRoutes([PoolRow(pool=pool, tenant_id=of, **facts) for pool, of in pools.items()])
        watch.ms += 2_001

    await now_with(big="", own="t")
    for tenant, pool in (("t", "own"), ("u", "big")):
        assert await catalogue.resolve("a", tenant) == ModelRecord("a", "1", "fp", Path("/m"), pool, 9)
    await now_with(own="t")
    assert (await catalogue.resolve("a", "u")).pool == "default"
    await now_with(default="t")
    with pytest.raises(Refused, match="no pool takes requests for a from this tenant"):
        await catalogue.resolve("a", "u")
    assert (await catalogue.resolve("a", "t")).pool == "default"
