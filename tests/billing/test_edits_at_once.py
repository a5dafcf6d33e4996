"""Every edit of a setting, eight at once: each sees the one before it. No row is open twice, no field is
lost, no maximum is passed, and the audit log says of each row what stands there."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from billing.alerts import targets
from billing.audit.compare import compare_states
from billing.closing.period_commitments import NewCommitment, commit, end_commitment
from billing.dedicated_pools.commitments import GpuTerms, commit_gpus, set_gpu_cost
from billing.dedicated_pools.pools import create_pool, delete_pool, drain_pool, edit_pool
from billing.enforcement.limit_settings import (
    end_budget,
    end_policy,
    override_budget,
    set_budget,
    set_policy,
)
from billing.enforcement.plans import assign_plan, create_plan, end_plan
from billing.ledger.grant_spending import GrantKind
from billing.periods import Period, window_at, zone_named
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.prices.true_up import CommittedInPeriod
from billing.prices.withdrawals import withdraw_version
from billing.tables.dedicated_pools import GpuCost
from billing.tables.ledger import CostCenter
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.pools import PoolRow
from billing.tables.prices import PeriodCommitment
from billing.tables.tenants import (
    PLATFORM,
    ApiKey,
    Plan,
    PoolTerms,
    PriceVersion,
    Project,
    Tenant,
    TenantUser,
)
from billing.tables.wallets import AlertTarget, Wallet
from billing.tenants import key_ends, key_links, keys, tenancy, users
from billing.tenants.cost_centers import charge_project_to, create_cost_center
from billing.tenants.key_edits import write_key_edit
from billing.tenants.pool_terms import change_terms
from billing.wallets.owed import OwedTerm, set_owed_term
from billing.wallets.wallets import NewGrant, grant, set_low_percents
from core.clock import now_ms
from engine.policies.store import PolicyStore
from engine.safety.documents import PolicyDocument, PolicyPattern
from tests.billing.edits import AT_ONCE, Edited
from tests.billing.edits import settings as settings  # the fixture

HOUR_MS = 3_600_000
SOON_MS = now_ms() + HOUR_MS
FREE = {"*": FlatPrices(0, 0, 0, 0)}
TERMS = {"weight": 2.0, "slots_max": 3, "tokens_max": 900, "reserve_tokens": 512}
FLAGS: dict[str, Any] = {
    "regex": False,
    "shows_costs": True,
    "cache_by_owner": True,
    "time_zone": "Europe/Berlin",
    "priority_max": "bulk",
}


async def limits(on: Edited) -> None:
    """Equal limits: the last one is open."""
    await on.at_once(lambda n: set_policy(*on.of, scope="tenant", dimension="concurrency", limit=n))
    assert (len(await on.open(QuotaPolicy)), len(await on.rows(QuotaPolicy))) == (1, AT_ONCE)


async def limits_of_plans(on: Edited) -> None:
    """A plan's, which belong to no tenant."""
    plan = await create_plan(on.db, "gold")
    of: Any = {"scope": "key", "dimension": "concurrency", "plan_id": plan.id}
    await on.at_once(lambda n: set_policy(on.db, on.redis, PLATFORM, limit=n, **of))
    assert len(await on.open(QuotaPolicy, PLATFORM)) == 1


async def ends_of_limits(on: Edited) -> None:
    """One ends it, and one says so; no new one is ended with it."""
    row = await set_policy(*on.of, scope="tenant", dimension="concurrency", limit=1)
    ended = await on.at_once(lambda n: end_policy(*on.of, row.id))
    assert len([each for each in ended if each is not None]) == 1


async def budgets(on: Edited) -> None:
    """Equal ones."""
    await on.at_once(lambda n: set_budget(*on.of, scope="tenant", period="month", limit_nano=n))
    assert (len(await on.open(Budget)), len(await on.rows(Budget))) == (1, AT_ONCE)


async def overrides(on: Edited) -> None:
    """Of one budget: the first finds it, and the others one that has ended."""
    row = await set_budget(*on.of, scope="tenant", period="month", limit_nano=5)
    await on.at_once(lambda n: override_budget(*on.of, row.id, n, SOON_MS))
    (left,) = await on.open(Budget)
    assert left.override_until_ms == SOON_MS


