"""Batches of rows that are deleted."""

from typing import Any

from sqlalchemy import select


def batch(rows: Any) -> Any:
    """The keys of a limited number of rows that nobody else holds, locked, for `IN`, from a select of them.
    Postgres reads them once: as a subquery of a join it may read them for each row, and then deletes more
    than the limit."""
    return select(*rows.with_for_update(skip_locked=True).cte("batch").c)
