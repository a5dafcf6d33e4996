"""Findings for operators: books that do not agree, and tenants who take more than their share."""

from collections.abc import Mapping, Sequence

import msgspec

from billing.api import (
    MEANING,
    Check,
    Comparison,
    ComparisonState,
    NoisyFinding,
    is_throttling,
    list_findings,
    tenant_names,
)
from core.sql.database import Database

SHOWN_MAX = 100


class CheckSummary(msgspec.Struct, frozen=True):
    """Counts of a check's comparisons: all, those that differ, and those that cannot be decided yet."""

    check: str
    meaning: str
    compared: int
    differing: int
    waiting: int


class Disagreement(msgspec.Struct, frozen=True):
    """Two books that disagree, in words with their unit. `name`: the tenant's; empty: of a pool.

    `state`: differs, or waiting where it cannot be decided yet, for the reason in `detail`; `age_ms`: age of
    the disagreement.
    """

    check: str
    subject: str
    name: str
    state: str
    expected: str
    found: str
    difference: str
    age_ms: int
    detail: str


class ComparisonOverview(msgspec.Struct, frozen=True):
    """All comparisons in brief; of those that are not equal the first SHOWN_MAX, differences first."""

    checks: list[CheckSummary]
    disagreements: list[Disagreement]
    disagreements_total: int


class NoisyTenant(msgspec.Struct, frozen=True):
    """A tenant who took more of a pool than its share while others waited, as of `updated_ms`.

    Shares are of the pool's work, in permille; waits the others' p95 until the first token, in ms, now and in
    the hour before. `slots_max`: requests it may run at once while it is throttled; None: it is not.
    """

    finding: str
    tenant: str
    name: str
    pool: str
    opened_ms: int
    updated_ms: int
    share_permille: int
    fair_permille: int
    others_wait_ms: int
    before_wait_ms: int
    slots_max: int | None


async def read_noisy(db: Database) -> list[NoisyTenant]:
    """Open findings, newest first."""
    found = (await list_findings(db))[:SHOWN_MAX]
    names = await tenant_names(db, (each.tenant_id for each in found))
    return [_noisy(each, names.get(each.tenant_id, each.tenant_id)) for each in found]


async def read_comparisons(db: Database, compared: Sequence[Comparison]) -> ComparisonOverview:
    """Comparisons in brief, with the names of their tenants."""
    concerned = any(each.state is not ComparisonState.EQUAL for each in compared)
    return comparison_overview(compared, await tenant_names(db) if concerned else {})


def comparison_overview(compared: Sequence[Comparison], names: Mapping[str, str]) -> ComparisonOverview:
    """As `read_comparisons`, pure. `names`: of tenants, by id."""
    found = [each for each in compared if each.state is not ComparisonState.EQUAL]
    found.sort(key=lambda each: (each.state is not ComparisonState.DIFFERS, each.check, -each.age_ms))
    return ComparisonOverview(
        [_summary(check, own) for check in Check if (own := [c for c in compared if c.check is check])],
        [_disagreement(each, names.get(each.tenant_id, each.tenant_id)) for each in found[:SHOWN_MAX]],
        len(found),
    )


def _summary(check: Check, compared: Sequence[Comparison]) -> CheckSummary:
    states = [each.state for each in compared]
    return CheckSummary(
        check.value,
        MEANING[check],
        len(states),
        states.count(ComparisonState.DIFFERS),
        states.count(ComparisonState.WAITING),
    )


def _disagreement(compared: Comparison, name: str) -> Disagreement:
    return Disagreement(
        check=compared.check.value,
        subject=compared.subject,
        name=name,
        state=compared.state.value,
        expected=compared.in_words(compared.expected),
        found=compared.in_words(compared.actual),
        difference=compared.in_words(compared.difference),
        age_ms=compared.age_ms,
        detail=compared.waiting or compared.detail,
    )


def _noisy(found: NoisyFinding, name: str) -> NoisyTenant:
    return NoisyTenant(
        finding=found.id,
        tenant=found.tenant_id,
        name=name,
        pool=found.pool,
        opened_ms=found.opened_ms,
        updated_ms=found.updated_ms,
        share_permille=found.share_permille,
        fair_permille=found.fair_permille,
        others_wait_ms=found.others_wait_ms,
        before_wait_ms=found.baseline_wait_ms,
        slots_max=found.slots_max if is_throttling(found) else None,
    )
