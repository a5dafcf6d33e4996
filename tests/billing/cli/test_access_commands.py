"""`parley users`, `sessions`, `projects` and `tenants`: who is let in, and what is told of it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from billing.cli import erasure, usage
from billing.reports.usage_report import UsageSums
from billing.tenants.keys import authenticate_key
from billing.tenants.sessions import open_session, principal_of_session
from billing.tenants.sign_in_links import read_link_code
from core.clock import now_ms
from core.configuration.settings import Settings
from core.signing.signed_text import Keyring
from tests.billing.acme import Acme
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.support.home import TEST_SECRET


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def key(acme: Acme, *options: str) -> str:
    """The secret of a new key."""
    return acme.told("keys", "create", "--tenant", "acme", *options)[0]["secret"]


def is_let_in(acme: Acme, secret: str) -> bool:
    """Whether a key opens anything now."""

    async def look(books: QuotaLedger) -> bool:
        return await authenticate_key(books.db, secret) is not None

    return acme.does(look)


def test_a_key_is_restricted_to_web_pages(acme: Acme):
    """By options of making and editing it; what is not said stays, and one option takes all away."""
    origins = ("--origin", "https://App.acme.example/", "--origin", "http://localhost:5173")
    (made,) = acme.told("keys", "create", "--tenant", "acme", *origins)
    assert made["origins"] == ["https://app.acme.example", "http://localhost:5173"]
    edit = ("keys", "edit", made["key"], "--tenant", "acme")
    assert acme.told(*edit, "--name", "web")[0]["origins"] == made["origins"]
    assert "cannot be listed" in acme.refuses(*edit, "--origin", "null")
    assert acme.told(*edit, "--origin", "https://*.acme.example")[0]["origins"] == ["https://*.acme.example"]
    assert "not both" in acme.types(*edit, "--origin", "https://a.example", "--any-origin").output
    assert acme.told(*edit, "--any-origin")[0]["origins"] == []
    assert [each["origins"] for each in acme.told("keys", "list", "--tenant", "acme")] == [[]]


def sign_in(acme: Acme, secret: str, agent: str) -> str:
    """A browser signs in with a key: its token."""

    async def open(books: QuotaLedger) -> str:
        principal = await authenticate_key(books.db, secret)
        assert principal is not None
        return (await open_session(books.db, principal, Settings(), "192.0.2.7", agent))[1]

    return acme.does(open)


def is_signed_in(acme: Acme, token: str) -> bool:
    """Whether a browser is."""

    async def look(books: QuotaLedger) -> bool:
        return await principal_of_session(books.db, token) is not None

    return acme.does(look)


def test_a_user_is_made_listed_closed_and_let_in_again(acme: Acme) -> None:
    """A key that stands for them opens nothing meanwhile; a name that is none is said to be none."""
    assert acme.parley("users", "list", "--tenant", "acme").output == "there are no users\n"
    (made,) = acme.told("users", "create", "--tenant", "acme", "Zoë")
    assert (made["user"], made["closed"]) == ("Zoë", None)
    assert acme.told("users", "list", "--tenant", "acme") == [made]
    secret = key(acme, "--user", "Zoë")
    assert is_let_in(acme, secret)
    (closed,) = acme.told("users", "close", "--tenant", "acme", "Zoë")
    assert (closed["id"], closed["closed"] is None) == (made["id"], False)
    assert not is_let_in(acme, secret)
    assert acme.told("users", "reopen", "--tenant", "acme", "Zoë") == [made]
    assert is_let_in(acme, secret)
    (unknown,) = acme.told("users", "close", "--tenant", "acme", "bob")  # known from then on, as refused
    assert [each["user"] for each in acme.told("users", "list", "--tenant", "acme")] == ["Zoë", "bob"]
    assert unknown["closed"] is not None
    assert (unknown["new"], "new" in closed) == (True, False)
    told = acme.parley("users", "close", "--tenant", "acme", "bbo")
    assert "nobody knew a user 'bbo' before" in told.stderr
    assert acme.parley("users", "close", "--tenant", "acme", "bbo").stderr == ""
    assert "--tenant acme`" in str(acme.types("users", "reopen", "--tenant", "acme", "obb").exception)
    assert "name" in acme.refuses("users", "create", "--tenant", "acme", "a\nb")
    assert "nobody" in acme.refuses("users", "list", "--tenant", "nobody")


def test_whose_it_is_has_to_be_said(acme: Acme) -> None:
    """Nobody changes or reads a tenant that they did not name."""
    for typed in (
        ("users", "list"),
        ("users", "export", "ann"),
        ("projects", "list"),
        ("keys", "list"),
        ("budgets", "list"),
        ("wallets", "show"),
        ("wallets", "void", "g", "--reason", "r"),
        ("usage", "correct", "r", "--cause", "c"),
        ("prices", "periods"),
        ("prices", "commitments"),
    ):
        assert "Missing option '--tenant'" in acme.refuses(*typed), typed
        assert "there is no tenant 'none'" in acme.refuses(*typed, "--tenant", "none"), typed


def test_what_is_held_of_a_user_is_printed_a_thing_a_line(acme: Acme) -> None:
    """Their keys without secrets, their browsers, and what administrators did; nothing of another user's."""
    (made,) = acme.told("users", "create", "--tenant", "acme", "ann")
    secret = key(acme, "--user", "ann", "--name", "hers")
    sign_in(acme, secret, "Lynx")
    key(acme, "--user", "bob", "--name", "his")
    printed = acme.parley("users", "export", "--tenant", "acme", "ann").output
    kinds = [line.split('"', 4)[3] for line in printed.splitlines()]
    assert [kind for kind in kinds if kind != "audit"] == ["user", "key", "session"]
    assert all(each in printed for each in (made["id"], '"hers"', '"Lynx"', '"user.export"'))
    assert not any(each in printed for each in (secret, "secret_sha256", "token_sha256", "his"))
    assert "no user 'nobody'" in acme.refuses("users", "export", "--tenant", "acme", "nobody")