async def ends_of_budgets(on: Edited) -> None:
    """Beside its override: it ends once, and what is open then is the override."""
    row = await set_budget(*on.of, scope="tenant", period="month", limit_nano=5)
    await on.at_once(
        lambda n: override_budget(*on.of, row.id, n, SOON_MS) if n % 2 else end_budget(*on.of, row.id)
    )
    ends = [said for said in await on.audited("budget.end") if said.target == row.id]
    assert len(await on.open(Budget)) + len(ends) <= 1


async def flags_of_a_tenant(on: Edited) -> None:
    """Different fields: all are as somebody set them, and whole in the audit log."""
    names = list(FLAGS)
    await on.at_once(lambda n: tenancy.set_tenant(on.db, on.tenant.tenant_id, **_one(FLAGS, names, n)))
    (row,) = await on.rows(Tenant)
    assert {name: getattr(row, name) for name in FLAGS} == FLAGS


async def closing_a_tenant(on: Edited) -> None:
    """Once."""
    await on.at_once(lambda n: tenancy.close_tenant(on.db, on.redis, on.tenant.tenant_id))
    assert len(await on.audited("tenant.close")) == 1


async def terms(on: Edited) -> None:
    """Different fields of the terms in the pools."""
    names = list(TERMS)
    await on.at_once(lambda n: change_terms(*on.of, _one(TERMS, names, n)))
    (row,) = await on.rows(PoolTerms)
    assert {name: getattr(row, name) for name in TERMS} == TERMS


async def plans(on: Edited) -> None:
    """Assigned, while other fields of the tenant are set."""
    plan = await create_plan(on.db, "gold", priority_max="bulk")
    await on.at_once(
        lambda n: (
            assign_plan(*on.of, plan.id if n % 4 else None)
            if n % 2
            else tenancy.set_tenant(on.db, on.tenant.tenant_id, shows_costs=True)
        )
    )
    (row,) = await on.rows(Tenant)
    assert row.shows_costs


async def making_plans(on: Edited) -> None:
    """Of one name: one."""
    assert len(await on.at_once(lambda n: create_plan(on.db, "gold"))) == 1


async def ends_of_plans(on: Edited) -> None:
    """Once, at one time."""
    plan = await create_plan(on.db, "gold")
    await on.at_once(lambda n: end_plan(on.db, plan.id))
    assert len(await on.audited("plan.end", PLATFORM)) == 1
    assert len(await on.rows(Plan, PLATFORM)) == 1


async def prices(on: Edited) -> None:
    """The same file: one version, of one number. Another start: another number."""
    await add_version(on.db, NewVersion("gold", FREE))
    start = now_ms() + 2 * HOUR_MS
    added = await on.at_once(lambda n: add_version(on.db, NewVersion("gold", FREE, valid_from_ms=start)))
    assert [new for _, new in added].count(True) == 1
    more = await on.at_once(
        lambda n: add_version(on.db, NewVersion("gold", FREE, valid_from_ms=start + 1 + n))
    )
    assert sorted(version.version for version, _ in more) == list(range(3, 3 + AT_ONCE))


async def new_price_books(on: Edited) -> None:
    """One of them makes it."""
    await on.at_once(lambda n: add_version(on.db, NewVersion("gold", FREE)))
    assert len([row for row in await on.rows(PriceVersion, PLATFORM) if row.book_id == "gold"]) == 1


async def withdrawn_prices(on: Edited) -> None:
    """Once."""
    await add_version(on.db, NewVersion("gold", FREE))
    await add_version(on.db, NewVersion("gold", FREE, valid_from_ms=now_ms() + HOUR_MS))
    assert len(await on.at_once(lambda n: withdraw_version(on.db, "gold", 2, "r"))) == 1


async def commitments(on: Edited) -> None:
    """To the same months: one; and it ends once."""
    month = window_at(Period.MONTH, zone_named("UTC"), now_ms())
    new = NewCommitment(CommittedInPeriod(5), month)
    assert len(await on.at_once(lambda n: commit(on.db, on.tenant, new))) == 1
    (row,) = await on.rows(PeriodCommitment)
    ended = await on.at_once(lambda n: end_commitment(on.db, on.tenant, row.id, "r", mistake=True))
    assert len(ended) == 1


