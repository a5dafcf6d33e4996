"""Operations on safety policies: whose they are, and that nothing is set on what somebody else changed."""

import asyncio
import threading
from dataclasses import replace

import msgspec
import pytest

from billing.api import PLATFORM, OperationActor, Stores, Terms, create_tenant, local_actor
from billing.audit.log import list_rows
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Role, operation_of
from core.sql.database import Database
from engine.operations import safety
from engine.operations.safety import (
    CountVerdicts,
    NamePolicy,
    PolicyHistory,
    RemovePolicy,
    SetPolicy,
    ShowPolicy,
)
from engine.policies import store
from engine.safety.documents import DEFAULT, PolicyDetector, PolicyDocument, PolicyWords
from tests.support.patience import HANG_SECONDS, soon, wait_until
from tests.support.redis import Redis

OWN = PolicyDocument(detectors=(PolicyDetector("card", "block"),))
WHY = Terms(reason="ticket 7")


@pytest.fixture
async def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """SQLite and Postgres with acme and another tenant."""
    for name in ("acme", "other"):
        await create_tenant(database, name)
    return Stores(settings, database, lambda: redis)


async def member_of(stores: Stores) -> OperationActor:
    """Somebody of acme."""
    named = await answer_of(safety.show_policy, stores, local_actor(), ShowPolicy(tenant="acme"))
    return OperationActor(Author("Mia", "api"), Role.DEVELOPER, tenant=named.of.tenant_id)


async def test_a_member_sees_the_rules_of_its_tenant_alone(stores: Stores) -> None:
    """Its own without a name; another tenant's as one that is not there, and it sets none."""
    await answer_of(safety.set_policy, stores, local_actor(), SetPolicy(tenant="other", document=OWN), WHY)
    member = await member_of(stores)
    shown = await answer_of(safety.show_policy, stores, member, ShowPolicy())
    assert (shown.of.name, shown.version) == ("tenant acme", None)
    looks = (
        (safety.show_policy, ShowPolicy(tenant="other")),
        (safety.policy_history, PolicyHistory(tenant="other")),
        (safety.count_verdicts, CountVerdicts(tenant="other")),
    )
    for run, ask in looks:
        with pytest.raises(Refused, match="there is no tenant") as refused:
            await answer_of(run, stores, member, ask)
        assert refused.value.refusal.unknown
    with pytest.raises(Refused, match="may not do this"):
        await answer_of(safety.set_policy, stores, member, SetPolicy(document=OWN), WHY)


async def test_an_admin_sets_the_rules_of_its_tenant_alone(stores: Stores) -> None:
    """Its own tenant's without a name, never the platform's or another's; what the platform looks for is told
    by name alone, what its own rules look for whole."""
    words = PolicyWords("secret_plans", ("operation zebra",), action="block")
    floor = PolicyDocument(detectors=DEFAULT.detectors, words=(words,))
    await answer_of(safety.set_policy, stores, local_actor(), SetPolicy(document=floor), WHY)
    admin = replace(await member_of(stores), role=Role.ADMIN)
    own = PolicyDocument(words=(PolicyWords("ours", ("lion",), action="flag"),))
    done = await answer_of(safety.set_policy, stores, admin, SetPolicy(document=own), WHY)
    assert done.version.version == 1
    shown = await answer_of(safety.show_policy, stores, local_actor(), ShowPolicy(tenant="acme"))
    assert shown.version is not None
    assert shown.version.author == "Mia"
    with pytest.raises(Refused, match="there is no tenant"):
        await answer_of(safety.set_policy, stores, admin, SetPolicy(tenant="other", document=own), WHY)
    held = await answer_of(safety.show_merged, stores, admin, NamePolicy())
    assert [(each["name"], [*each["words"]]) for each in held.document["words"]] == [
        ("secret_plans", []),
        ("ours", ["lion"]),
    ]
    removed = await answer_of(safety.remove_policy, stores, admin, RemovePolicy(), WHY)
    assert removed.version.version == 2
    platform = await answer_of(safety.show_policy, stores, local_actor(), ShowPolicy())
    assert "zebra" in msgspec.json.encode(platform.document).decode()


