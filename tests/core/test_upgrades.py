"""What installations have when they upgrade stays what it was, on SQLite and on Postgres."""

from billing.audit.compare import compare_states
from billing.audit.log import record
from billing.audit.verify import verify_log
from core.sql.database import migrate
from tests.core.conftest import Old, Row

TENANT = {
    "tenant_id": "t1",
    "name": "demo",
    "price_book_id": "default",
    "priority_max": "bulk",
    "created_ms": 1,
}
PROJECT = {"tenant_id": "t1", "id": "p1", "name": "default", "created_ms": 1}
KEY = {
    "tenant_id": "t1",
    "project_id": "p1",
    "secret_sha256": "",
    "scopes": '["chat"]',
    "priority_max": "bulk",
}


def _key(id: str, name: str = "", user: str = "", rotated_from: str | None = None) -> Row:
    facts = {"id": id, "prefix": id, "name": name, "user_id": user, "rotated_from": rotated_from}
    return {**KEY, **facts, "created_ms": 1}


def _conversation(id: str, key: str, user: str = "") -> Row:
    facts = {"tenant_id": "t1", "id": id, "project_id": "p1", "owner_key": key, "user_id": user, "title": id}
    return {**facts, "created_ms": 1, "updated_ms": 1}


async def test_keys_stay_what_they_were_and_their_chains_become_one_owner(old: Old):
    """Service keys are shared, for their tickets named nobody; what a rotated key made is its chain's."""
    await old.at("0010")
    await old.add("tenant", TENANT)
    await old.add("project", PROJECT)
    await old.add("api_key", _key("k1"), _key("k2", rotated_from="k1"), _key("k3", rotated_from="k2"))
    await old.add("api_key", _key("k4"), _key("k5", user="ann"))
    await old.add("conversation", *(_conversation(f"c{n}", f"k{n}") for n in (1, 2, 3, 4)))
    await old.add("conversation", _conversation("c5", "", "ann"))
    await migrate(old.url)
    keys = await old.read("SELECT id, owner_key, shared FROM api_key ORDER BY id")
    assert [(id, owner, bool(shared)) for id, owner, shared in keys] == [
        ("k1", "k1", True),
        ("k2", "k1", True),
        ("k3", "k1", True),
        ("k4", "k4", True),
        ("k5", "k5", False),
    ]
    owners = await old.read("SELECT id, owner_key, user_id FROM conversation ORDER BY id")
    assert owners == [
        ("c1", "k1", ""),
        ("c2", "k1", ""),
        ("c3", "k1", ""),
        ("c4", "k4", ""),
        ("c5", "", "ann"),
    ]


async def test_users_keep_their_names_and_two_that_become_one_are_told(old: Old):
    """Who was named anywhere is known by the name as it is written now; rows stay whose they were."""
    await old.at("0012")
    await old.add("tenant", TENANT)
    await old.add("project", PROJECT)
    await old.add("account", {"tenant_id": "t1", "id": "ann", "created_ms": 7, "closed_ms": 8})
    await old.add("api_key", {**_key("k1", user="bob"), "shared": False, "owner_key": "k1"})
    composed, decomposed, alone, odd = "Zo\u00eb", "Zoe\u0308", "Rene\u0301", "a\u00a0b"
    users = (composed, decomposed, alone, odd)
    await old.add("conversation", *(_conversation(f"c{n}", "", user) for n, user in enumerate(users)))
    told = await migrate(old.url)
    rows = await old.read("SELECT id, name, created_ms, closed_ms FROM tenant_user WHERE erased_ms IS NULL")
    assert {id: name for id, name, *_ in rows} == {
        "ann": "ann",
        "bob": "bob",
        composed: composed,
        decomposed: decomposed,
        alone: "Ren\u00e9",
        odd: odd,
    }
    assert ("ann", "ann", 7, 8) in rows
    assert len(told) == 2
    assert r"the users 'Zoe\u0308' and 'Zo\xeb' have one name now" in " ".join(told)
    assert r"'a\xa0b'" in " ".join(told)
    assert await migrate(old.url) == []


