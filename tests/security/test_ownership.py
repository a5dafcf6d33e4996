"""Who owns what: one predicate, as a matrix of principals, objects and verbs."""

from dataclasses import fields
from typing import Any

import pytest

from billing.api import AdmissionState, DirectoryEntry, Principal, create_key, create_project, rotate_key
from core.clock import now_ms
from core.errors import Refused
from core.ids import uuid7
from server.access.authorization import (
    CANCEL_SCOPE,
    CHAT_SCOPE,
    READ_SCOPE,
    ConversationOwner,
    cancel_refusal,
    owner_of,
    owns,
    read_refusal,
    user_of,
)
from server.conversations.store import Turn
from tests.server.http_site import HttpSite, bearer


def _who(
    project: str = "p1", key: str = "k1", user: str = "", fixed: bool | None = None, *scopes: str
) -> Principal:
    return Principal(
        tenant="t1",
        project=project,
        key=key,
        user=user,
        scopes=frozenset({CHAT_SCOPE, *scopes}),
        priority_max="interactive",
        access_ends_ms=None,
        fixed_user=bool(user) if fixed is None else fixed,
        owner_key=key.removesuffix("'"),
    )


# A prime marks the successor of a rotated key.
PRINCIPALS = {
    "service key": _who(),
    "its successor": _who(key="k1'"),
    "another service key": _who(key="k2"),
    "a service key of another project": _who("p2", "k3"),
    "a shared ticket of the service key": _who(fixed=True),
    "ann": _who(key="k4", user="ann"),
    "ann by a ticket of the service key": _who(user="ann"),
    "ann in another project": _who("p2", "k5", "ann"),
    "bob by a ticket of the service key": _who(user="bob"),
}
OBJECTS = {
    "the service key's": ConversationOwner("p1", "k1", ""),
    "what the service key did for ann": ConversationOwner("p1", "k1", "ann"),
    "ann's": ConversationOwner("p1", "", "ann"),
    "bob's by a ticket": ConversationOwner("p1", "k1", "bob"),
    "another service key's": ConversationOwner("p1", "k2", ""),
    "another project's service key's": ConversationOwner("p2", "k3", ""),
    "ann's in another project": ConversationOwner("p2", "", "ann"),
    "the same key's name in another project": ConversationOwner("p2", "k1", ""),
}
OWNERS = {
    "the service key's": {"service key", "its successor", "a shared ticket of the service key"},
    "what the service key did for ann": {
        "service key",
        "its successor",
        "ann",
        "ann by a ticket of the service key",
    },
    "ann's": {"ann", "ann by a ticket of the service key"},
    "bob's by a ticket": {"service key", "its successor", "bob by a ticket of the service key"},
    "another service key's": {"another service key"},
    "another project's service key's": {"a service key of another project"},
    "ann's in another project": {"ann in another project"},
    "the same key's name in another project": set[str](),
}


def _found(owner: ConversationOwner) -> DirectoryEntry:
    facts: dict[str, Any] = dict.fromkeys((field.name for field in fields(DirectoryEntry)), "")
    facts |= {**owner._asdict(), "state": AdmissionState.OPEN}
    return DirectoryEntry(**facts)


@pytest.mark.parametrize("whose", OBJECTS)
@pytest.mark.parametrize("who", PRINCIPALS)
def test_who_owns_a_request(who: str, whose: str):
    """Reads and cancels it, and nobody else does without the scope for that verb alone."""
    principal, owner = PRINCIPALS[who], OBJECTS[whose]
    own = who in OWNERS[whose]
    assert owns(principal, *owner) is own
    verbs = {READ_SCOPE: read_refusal, CANCEL_SCOPE: cancel_refusal}
    for scope, refusal_of in verbs.items():
        assert (refusal_of(principal, _found(owner)) is None) is own, scope
        allowed = _who(principal.project, principal.key, principal.user, principal.fixed_user, scope)
        assert refusal_of(allowed, _found(owner)) is None
        other = next(refuse for name, refuse in verbs.items() if name != scope)
        assert (other(allowed, _found(owner)) is None) is own


@pytest.mark.parametrize("who", PRINCIPALS)
def test_what_one_makes_is_ones_own(who: str):
    """Whatever owner is written down for it."""
    assert owns(PRINCIPALS[who], *owner_of(PRINCIPALS[who]))


@pytest.mark.parametrize("who", PRINCIPALS)
def test_a_turn_is_charged_to_nobody_else(who: str):
    """Who is fixed to a user names no other one, and no key names another project."""
    principal = PRINCIPALS[who]
    for user in ("", "ann", "bob"):
        named = {"user": user} if user else {}
        if principal.fixed_user and user not in ("", principal.user):
            with pytest.raises(Refused, match="forbidden"):
                user_of(principal, named, None, principal.user)
        else:
            assert user_of(principal, named, None, principal.user) == (user or principal.user)
    other = {"project": "p3"}
    with pytest.raises(Refused, match="forbidden"):
        user_of(principal, other, "p3", principal.user)


async def _conversation(site: HttpSite, owner: ConversationOwner) -> str:
    now = now_ms()
    turn = Turn(uuid7(now), uuid7(now), "hello", "smollm2", now)
    await site.edge.conversations.open_turn(site.tenant, owner, turn)
    return turn.conversation


async def test_conversations_are_their_owners_by_http(site: HttpSite):
    """Each key lists, reads and deletes those of its owner, and no other one; a rotated key and its successor
    are one owner."""
    db = site.edge.db
    other = await create_project(db, site.tenant, "other")
    successor = await rotate_key(db, site.tenant, site.key_id, 3600)
    third = await rotate_key(db, site.tenant, successor[0].id, 3600)
    keys = {
        "service": [site.key, successor[1], third[1]],
        "another": [await site.another_key()],
        "ann": [await site.another_key(user="ann"), await site.another_key(user="ann")],
        "bob": [await site.another_key(user="bob")],
        "elsewhere": [(await create_key(db, site.tenant, other.id))[1]],
        "ann elsewhere": [(await create_key(db, site.tenant, other.id, user="ann"))[1]],
    }
    made: dict[str, str] = {}
    for owner, secrets in keys.items():
        principal = await site.edge.auth.of_api_key(secrets[-1])  # the newest of a chain
        assert principal is not None
        made[owner] = await _conversation(site, owner_of(principal))
    for who, secrets in keys.items():
        for secret in secrets:
            listed = (await site.client.get("/v1/conversations", headers=bearer(secret))).json()
            assert [row["id"] for row in listed["conversations"]] == [made[who]], who
            for owner, id in made.items():
                path = f"/v1/conversations/{id}"
                read = await site.client.get(f"{path}/messages", headers=bearer(secret))
                assert read.status_code == (200 if owner == who else 404), (who, owner)
                if owner != who:
                    assert (await site.client.delete(path, headers=bearer(secret))).status_code == 404
    for who, secrets in keys.items():
        path = f"/v1/conversations/{made[who]}"
        assert (await site.client.delete(path, headers=bearer(secrets[0]))).status_code == 200
