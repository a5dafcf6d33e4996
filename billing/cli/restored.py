"""Facts that `parley restore` reads of the books: the ends of their chains, sums, and faults in them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from billing.audit_heads.check import check_heads
from billing.audit_heads.head_files import chosen_files, lines_of
from billing.audit_heads.store_heads import current_heads
from billing.audit_heads.stores import key_of
from billing.cli.audit import faults_in, verify_all
from billing.cli.audit_heads import faults_of
from billing.reconciliation.ledger import compare_sums
from billing.reconciliation.tenant_keys import slot_fields
from billing.reconciliation.unbilled import EndedPoolHour, pool_hours
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database


async def chain_ends(db: Database, settings: Settings) -> dict[tuple[str, str], int]:
    """Number of the last row of each chain, by the chain's kind and tenant."""
    found: dict[tuple[str, str], int] = {}
    async for heads in current_heads(db, settings):
        found |= {(head.chain.value, head.tenant): head.sequence for head in heads}
    return found


async def booked_sums(db: Database, tenant: str) -> dict[str, int]:
    """Sums of a tenant's usage in its books, by the names that they have in Redis (`slot_sums`)."""
    _, sums = await compare_sums(db, tenant)
    return {each.field: each.wanted for each in slot_fields(sums)}


async def ended_hours_since(db: Database, pools: Iterable[str], since_ms: int) -> list[EndedPoolHour]:
    """The pools' hours that were not over then, of which less is in the books than processes ended."""
    hours = [each for pool in sorted(pools) for each in await pool_hours(db, pool, now_ms())]
    return [each for each in hours if each.end_ms > since_ms and (each.lost_requests or each.lost_output)]


async def restored_faults(db: Database, settings: Settings, heads: Sequence[Path]) -> list[tuple[str, str]]:
    """Faults of all books and changes, each with its owner, as `parley audit verify` finds them. `heads`:
    files of heads that were kept elsewhere, empty: those of the settings."""
    before: dict[str, list[str]] = {}
    for path in chosen_files(settings, heads):
        checked = await check_heads(db, lines_of(path), settings.installation, key_of(settings))
        for owner, fault in faults_of(path, checked):
            before.setdefault(owner, []).append(fault)
    return faults_in(await verify_all(db, None, before))