async def test_a_document_is_set_on_the_version_that_was_seen(stores: Stores) -> None:
    """A dry run answers the same and sets nothing; of two who saw one version, the second is told who came in
    between."""
    owner, ask = local_actor(), SetPolicy(tenant="acme", document=OWN, base=0)
    would = await answer_of(safety.set_policy, stores, owner, ask, Terms(reason="ticket 7", dry_run=True))
    assert (await answer_of(safety.show_policy, stores, owner, ShowPolicy(tenant="acme"))).base == 0
    done = await answer_of(safety.set_policy, stores, owner, ask, WHY)
    for each in (would, done):
        assert (each.version.version, each.version.reason, each.changed) == (1, "ticket 7", True)
    assert would.change == done.change
    with pytest.raises(Refused, match=r"version 1 by .+ came in between"):
        await answer_of(safety.remove_policy, stores, owner, RemovePolicy(tenant="acme", base=0), WHY)
    removed = await answer_of(safety.remove_policy, stores, owner, RemovePolicy(tenant="acme", base=1), WHY)
    assert removed.version.version == 2
    listed = await answer_of(safety.policy_history, stores, owner, PolicyHistory(tenant="acme"))
    assert [(each.version.version, each.state) for each in listed.items] == [(2, "removed"), (1, "set")]
    first = await answer_of(safety.policy_history, stores, owner, PolicyHistory(tenant="acme", limit=1))
    assert first.items == listed.items[:1], "a page's last version is told apart from the one on the next"
    assert first.next is not None
    onward = PolicyHistory(tenant="acme", limit=1, after=first.next)
    assert (await answer_of(safety.policy_history, stores, owner, onward)).items == listed.items[1:]
    rows = await list_rows(stores.db, listed.of.tenant_id)
    assert [row.action for row in rows][:2] == ["policy.remove", "policy.set"]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_no_transaction_is_open_while_a_document_is_checked(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    """Many patterns take seconds; others write meanwhile, and the check is done once."""
    checks = list[PolicyDocument]()
    may_end = threading.Event()

    def slow(document: PolicyDocument) -> None:
        checks.append(document)
        assert may_end.wait(HANG_SECONDS)

    monkeypatch.setattr(store, "checked", slow)
    ask, terms = SetPolicy(tenant="acme", document=OWN), Terms(reason="ticket 7", dry_run=dry_run, key="k")
    setting = asyncio.create_task(answer_of(safety.set_policy, stores, local_actor(), ask, terms))
    await wait_until(lambda: bool(checks))
    await soon(create_tenant(stores.db, "third"), HANG_SECONDS / 2)
    may_end.set()
    assert (await setting).changed
    assert checks == [OWN]


async def test_the_platform_looks_for_less_only_where_that_is_meant(stores: Stores) -> None:
    """Not by a document alone, over whichever door it comes; what cannot be looked for is refused."""
    nothing = SetPolicy(document=PolicyDocument())
    with pytest.raises(Refused, match="would look for less"):
        await answer_of(safety.set_policy, stores, local_actor(), nothing, WHY)
    unknown = SetPolicy(document=PolicyDocument(detectors=(PolicyDetector("nobodys", "block"),)))
    with pytest.raises(Refused) as refused:
        await answer_of(safety.set_policy, stores, local_actor(), unknown, WHY)
    assert refused.value.refusal.field == "document"
    meant = msgspec.structs.replace(nothing, loosen=True)
    assert (await answer_of(safety.set_policy, stores, local_actor(), meant, WHY)).changed
    rows = await list_rows(stores.db, PLATFORM)
    assert operation_of(safety.set_policy).audit == (rows[0].action,)