async def test_chats_of_the_demo_keys_browsers_are_there_after_signing_in_again(old: Old):
    """They were the key's; the link that `parley up` prints names a user now. Another key's stay its own."""
    await old.at("0010")
    await old.add("tenant", TENANT, {**TENANT, "tenant_id": "t2", "name": "acme"})
    await old.add("project", PROJECT, {**PROJECT, "tenant_id": "t2"})
    await old.add(
        "api_key", _key("k1", "parley up"), _key("k2"), {**_key("k3", "parley up"), "tenant_id": "t2"}
    )
    await old.add("conversation", _conversation("c1", "k1"), _conversation("c2", "k2"))
    await old.add("conversation", {**_conversation("c3", "k3"), "tenant_id": "t2"})
    await migrate(old.url)
    owners = await old.read("SELECT id, owner_key, user_id FROM conversation ORDER BY id")
    assert owners == [("c1", "", "demo"), ("c2", "k2", ""), ("c3", "k3", "")]
    assert await old.read("SELECT tenant_id, id, name FROM tenant_user") == [("t1", "demo", "demo")]


async def test_users_whom_sign_ins_made_are_known_as_such(old: Old):
    """By their names, which a sign-in alone gives; they may have been used."""
    await old.at("0018")
    await old.add("tenant", TENANT)
    rest = dict.fromkeys(("key_id", "address", "agent"), "") | dict.fromkeys(
        ("made_ms", "seen_ms", "ends_ms"), 1
    )
    for id, user in (("s1", "browser-s1"), ("s2", "ann"), ("s3", "browser-s9")):
        await old.add("tenant_user", {"tenant_id": "t1", "id": f"u_{id}", "name": user, "created_ms": 1})
        session = {"tenant_id": "t1", "id": id, "token_sha256": id, "user_id": f"u_{id}", **rest}
        await old.add("browser_session", session)
    await migrate(old.url)
    found = await old.read("SELECT id, own_user, used FROM browser_session ORDER BY id")
    assert [(id, bool(own), bool(used)) for id, own, used in found] == [
        ("s1", True, True),
        ("s2", False, True),
        ("s3", False, True),
    ]


async def test_what_is_administered_is_sealed_as_the_upgrade_finds_it(old: Old):
    """In each chain one row, dated; from then on an edit past the commands is named. A user whose id is
    a name is not taken down."""
    await old.at("0024")
    await old.add(
        "price_book", {"id": "gold", "tenant_id": "", "name": "g", "currency": "usd", "created_ms": 1}
    )
    await old.add("tenant", TENANT)
    await old.add("project", PROJECT)
    await old.add("api_key", {**_key("k1", user="ann"), "shared": False, "owner_key": "k1"})
    await old.add("tenant_user", {"tenant_id": "t1", "id": "ann", "name": "ann", "created_ms": 1})
    budget = {"tenant_id": "t1", "scope": "tenant", "scope_id": "", "period": "month", "mode": "enforce"}
    rest = {"limit_nano": 5, "hard": True, "thresholds": "[80]", "author": "ann", "created_ms": 1}
    await old.add("budget", *({**budget, **rest, "id": f"b{number}"} for number in range(501)))
    await migrate(old.url)
    for owner in ("", "t1"):
        found = await compare_states(old.database, owner)
        assert (found.faults, (await verify_log(old.database, owner)).faults) == ([], [])
        assert found.sealed_ms is not None
    assert "ann" not in str(await old.read("SELECT thing, state FROM audit_state"))
    await old.change("UPDATE budget SET hard = false WHERE id = 'b1'")
    faults = (await compare_states(old.database, "t1")).faults
    assert faults == ["budget b1 was changed past the commands: hard true → false"]
    async with old.database.transaction() as session:
        await record(session, "t1", "thing.change", "x", None, {})
    assert (await verify_log(old.database, "t1")).faults == []
