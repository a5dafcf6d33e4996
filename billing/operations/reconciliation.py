"""The operation that shows whether the books agree: a light a check, from the last comparison of all."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from sqlmodel import col, select

from billing.operations.people_facts import NoQuestion
from billing.reconciliation.comparison import MEANING, Check, ComparisonState
from billing.reconciliation.last_run import LastRun, StoredCheck, last_run
from billing.tables.tenants import Tenant
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import STAFF, Uses, operation

STALE_MS = 10 * 60_000  # a biller compares once a minute
NOTHING = StoredCheck(0, 0, 0, [])
NEVER = "the books were never compared: a biller does so once a minute"


class CheckState(StrEnum):
    """Whether two books agree. `waiting`: some cannot be compared yet, and none differs; `unknown`: nobody
    compared them lately, or there is nothing to compare."""

    EQUAL = "equal"
    DIFFERS = "differs"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class UnequalPair(msgspec.Struct, frozen=True):
    """Two books that are not equal. Numbers are text of whole `unit`s (`nano`: of a USD); `difference`:
    actual less expected. `tenant` empty: of a pool, or of the platform. `age_ms`: for how long."""

    tenant: str
    tenant_name: str
    subject: str
    unit: str
    expected: str
    actual: str
    difference: str
    state: ComparisonState
    age_ms: int
    why: str


class CheckLight(msgspec.Struct, frozen=True):
    """A check. `why`: why it is not equal, in words; `age_ms`: how long the oldest of what is not equal has
    been so; `unequal`: the first of them, differences first."""

    check: Check
    meaning: str
    state: CheckState
    why: str
    age_ms: int
    compared: int
    differing: int
    waiting: int
    unequal: list[UnequalPair]


class ReconciliationFacts(msgspec.Struct, frozen=True):
    """All checks. `compared`: when, None: never; `age_ms`: how long ago."""

    compared: str | None
    age_ms: int | None
    checks: list[CheckLight]


@operation(
    "reconciliation.show",
    "GET /reconciliation",
    may=STAFF,
    uses=Uses(reads="tenant recon_mark"),
)
async def show_reconciliation(look: Look, ask: NoQuestion) -> ReconciliationFacts:
    """Show whether the books that must agree do, as they were compared last; nothing is compared anew."""
    found = await last_run(look.db)
    checks = found.checks.values() if found is not None else ()
    named = sorted({each.tenant for check in checks for each in check.unequal})
    statement = select(Tenant.tenant_id, Tenant.name).where(col(Tenant.tenant_id).in_(named))
    async with look.db.session() as session:
        names = dict((await session.exec(statement)).all()) if named else {}
    return lights_of(found, names, look.now_ms())


def lights_of(found: LastRun | None, names: Mapping[str, str], now: int) -> ReconciliationFacts:
    """The lights of a result. `names`: of tenants by id. Pure."""
    if found is None:
        return ReconciliationFacts(None, None, [_light(check, NOTHING, names, NEVER) for check in Check])
    age_ms = max(0, now - found.at_ms)
    stale = ""
    if age_ms > STALE_MS:
        stale = f"nobody compared the books for {age_ms // 60_000:,} minutes: does a biller run?"
    lights = [_light(check, found.checks.get(check.value, NOTHING), names, stale) for check in Check]
    return ReconciliationFacts(iso_time(found.at_ms), age_ms, lights)


def _light(check: Check, found: StoredCheck, names: Mapping[str, str], stale: str) -> CheckLight:
    """A difference stays one, however long ago it was found; that all was equal says nothing later."""
    state, why = CheckState.EQUAL, ""
    if found.differing:
        state, why = CheckState.DIFFERS, f"{found.differing:,} of {found.compared:,} differ"
    elif stale or not found.compared:
        state, why = CheckState.UNKNOWN, stale or "there is nothing to compare yet"
    elif found.waiting:
        state, why = CheckState.WAITING, found.unequal[0].why
    return CheckLight(
        check=check,
        meaning=MEANING[check],
        state=state,
        why=why,
        age_ms=max((each.age_ms for each in found.unequal), default=0),
        compared=found.compared,
        differing=found.differing,
        waiting=found.waiting,
        unequal=[
            UnequalPair(**msgspec.structs.asdict(each), tenant_name=names.get(each.tenant, each.tenant))
            for each in found.unequal
        ],
    )


OPERATIONS = (show_reconciliation,)
