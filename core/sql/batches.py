"""Batches of rows that are deleted."""

from typing import Any

from sqlalchemy import Select, select


def batch(rows: Select[Any]) -> Select[Any]:
    """The keys of a limited number of rows that nobody else holds, locked, for `IN`. Postgres reads them
    once: as a subquery of a join it may read them for each row, and then deletes more than the limit."""
    return select(*rows.with_for_update(skip_locked=True).cte("batch").c)
