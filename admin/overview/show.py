"""The operation `overview.show`: how the platform does, at a glance."""

import msgspec

from admin.overview.answer import Overview, OverviewStrip, RunningNumber, UnbilledNumber
from admin.overview.check_lights import lights_of
from admin.overview.facts import OverviewFacts
from admin.overview.happened import happened_of
from admin.overview.pool_states import waiting_by_class
from admin.overview.reading import read_facts
from admin.overview.remedies import remedies_of
from admin.overview.verdict import verdict_of
from billing.api import Look
from core.access.processes import POOLS
from core.clock import iso_time
from core.operations import STAFF, Role, Uses, operation
from engine.api import WORKER_READS

SEES_NO_POOLS = frozenset({Role.FINANCE})


class ShowOverview(msgspec.Struct, frozen=True):
    """Nothing more is asked."""


@operation(
    "overview.show",
    "GET /overview",
    may=STAFF,
    uses=Uses(
        reads="tenant tenant_user pool_owner model_version noisy_finding usage_quarantine recon_mark "
        "audit_head audit_log",
        keys=(*WORKER_READS, "P:age:", "P:act:", "P:ended", POOLS),
    ),
)
async def show_overview(look: Look, ask: ShowOverview) -> Overview:
    """Show how the platform does: a verdict in a sentence, what would help, and the numbers behind it.

    Finance sees the books and what happened, not workers and requests."""
    return overview_of(await read_facts(look, look.who.role not in SEES_NO_POOLS))


def overview_of(facts: OverviewFacts) -> Overview:
    """The answer. Pure."""
    lights = lights_of(facts.sql.compared, facts.now_ms, facts.names)
    return Overview(
        at=iso_time(facts.now_ms),
        verdict=verdict_of(facts, lights),
        remedies=remedies_of(facts, lights),
        strip=_strip(facts),
        pools=[each.shown() for each in facts.pools],
        waiting=waiting_by_class(facts.pools) if facts.sees_pools and facts.redis else [],
        load=None,
        books=lights,
        happened=happened_of(facts),
    )


def _strip(facts: OverviewFacts) -> OverviewStrip:
    known = facts.redis is not None
    value, of = sum(each.running for each in facts.pools), sum(each.slots for each in facts.pools)
    running = RunningNumber(value, of, [])
    unbilled = UnbilledNumber(
        round(facts.unread_ms / 1000, 1) if known else None,
        facts.unread if known else None,
        facts.sql.quarantined,
        [],
    )
    return OverviewStrip(running if known and facts.sees_pools else None, None, None, None, None, unbilled)


OPERATIONS = (show_overview,)
