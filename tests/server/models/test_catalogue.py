"""What a gateway keeps of models and prices: for how long, how many, and that news empty it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from billing.pools import ACTIVE, DRAINING, PoolRoutes, PoolRow
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from engine.api import ModelRecord
from server.models import catalogue as module
from server.models.catalogue import Catalogue, ServedModel
from server.protocol.codes import ErrorCode
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


def pool_row(pool: str, tenant: str = "", model: str = "a", state: str = ACTIVE) -> PoolRow:
    """A row of `pool`, in version 1."""
    facts: dict[str, Any] = {"version": "1", "workers": 1, "labels": {}, "made_ms": 1}
    return PoolRow(pool=pool, tenant_id=tenant, model=model, state=state, **facts)


class CatalogueDatabase:
    """Models, pools and prices, and every question; `news`: to whom they come while one is answered."""

    def __init__(self) -> None:
        self.names, self.versions = ["a"], ["1"]
        self.pools: list[PoolRow] | None = None
        self.read = 0
        self.asked = list[str]()
        self.next_ms = float("inf")
        self.news: Catalogue | None = None

    async def list_versions(self, _: Database) -> list[ModelRecord]:
        """As engine's."""
        self.read += 1
        return [
            ModelRecord(name, version, "fp", Path("/m"), 9)
            for name in self.names
            for version in self.versions
        ]

    async def read_routes(self, _: Database) -> PoolRoutes:
        """As billing's; unless a test says which, each model has a shared pool."""
        if self.news is not None:
            self.news.routes_changed()
        shared = [pool_row(f"of-{name}", model=name) for name in self.names]
        return PoolRoutes(shared if self.pools is None else self.pools)

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


async def test_a_version_that_was_only_added_is_not_told(catalogue: Catalogue, books: CatalogueDatabase):
    """Clients see the one that a pool serves; of a model that none serves the newest."""
    books.names, books.versions = ["a", "b"], ["1", "2"]
    books.pools = [pool_row("p")]
    assert [(each.name, each.version) for each in await catalogue.models()] == [("a", "1"), ("b", "2")]


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
        assert (await catalogue.resolve(asked, "t")).record.name == found
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


async def test_news_of_routes_are_heard_at_once(catalogue: Catalogue, books: CatalogueDatabase):
    """Also where they come while routes are read: what was read is answered, and not kept."""
    await catalogue.models()
    catalogue.routes_changed()
    books.news = catalogue
    await catalogue.models()
    books.news = None
    await catalogue.models()
    await catalogue.models()
    assert books.read == 3


async def test_ten_thousand_prices_are_kept(catalogue: Catalogue, books: CatalogueDatabase):
    """One more, and all are read anew."""
    for number in range(MANY):
        await catalogue.offer("t", f"m{number}")
    await catalogue.offer("t", "m0")
    assert len(books.asked) == MANY
    await catalogue.offer("t", "one more")
    await catalogue.offer("t", "m0")
    assert books.asked[MANY:] == ["t one more", "t m0"]


@pytest.fixture
def served(catalogue: Catalogue, books: CatalogueDatabase, watch: StubClock) -> Callable[..., None]:
    """Makes these the pools, and lets gateways notice."""

    def become(*pools: PoolRow) -> None:
        books.pools = list(pools)
        watch.ms += 2_001

    return become


async def test_a_request_gets_the_version_of_the_pool_it_goes_to(
    catalogue: Catalogue, books: CatalogueDatabase, served: Callable[..., None]
):
    """Not the newest one: its tenant's own pool's, else the shared one's."""
    books.versions = ["1", "2"]
    served(pool_row("big"), pool_row("own", "t"))
    for tenant, pool in (("t", "own"), ("u", "big")):
        found = ServedModel(ModelRecord("a", "1", "fp", Path("/m"), 9), pool)
        assert await catalogue.resolve("a", tenant) == found
    books.versions = ["2"]
    served(pool_row("big"))
    with pytest.raises(Refused, match="no pool takes requests for a from this tenant now"):
        await catalogue.resolve("a", "t")


@pytest.mark.parametrize(
    ("pools", "told"),
    [
        ([], "no pool serves the model a: the operator makes one with `parley pools create POOL --model a`"),
        ([pool_row("b", model="b")], "no pool serves the model a: .*"),
        ([pool_row("own", "t")], "no pool takes requests for a from this tenant now"),
        ([pool_row("default", state=DRAINING)], "no pool takes requests for a from this tenant now"),
    ],
)
async def test_a_model_without_a_pool_is_refused(
    catalogue: Catalogue, served: Callable[..., None], pools: list[PoolRow], told: str
):
    """Which model, and what to do where nobody made a pool; of others' pools not a word."""
    served(*pools)
    with pytest.raises(Refused, match=f" {told}$") as refused:
        await catalogue.resolve("a", "u")
    assert refused.value.refusal.code == ErrorCode.OVERLOADED


async def test_the_default_follows_the_row_of_the_gateways_pool(
    catalogue: Catalogue, books: CatalogueDatabase, served: Callable[..., None]
):
    """PARLEY_MODEL is the default only while PARLEY_POOL has no row."""
    books.names = ["a", "b", "main"]
    for pools, name in (
        ([pool_row("other", model="a")], "main"),
        ([pool_row("default", model="b")], "b"),
        ([pool_row("default", model="gone")], "main"),
    ):
        served(*pools)
        assert (found := await catalogue.default()) is not None
        assert found.name == name


async def test_a_gateway_is_ready_with_what_serves_its_default(
    catalogue: Catalogue, served: Callable[..., None]
):
    """The shared pool, else a dedicated one; a draining one serves nobody new."""
    for pools, pool in (
        ([pool_row("big"), pool_row("a-own", "t")], "big"),
        ([pool_row("a-own", "t"), pool_row("z-own", "u")], "a-own"),
        ([pool_row("big", state=DRAINING)], None),
    ):
        served(*pools)
        found = await catalogue.served_default()
        assert (found and found.pool) == pool
        assert await catalogue.pools() == {row.pool for row in pools}
