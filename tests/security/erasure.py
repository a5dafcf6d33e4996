"""Somebody whose words are everywhere, and are erased."""

from dataclasses import dataclass

import msgspec
import pytest

from billing.audit.log import record
from billing.audit.verify import verify_log
from billing.enforcement.limit_settings import set_budget
from billing.posting.biller import post
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.ledger import compare_audit, compare_derived, compare_ledger
from billing.tables.tenants import TenantUser
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_project, create_tenant
from billing.tenants.users import create_user
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations.store import ConversationStore, RecordedAnswer, Turn
from tests.billing.events import an_event
from tests.support.redis import Redis

NAME, WORDS, LABEL = "Ada-Lovelace-1815", "the-words-of-ada", "the-label-of-ada"

OTHERS = "what-bob-said"


@dataclass
class ErasureContext:
    """A tenant in which ada (known by her name, as users from before are) and bob used everything."""

    tenant: str
    project: str
    ada: str
    secret: str


@pytest.fixture
async def scene(database: Database, redis: Redis, settings: Settings) -> ErasureContext:
    """Requests, conversations of their own and in a service key's, keys, a budget, a held event."""
    _ = settings
    return await _scene(database, redis, "acme")


async def _scene(database: Database, redis: Redis, name: str) -> ErasureContext:
    tenant = (await create_tenant(database, name)).tenant_id
    project = (await create_project(database, tenant, "web")).id
    async with database.transaction() as session:
        session.add(TenantUser(tenant_id=tenant, id=NAME, name=NAME, created_ms=1))
        await session.flush()
        await record(session, tenant, "user.create", NAME, None, {"id": NAME})
    bob = (await create_user(database, tenant, "bob")).id
    _, secret = await create_key(database, tenant, project, user=NAME)
    await set_budget(database, redis, tenant, scope="user", scope_id=NAME, period="month", limit_nano=1_000)
    for user, words, count in ((NAME, WORDS, 3), (bob, OTHERS, 2)):
        await use(database, tenant, project, user, words, count)
    return ErasureContext(tenant, project, NAME, secret)


async def use(database: Database, tenant: str, project: str, user: str, words: str, count: int) -> None:
    shared = "00000000-0000-7000-8000-000000000000"
    for number in range(count):
        request, now = uuid7(now_ms()), now_ms()
        own = number == 0
        conversation = uuid7(now) if own else shared
        owner = ConversationOwner(project, "", user) if own else ConversationOwner(project, "k1", "")
        turn = Turn(conversation, request, words, "tiny", now, key="k1", user=user)
        await ConversationStore(database).open_turn(tenant, owner, turn)
        await ConversationStore(database).record(
            tenant, request, RecordedAnswer(words, "stop", "", {}, {}, 1, 1, 3, now)
        )
        labels = msgspec.json.encode({"label": LABEL if words == WORDS else "x"})
        of = UsageOwner(project=project, key="k1", user=user, conversation=conversation, metadata=labels)
        ended = an_event(request, tenant, owner=of, accepted_ms=now, ended_ms=now)
        wrong = msgspec.structs.replace(ended, request=uuid7(now), cost_nano=1)
        await post(database, "default", [encode(ended), *([encode(wrong)] if own else [])])


async def whole(database: Database, tenant: str) -> list[str]:
    """What R1, R2, R7 and the audit log's verification find wrong, reading all."""
    books, _ = await compare_ledger(database, tenant, now_ms(), whole=True)
    compared = [*books, await compare_audit(database, tenant, now_ms(), whole=True)]
    compared += await compare_derived(database, tenant, whole=True)
    wrong = [
        f"{each.check} {each.subject} {each.detail}"
        for each in compared
        if each.state is not ComparisonState.EQUAL
    ]
    return wrong + (await verify_log(database, tenant)).faults
