"""Limits, budgets, commitments and safety policies of a seeded tenant, with some that ended. Pure."""

import hashlib
import random

from billing.limits import Dimension, Mode, Scope
from billing.periods import Period
from billing.seeding.changes import OPERATORS, SeededRows
from billing.seeding.shapes import DAY_MS, SeedShape, TenantShape
from billing.tables.dedicated_pools import Commitment
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.safety import SafetyPolicy
from billing.tables.tenants import Tenant
from core.ids import uuid7

DIMENSIONS = (Dimension.REQUESTS, Dimension.TOKENS, Dimension.CONCURRENCY)
PERIODS = (Period.MONTH, Period.DAY, Period.WEEK)
MONEY = 1_000_000_000
POLICY = '{"detectors":[{"name":"card","action":"block"},{"name":"email","action":"redact"}]}'
POLICIES_MAX = 20

_LimitRow = QuotaPolicy | Budget | Commitment | SafetyPolicy


def limit_rows(
    shape: SeedShape,
    of: TenantShape,
    chance: random.Random,
    tenant: Tenant,
    owners: tuple[list[str], list[str], list[str]],
) -> SeededRows:
    """`owners`: projects, owner keys and users that limits may be for."""
    rows, at_ms = SeededRows(), tenant.created_ms + 3000
    ids = dict(zip((Scope.PROJECT, Scope.KEY, Scope.USER), owners, strict=True))
    scopes = [(Scope.TENANT, ""), (Scope.PROJECT, ""), (Scope.USER, "")]
    scopes += [
        (scope, ids[scope][number])
        for number in range(of.limits)
        for scope in ids
        if number < len(ids[scope])
    ]
    scopes = list(dict.fromkeys(scopes))  # keys that were rotated have one owner
    for number, (scope, id) in enumerate(scopes[: of.limits]):
        for ended in (None, at_ms + DAY_MS // 24) if number % 3 == 0 else (None,):
            limit = QuotaPolicy(
                tenant_id=tenant.tenant_id,
                id=uuid7(at_ms + number),
                scope=scope,
                scope_id=id,
                dimension=DIMENSIONS[number % len(DIMENSIONS)],
                limit_units=chance.randrange(1, 10_000) * 10,
                mode=Mode.SHADOW if number % 5 == 4 else Mode.ENFORCE,
                author="Ann",
                created_ms=at_ms + number,
                ended_ms=ended,
            )
            _record(rows, limit.created_ms, "limit.set", limit.id, limit)
    _budgets(rows, of, chance, tenant, scopes)
    _others(rows, shape, of, tenant)
    return rows


def _budgets(
    rows: SeededRows,
    of: TenantShape,
    chance: random.Random,
    tenant: Tenant,
    scopes: list[tuple[Scope, str]],
) -> None:
    at_ms = tenant.created_ms + 4000
    for number, (scope, id) in enumerate(scopes[: of.budgets]):
        for ended in (None, at_ms + DAY_MS // 24) if number % 3 == 0 else (None,):
            budget = Budget(
                tenant_id=tenant.tenant_id,
                id=uuid7(at_ms + number),
                scope=scope,
                scope_id=id,
                period=PERIODS[number % len(PERIODS)],
                limit_nano=chance.randrange(1, 500) * MONEY,
                hard=number % 2 == 0,
                thresholds=[50, 80, 100],
                author="Ann",
                created_ms=at_ms + number,
                ended_ms=ended,
            )
            _record(rows, budget.created_ms, "budget.set", budget.id, budget)


def _others(rows: SeededRows, shape: SeedShape, of: TenantShape, tenant: Tenant) -> None:
    at_ms, owner = tenant.created_ms + 5000, tenant.tenant_id
    if of.rank % 20 == 0:
        commitment = Commitment(
            tenant_id=owner,
            id=uuid7(at_ms),
            gpu_type="H100",
            gpus=2,
            rate_nano=2 * MONEY,
            payment="monthly",
            start_ms=at_ms,
            end_ms=shape.end_ms + 300 * DAY_MS,
            created_ms=at_ms,
        )
        _record(rows, at_ms, "commitment.create", commitment.id, commitment)
    for version in range(1, POLICIES_MAX // (of.rank + 1) + 1):
        policy = SafetyPolicy(
            tenant_id=owner,
            project_id="",
            version=version,
            document=POLICY,
            sha256=hashlib.sha256(POLICY.encode()).hexdigest(),
            author="Ann",
            reason="asked for by the customer",
            created_ms=at_ms + version,
        )
        _record(rows, at_ms + version, "policy.set", f":{version}", policy)


def _record(rows: SeededRows, at_ms: int, action: str, target: str, row: _LimitRow) -> None:
    by = OPERATORS[at_ms % len(OPERATORS)]
    rows.change(at_ms, row.tenant_id, by, (action, target), row)
