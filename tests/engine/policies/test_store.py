"""Versions of safety policies, on SQLite and on Postgres: what holds, edits at once, what is refused."""

import asyncio
from dataclasses import dataclass

import msgspec
import pytest
from sqlalchemy.exc import DBAPIError

from billing.api import CONTROL_CHANNEL, PLATFORM, ControlNews, SafetyPolicy
from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.audit.verify import verify_log
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import close_tenant, create_project, create_tenant
from chaos.tampering.unguarded import tamper
from core.actor import Author, acting_as
from core.errors import Refused
from core.sql.database import Database
from engine.policies.levels import level_text
from engine.policies.merge import merged
from engine.policies.store import POLICIES_CHANGED, PolicyChanged, PolicyStore, written
from engine.safety.documents import (
    DEFAULT,
    DEFAULT_POLICY,
    PolicyDetector,
    PolicyDocument,
    PolicyError,
    PolicyPattern,
    policy_hash,
)
from engine.safety.verdicts import Action
from tests.support.redis import Redis

AT_ONCE = 8
BLOCKED = PolicyDocument((PolicyDetector("card", "block"),))


def own(name: str, action: Action = "redact") -> PolicyDocument:
    """A document with one pattern."""
    return PolicyDocument(patterns=(PolicyPattern(name, f"{name}-[0-9]{{4}}", action),))


@dataclass
class Levels:
    """A tenant with a project, and the store."""

    db: Database
    redis: Redis
    store: PolicyStore
    tenant: Tenant
    project: str

    async def set(
        self, document: PolicyDocument | None, project: str = "", on_version: int | None = None
    ) -> SafetyPolicy:
        """A version of the tenant's document, or of a project's."""
        return await self.store.set(
            self.redis, self.tenant.tenant_id, project, document, "as told", on_version=on_version
        )

    async def whole(self) -> list[str]:
        """What the audit log's proofs find wrong, of the tenant and of the platform."""
        faults: list[str] = []
        for owner in (self.tenant.tenant_id, PLATFORM):
            faults += (await compare_states(self.db, owner)).faults
            faults += (await verify_log(self.db, owner)).faults
        return faults


@pytest.fixture
async def levels(database: Database, redis: Redis) -> Levels:
    """Nothing is set yet."""
    tenant = await create_tenant(database, "acme")
    project = await create_project(database, tenant.tenant_id, "web")
    return Levels(database, redis, PolicyStore(database), tenant, project.id)


async def test_what_holds_is_merged_of_the_newest_versions(levels: Levels) -> None:
    """Of the platform, the tenant and this project; nothing of other tenants and projects."""
    store, tenant = levels.store, levels.tenant.tenant_id
    assert policy_hash(await store.applies(tenant, levels.project)) == DEFAULT_POLICY
    other = await create_tenant(levels.db, "globex")
    for owner in (tenant, other.tenant_id):
        await store.set(levels.redis, owner, "", own(f"of_{owner[-4:]}"), "r")
    elsewhere = await create_project(levels.db, tenant, "another")
    await levels.set(own("first"))
    await levels.set(own("second"))
    await levels.set(own("in_project"), levels.project)
    await levels.set(own("elsewhere"), elsewhere.id)
    await store.set(levels.redis, PLATFORM, "", BLOCKED, "r")
    assert await store.applies(tenant, levels.project) == merged(BLOCKED, own("second"), own("in_project"))
    assert await store.applies(tenant, "unknown") == merged(BLOCKED, own("second"))
    assert await store.applies(PLATFORM, "") == BLOCKED
    await levels.set(None)
    await levels.set(None, levels.project)
    await store.set(levels.redis, PLATFORM, "", None, "r")
    assert await store.applies(tenant, levels.project) == DEFAULT
    assert await levels.whole() == []


async def test_a_version_says_who_made_it_and_why_and_gateways_are_told(levels: Levels) -> None:
    """The audit log has its number and hash and not its words."""
    async with levels.redis.pubsub() as news:
        await news.subscribe(CONTROL_CHANNEL)
        with acting_as(Author("ada", "command")):
            row = await levels.set(own("employee_id"))
        while (told := await news.get_message(timeout=None)) is None or told["type"] != "message":
            pass
    assert msgspec.json.decode(told["data"], type=ControlNews) == ControlNews(
        POLICIES_CHANGED, levels.tenant.tenant_id
    )
    assert (row.version, row.author, row.reason) == (1, "ada", "as told")
    assert (row.document, written(row)) == (level_text(own("employee_id")), own("employee_id"))
    (said, *_) = await list_rows(levels.db, levels.tenant.tenant_id)
    assert (said.action, said.author, said.target) == ("policy.set", "ada", levels.tenant.tenant_id)
    assert msgspec.json.decode(said.after) == {"version": 1, "sha256": row.sha256, "note": "as told"}
    assert await levels.store.history(levels.tenant.tenant_id, "", 10) == [row]
    assert await levels.store.history(levels.tenant.tenant_id, levels.project, 10) == []


