"""Revoking a key that is being rotated: which of the two ends, and what is said of it."""

import pytest

from billing.audit.log import list_rows
from billing.operations import keys
from billing.operations.keys import CreateKey, RevokeKey, RotateKey
from billing.tenants.key_ends import Which, revoke_key
from billing.tenants.keys import authenticate_key, rotate_key
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.errors import Refused
from core.sql.database import Database
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.billing.tenants.a_key import a_key
from tests.support.redis import Redis

HOUR_SECONDS = 3600


@pytest.mark.parametrize("named", ["old", "middle", "new"])
@pytest.mark.parametrize(
    ("which", "work"),
    [
        (Which.BOTH, [False, False, False]),
        (Which.OLD, [False, False, True]),
        (Which.NEW, [True, True, False]),
    ],
)
async def test_all_keys_of_a_rotation_end_unless_it_is_said_which(
    database: Database, redis: Redis, named: str, which: Which, work: list[bool]
) -> None:
    """Whichever of them is named, and where the new one was rotated again; a key beside them goes on."""
    old, first = await a_key(database)
    middle, second = await rotate_key(database, old.tenant_id, old.id, HOUR_SECONDS)
    new, third = await rotate_key(database, old.tenant_id, middle.id, HOUR_SECONDS)
    _, stranger = await a_key(database, "other")
    of = {"old": old.id, "middle": middle.prefix, "new": f"pk_{new.prefix}"}[named]
    assert await revoke_key(database, redis, old.tenant_id, of, which) is not None
    assert [await authenticate_key(database, each) is not None for each in (first, second, third)] == work
    assert await authenticate_key(database, stranger) is not None
    audited = [row.target for row in await list_rows(database, old.tenant_id) if row.action == "key.revoke"]
    assert len(audited) == work.count(False)


async def test_a_key_that_has_ended_takes_its_successor_along_no_more(
    database: Database, redis: Redis
) -> None:
    """Revoked again, as for its requests, or after its overlap."""
    old, _ = await a_key(database)
    _, secret = await rotate_key(database, old.tenant_id, old.id, HOUR_SECONDS)
    await revoke_key(database, redis, old.tenant_id, old.id, Which.OLD)
    await revoke_key(database, redis, old.tenant_id, old.id)
    assert await authenticate_key(database, secret) is not None
    late, _ = await a_key(database, "other")
    _, secret = await rotate_key(database, late.tenant_id, late.id, 0)
    await revoke_key(database, redis, late.tenant_id, late.id)
    assert await authenticate_key(database, secret) is not None


async def test_the_old_key_of_no_rotation_is_refused(database: Database, redis: Redis) -> None:
    """Nobody believes that one is ended that there is not; the key works as before."""
    key, secret = await a_key(database)
    for which in (Which.OLD, Which.NEW):
        with pytest.raises(Refused, match="in no rotation") as refused:
            await revoke_key(database, redis, key.tenant_id, key.id, which)
        assert refused.value.refusal.field == "which"
    assert await authenticate_key(database, secret) is not None


async def test_an_answer_names_what_ended_and_what_goes_on(stores: Stores) -> None:
    """By their prefixes, the old one before the new one; the facts are those of the key that was named."""
    made = (await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme"))).key
    new = (await answer_of(keys.rotate_key, stores, OWNER, RotateKey(tenant="acme", key=made.key))).key
    ask = RevokeKey(tenant="acme", key=new.key, which=Which.OLD)
    told = await answer_of(keys.revoke_key, stores, OWNER, ask)
    assert (told.key, told.revoked, told.ended, told.goes_on) == (new.key, None, [made.prefix], [new.prefix])
    told = await answer_of(keys.revoke_key, stores, OWNER, RevokeKey(tenant="acme", key=new.key))
    assert (told.ended, told.goes_on) == ([new.prefix], [])
