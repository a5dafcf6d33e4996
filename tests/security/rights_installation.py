"""An installation with one of each thing that operations name, and asks that they answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from billing.approvals.proposed_operations import proposed_by
from billing.dedicated_pools.pools import create_pool, drain_pool
from billing.enforcement.limit_settings import list_policies
from billing.limits import Dimension, Scope
from billing.operations import alerts, budgets, gpu_commitments, limits, plans, projects, wallets
from billing.operations.alerts import AddAlertTarget
from billing.operations.budgets import SetBudget
from billing.operations.gpu_commitments import CommitToGpus, GpuPayment
from billing.operations.limits import SetLimit
from billing.operations.plans import CreatePlan, SetPlanLimit
from billing.operations.projects import CreateCostCenter
from billing.operations.wallets import GrantMoney
from billing.people.person_sessions import open_person_session
from billing.people.persons import create_member
from billing.posting.biller import post
from billing.quota.client import Quota
from billing.quota.types import Admission, Admitted
from billing.tables.approvals import Proposal
from billing.tables.pools import PoolRow
from billing.tables.tenants import PLATFORM
from billing.tenants.keys import authenticate_key, create_key
from billing.tenants.sessions import open_session
from billing.tenants.tags import declare_tag
from billing.tenants.tenancy import create_tenant, find_project
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import encode
from billing.wallets.wallets import list_grants
from core.actor import Author
from core.clock import now_ms
from core.ids import uuid7
from core.operations import MEMBERS, MoneyAmount, Operation, Role, operation_of
from engine.node.reports import NodeReport, PoolNodes, WorkerProcessState, WorkerReport
from server.access.authorization import ConversationOwner
from server.conversations.store import ConversationStore, Turn
from tests.billing.events import an_event
from tests.engine.builders import FINGERPRINT, PRICES, Pool, request
from tests.security.asked_operations import OWNER, SeededTenant, seeded
from tests.support.models import add_model

HOUR_MS = 3_600_000
FAR_MS = 4_000_000_000_000
WHY = Terms(reason="rights")
CLOCK = "P:sys"  # each script of a pool is given it, also one that a look runs
REFUSED = {
    "people.confirm_totp",  # takes a code of now
    "people.forget_totp",  # nobody has a second factor
    "pools.end_commitment",  # takes one that lasts
    "safety.remove",  # there is no document
    "chargeback.unschedule",  # no report is sent
    "wallets.pay_out",  # only what was paid for
    "runs.show",  # nothing runs
    "runs.stop",
    "wallets.void",  # something was paid from it
}
DOCUMENT = {"detectors": [{"name": "card", "action": "block"}]}


@dataclass(frozen=True)
class SeededInstallation:
    """Its stores, a tenant with things, and what some operations are asked beside or in place of them."""

    stores: Stores
    tenant: SeededTenant
    owner: OperationActor
    more: Mapping[str, Mapping[str, Any]]

    def asked(self, declared: Operation) -> dict[str, Any]:
        """Fields of what an operation is asked, by name."""
        return {**self.tenant.things, **self.more.get(declared.name, {})}

    def actors(self, declared: Operation) -> list[OperationActor]:
        """One of staff and one member, where they may."""
        role = next(iter(sorted(declared.may & MEMBERS)), None)
        things = self.tenant.things
        member = OperationActor(
            Author("Mia", "api"),
            role or Role.ADMIN,
            self.tenant.id,
            things["person"],
            things["session"],
        )
        staff = [self.owner] if Role.OWNER in declared.may else []
        return [*staff, *([member] if role else [])]


async def seeded_installation(stores: Stores) -> SeededInstallation:
    """Make one."""
    tenant = await seeded(stores, "acme")
    of = {**await _money(stores, tenant), **await _rules(stores, tenant), **await _people(stores, tenant)}
    owner = of.pop("owner")
    return SeededInstallation(stores, tenant, owner, {**of, **await _work(stores, tenant)})


async def _money(stores: Stores, tenant: SeededTenant) -> dict[str, Any]:
    """A budget, a grant that can end, a commitment, a pool, a proposal, and usage."""
    amount = MoneyAmount.of(1_000_000)
    admin = OperationActor(Author("Mia", "command"), Role.ADMIN, tenant=tenant.id)  # staff edits theirs too
    budget = await answer_of(budgets.set_budget, stores, admin, SetBudget(tenant=tenant.id, limit=amount))
    target = AddAlertTarget(tenant=tenant.id, email="ops@acme.example")
    told = await answer_of(alerts.add_alert_target, stores, admin, target)
    commit = CommitToGpus(tenant=tenant.id, gpu="*", gpus=1, rate=amount, days=1, payment=GpuPayment.UPFRONT)
    commitment = await answer_of(gpu_commitments.commit_to_gpus, stores, OWNER, commit, WHY)
    await seed_pools(stores)
    await post(stores.db, "default", [encode(an_event("r1", tenant.id))])
    (grant,) = await list_grants(stores.db, tenant.id)
    bob = await create_member(stores.db, PLATFORM, "Bob", "owner", "bob@example.com")
    move = GrantMoney(tenant=tenant.id, amount=amount, key="proposed")
    what = proposed_by(operation_of(wallets.grant), move, tenant.id, "ticket 7")
    proposal = Proposal(
        tenant_id=tenant.id,
        id="p1",
        kind=what.kind,
        move=msgspec.json.encode(what, order="sorted").decode(),
        amount_nano=amount.value,
        author="Bob",
        by=bob.person.id,
        created_ms=now_ms(),
        expires_ms=now_ms() + HOUR_MS,
    )
    async with stores.db.engine.begin() as connection:
        await connection.execute(Proposal.__table__.insert().values(proposal.model_dump()))  # pyright: ignore
    named, goes_to = {"budget": budget.budget}, {"target": told.target.target}
    used = {"request": "r1", "output": 1}
    return {
        "alerts.add_target": {"email": "more@acme.example"},
        "alerts.remove_target": goes_to,
        "alerts.test": goes_to,
        "budgets.show": named,
        "budgets.end": named,
        "budgets.override": {**named, "limit": {"nano": "9"}, "until": "2099-01-01"},
        "wallets.void": {"grant": grant.id},
        "wallets.claw_back": {"grant": grant.id},
        "wallets.alert": {"thresholds": [10]},
        "pools.end_commitment": {"commitment": commitment.id},
        **{f"pools.{verb}": {"pool": "huge"} for verb in ("show", "edit", "resize", "drain")},
        "pools.delete": {"pool": "old"},
        "pools.create": {"pool": "new", "model": "m", "let_in": []},
        "approvals.reject": {"proposal": "p1"},
        "approvals.approve": {"proposal": "p1"},
        "models.show": {"model": "m"},
        "models.answers": {"model": "m", "tokens": 5},
        "models.remove": {"model": "m", "version": "v1"},
        "models.use": {"model": "p", "version": "v2", "pool": "default"},
        "models.rollback": {"model": "q"},
        "usage.correct": used,
        "usage.refund": used,
        "requests.explain": {"request": "r1"},
        "charges.explain": {"request": "r1"},
        "search.find": {"q": "nobodys"},
    }


async def seed_pools(stores: Stores) -> None:
    """A model and shared pools for others, one of which drains, and one of another tenant."""
    for model, version in (("m", "v1"), ("p", "v1"), ("p", "v2"), ("q", "v1"), ("q", "v2")):
        await add_model(stores.db, model, version)
    payer = (await create_tenant(stores.db, "hooli")).tenant_id
    for pool, model, tenant_id in (
        ("huge", "n", ""),
        ("old", "o", ""),
        ("default", "p", ""),
        ("other", "p", payer),
        ("back", "q", ""),
    ):
        row = PoolRow(
            pool=pool,
            model=model,
            version="v1",
            workers=1,
            labels={},
            tenant_id=tenant_id,
            made_ms=now_ms(),
            earlier_version="v2" if model == "q" else "",
        )
        await create_pool(stores.db, row)
    await drain_pool(stores.db, "old")


async def _rules(stores: Stores, tenant: SeededTenant) -> dict[str, Any]:
    """A limit, a plan with a limit, and a cost center."""
    of_tenant = SetLimit(tenant=tenant.id, scope=Scope.TENANT, dimension=Dimension.CONCURRENCY, limit=9)
    admin = OperationActor(Author("Mia", "command"), Role.ADMIN, tenant=tenant.id)
    await answer_of(limits.set_limit, stores, admin, of_tenant)
    (limit,) = await list_policies(stores.db, tenant.id)
    await answer_of(plans.create_plan, stores, OWNER, CreatePlan(name="gold"))
    of_plan = SetPlanLimit(plan="gold", dimension=Dimension.CONCURRENCY, limit=3)
    await answer_of(plans.set_plan_limit, stores, OWNER, of_plan)
    center = CreateCostCenter(tenant=tenant.id, code="4711")
    await answer_of(projects.create_cost_center, stores, OWNER, center)
    await declare_tag(stores.db, tenant.id, "label")
    named, plan = {"limit_id": limit.id}, {"plan": "gold"}
    return {
        "limits.show": named,
        "limits.end": named,
        "limits.edit": {**named, "limit": 5},
        "plans.assign": plan,
        "plans.end": plan,
        "plans.show": plan,
        "plans.set_limit": plan,
        "projects.charge_to": {"cost_center": "4711"},
        "projects.create": {"name": "lab"},
        "cost_centers.create": {"code": "4712"},
        "cost_centers.close": {"cost_center": "4711"},
        "cost_centers.reopen": {"cost_center": "4711"},
        "tags.declare": {"key": "team"},
        "tags.withdraw": {"key": "label"},
        "safety.set": {"document": DOCUMENT},
        "tenants.set": {"time_zone": "Europe/Vienna"},
        "tenants.set_terms": {"weight": 2},
    }


async def _people(stores: Stores, tenant: SeededTenant) -> dict[str, Any]:
    """An owner who is signed in, and browsers of a user and of an operator."""
    member = await create_member(stores.db, PLATFORM, "Ann", "owner", "ann@example.com")
    async with stores.db.transaction() as session:
        opened = await open_person_session(session, member.person, member.membership, "192.0.2.1", "Lynx")
    owner = OperationActor(
        Author("Ann", "api"), Role.OWNER, None, member.person.id, opened.signed_in.session.id
    )
    project = await find_project(stores.db, tenant.id, "default")
    assert project is not None
    _, secret = await create_key(stores.db, tenant.id, project.id)
    principal = await authenticate_key(stores.db, secret)
    assert principal is not None
    browser, _, _ = await open_session(stores.db, principal, stores.settings, "", "Lynx")
    other = await create_member(stores.db, tenant.id, "Eve", "viewer", "eve@acme.example")
    async with stores.db.transaction() as session:
        eve = await open_person_session(session, other.person, other.membership, "192.0.2.1", "Lynx")
    whose = {"person": other.person.id, "tenant": tenant.id}
    return {
        "owner": owner,
        "people.close": whose,
        "people.reopen": whose,
        "people.forget_totp": whose,
        "people.end_session": {**whose, "session": eve.signed_in.session.id},
        "sessions.revoke": {"session": browser.id, "user": ""},
        "people.set_password": {"password": "a long enough passphrase"},
        "people.invite": {"email": "new@example.com", "role": "viewer"},
        "people.edit": {**whose, "name": "Eva"},
        "people.edit_own": {"language": "de"},
        "people.set_role": {**whose, "role": "viewer"},
        "tokens.create": {"role": "viewer"},
        "users.create": {"user": "new"},
    }


async def _admit(stores: Stores, tenant: SeededTenant, *ids: str) -> None:
    """Have these requests in the directory, with a message that waits for the first one's answer."""
    key = tenant.things["key"]
    project = await find_project(stores.db, tenant.id, "default")
    assert project is not None
    for id in ids:
        admission = Admission(
            tenant=tenant.id, id=id, body_hash="h", owner_key=key, key=key, project=project.id, user="",
            model="smollm2", pool="default", fingerprint=FINGERPRINT, input_tokens=10, chunk_tokens=256,
            deadline_ms=FAR_MS, prices=PRICES,
        )  # fmt: skip
        assert isinstance(await Quota(stores.redis, stores.settings).admit(admission), Admitted)
    turn = Turn(uuid7(now_ms()), ids[0], "hello", "smollm2", now_ms(), key=key, user="")
    await ConversationStore(stores.db).open_turn(tenant.id, ConversationOwner(project.id, key, ""), turn)


