"""Deletes what calls over the API and people's sessions leave behind and nobody asks for any more: kept
replies and runs after a day, ended sessions after a month.

Each goes with its owner's next call; this is for owners who never come again. Every console does it, in small
batches, the tenants' one for rows of tenants; several at once only share the work.
"""

import asyncio

from billing.api import clear_person_sessions, clear_replies, clear_runs
from core.clock import now_ms
from core.observability.telemetry import logger
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database

ROUND_SECONDS = 600.0
STEPS = (clear_replies, clear_runs, clear_person_sessions)

log = logger(__name__)


async def clear_old_rows(db: Database, staff: bool) -> None:
    """Delete for ever what is due; a failure is logged, and tried again in the next round."""
    while True:
        await clear_round(db, staff)
        await asyncio.sleep(ROUND_SECONDS)


async def clear_round(db: Database, staff: bool = True) -> None:
    """Delete all that is due, batch by batch. `staff` False: none of the platform's."""
    for step in STEPS:
        with logged_failures(log, "old_rows.clear_failed", step=step.__name__):
            while await step(db, now_ms(), staff=staff):
                pass