def test_browsers_are_listed_and_signed_out(acme: Acme) -> None:
    """One by its id, or all of a user."""
    listing = ("list", "--tenant", "acme")
    assert acme.parley("sessions", *listing).output == "nobody is signed in\n"
    ann, bob = key(acme, "--user", "ann"), key(acme, "--user", "bob")
    tokens = [sign_in(acme, ann, "Lynx"), sign_in(acme, ann, "Links"), sign_in(acme, bob, "w3m")]
    listed = {each["agent"]: each for each in acme.told("sessions", *listing)}
    assert {agent: each["user"] for agent, each in listed.items()} == {
        "Lynx": "ann",
        "Links": "ann",
        "w3m": "bob",
    }
    assert listed["w3m"]["address"] == "192.0.2.7"
    assert tokens[2] not in acme.parley("sessions", *listing).output
    revoke = ("revoke", "--tenant", "acme")
    assert acme.parley("sessions", *revoke, listed["w3m"]["session"]).output == "signed out: 1\n"
    assert [is_signed_in(acme, token) for token in tokens] == [True, True, False]
    assert acme.parley("sessions", *revoke, "--user", "ann").output == "signed out: 2\n"
    assert [is_signed_in(acme, token) for token in tokens] == [False, False, False]
    assert "nobody is signed in by that" in acme.refuses("sessions", *revoke, "--user", "ann")
    for words in (("list",), ("revoke", "x")):
        assert "--tenant" in acme.refuses("sessions", *words)
    assert "name a SESSION" in acme.refuses("sessions", *revoke)


def test_what_was_closed_is_let_in_again(acme: Acme) -> None:
    """A project, or all of a tenant: its keys open nothing meanwhile, and each step says how it is now."""
    acme.parley("projects", "create", "--tenant", "acme", "lab")
    secret = key(acme, "--project", "lab")
    for what, which in (("project", ("--tenant", "acme", "lab")), ("tenant", ("acme",))):
        assert is_let_in(acme, secret)
        (closed,) = acme.told(f"{what}s", "close", *which)
        assert (closed["closed"] is None, is_let_in(acme, secret)) == (False, False)
        (again,) = acme.told(f"{what}s", "reopen", *which)
        assert (again[what], again["closed"], is_let_in(acme, secret)) == (closed[what], None, True)
        assert "'none'" in acme.refuses(f"{what}s", "reopen", *which[:-1], "none")