async def report_node(stores: Stores) -> None:
    """Have the workers' supervisor say that it lives, which holds for some seconds."""
    pool = Pool(stores.redis, stores.settings, clock=None)  # pyright: ignore[reportArgumentType]
    slots = [WorkerReport(0, "w1", 11, WorkerProcessState.READY, starts=1, memory_mib=1)]
    await PoolNodes(pool.queue).report(NodeReport("s1", "n1", 1, slots))


async def _work(stores: Stores, tenant: SeededTenant) -> dict[str, Any]:
    """A request that runs and one that waits, and two workers."""
    pool = Pool(stores.redis, stores.settings, clock=None)  # pyright: ignore[reportArgumentType]
    waiting = request(tenant=tenant.id, deadline_ms=FAR_MS)
    running = await pool.running(tenant=tenant.id, deadline_ms=FAR_MS)
    await pool.queue.enqueue(waiting)
    await _admit(stores, tenant, running.id, waiting.id)
    other = Pool(stores.redis, stores.settings, name="other", clock=None)  # pyright: ignore[reportArgumentType]
    await other.worker("w2")
    one, worker = {"request": running.id}, {"worker": "w1"}
    return {
        "requests.show": one,
        "requests.cancel": one,
        "requests.cancel_all": {"key": "", "project": "", "user": ""},
        "requests.migrate": {**one, "to": "other"},
        "requests.migrate_all": {"to": "other"},
        "pools.move": {"pool": "default", "to": "other"},
        "pools.shares": {"pool": "default"},
        "workers.drain": worker,
        "workers.kill": worker,
    }
