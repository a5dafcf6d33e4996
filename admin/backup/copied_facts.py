"""Facts of the database for a backup's manifest: read from the copy itself, or from the snapshot that the
copy is made of. By names of columns that no release changes, so that a database can be copied before it is
migrated."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import text
from sqlmodel.ext.asyncio.session import AsyncSession

from admin.backup.manifest import CopiedHead, NamedModel
from core.sql.schema_origin import READ, SchemaOrigin

COUNTED = ("tenant", "usage_event", "usage_line", "ledger_txn", "message")
SHOWN_MAX = 3
_BOOKS = """
SELECT head.tenant_id, head.txn_seq, head.sha256,
  (SELECT row.sha256 FROM ledger_txn row WHERE row.tenant_id = head.tenant_id AND row.seq = head.txn_seq),
  (SELECT max(row.seq) FROM ledger_txn row WHERE row.tenant_id = head.tenant_id)
FROM ledger_head head ORDER BY head.tenant_id
"""
_CHANGES = """
SELECT head.tenant_id, head.seq, head.sha256,
  (SELECT row.sha256 FROM audit_log row WHERE row.tenant_id = head.tenant_id AND row.seq = head.seq),
  (SELECT max(row.seq) FROM audit_log row WHERE row.tenant_id = head.tenant_id)
FROM audit_head head ORDER BY head.tenant_id
"""


async def copied_heads(session: AsyncSession) -> tuple[list[CopiedHead], list[str]]:
    """The end of each chain, and a warning where a head is not its chain's last row: such a database can be
    copied, and is as wrong before as after."""
    heads: list[CopiedHead] = []
    wrong: list[str] = []
    chains: tuple[tuple[Literal["books", "changes"], str], ...] = (("books", _BOOKS), ("changes", _CHANGES))
    for chain, statement in chains:
        for tenant, sequence, sha256, row_sha256, last in await _rows(session, statement):
            if (row_sha256 or "", last or 0) != (sha256, sequence):
                wrong.append(f"{chain} of {tenant or '(platform)'}")
            if sequence:
                heads.append(CopiedHead(chain, tenant, sequence, sha256))
    named = ", ".join(wrong[:SHOWN_MAX])
    warning = f"heads of {len(wrong)} chains are not their last rows ({named}): see `parley audit verify`"
    return heads, [warning] if wrong else []


async def copied_counts(session: AsyncSession) -> dict[str, int]:
    """Numbers of rows of the main tables."""
    return {name: int((await _rows(session, f"SELECT count(*) FROM {name}"))[0][0]) for name in COUNTED}


async def copied_models(session: AsyncSession) -> list[NamedModel]:
    """Model versions, whose weights are not in a backup."""
    rows = await _rows(session, "SELECT name, version, fingerprint FROM model_version ORDER BY name, version")
    return [NamedModel(*row) for row in rows]


async def copied_schema(session: AsyncSession) -> SchemaOrigin:
    """The schema's revision, and the text of the migrations that made it."""
    return SchemaOrigin.of((await (await session.connection()).execute(READ)).mappings().first())


async def _rows(session: AsyncSession, statement: str) -> Sequence[Any]:
    return (await (await session.connection()).execute(text(statement))).all()
