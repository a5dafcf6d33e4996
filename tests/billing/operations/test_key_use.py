"""Keys as their tenant sees them: when each was used, what it served of late, and edits of one."""

import pytest
from msgspec import UNSET

from billing.operations import keys
from billing.operations.keys import CreateKey, EditKey, KeyScope, ListKeys, NameKey, RevokeKey
from billing.posting.biller import post
from billing.reports import key_use
from billing.tenants.keys import authenticate_key
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.clock import iso_time
from core.operations import MoneyAmount, Role, operation_of
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def a_key(stores: Stores, name: str = "", user: str = "") -> keys.ApiKeyFacts:
    """A new key of acme."""
    return (
        await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", name=name, user=user))
    ).key


async def use(stores: Stores, key: keys.ApiKeyFacts, *ended_ms: int) -> None:
    """Post requests of a key that ended then."""
    owner = UsageOwner(key.project, key.key, "")
    events = [
        encode(
            an_event(
                f"{key.key}-{at}",
                key.tenant,
                owner=owner,
                accepted_ms=at - 9,
                first_token_ms=at - 5,
                ended_ms=at,
            )
        )
        for at in ended_ms
    ]
    await post(stores.db, "default", events)


async def test_a_key_says_in_which_hour_it_was_used_last(stores: Stores) -> None:
    """Of today, of months ago, and of more than 100 days ago, which counts as never. No request writes to its
    key."""
    now = stores.now_ms()
    fresh, idle, old, unused = [await a_key(stores, name=name) for name in ("fresh", "idle", "old", "unused")]
    await use(stores, fresh, now - 60_000, now - 3 * DAY_MS)
    await use(stores, idle, now - 49 * DAY_MS)
    await use(stores, old, now - 101 * DAY_MS)
    listed = (await answer_of(keys.list_keys, stores, OWNER, ListKeys(tenant="acme"))).items
    hours = [(at - at % HOUR_MS) for at in (now - 60_000, now - 49 * DAY_MS)]
    assert [key.last_used for key in listed] == [iso_time(hours[0]), iso_time(hours[1]), None, None]
    assert listed[3].key == unused.key


async def test_one_key_says_how_many_requests_it_served_within_an_hour(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own alone, with the time of the newest. Of a tenant that has too many the newest are counted, and
    it says since when."""
    now = stores.now_ms()
    old, new = await a_key(stores), await a_key(stores)
    await use(stores, old, now - 70 * 60_000, now - 50 * 60_000, now - 10 * 60_000)
    await use(stores, new, now - 5 * 60_000)
    ask = NameKey(tenant="acme", key=old.prefix)
    shown = await answer_of(keys.show_key, stores, OWNER, ask)
    assert (shown.requests, shown.last_used) == (2, iso_time(now - 10 * 60_000))
    monkeypatch.setattr(key_use, "REQUESTS_SEEN_MAX", 2)
    shown = await answer_of(keys.show_key, stores, OWNER, ask)
    assert (shown.requests, shown.since) == (1, iso_time(now - 10 * 60_000))


async def test_a_key_gets_another_name_and_other_scopes(stores: Stores) -> None:
    """Its secret stays, and its next call has the new ones. What is not named stays."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", name="old"))
    ask = EditKey(tenant="acme", key=made.key.key, scopes=[KeyScope.REQUESTS_READ, KeyScope.CHAT])
    edited = await answer_of(keys.edit_key, stores, OWNER, ask)
    assert (edited.name, edited.scopes) == ("old", ["chat", "requests:read"])
    renamed = await answer_of(
        keys.edit_key, stores, OWNER, EditKey(tenant="acme", key=made.key.key, name="مفتاح 🔑")
    )
    assert (renamed.name, renamed.scopes) == ("مفتاح 🔑", edited.scopes)
    principal = await authenticate_key(stores.db, made.secret.shown)
    assert principal is not None
    assert principal.scopes == {"chat", "requests:read"}


