"""A database whose schema is checked when it is first used, for commands that may do without one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel.ext.asyncio.session import AsyncSession

from core.sql.database import Database, require_schema


class CheckedDatabase(Database):
    """Its first connection raises StartupError where the database does not answer, or its schema is old."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self._is_checked = False

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """As Database has it, of a checked schema."""
        await self._check()
        async with super().reading() as connection:
            yield connection

    @asynccontextmanager
    async def looking(self) -> AsyncGenerator[AsyncConnection]:
        """As Database has it, of a checked schema."""
        await self._check()
        async with super().looking() as connection:
            yield connection

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncSession]:
        """As Database has it, of a checked schema."""
        await self._check()
        async with super().session() as session:
            yield session

    async def _check(self) -> None:
        if not self._is_checked:
            await require_schema(self)
            self._is_checked = True