async def commitments_to_gpus(on: Edited) -> None:
    """Up to the maximum."""
    start = (now_ms() // HOUR_MS + 1) * HOUR_MS
    asked = GpuTerms("h200", 1, start, start + 720 * HOUR_MS, 1)
    assert len(await on.at_once(lambda n: commit_gpus(on.db, on.tenant.tenant_id, asked))) == AT_ONCE


async def costs_of_gpus(on: Edited) -> None:
    """From one time on: one."""
    assert len(await on.at_once(lambda n: set_gpu_cost(on.db, "h200", "", n, SOON_MS))) == 1
    async with on.db.session() as session:
        assert await session.get(GpuCost, ("h200", "", SOON_MS)) is not None


async def what_pools_should_be(on: Edited) -> None:
    """One is made of a name; each edit is a generation, and keeps what the others set."""
    row: dict[str, Any] = {"model": "m", "version": "v1", "labels": {}, "workers": 1, "made_ms": 1}
    assert len(await on.at_once(lambda n: create_pool(on.db, PoolRow(pool="big", **row)))) == 1
    facts = {"workers": 3, "reserve_interactive_tokens": 512, "reserve_standard_tokens": 256}
    names = sorted(facts)
    assert len(await on.at_once(lambda n: edit_pool(on.db, "big", _one(facts, names, n)))) == AT_ONCE
    async with on.db.session() as session:
        now = await session.get(PoolRow, "big")
    assert now is not None
    assert ({name: getattr(now, name) for name in names}, now.generation) == (facts, 1 + len(facts))
    assert len(await on.at_once(lambda n: drain_pool(on.db, "big"))) == AT_ONCE
    assert len(await on.at_once(lambda n: delete_pool(on.db, "big"))) == 1


async def targets_of_alerts(on: Edited) -> None:
    """No more than there may be, of a tenant and of the operators; one is removed once."""
    for owner in (on.tenant.tenant_id, PLATFORM):
        for n in range(targets.TARGETS_MAX - 1):
            await targets.add_target(on.db, owner, "email", f"{n}@example.com")
        added = await on.at_once(
            lambda n, owner=owner: targets.add_target(on.db, owner, "email", f"more{n}@example.com")
        )
        assert len(added) == 1
        removed = await on.at_once(
            lambda n, owner=owner, id=added[0].id: targets.remove_target(on.db, owner, id)
        )
        assert len([each for each in removed if each is not None]) == 1
        assert len(await on.open(AlertTarget, owner)) == targets.TARGETS_MAX - 1


async def projects(on: Edited) -> None:
    """No more than there may be; of one name, one; closed once."""
    made = await on.at_once(
        lambda n: tenancy.create_project(on.db, on.tenant.tenant_id, f"p{n % 4}", projects_max=4)
    )
    assert (len(made), len(await on.rows(Project))) == (3, 4)
    await on.at_once(lambda n: tenancy.close_project(*on.of, made[0].id))
    assert len(await on.audited("project.close")) == 1


async def cost_centers(on: Edited) -> None:
    """A project moves in the order of time: each move was later than all that were set before."""
    assert len(await on.at_once(lambda n: create_cost_center(on.db, on.tenant.tenant_id, "c"))) == 1
    (center,) = await on.rows(CostCenter)
    moved = await on.at_once(
        lambda n: charge_project_to(on.db, on.tenant.tenant_id, on.project, center.id, SOON_MS + n)
    )
    assert moved
    said = [row.after for row in await on.audited("project.move")]
    assert said == sorted(said)


async def api_keys(on: Edited) -> None:
    """No more than there may be; rotated once; revoked once."""
    made = await on.at_once(lambda n: keys.create_key(on.db, on.tenant.tenant_id, on.project, keys_max=2))
    assert len(made) == 2
    id = made[0][0].id
    assert len(await on.at_once(lambda n: keys.rotate_key(on.db, on.tenant.tenant_id, id, 60))) == 1
    await on.at_once(lambda n: key_ends.revoke_key(*on.of, id))
    assert len(await on.audited("key.revoke")) == 2  # it and its successor
    assert len(await on.rows(ApiKey)) == 3


async def edits_of_a_key(on: Edited) -> None:
    """Each keeps what the other one gave: a name, or scopes."""
    key, _ = await keys.create_key(on.db, on.tenant.tenant_id, on.project)
    facts: list[dict[str, Any]] = [{"name": "web"}, {"scopes": ["chat", "requests:read"]}]
    await on.at_once(lambda n: write_key_edit(on.db, on.tenant.tenant_id, key.id, **facts[n % 2]))
    (row,) = await on.rows(ApiKey)
    assert (row.name, row.scopes) == ("web", ["chat", "requests:read"])
    assert len(await on.audited("key.edit")) == 2  # the others changed nothing


async def rotating_and_revoking_a_key(on: Edited) -> None:
    """What is revoked first is not rotated any more."""
    key, _ = await keys.create_key(on.db, on.tenant.tenant_id, on.project)
    await on.at_once(
        lambda n: (
            key_ends.revoke_key(*on.of, key.id)
            if n % 2
            else keys.rotate_key(on.db, on.tenant.tenant_id, key.id, 60)
        )
    )
    assert len(await on.rows(ApiKey)) <= 2


async def people(on: Edited) -> None:
    """Made once, closed once, also where nobody knew them before."""
    assert len(await on.at_once(lambda n: users.create_user(on.db, on.tenant.tenant_id, "ann"))) == 1
    await on.at_once(lambda n: users.user_id(on.db, on.tenant.tenant_id, "cid"))
    for name in ("ann", "bob"):
        await on.at_once(lambda n, name=name: users.close_user(*on.of, name))
    assert len(await on.audited("user.close")) == 2
    assert len(await on.rows(TenantUser)) == 3


async def links(on: Edited) -> None:
    """For one user, whom the first one makes."""
    key, _ = await keys.create_key(on.db, on.tenant.tenant_id, on.project)
    made = await on.at_once(lambda n: key_links.key_for_link(on.db, on.tenant.tenant_id, key.id, "ann"))
    assert len({user for _, user in made}) == 1


async def low_marks(on: Edited) -> None:
    """Of a wallet, while what is owed is treated otherwise, and money comes in."""
    tenant = on.tenant.tenant_id
    await grant(on.db, tenant, NewGrant(GrantKind.PAID, 5, "g"))
    edits: tuple[Callable[[int], Awaitable[Any]], ...] = (
        lambda n: set_low_percents(on.db, tenant, [30]),
        lambda n: set_owed_term(on.db, tenant, OwedTerm.INVOICED),
        lambda n: grant(on.db, tenant, NewGrant(GrantKind.PAID, 5, f"g{n}")),
    )
    await on.at_once(lambda n: edits[n % 3](n))
    (row,) = await on.rows(Wallet)
    assert (row.low_percents, row.owed_term) == ([30], OwedTerm.INVOICED.value)


async def safety_policies(on: Edited) -> None:
    """Of a tenant and a project: each is a version on top of the one before."""
    store = PolicyStore(on.db)
    for project in ("", on.project):
        rows = await on.at_once(
            lambda n, project=project: store.set(on.redis, on.tenant.tenant_id, project, _policy(n), "r")
        )
        assert sorted(row.version for row in rows) == list(range(1, AT_ONCE + 1))
    assert len(await on.audited("policy.set")) == 2 * AT_ONCE


EDITS = (
    limits,
    limits_of_plans,
    ends_of_limits,
    budgets,
    overrides,
    ends_of_budgets,
    flags_of_a_tenant,
    closing_a_tenant,
    terms,
    plans,
    making_plans,
    ends_of_plans,
    prices,
    new_price_books,
    withdrawn_prices,
    commitments,
    commitments_to_gpus,
    costs_of_gpus,
    what_pools_should_be,
    targets_of_alerts,
    projects,
    cost_centers,
    api_keys,
    edits_of_a_key,
    rotating_and_revoking_a_key,
    people,
    links,
    low_marks,
    safety_policies,
)


@pytest.mark.parametrize("edits", EDITS, ids=[each.__name__ for each in EDITS])
async def test_of_edits_at_once_each_sees_the_one_before(
    settings: Edited, edits: Callable[[Edited], Awaitable[None]]
) -> None:
    """And the audit log has each change in its place, of the tenant and of the operators."""
    await edits(settings)
    for owner in (settings.tenant.tenant_id, PLATFORM):
        assert (await compare_states(settings.db, owner)).faults == []


def _policy(n: int) -> PolicyDocument:
    return PolicyDocument(patterns=(PolicyPattern("own", f"EMP-{n}", "flag"),))


def _one(facts: dict[str, Any], names: list[str], n: int) -> dict[str, Any]:
    """One of the fields, in turn."""
    name = names[n % len(names)]
    return {name: facts[name]}