async def test_the_same_again_is_no_version(levels: Levels) -> None:
    """A script may set a file each day."""
    first = await levels.set(own("a"))
    assert (await levels.set(own("a"))).version == first.version
    assert (await levels.set(own("b"))).version == 2
    assert (await levels.set(own("a"))).version == 3


async def test_who_saw_an_older_version_changes_nothing(levels: Levels) -> None:
    """They are told whose came in between."""
    await levels.set(own("a"), on_version=0)
    with pytest.raises(PolicyChanged, match="version 1 by"):
        await levels.set(own("b"), on_version=0)
    await levels.set(own("b"), on_version=1)
    with pytest.raises(PolicyChanged, match="version 2 by"):
        await levels.set(None, on_version=1)
    assert await levels.store.applies(levels.tenant.tenant_id, "") == merged(None, own("b"))


async def test_of_edits_at_once_none_is_lost(levels: Levels) -> None:
    """Each is a version of its own on top of the others; of those who saw the same version one is taken."""
    rows = await asyncio.gather(*(levels.set(own(f"n{n}")) for n in range(AT_ONCE)))
    assert sorted(row.version for row in rows) == list(range(1, AT_ONCE + 1))
    kept = await levels.store.history(levels.tenant.tenant_id, "", 100)
    assert {row.document for row in kept} == {level_text(own(f"n{n}")) for n in range(AT_ONCE)}
    done = await asyncio.gather(
        *(levels.set(own(f"m{n}"), on_version=AT_ONCE) for n in range(AT_ONCE)), return_exceptions=True
    )
    refused = [each for each in done if isinstance(each, PolicyChanged)]
    (taken,) = [each for each in done if isinstance(each, SafetyPolicy)]
    assert (len(refused), taken.version) == (AT_ONCE - 1, AT_ONCE + 1)
    assert await levels.whole() == []


async def test_of_platform_edits_at_once_none_is_lost(levels: Levels) -> None:
    """The platform's lock is no tenant's."""
    documents = [own(f"n{n}") for n in range(AT_ONCE)]
    rows = await asyncio.gather(
        *(levels.store.set(levels.redis, PLATFORM, "", each, "r") for each in documents)
    )
    assert sorted(row.version for row in rows) == list(range(1, AT_ONCE + 1))
    assert await levels.whole() == []


async def test_what_cannot_be_set_changes_nothing(levels: Levels) -> None:
    """Each is told why."""
    tenant = levels.tenant.tenant_id
    for pattern in ("(?=a)b", "a*", "a?"):
        wrong = PolicyDocument(patterns=(PolicyPattern("own", pattern, "flag"),))
        with pytest.raises(PolicyError, match="own"):
            await levels.set(wrong)
    with pytest.raises(Refused, match="no project"):
        await levels.set(own("a"), "unknown")
    with pytest.raises(Refused, match="no tenant"):
        await levels.store.set(levels.redis, "unknown", "", own("a"), "r")
    for reason in ("", "  ", "x" * 501):
        with pytest.raises(Refused, match="a reason has"):
            await levels.store.set(levels.redis, tenant, "", own("a"), reason)
    with pytest.raises(Refused, match="no document to remove"):
        await levels.set(None)
    await close_tenant(levels.db, levels.redis, tenant)
    with pytest.raises(Refused, match="is closed"):
        await levels.set(own("a"))
    assert await levels.store.history(tenant, "", 10) == []


async def test_a_version_that_was_changed_past_the_commands_holds_for_nobody(levels: Levels) -> None:
    """The database refuses it, the proof names it, and what reads it fails rather than answer unvetted."""
    await levels.set(own("a", "block"))
    softer = "UPDATE safety_policy SET document = replace(document, 'block', 'flag')"
    with pytest.raises(DBAPIError, match="only grow"):
        async with levels.db.transaction() as session:
            await (await session.connection()).exec_driver_sql(softer)
    await tamper(levels.db, softer)
    (fault,) = (await compare_states(levels.db, levels.tenant.tenant_id)).faults
    assert fault.startswith("safety_policy ")
    assert "document (hidden) → (hidden)" in fault
    with pytest.raises(PolicyError, match="version 1 of the tenant's document was changed"):
        await levels.store.applies(levels.tenant.tenant_id, levels.project)
