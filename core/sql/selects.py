"""SELECTs that SQLModel cannot type: of more than four columns, or of columns chosen at run time."""

from typing import Any, cast

from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession


def select_columns(*columns: Any) -> Any:
    """A SELECT of these columns."""
    return cast(Any, select)(*columns)


def untyped(session: AsyncSession) -> Any:
    """A session that takes such a statement; the caller types its rows."""
    return session
