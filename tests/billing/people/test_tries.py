"""Tries to sign in: guessing is slow from everywhere, and no flood of it keeps an owner out."""

from collections.abc import Awaitable

import pytest

from billing.people import known_browsers, links, own_account, tries
from billing.people.person_sessions import NewPersonSession
from billing.people.sign_in import SignIns
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from tests.billing.people.a_person import Peopled
from tests.support.redis import Redis

AGENT, PASSWORD = "Browser", "correct horse battery"
OTTO, NOBODY = "otto@example.com", "nobody@example.com"
HOME, CAFE = "192.0.2.1", "192.0.2.77"
TRIES_MAX = 3


@pytest.fixture
async def consoles(
    settings: Settings, peopled: Peopled, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> tuple[SignIns, SignIns]:
    """Two, and Otto has a password."""
    monkeypatch.setattr(tries, "TRIES_MAX", TRIES_MAX)
    first, second = (SignIns(settings, peopled.db, redis) for _ in range(2))
    hashed = await first.passwords.hash(PASSWORD)
    await own_account.set_password(peopled.db, peopled.operator.person.id, hashed)
    return first, second


async def test_from_one_address_there_are_few_tries_and_others_are_not_slowed(
    consoles: tuple[SignIns, SignIns],
) -> None:
    """All consoles count together, whether anybody has the account or not, also the right password; its owner
    comes in from elsewhere."""
    for email in (OTTO, NOBODY):
        for number in range(TRIES_MAX):
            assert (await guessed(consoles[number % 2], email, "198.51.100.9")).code == "unauthorized"
        for console in consoles:
            refusal = await guessed(console, email, "198.51.100.9", PASSWORD)
            assert (refusal.code, refusal.scope) == ("rate_limited", "address")
            assert 0 < (refusal.after_ms or 0) <= tries.WINDOW_MS
    await signed_in(consoles[0], HOME)


async def test_from_many_addresses_there_is_one_try_a_minute(
    consoles: tuple[SignIns, SignIns], redis: Redis
) -> None:
    """Beyond the first few, for people who exist and others alike; the flood does not lengthen it."""
    for email in (OTTO, NOBODY):
        answers = [await guessed(consoles[n % 2], email, f"198.51.{n}.9") for n in range(TRIES_MAX + 5)]
        assert [each.code for each in answers] == ["unauthorized"] * (TRIES_MAX + 1) + ["rate_limited"] * 4
        assert {each.scope for each in answers[TRIES_MAX + 1 :]} == {"account"}
        assert all(0 < (each.after_ms or 0) <= tries.PACE_MS for each in answers[TRIES_MAX + 1 :])
    for turn in await redis.keys("parley:tries:*:turn"):
        await redis.delete(turn)  # a minute passes
    await signed_in(consoles[1], HOME)  # with the account's next turn, and counts from nothing again
    assert (await guessed(consoles[0], OTTO, "203.0.113.9")).code == "unauthorized"


async def test_a_flood_does_not_keep_out_who_signed_in_there_before(
    settings: Settings, peopled: Peopled, consoles: tuple[SignIns, SignIns]
) -> None:
    """Their browser is known, whatever its address is; a link signs in too. What strangers did stays
    counted."""
    known = consoles[0].known_browser((await signed_in(consoles[0], HOME)).signed_in.person)
    told = [await guessed(consoles[0], OTTO, f"198.51.{number}.9") for number in range(TRIES_MAX + 2)]
    assert told[-1].code == "rate_limited"
    for console in consoles * 2:
        await signed_in(console, CAFE, known)
    assert (await guessed(consoles[1], OTTO, HOME, PASSWORD)).scope == "account"
    code = links.make_person_code(settings.keyring, peopled.operator.person.id, PLATFORM, now_ms())
    await consoles[1].by_link(code, HOME, AGENT)


async def test_a_known_browser_has_few_tries_of_its_own(consoles: tuple[SignIns, SignIns]) -> None:
    """Whoever took it guesses no faster."""
    known = consoles[0].known_browser((await signed_in(consoles[0], HOME)).signed_in.person)
    answers = [await guessed(consoles[0], OTTO, f"198.51.{n}.9", known=known) for n in range(TRIES_MAX + 1)]
    assert [each.code for each in answers] == ["unauthorized"] * TRIES_MAX + ["rate_limited"]
    await signed_in(consoles[0], HOME)


def test_a_browser_is_known_for_its_own_account(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """For half a year; what we did not seal, or for another account, makes nobody known."""
    keyring, now = settings.keyring, now_ms()
    made = known_browsers.make_known_browser(keyring, OTTO, now)
    assert known_browsers.known_browser(made, keyring, OTTO, now)
    late = now + known_browsers.KNOWN_SECONDS * 1000
    wrong = [(made, NOBODY, now), (made, OTTO, late), (made[:-1], OTTO, now), ("", OTTO, now)]
    for code, account, at_ms in [*wrong, ("x" * 10_000, OTTO, now), ("a.b", OTTO, now)]:
        assert known_browsers.known_browser(code, keyring, account, at_ms) is None
    assert OTTO not in made


async def test_a_second_factor_is_slowed_alike(peopled: Peopled, consoles: tuple[SignIns, SignIns]) -> None:
    """Who knows the password guesses codes as slowly, and does not keep its owner from showing one."""
    mine, theirs = await signed_in(consoles[0], HOME), await signed_in(consoles[0], CAFE)
    known = consoles[0].known_browser(mine.signed_in.person)
    for number in range(TRIES_MAX + 1):
        refusal = await refusal_of(
            consoles[0].second_factor(theirs.signed_in, "000000", f"198.51.{number}.9")
        )
        assert refusal.code == "unauthorized"
    refusal = await refusal_of(consoles[0].second_factor(theirs.signed_in, "000000", "198.51.100.9"))
    assert (refusal.code, refusal.scope) == ("rate_limited", "account")
    looked_at = await refusal_of(consoles[0].second_factor(mine.signed_in, "000000", HOME, known))
    assert looked_at.code == "unauthorized"


async def guessed(
    console: SignIns, email: str, address: str, password: str = "no", known: str = ""
) -> Refusal:
    """What somebody is told who does not come in."""
    return await refusal_of(console.by_password(email, password, address, AGENT, known=known))


async def refusal_of(signing_in: Awaitable[object]) -> Refusal:
    """What was refused."""
    with pytest.raises(Refused) as refused:
        await signing_in
    return refused.value.refusal


async def signed_in(console: SignIns, address: str, known: str = "") -> NewPersonSession:
    """Otto, who comes in."""
    return await console.by_password(OTTO, PASSWORD, address, AGENT, known=known)
