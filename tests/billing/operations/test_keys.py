"""Operations on keys: whose they are, what a dry run leaves, who may have which."""

import msgspec
import pytest

from billing.audit.log import list_rows
from billing.operations import keys, projects, users
from billing.operations.keys import CreateKey, KeyScope, LinkKey, ListKeys, RevokeKey, RotateKey
from billing.operations.projects import CreateProject
from billing.operations.users import ListUsers
from billing.tenants.keys import authenticate_key
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.errors import Refused
from core.operations import Role
from tests.billing.operations.acting import OWNER, member_of
from tests.billing.operations.acting import stores as stores  # the fixture

DRY = Terms(dry_run=True)


async def test_another_tenants_key_is_unknown(stores: Stores) -> None:
    """To rotate, to revoke and to sign in with; the key works as before."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme"))
    for named in (made.key.key, made.key.prefix):
        for run, ask in (
            (keys.rotate_key, RotateKey(tenant="other", key=named)),
            (keys.revoke_key, RevokeKey(tenant="other", key=named)),
            (keys.link_key, LinkKey(tenant="other", key=named, user="ann")),
        ):
            with pytest.raises(Refused) as refused:
                await answer_of(run, stores, OWNER, ask)
            assert (refused.value.refusal.unknown, refused.value.refusal.field) == (True, "key")
    assert await authenticate_key(stores.db, made.secret.shown) is not None


async def test_a_dry_run_makes_no_key_and_no_link_that_works(stores: Stores) -> None:
    """Nor the user that either would name; a key that would be revoked still works."""
    tried = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", user="ann"), DRY)
    assert tried.secret.shown == ""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme"))
    ask = LinkKey(tenant="acme", key=made.key.key, user="ann")
    assert (await answer_of(keys.link_key, stores, OWNER, ask, DRY)).link.shown == ""
    assert (await answer_of(users.list_users, stores, OWNER, ListUsers(tenant="acme"))).items == []
    revoked = await answer_of(keys.revoke_key, stores, OWNER, RevokeKey(tenant="acme", key=made.key.key), DRY)
    assert revoked.revoked is not None
    assert await authenticate_key(stores.db, made.secret.shown) is not None


async def test_a_link_that_is_refused_leaves_nothing(stores: Stores) -> None:
    """Neither its audit row nor the user who was named first by it."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme"))
    key = made.key.key
    await answer_of(keys.revoke_key, stores, OWNER, RevokeKey(tenant="acme", key=key))
    before = await list_rows(stores.db, made.key.tenant)
    with pytest.raises(Refused, match="does not work any more"):
        await answer_of(keys.link_key, stores, OWNER, LinkKey(tenant="acme", key=key, user="ann"))
    assert await list_rows(stores.db, made.key.tenant) == before
    assert (await answer_of(users.list_users, stores, OWNER, ListUsers(tenant="acme"))).items == []


async def test_a_developer_has_no_key_that_tells_what_is_spent(stores: Stores) -> None:
    """Neither a new one nor the successor of one; their own kinds of keys they make and rotate."""
    ask = CreateKey(tenant="acme", scopes=[KeyScope.USAGE_READ])
    made = await answer_of(keys.create_key, stores, OWNER, ask)
    developer = member_of(made.key.tenant, Role.DEVELOPER)
    with pytest.raises(Refused, match="reads usage"):
        await answer_of(keys.create_key, stores, developer, ask)
    with pytest.raises(Refused, match="reads usage"):
        await answer_of(keys.rotate_key, stores, developer, RotateKey(tenant="acme", key=made.key.key))
    own = await answer_of(keys.create_key, stores, developer, CreateKey(tenant="acme"))
    await answer_of(keys.rotate_key, stores, developer, RotateKey(tenant="acme", key=own.key.key))
    listed = await answer_of(keys.list_keys, stores, developer, ListKeys(tenant="acme"))
    assert [(key.state, key.successor is None) for key in listed.items] == [
        ("active", True),
        ("rotated", False),
        ("active", True),
    ]


async def test_a_successor_on_another_page_is_named(stores: Stores) -> None:
    """A page of keys says what the whole list does."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme"))
    ask = RotateKey(tenant="acme", key=made.key.key)
    new = await answer_of(keys.rotate_key, stores, OWNER, ask)
    page = await answer_of(keys.list_keys, stores, OWNER, ListKeys(tenant="acme", limit=1))
    assert [key.successor for key in page.items] == [new.key.key]
    rest = ListKeys(tenant="acme", limit=1, after=page.next or "")
    assert [key.key for key in (await answer_of(keys.list_keys, stores, OWNER, rest)).items] == [new.key.key]


async def test_a_secret_is_in_no_log(stores: Stores) -> None:
    """An answer that is printed or encoded by mistake does not have it."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme"))
    assert made.secret.shown not in repr(made)
    assert msgspec.json.encode(made.key).find(made.secret.shown.encode()) == -1


async def test_keys_are_found_by_a_part_of_their_name_prefix_or_project(stores: Stores) -> None:
    """In any case of letters, on any page of the list; another tenant's are not."""
    await answer_of(projects.create_project, stores, OWNER, CreateProject(tenant="acme", name="Night Lab"))
    bot = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", name="Support-Bot"))
    evals = CreateKey(tenant="acme", name="evals", project="Night Lab")
    night = await answer_of(keys.create_key, stores, OWNER, evals)
    await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="other", name="support-bot"))

    async def found(name: str) -> list[str]:
        ask = ListKeys(tenant="acme", name=name, limit=1)
        return [key.key for key in (await answer_of(keys.list_keys, stores, OWNER, ask)).items]

    assert await found("t-bOT") == [bot.key.key]
    assert await found("night l") == [night.key.key]
    assert await found(bot.key.prefix) == [bot.key.key], bot.key.prefix
    assert await found("100%") == []
