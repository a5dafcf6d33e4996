"""A database whose sessions all join one transaction, so that functions with transactions of their own become
parts of a larger one.

Each of their transactions is a savepoint: it is kept or rolled back alone, and all of them with the outer
one. They run one after another, as there is one connection.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel.ext.asyncio.session import AsyncSession

from core.sql.database import Database

Checked = Callable[[AsyncSession], None]
READ_ONLY = ("SET TRANSACTION READ ONLY",)


class JoinedDatabase(Database):
    """Sessions within the transaction of one connection. `checked` looks at each session that wrote, before
    the outer transaction can end; what it raises rolls everything back."""

    def __init__(self, db: Database, connection: AsyncConnection, checked: Checked) -> None:
        self.engine = db.engine
        self.dialect = db.dialect
        self._connection = connection
        self._check = checked

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """The connection of the transaction."""
        return self._joined()

    def looking(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """The connection of the transaction."""
        return self._joined()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncSession]:
        """A session in a savepoint; what is not committed is rolled back."""
        connection = await self._connected()
        async with AsyncSession(
            connection, expire_on_commit=False, join_transaction_mode="create_savepoint"
        ) as session:
            yield session

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncSession]:
        """A session in a savepoint, which is kept when the block ends well."""
        async with self.session() as session:
            yield session
            await session.commit()
            self._check(session)

    @asynccontextmanager
    async def erasing(self) -> AsyncGenerator[AsyncSession]:
        """Refused: what is erased is committed by itself, so that it is gone whatever follows."""
        raise AssertionError("an erasure joins no transaction")
        yield  # pyright: ignore[reportUnreachable]

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[AsyncSession]:
        """A session that reads what the transaction sees."""
        async with self.session() as session:
            yield session

    @asynccontextmanager
    async def short_snapshot(self, seconds_max: float) -> AsyncGenerator[AsyncSession]:
        """As `snapshot`: a transaction that writes has no statement that runs for long."""
        async with self.session() as session:
            yield session

    async def close(self) -> None:
        """Nothing: the connection is the outer transaction's."""

    @asynccontextmanager
    async def _joined(self) -> AsyncGenerator[AsyncConnection]:
        yield await self._connected()

    async def _connected(self) -> AsyncConnection:
        return self._connection


class _LookedAt(JoinedDatabase):
    """Sessions within a transaction that only reads, and begins with the first of them."""

    def __init__(self, db: Database, stack: AsyncExitStack) -> None:
        self.engine = db.engine
        self.dialect = db.dialect
        self._db = db
        self._stack = stack
        self._check = _nothing_written
        self._begun: AsyncConnection | None = None

    async def _connected(self) -> AsyncConnection:
        if self._begun is None:
            self._begun = await self._stack.enter_async_context(_read_only(self._db))
        return self._begun


@asynccontextmanager
async def joined_transaction(db: Database, checked: Checked, dry: bool) -> AsyncGenerator[JoinedDatabase]:
    """One transaction around all that the block does with its database: committed when the block ends well,
    rolled back where it raises or `dry` is True. On SQLite it takes the write lock at its start."""
    async with db.looking() as connection, connection.begin() as outer:
        if db.dialect == "sqlite":
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield JoinedDatabase(db, connection, checked)
        if dry:
            await outer.rollback()


@asynccontextmanager
async def read_only_transaction(db: Database) -> AsyncGenerator[JoinedDatabase]:
    """One transaction in which the database refuses every write, and every read sees one state. It begins
    with the first read: who looks at Redis alone needs no database."""
    async with AsyncExitStack() as stack:
        yield _LookedAt(db, stack)


@asynccontextmanager
async def _read_only(db: Database) -> AsyncGenerator[AsyncConnection]:
    async with db.looking() as connection:
        if db.dialect != "sqlite":
            await connection.execution_options(isolation_level="REPEATABLE READ")
        async with connection.begin() as outer:
            begin = ("PRAGMA query_only = ON", "BEGIN") if db.dialect == "sqlite" else READ_ONLY
            for each in begin:
                await connection.exec_driver_sql(each)
            try:
                yield connection
            finally:
                if db.dialect == "sqlite":
                    await connection.exec_driver_sql("PRAGMA query_only = OFF")
                await outer.rollback()


def _nothing_written(_: AsyncSession) -> None:
    """What a transaction that only reads checks of its sessions."""
