"""What the books say, as rows of SQL: read by table and column, with nothing of the product between."""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

Row = dict[str, Any]
TABLES = {
    "usage_event": "tenant_id, request_id, pool, model, project_id, key_id, user_id, accepted_ms, ended_ms,"
    " reason, input_uncached, input_cached, output_text, output_reasoning, price_book_id, price_version,"
    " cost_nano, claims",
    "usage_line": "tenant_id, seq, request_id, number, kind, meter, quantity, amount_nano, ended_ms,"
    " posted_ms, cost_center_id",
    "rollup_hour": "tenant_id, hour_ms, project_id, user_id, key_id, model, pool, requests, input_uncached,"
    " input_cached, output_text, output_reasoning, amount_nano, cost_center_id",
    "ledger_txn": "tenant_id, seq, kind, idempotency_key, posted_ms, first_line_seq, last_line_seq",
    "ledger_entry": "tenant_id, txn_seq, account, amount_nano",
    "wallet": "tenant_id, posted_nano",
    "wallet_grant": "tenant_id, id, kind, amount_nano, left_nano, idempotency_key",
    "wallet_owed": "tenant_id, request_id, owed_nano",
    "charge": "tenant_id, id, kind, model, start_ms, end_ms",
    "usage_quarantine": "event_sha256, tenant_id, request_id, reason, detail, resolved_ms",
    "price_version": "book_id, version, valid_from_ms, withdrawn_ms",
    "budget_spent": "tenant_id, scope, scope_id, period, window_start_ms, spent_nano",
    "tenant_user": "tenant_id, id, name",
}


@dataclass
class Rows:
    """All rows of the tables above, as they were at one moment."""

    of: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])

    def __getitem__(self, table: str) -> list[Row]:
        """The rows of a table."""
        return self.of.get(table, [])


async def read(engine: AsyncEngine, *tables: str) -> Rows:
    """These tables, by default all, in one transaction."""
    found = Rows()
    async with engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        for name in tables or TABLES:
            rows = await connection.execute(text(f"SELECT {TABLES[name]} FROM {name}"))
            found.of[name] = [dict(row) for row in rows.mappings()]
    return found
