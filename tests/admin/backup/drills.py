"""A small installation that is used, backed up, used on, lost and restored."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from sqlmodel import col, select

from admin.backup.backup import BackupCall, backup
from admin.backup.restore import restore
from admin.backup.restore_report import RestoreReport
from billing.enforcement.limit_cache import LimitCache
from billing.enforcement.limit_settings import set_budget
from billing.ledger.grant_spending import GrantKind
from billing.periods import HOUR_MS
from billing.posting.biller import Biller
from billing.posting.usage_stream import EndedStream
from billing.quota.client import Quota
from billing.quota.types import Admission, Admitted
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.run import EVERYTHING, Reconciliation
from billing.tables.tenants import UsageRow
from billing.tenants.tenancy import create_tenant
from billing.usage import ENDED_FIELD, EndedCounts, UsageEvent, UsageOwner, encode, ended_hours, ended_stream
from billing.wallets.wallets import NewGrant, grant
from chaos.installation import postgres
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.redis.pools import announce_pool
from core.sql.database import Database
from engine.journal.files import FOLDER, JournalSegments
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import JournaledEnd, frame
from tests.billing.events import PRICES, an_event, sealed
from tests.support.home import settings_in
from tests.support.redis import Redis

POOL = "default"
BUDGET = 1_000_000_000


@dataclass
class Drill:
    """One tenant under a budget and a wallet. `lost`: URL of the database that is lost; `target`: of the
    empty one."""

    redis: Redis
    settings: Settings
    lost: str
    target: str
    postgres_folder: Path | None
    tenant: str = ""
    ended: list[UsageEvent] = field(default_factory=list[UsageEvent])

    @property
    def database(self) -> Database:
        """The database in use."""
        return self._db

    async def begin(self) -> None:
        """A tenant with money."""
        self._db = Database(self.lost)
        self.tenant = (await create_tenant(self._db, "acme")).tenant_id
        await set_budget(self._db, self.redis, self.tenant, scope="tenant", period="month", limit_nano=BUDGET)
        await grant(self._db, self.tenant, NewGrant(GrantKind.PAID, BUDGET, "first"))
        await announce_pool(self.redis, self.settings, POOL)

    async def ask(self, id: str, tenant: str = "") -> Admitted | Refusal:
        """The answer to a request, under the limits by the database in use."""
        now, whose = now_ms(), tenant or self.tenant
        limits = await LimitCache(self._db).limits_for(whose, "p1", "k1", "u1", "smollm2", now)
        admission = Admission(
            tenant=whose,
            id=id,
            body_hash="h",
            owner_key="k1",
            project="p1",
            user="u1",
            model="smollm2",
            pool=POOL,
            fingerprint="f1",
            input_tokens=12,
            chunk_tokens=256,
            deadline_ms=now + 600_000,
            prices=PRICES,
            limits=limits,
        )
        return await Quota(self.redis, self.settings, self._db).admit(admission)

    async def ends(self, id: str, tenant: str = "") -> JournaledEnd:
        """A request that is admitted, answered, settled by its worker and in the stream; its end as a journal
        has it."""
        answer = await self.ask(id, tenant)
        assert isinstance(answer, Admitted), answer
        now = now_ms()
        owner = UsageOwner(project="p1", key="k1", user="u1")
        event = sealed(an_event(id, tenant or self.tenant, owner=owner, accepted_ms=now, ended_ms=now))
        await Quota(self.redis, self.settings).settle(event)
        at = await self.redis.xadd(ended_stream(POOL), {ENDED_FIELD: encode(event)})
        memory = (await PoolQueue(self.redis, POOL, self.settings).ends()).memory
        self.ended.append(event)
        return JournaledEnd(event.tenant, id, memory, at.decode(), encode(event))

    async def counts_ends(self, requests: int) -> None:
        """What a process says of itself that it ended this hour."""
        hour_ms, output = now_ms() // HOUR_MS * HOUR_MS, an_event("r", self.tenant).output_text
        counts = msgspec.msgpack.encode(EndedCounts(requests, requests * output))
        await self.redis.hset(ended_hours(POOL), f"w1:{hour_ms}", counts)  # pyright: ignore

    async def bill(self) -> None:
        """As the biller does."""
        await Biller(self._db, self.redis, self.settings, [POOL]).drain()

    async def trim(self) -> None:
        """What both groups have acknowledged is gone from the stream."""
        groups = EndedStream(self.redis, POOL, "recorder")
        await groups.ensure_groups()
        await self.redis.xtrim(ended_stream(POOL), maxlen=0)

    def journal(self, *ends: JournaledEnd) -> Path:
        """A file of a worker that is gone."""
        folder = self.settings.home / FOLDER
        before = set(folder.glob("*"))
        segments = JournalSegments(folder, POOL, "gone", 1 << 20)
        segments.write([frame(end) for end in ends])
        segments.close()
        (path,) = set(folder.glob("*")) - before
        return path

    async def back_up(self, target: Path) -> Path:
        """A backup of the database in use."""
        await backup(self.settings, BackupCall(target), lambda line: None)
        return target

    async def lose_database(self) -> None:
        """The database is gone; the settings name an empty one."""
        await self._db.close()
        if self.postgres_folder is None:
            for path in self.settings.home.glob("parley.db*"):
                path.unlink()
        self._db = Database(self.target)

    @property
    def restoring(self) -> Settings:
        """The settings under which it is restored."""
        return settings_in(self.settings.home, **self.given)

    @property
    def given(self) -> dict[str, str]:
        """What is in them besides the home."""
        database = {} if self.postgres_folder is None else {"database_url": self.target}
        return {"redis_url": self.settings.redis_endpoint, **database}

    async def restore(self, source: Path, *heads: Path) -> RestoreReport:
        """What the command does."""
        return await restore(source, self.restoring, heads, lambda line: None)

    async def billed(self, tenant: str = "") -> set[str]:
        """Requests in the books."""
        statement = select(UsageRow.request_id).where(col(UsageRow.tenant_id) == (tenant or self.tenant))
        async with self._db.session() as session:
            return set((await session.exec(statement)).all())

    async def differing(self) -> list[str]:
        """What reconcile says differs."""
        found = await Reconciliation(self._db, self.redis, self.restoring).run(EVERYTHING, whole=True)
        return [str(each) for each in found if each.state is not ComparisonState.EQUAL]

    async def close(self) -> None:
        """Nothing stays open."""
        await self._db.close()


@dataclass(frozen=True)
class DrillDatabases:
    """URLs of a migrated database and of an empty one. `folder`: the socket's, of Postgres."""

    lost: str
    target: str
    folder: Path | None = None


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def databases(request: pytest.FixtureRequest, home: Path) -> Generator[DrillDatabases]:
    """On SQLite, where both have one place, and on Postgres."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), home / "parley.db")
        url = f"sqlite+aiosqlite:///{home / 'parley.db'}"
        yield DrillDatabases(url, url)
        return
    folder: Path = request.getfixturevalue("postgres_folder")
    end = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    names = f"lost_{end}", f"empty_{end}"
    asyncio.run(postgres.execute(folder, f"CREATE DATABASE {names[0]} TEMPLATE template_parley"))
    asyncio.run(postgres.execute(folder, f"CREATE DATABASE {names[1]}"))
    yield DrillDatabases(postgres.url(folder, names[0]), postgres.url(folder, names[1]), folder)
    for name in names:
        asyncio.run(postgres.execute(folder, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
async def drill(databases: DrillDatabases, redis: Redis, settings: Settings) -> AsyncGenerator[Drill]:
    """A used installation."""
    given = {} if databases.folder is None else {"database_url": databases.lost}
    own = settings_in(settings.home, redis_url=settings.redis_endpoint, **given)
    made = Drill(redis, own, databases.lost, databases.target, databases.folder)
    await made.begin()
    yield made
    await made.close()