async def test_of_two_who_edit_a_key_at_once_the_second_is_told(stores: Stores) -> None:
    """With what the first one did."""
    key = await a_key(stores, name="old")
    shown = await perform(stores, OWNER, operation_of(keys.show_key), NameKey(tenant="acme", key=key.key))
    terms = Terms(version=shown.version)
    await answer_of(keys.edit_key, stores, OWNER, EditKey(tenant="acme", key=key.key, name="mine"), terms)
    with pytest.raises(Exception, match="changed since you read it") as refused:
        await answer_of(
            keys.edit_key, stores, OWNER, EditKey(tenant="acme", key=key.key, name="yours"), terms
        )
    (change,) = refused.value.refusal.changes  # pyright: ignore[reportAttributeAccessIssue]
    assert (change.before["name"], change.after["name"]) == ("old", "mine")


async def test_what_no_key_may_be_is_refused_at_its_field(stores: Stores) -> None:
    """No scope at all, money for one user's key or by a developer; a key that ended; another tenant's."""
    key, bound = await a_key(stores), await a_key(stores, user="ann")
    developer = member_of(key.tenant, Role.DEVELOPER)
    usage = [KeyScope.USAGE_READ]
    for who, ask, field in (
        (OWNER, EditKey(tenant="acme", key=key.key, scopes=[]), "scopes"),
        (OWNER, EditKey(tenant="acme", key=bound.key, scopes=usage), "scopes"),
        (OWNER, EditKey(tenant="acme", key=key.key, name="x" * 201), "name"),
        (OWNER, EditKey(tenant="other", key=key.key, name="theirs"), "key"),
        (developer, EditKey(tenant="acme", key=key.key, scopes=usage), None),
    ):
        assert (await refusal_of(keys.edit_key, stores, who, ask)).field == field, ask
    await answer_of(keys.revoke_key, stores, OWNER, RevokeKey(tenant="acme", key=key.key))
    refusal = await refusal_of(keys.edit_key, stores, OWNER, EditKey(tenant="acme", key=key.key, name="late"))
    assert (refusal.field, "does not work any more" in refusal.message) == ("key", True)


async def test_a_key_says_who_made_it_and_what_it_spent(stores: Stores) -> None:
    """This month, by itself; a successor is its rotator's. Who reads no audit log is told no name, and who
    sees no sums none."""
    made, other = await a_key(stores), await a_key(stores)
    await use(stores, made, stores.now_ms(), stores.now_ms() - 1)
    await use(stores, made, stores.now_ms() - 40 * DAY_MS)
    await use(stores, other, stores.now_ms())
    admin = member_of(made.tenant, Role.ADMIN)
    rotated = (
        await answer_of(keys.rotate_key, stores, admin, keys.RotateKey(tenant="acme", key=made.key))
    ).key
    ask, new = NameKey(tenant="acme", key=made.key), NameKey(tenant="acme", key=rotated.key)
    shown = await answer_of(keys.show_key, stores, OWNER, ask)
    each = await answer_of(keys.show_key, stores, OWNER, NameKey(tenant="acme", key=other.key))
    assert isinstance(shown.spent_this_month, MoneyAmount)
    assert isinstance(each.spent_this_month, MoneyAmount)
    assert shown.spent_this_month.value == 2 * each.spent_this_month.value > 0
    assert (shown.created_by, each.created_by) == ("Ann", "Ann")
    assert (await answer_of(keys.show_key, stores, admin, new)).created_by == "Mia"
    for role, named, sums in (
        (Role.DEVELOPER, False, False),
        (Role.VIEWER, False, False),
        (Role.BILLING, False, True),
    ):
        seen = await answer_of(keys.show_key, stores, member_of(made.tenant, role), ask)
        assert (seen.created_by is not UNSET, seen.spent_this_month is not UNSET) == (named, sums), role
