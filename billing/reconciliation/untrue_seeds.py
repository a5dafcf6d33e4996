"""Counts money anew where Redis claims lines that the books do not have: whoever wrote that would keep every
later line from being counted, or a tenant locked out, until people repair it (R4)."""

from collections.abc import Sequence

from billing.quota.client import Quota
from billing.quota.posted_spending import last_line
from billing.reconciliation.comparison import Check, Comparison
from core.observability.error_facts import error_facts
from core.observability.telemetry import logger
from core.runtime.failed_rounds import is_store_down
from core.sql.database import Database

log = logger(__name__)


async def reseed_untrue(db: Database, quota: Quota, compared: Sequence[Comparison]) -> list[str]:
    """Seed the counts of tenants whose R4 differs and whose counts claim such lines; return these tenants.
    Where no count does, a difference is left for people."""
    differing = {each.tenant_id for each in compared if each.check is Check.R4 and each.difference}
    mended: list[str] = []
    for tenant_id in sorted(differing):
        try:
            claimed = max((each.seed_seq or 0 for each in await quota.budget_sums(tenant_id)), default=0)
            if claimed > await last_line(db, tenant_id):  # read afterwards: the books only grow
                await quota.reseed(tenant_id)
                log.error("reconciliation.seed_untrue", tenant=tenant_id)
                mended.append(tenant_id)
        except Exception as error:
            if is_store_down(error):
                raise
            log.error("reconciliation.reseed_failed", tenant=tenant_id, **error_facts(error))
    return mended
