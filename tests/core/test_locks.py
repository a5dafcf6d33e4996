"""Locks that stand for no row."""

import pytest

from core.errors import Refused
from core.sql.database import Database
from core.sql.locks import one_at_a_time


async def test_one_process_at_a_time_is_at_work_under_a_name(database: Database) -> None:
    """Another one waits, in bounds, and says so; another name is free, and so is this one afterwards."""
    other = Database(database.engine.url.render_as_string(hide_password=False))
    try:
        async with one_at_a_time(database, "a"), one_at_a_time(other, "b"):
            with pytest.raises(Refused, match="another process is at work on a"):
                async with one_at_a_time(other, "a", wait_seconds_max=0):
                    pass
        async with one_at_a_time(other, "a"):
            pass
    finally:
        await other.close()
