"""Units of work: what an operation's function gets. A look reads, a change is one transaction, an order acts
on Redis once its audit row is committed.

They hold the rules that no operation may forget: whose tenant it is, that what was edited is the version that
the caller saw, and that others are told only of what was committed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record, record_separately, recorded_rows
from billing.audit.states import is_unrecorded
from billing.tables.audit import AuditLog
from billing.tables.tenants import Tenant
from billing.tenants.edits import lock_settings
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.file_turns import FileTurns
from billing.unit_of_work.progress import BegunRun, OperationProgress
from billing.unit_of_work.recent_reads import RecentReads
from billing.unit_of_work.replies import CallKey, RepliedBefore, claim, keep
from billing.unit_of_work.versions import check_version, version_of
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, StartupError, see, unknown
from core.operations import Operation, OperationKind, Unit
from core.redis.client import RedisClient
from core.sql.database import Database, TableBase
from core.sql.store_errors import database_failure

Row = TypeVar("Row", bound=TableBase)
Held = TypeVar("Held")
Writing = Callable[[AsyncSession], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True)
class Stores:
    """What operations reach: the settings, the database, Redis, and the time in Unix ms. Redis is connected
    to (`connect`) once somebody needs it."""

    settings: Settings
    db: Database
    connect: Callable[[], RedisClient]
    now_ms: Callable[[], int] = now_ms
    reads: RecentReads = field(default_factory=RecentReads)
    files: FileTurns = field(default_factory=FileTurns)

    @cached_property
    def redis(self) -> RedisClient:
        """The one client of Redis."""
        return self.connect()

    async def record_read(self, who: OperationActor, read: str, action: str, chain: str, target: str) -> None:
        """Commit an audit row that somebody of the staff reads something (`read`) of a tenant's, once in a
        while where they read it again and again. Members, and commands on this machine, are not recorded."""
        if who.tenant is not None or not who.remote:
            return
        known = (who.id or who.author.name, chain, read, target)
        if self.reads.is_new(known):
            await record_separately(self.db, chain, action, target, None)
            self.reads.note(known)


@dataclass(frozen=True)
class Terms:
    """How an operation is to be done. `dry_run`: not at all, only tell; `version`: the thing is edited only
    if this is its version (None: whichever); `approved_nano`: two people agreed on this amount; `meant_nano`:
    the caller means to move no more than that; `key`: its caller's name for this call, which is done once."""

    reason: str = ""
    dry_run: bool = False
    version: int | None = None
    key: str = ""
    approved_nano: int | None = None
    meant_nano: int | None = None


class DryRunEnds(Exception):  # noqa: N818  (an answer, not a fault)
    """Ends an order's dry run before it acts, with what it would answer."""

    def __init__(self, would: Any) -> None:
        super().__init__()
        self.would = would


@dataclass
class _BoundUnit(Unit):
    """What all units have. `db`: the database, in a look or a change within its one transaction."""

    stores: Stores
    who: OperationActor
    terms: Terms
    operation: Operation
    db: Database
    version: int | None = None

    @property
    def settings(self) -> Settings:
        """The process' settings."""
        return self.stores.settings

    def now_ms(self) -> int:
        """Unix ms."""
        return self.stores.now_ms()

    async def tenant(self, named: str) -> Tenant:
        """The tenant of this id or name. Raises Refused where there is none, or it is another's than the
        caller's: to a member no other tenant exists."""
        found = await find_tenant(self.db, named)
        if found is None or self.who.tenant not in (None, found.tenant_id):
            self.no_tenant(named)
        return found

    def no_tenant(self, named: str) -> NoReturn:
        """Raise the Refused for a tenant that is not there for this caller."""
        raise unknown(f"there is no tenant {named!r}", field="tenant", see=see("tenants.list"))

    async def stay(self, session: AsyncSession) -> None:
        """Raise Refused where the caller may not commit any more."""
        if self.who.still is not None:
            await self.who.still(session)

    async def seen(self, table: type[TableBase], chain: str, *key: str) -> None:
        """Note the version of the thing that is answered: the number of its last change in the chain."""
        async with self.db.session() as session:
            self.version = await version_of(session, chain, table, key)


@dataclass
class Look(_BoundUnit):
    """A read in one snapshot, in which the database refuses writes. `redis` is read, never written."""

    kind = OperationKind.LOOK

    @property
    def redis(self) -> RedisClient:
        """Redis, to be read."""
        return self.stores.redis

    async def recorded(self, chain: str, target: str, facts: Mapping[str, Any] | None = None) -> None:
        """Commit an audit row that this is read, before it is."""
        assert self.operation.audit, f"{self.operation.name} declares no audit action"
        await record_separately(self.stores.db, chain, self.operation.audit[0], target, facts)

    async def watched(self, chain: str, target: str) -> None:
        """Commit an audit row that staff reads something of a tenant's, once in a while where they read it
        again and again. Members, and commands on this machine, are not recorded."""
        assert self.operation.audit, f"{self.operation.name} declares no audit action"
        await self.stores.record_read(self.who, self.operation.name, self.operation.audit[0], chain, target)