def test_money_that_a_closed_tenant_left_is_told(acme: Acme) -> None:
    """To who closes it and to who lists wallets; nothing where nothing is left."""
    (closed,) = acme.told("tenants", "close", "acme")
    assert "wallet_left_nano" not in closed
    acme.parley("tenants", "reopen", "acme")
    acme.parley("wallets", "grant", "--tenant", "acme", "--amount", "2.50 USD", "--key", "g")
    assert "$2.50: `parley wallets pay-out`" in acme.parley("tenants", "close", "acme").output
    (closed,) = acme.told("tenants", "close", "acme")
    (wallet,) = acme.told("wallets", "list")
    assert (closed["wallet_left_nano"], wallet["closed"]) == (2_500_000_000, closed["closed"])


@pytest.mark.parametrize(("as_json", "user"), [(False, "(none)"), (True, "")])
def test_usage_of_nobody_has_a_name(as_json: bool, user: str) -> None:
    """So that its column stands, also where no request names a user."""
    assert usage._row("user", UsageSums(""), as_json, {})["user"] == user


def test_a_link_signs_in_whom_it_was_made_for(acme: Acme) -> None:
    """At the place that was named, with a code that is the key's and the user's."""
    (made,) = acme.told("keys", "create", "--tenant", "acme")
    link = (
        "sign-in-link",
        "--tenant",
        "acme",
        made["prefix"],
        "--user",
        "ann",
        "--url",
        "https://chat.example/",
    )
    printed = acme.parley("keys", *link, secret=TEST_SECRET).output
    assert printed.startswith("https://chat.example/#c=")
    code = read_link_code(printed.strip().partition("#c=")[2], Keyring(TEST_SECRET.encode()), now_ms())
    (user,) = acme.told("users", "list", "--tenant", "acme")
    assert user["user"] == "ann"
    assert code is not None
    assert (code.key, code.user) == (made["key"], user["id"])
    assert "no key" in acme.refuses("keys", "sign-in-link", "--tenant", "acme", "none", "--user", "ann")


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_erased_is_gone_in_an_order_that_loses_nothing(
    acme: Acme, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Texts first, then what Redis knows by an id that no table will have; at last gateways hear of it. With
    a tenant all of it goes, and nothing is left to count anew."""
    done: list[str] = []

    def noted(name: str, result: object = None) -> Callable[..., Awaitable[object]]:
        async def note(*_: object) -> object:
            done.append(name)
            return result

        return note

    acme.parley("users", "create", "--tenant", "acme", "ann")
    acme.parley("users", "close", "--tenant", "acme", "ann")
    monkeypatch.setattr(erasure, "action", lambda name: noted(name, (3, 4)))
    monkeypatch.setattr(erasure.Quota, "forget_user", noted("forget"))
    monkeypatch.setattr(erasure.Quota, "reseed", noted("count anew"))
    monkeypatch.setattr(erasure.erasure, "erase_user", noted("erase", "u_1"))
    monkeypatch.setattr(erasure.erasure, "erase_tenant", noted("erase", 1))
    monkeypatch.setattr(erasure, "publish_news", noted("tell"))
    if whole:
        acme.parley("wallets", "grant", "--tenant", "acme", "--amount", "1 USD", "--key", "g")
        acme.parley("tenants", "close", "acme")
        (said,) = acme.told("tenants", "erase", "acme", "--yes")
        assert said["wallet_left_nano"] == 10**9
        assert (said["users"], done) == (1, ["erase_texts", "erase", "tell"])
    else:
        (said,) = acme.told("users", "erase", "--tenant", "acme", "ann", "--yes")
        assert (said["user"], done) == ("u_1", ["erase_texts", "forget", "erase", "count anew", "tell"])
    assert (said["conversations"], said["messages_of_others"]) == (3, 4)
