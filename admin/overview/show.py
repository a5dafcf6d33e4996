"""The operation `overview.show`: how the platform does, at a glance."""

from weakref import WeakKeyDictionary

import msgspec

from admin.overview.answer import Overview
from admin.overview.check_lights import lights_of
from admin.overview.facts import OverviewFacts
from admin.overview.happened import happened_of
from admin.overview.numbers import load_of, strip_of
from admin.overview.pool_states import waiting_by_class
from admin.overview.reading import read_facts
from admin.overview.remedies import remedies_of
from admin.overview.shared_reads import SharedReads
from admin.overview.verdict import verdict_of
from billing.api import Look
from core.access.processes import FIGURES, POOLS
from core.clock import iso_time
from core.operations import STAFF, Role, Uses, operation
from core.redis.client import RedisClient
from engine.api import WORKER_READS

SEES_NO_POOLS = frozenset({Role.FINANCE})

_shared: WeakKeyDictionary[RedisClient, dict[bool, SharedReads[OverviewFacts]]] = WeakKeyDictionary()


class ShowOverview(msgspec.Struct, frozen=True):
    """Nothing more is asked."""


@operation(
    "overview.show",
    "GET /overview",
    may=STAFF,
    uses=Uses(
        reads="tenant tenant_user pool pool_owner model_version noisy_finding usage_quarantine recon_mark "
        "audit_head audit_log budget budget_spent wallet wallet_grant wallet_owed",
        keys=(*WORKER_READS, "P:age:", "P:act:", "P:ended", POOLS, FIGURES),
    ),
)
async def show_overview(look: Look, ask: ShowOverview) -> Overview:
    """Show how the platform does: a verdict in a sentence, what would help, and the numbers behind it.

    Finance sees the books and what happened, not workers and requests."""
    sees_pools = look.who.role not in SEES_NO_POOLS
    shared = _shared.setdefault(look.redis, {}).setdefault(sees_pools, SharedReads())
    return overview_of(await shared.get(lambda: read_facts(look, sees_pools)))


def overview_of(facts: OverviewFacts) -> Overview:
    """The answer. Pure."""
    lights = lights_of(facts.sql.compared, facts.now_ms, facts.names)
    return Overview(
        at=iso_time(facts.now_ms),
        verdict=verdict_of(facts, lights),
        remedies=remedies_of(facts, lights),
        strip=strip_of(facts),
        pools=[each.shown() for each in facts.pools],
        waiting=waiting_by_class(facts.pools) if facts.sees_pools and facts.redis else [],
        load=load_of(facts),
        books=lights,
        happened=happened_of(facts),
    )


OPERATIONS = (show_overview,)
