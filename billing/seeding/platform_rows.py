"""What a seeded installation has beside its tenants: staff, plans, dedicated pools and their hours, moves of
money that waited for a second person, and runs. Pure."""

from collections.abc import Sequence

from billing.periods import HOUR_MS
from billing.seeding.changes import OPERATORS, SeededRows
from billing.seeding.people_rows import join_rows, person_row, token_row
from billing.seeding.shapes import DAY_MS, SeedShape, chance_of
from billing.tables.approvals import Proposal
from billing.tables.dedicated_pools import GpuCost, PoolInterval, PoolOwner
from billing.tables.runs import OperationRun
from billing.tables.tenants import PLATFORM, Plan
from billing.tenants.tenancy import DEFAULT_PRICE_BOOK, PRIORITIES
from core.ids import uuid7
from core.operations import Role

PLANS = 12
STAFF = (Role.OPERATOR, Role.FINANCE, Role.SUPPORT)
POOLS_MAX = 5
WORKERS = 4  # of each pool
HOUR_NANO = 2_000_000_000
NANO_MAX = 900_000_000_000
STATES = ("booked", "booked", "booked", "rejected", "failed")


def plan_rows(shape: SeedShape) -> tuple[SeededRows, list[str]]:
    """Plans, and their ids."""
    rows, ids = SeededRows(), list[str]()
    for number in range(PLANS):
        at_ms = shape.start_ms - DAY_MS + number
        plan = Plan(
            id=uuid7(at_ms),
            name=f"plan-{number}",
            price_book_id=DEFAULT_PRICE_BOOK,
            priority_max=PRIORITIES[number % len(PRIORITIES)],
            weight=1.0 + number,
            created_ms=at_ms,
        )
        rows.change(at_ms, PLATFORM, OPERATORS[0], ("plan.create", plan.id), plan)
        ids.append(plan.id)
    return rows, ids


def staff_rows(shape: SeedShape) -> SeededRows:
    """Staff and their tokens; no owner, who comes with the first start."""
    rows = SeededRows()
    for number in range(2 * len(STAFF)):
        at_ms = shape.start_ms + number
        person = person_row(at_ms, f"Staff {number}", f"staff{number}@parley.example")
        join_rows(rows, at_ms, OPERATORS[0], person, PLATFORM, STAFF[number % len(STAFF)])
        token = token_row(shape, PLATFORM, f"script {number}", STAFF[number % len(STAFF)], person.id)
        rows.change(token.created_ms, PLATFORM, OPERATORS[0], ("token.create", token.id), token)
    return rows


def pool_rows(shape: SeedShape, tenants: Sequence[str]) -> SeededRows:
    """Dedicated pools of the largest tenants, with an interval of each worker and hour."""
    rows, by = SeededRows(), OPERATORS[0]
    cost = GpuCost(
        gpu_type="H100",
        region="",
        valid_from_ms=shape.start_ms,
        hour_nano=HOUR_NANO,
        created_ms=shape.start_ms,
    )
    rows.change(shape.start_ms, PLATFORM, by, ("gpu_cost.set", "H100"), cost)
    first = (shape.start_ms // HOUR_MS + 1) * HOUR_MS
    for number, tenant in enumerate(tenants[: min(POOLS_MAX, 1 + len(tenants) // 100)]):
        pool = f"dedicated-{number}"
        owner = PoolOwner(pool=pool, from_ms=first, tenant_id=tenant, created_ms=first)
        rows.change(first, PLATFORM, by, ("pool.create", pool), owner)
        for hour_ms in range(first, shape.end_ms - HOUR_MS, HOUR_MS):
            rows.others += [_ready(pool, f"w{worker}", hour_ms) for worker in range(WORKERS)]
    return rows


def _ready(pool: str, worker: str, hour_ms: int) -> PoolInterval:
    return PoolInterval(
        pool=pool,
        worker=worker,
        from_ms=hour_ms,
        to_ms=hour_ms + HOUR_MS,
        busy_ms=HOUR_MS // 2,
        hour_ms=hour_ms,
        device=f"{pool}-{worker}",
        gpu_type="H100",
        gpus=1,
        state="ready",
        counted=True,
    )


def desk_rows(shape: SeedShape, tenants: Sequence[str]) -> SeededRows:
    """Proposals, and runs of the last day, about two of each a tenant."""
    rows, chance = SeededRows(), chance_of(shape, "desk")
    for number in range(2 * len(tenants)):
        at_ms = shape.start_ms + chance.randrange(shape.end_ms - shape.start_ms)
        tenant = tenants[number % len(tenants)]
        nano = chance.randrange(NANO_MAX)
        rows.others += [
            _proposal(tenant, at_ms, number, nano),
            _run(tenant, shape.end_ms - at_ms % DAY_MS, number),
        ]
    return rows


def _proposal(tenant: str, at_ms: int, number: int, nano: int) -> Proposal:
    return Proposal(
        tenant_id=tenant,
        id=uuid7(at_ms),
        kind="wallets.grant",
        move='{"operation":"wallets.grant","ask":{}}',
        amount_nano=nano,
        author="Ann",
        by="unix:ann",
        state=STATES[number % len(STATES)],
        created_ms=at_ms,
        expires_ms=at_ms + DAY_MS,
        ended_ms=at_ms + HOUR_MS,
    )


def _run(tenant: str, at_ms: int, number: int) -> OperationRun:
    return OperationRun(
        tenant_id=tenant if number % 2 else PLATFORM,
        id=uuid7(at_ms),
        caller=f"unix:{number % len(OPERATORS)}",
        author=OPERATORS[number % len(OPERATORS)].name,
        operation="workers.drain",
        state="done",
        events="[]",
        answer="{}",
        problem="null",
        begun_ms=at_ms,
        beat_ms=at_ms + 1000,
        ended_ms=at_ms + 2000,
    )