@dataclass
class Change(_BoundUnit):
    """A change in one transaction. What rooms do with `db` is committed together, or not at all.
    `moved_nano`: the money that it moves; `prepared`: what its operation did before the transaction."""

    kind = OperationKind.CHANGE
    held: AsyncExitStack = field(default_factory=AsyncExitStack)
    moved_nano: int = 0
    second_person: str = ""
    telling: list[Callable[[], Awaitable[Any]]] = field(default_factory=list[Callable[[], Awaitable[Any]]])
    remembered: list[Callable[[], Awaitable[Any]]] = field(default_factory=list[Callable[[], Awaitable[Any]]])
    thing: tuple[type[TableBase], str, tuple[str, ...]] | None = None
    prepared: Any = None

    def after(self, tell: Callable[..., Awaitable[Any]], *facts: Any) -> None:
        """Call `tell(db, redis, *facts)` once the change is committed. Where it fails, caches learn of the
        change a few seconds later by themselves."""
        self.telling.append(lambda: tell(self.stores.db, self.stores.redis, *facts))

    async def moves(self, tenant_id: str, nano: int) -> None:
        """Say that the change moves an amount, of either sign. Called behind its audit row. Raises
        NeedsSecondPerson where this author may not move it alone, Refused where it is not what was approved,
        or more than is meant; a dry run tells any, and whether a second person is needed."""
        from billing.unit_of_work import moves  # most move none

        self.moved_nano += abs(nano)
        who = (self.db, self.settings, self.who, tenant_id, self.moved_nano)
        if self.terms.dry_run:
            if self.terms.approved_nano is None:
                self.second_person = await moves.second_person_of(*who)
            return
        if self.terms.approved_nano is not None:
            moves.check_approved(self.moved_nano, self.terms.approved_nano)
            return
        await moves.check_alone(*who)
        if self.terms.meant_nano is not None:
            moves.check_meant(self.moved_nano, self.terms.meant_nano)

    def if_refused(self, remember: Callable[..., Awaitable[Any]], *facts: Any) -> None:
        """Call `remember(db, *facts)`, with transactions of its own, where this change is refused and rolled
        back. A dry run remembers nothing."""
        if not self.terms.dry_run:
            self.remembered.append(lambda: remember(self.stores.db, *facts))

    async def until_committed(self, keeps: AbstractAsyncContextManager[Held]) -> Held | None:
        """Enter what keeps something elsewhere until the change is committed or not, and return what it
        gives. A dry run keeps nothing."""
        return None if self.terms.dry_run else await self.held.enter_async_context(keeps)

    async def editing(self, table: type[Row], chain: str, *key: str) -> Row | None:
        """The row of this primary key, under the lock of its owner's settings (`chain`: a tenant or
        PLATFORM); None: there is none. Raises Refused, with the changes since, where it is no longer the
        version that the caller named."""
        async with self.db.transaction() as session:  # committed, or its lock would end with it
            await lock_settings(session, chain)
            row = await session.get(table, key)
            if row is not None:
                await check_version(session, chain, table, key, self.terms.version)
        self.thing = (table, chain, key)
        return row


@dataclass
class Order(_BoundUnit):
    """Something that is done in Redis. No transaction is open while it waits for others. `run`: over the API
    one that takes long goes on as this run, which begins where it is given."""

    kind = OperationKind.ORDER
    call: CallKey | None = None
    recorded: list[AuditLog] = field(default_factory=list[AuditLog])
    run: BegunRun | None = None
    progress: OperationProgress = field(default_factory=OperationProgress)

    @property
    def reads(self) -> RedisClient:
        """Redis, to be read, before `given`."""
        return self.stores.redis

    async def given(
        self,
        chain: str,
        target: str,
        would: msgspec.Struct,
        facts: Mapping[str, Any] | None = None,
        action: str = "",
        writing: Writing | None = None,
    ) -> RedisClient:
        """Commit the audit row of the order, and return Redis to act on. A dry run ends here with `would`.
        `action`: which one, where the operation declares several; `writing`: writes in the row's transaction,
        and returns more facts for it. Raises Refused where the row cannot be written: no order lacks its
        row."""
        action = action or self.operation.audit[0]
        assert action in self.operation.audit, f"{self.operation.name} does not declare {action}"
        if self.terms.dry_run:
            raise DryRunEnds(would)
        try:
            self.recorded += await self._record(chain, action, target, facts or {}, writing)
        except (SQLAlchemyError, StartupError, OSError) as error:
            why = error if isinstance(error, StartupError) else database_failure(error)
            told = f"nothing is done, since it cannot be recorded: {why}"
            raise Refused(Refusal("overloaded", told, retry=True)) from error
        return self.stores.redis

    async def check_version(
        self, session: AsyncSession, table: type[TableBase], chain: str, *key: str
    ) -> None:
        """Raise Refused, with the changes since, where the thing is not the version that the caller named."""
        await check_version(session, chain, table, key, self.terms.version)

    async def _record(
        self, chain: str, action: str, target: str, facts: Mapping[str, Any], writing: Writing | None
    ) -> Sequence[AuditLog]:
        async with self.stores.db.transaction() as session:
            if self.call is not None and (kept := await claim(session, self.call)) is not None:
                raise RepliedBefore(kept)
            if writing is not None:
                facts = {**facts, **await writing(session)}
            begins = self.run if self.run is not None and not self.run.begun else None
            if begins is not None:
                await begins.write(session, begins)
            await record(session, chain, action, target, None, facts)
            check_recorded(session)
            await self.stay(session)  # last: rows of people are locked behind the audit log's chains
            if begins is not None and self.call is not None:
                await keep(session, self.call, begins.started, None)
        if begins is not None:
            begins.begin()
        return recorded_rows(session)


def check_recorded(session: AsyncSession) -> None:
    """Assert that each watched row which this session wrote stands in the audit log."""
    assert not is_unrecorded(session), "a watched row was changed without an audit row"
