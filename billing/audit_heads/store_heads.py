"""Keeps the heads of all chains elsewhere, repeatedly. Nothing waits for it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sqlmodel import col, select

from billing import instruments
from billing.audit_heads.heads import Chain, ChainHead, iso, line_of, signed
from billing.audit_heads.stores import HeadNotStored, HeadStore, head_stores_of, key_of
from billing.tables.audit import AuditHead
from billing.tables.ledger import LedgerHead
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.runtime.failed_rounds import store_errors
from core.sql.database import Database
from core.tasks import EndingTaskGroup

HEADS_AT_ONCE = 500
RETRY_SECONDS = 60.0

log = logger(__name__)


async def current_heads(db: Database, settings: Settings) -> AsyncGenerator[list[ChainHead]]:
    """Yield the present heads of all chains in pages, signed where there is a key."""
    key = key_of(settings)
    of_books = (LedgerHead, LedgerHead.txn_seq)
    for chain, (table, seq) in {
        Chain.CHANGES: (AuditHead, AuditHead.seq),
        Chain.BOOKS: of_books,
    }.items():
        async for rows in _pages(db, table, seq):
            at = iso(now_ms())
            heads = [
                ChainHead(at, settings.installation, chain, tenant, sequence, sha256)
                for tenant, sequence, sha256 in rows
                if sequence
            ]
            yield [signed(head, key) for head in heads]


async def _pages(db: Database, table: Any, seq: Any) -> AsyncGenerator[Sequence[tuple[str, int, str]]]:
    after: str | None = None
    while True:
        statement = select(table.tenant_id, seq, table.sha256).order_by(table.tenant_id)
        if after is not None:
            statement = statement.where(col(table.tenant_id) > after)
        async with db.session() as session:
            rows = (await session.exec(statement.limit(HEADS_AT_ONCE))).all()
        if not rows:
            return
        yield rows
        after = rows[-1][0]


class HeadStoreProgress:
    """One store, and the head of each chain that this process last stored there."""

    def __init__(self, db: Database, settings: Settings, store: HeadStore) -> None:
        self._db = db
        self._settings = settings
        self._stored: dict[tuple[str, str], int] = {}
        self.store = store

    async def store_moved(self) -> int:
        """Store the heads that moved, and the platform's in any case; how many. Raises HeadNotStored."""
        number = 0
        async for heads in current_heads(self._db, self._settings):
            moved = [
                head
                for head in heads
                if head.tenant == PLATFORM or self._stored.get((head.chain, head.tenant)) != head.sequence
            ]
            if moved:
                await self.store.append([line_of(head) for head in moved])
            self._stored |= {(head.chain, head.tenant): head.sequence for head in moved}
            number += len(moved)
        return number


async def store_heads_forever(db: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Keep heads at all places every PARLEY_AUDIT_HEADS_SECONDS; each place on its own."""
    async with EndingTaskGroup() as group:
        for store in head_stores_of(settings):
            group.create_task(
                _store_at(HeadStoreProgress(db, settings, store), settings.audit_heads_seconds, stop)
            )


async def _store_at(progress: HeadStoreProgress, seconds: float, stop: asyncio.Event) -> None:
    kind = progress.store.kind
    last = time.monotonic()
    instruments.show_heads_age(progress, kind, lambda: time.monotonic() - last)
    while not stop.is_set():
        wait = seconds
        try:
            instruments.heads_stored.add(await progress.store_moved(), {"place": kind})
            last = time.monotonic()
        except (HeadNotStored, *store_errors()) as error:
            wait = min(seconds, RETRY_SECONDS)
            instruments.heads_store_failures.add(1, {"place": kind})
            why = str(error) if isinstance(error, HeadNotStored) else error_summary(error)
            log.error("audit_heads.store_failed", place=progress.store.shown, why=why, again_seconds=wait)
        try:
            async with asyncio.timeout(wait):
                await stop.wait()
        except TimeoutError:
            continue
