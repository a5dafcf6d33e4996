"""What a policy does to a text, by operation: whose rules they are, drafts, and who may try."""

from typing import Any

import msgspec
import pytest

from billing.api import OperationActor, Stores, Terms, create_tenant, local_actor
from billing.audit.log import list_rows
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Role
from core.sql.database import Database
from engine.operations.safety import SetPolicy, ShowPolicy, set_policy, show_policy
from engine.operations.safety_try import MEMBERS_BYTES_MAX, TEXT_BYTES_MAX, TriedPolicy, TryPolicy, try_policy
from engine.safety.documents import PolicyDocument
from tests.support.redis import Redis

BIRDS: dict[str, Any] = {"name": "birds", "action": "block", "words": ["blue heron"]}
HERON = msgspec.convert({"words": [BIRDS]}, PolicyDocument)


@pytest.fixture
async def stores(settings: Settings, sqlite: Database, redis: Redis) -> Stores:
    """acme, which blocks a word, and other, which does not."""
    made = Stores(settings, sqlite, lambda: redis)
    for name in ("acme", "other"):
        await create_tenant(sqlite, name)
    ask = SetPolicy(tenant="acme", document=HERON)
    await answer_of(set_policy, made, local_actor(), ask, Terms(reason="why"))
    return made


async def tried(stores: Stores, **asked: object) -> TriedPolicy:
    """The answer to an owner."""
    ask = TryPolicy(**{"text": "a blue heron", **asked})  # pyright: ignore[reportArgumentType]
    return await answer_of(try_policy, stores, local_actor(), ask)


async def test_a_tenants_rules_hold_for_it_alone(stores: Stores) -> None:
    """A rule of answers is named where a prompt is tried, and none of it is recorded."""
    before = await list_rows(stores.db, None)
    found = await tried(stores, tenant="acme")
    assert found.of.name == "tenant acme"
    assert [(each.category, each.scope) for each in found.trial.matches] == [("birds", "tenant")]
    assert found.trial.block is not None
    assert (await tried(stores, tenant="other")).trial.block is None
    as_prompt = await tried(stores, tenant="acme", as_prompt=True)
    assert (as_prompt.trial.block, "birds" in as_prompt.elsewhere) == (None, True)
    assert await list_rows(stores.db, None) == before


async def test_a_draft_stands_in_for_what_is_set(stores: Stores) -> None:
    """And what could not be set is refused by its field."""
    assert (await tried(stores, tenant="other", document=HERON)).trial.block is not None
    assert (await tried(stores, tenant="acme", document=PolicyDocument())).trial.block is None
    wrong = msgspec.convert({"words": [BIRDS | {"words": []}]}, PolicyDocument)
    for asked, field in (
        ({"document": wrong}, "document"),
        ({"text": "é" * (TEXT_BYTES_MAX // 2 + 1)}, "text"),
        ({"tenant": "nobody"}, "tenant"),
    ):
        with pytest.raises(Refused) as refused:
            await tried(stores, **asked)
        assert refused.value.refusal.field == field


async def test_who_handles_no_requests_tries_none(stores: Stores) -> None:
    """A tenant's admins and developers may, as trying tells no more than a request does; its people of money
    and those who look may not."""
    for who in (
        OperationActor(Author("Mia", "api"), Role.BILLING, tenant="t"),
        OperationActor(Author("Bo", "api"), Role.VIEWER, tenant="t"),
        OperationActor(Author("Sam", "api"), Role.FINANCE),
    ):
        with pytest.raises(Refused, match="may not do this"):
            await answer_of(try_policy, stores, who, TryPolicy(text="x"))


async def test_members_try_short_texts(stores: Stores) -> None:
    """They share a process with other tenants' pages."""
    named = await answer_of(show_policy, stores, local_actor(), ShowPolicy(tenant="acme"))
    who = OperationActor(Author("Mia", "api"), Role.DEVELOPER, tenant=named.of.tenant_id)
    with pytest.raises(Refused, match="16 KiB at most"):
        await answer_of(try_policy, stores, who, TryPolicy(text="x" * (MEMBERS_BYTES_MAX + 1)))
