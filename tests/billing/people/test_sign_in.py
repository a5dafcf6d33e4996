"""Signing in by link, password and invitation, with a second factor; what is wrong gets one answer."""

import asyncio
from collections.abc import Awaitable

import pytest
from pydantic import SecretStr
from pyotp.totp import TOTP

from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.people import (
    invitations,
    links,
    memberships,
    own_account,
    passwords,
    persons,
    sign_in,
    tries,
)
from billing.people.person_sessions import NewPersonSession, find_person_session, list_person_sessions
from billing.people.persons import Member
from billing.people.sign_in import SignIns
from billing.tables.people import Person
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import write_closed
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from tests.billing.people.a_person import Peopled
from tests.support.redis import Redis

ADDRESS, AGENT = "192.0.2.1", "Browser"
PASSWORD = "correct horse battery"


@pytest.fixture
def sign_ins(settings: Settings, peopled: Peopled, redis: Redis) -> SignIns:
    """One process' sign-ins."""
    return SignIns(settings, peopled.db, redis)


async def test_a_link_signs_in_once(settings: Settings, peopled: Peopled, sign_ins: SignIns) -> None:
    """In the membership that it was made for; eight at once open one session."""
    code = _code(settings, peopled.admin)
    done = await asyncio.gather(
        *(sign_ins.by_link(code, ADDRESS, AGENT) for _ in range(8)), return_exceptions=True
    )
    (new,) = [each for each in done if isinstance(each, NewPersonSession)]
    assert [each for each in done if not isinstance(each, NewPersonSession | Refused)] == []
    signed_in = await find_person_session(peopled.db, new.token)
    assert signed_in is not None
    assert (signed_in.person.name, signed_in.membership.role) == ("Ada", "admin")
    assert new.token not in str(signed_in.session)
    assert len(await list_person_sessions(peopled.db, peopled.tenant.tenant_id)) == 1


async def test_links_that_are_no_good_get_one_answer(
    settings: Settings, peopled: Peopled, sign_ins: SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forged, late, used, of one who was removed, of a closed tenant; and the audit log remembers the try."""
    tenant = peopled.tenant.tenant_id
    used = _code(settings, peopled.admin)
    await sign_ins.by_link(used, ADDRESS, AGENT)
    late = links.make_person_code(settings.keyring, peopled.admin.person.id, tenant, now_ms() - 3_600_000)
    elsewhere = links.make_person_code(settings.keyring, peopled.admin.person.id, PLATFORM, now_ms())
    removed = _code(settings, peopled.viewer)
    await memberships.end_membership(peopled.db, tenant, peopled.viewer.person.id)
    answers = {await _refused(sign_ins.by_link(each, ADDRESS, AGENT)) for each in (used, late, elsewhere)}
    answers |= {await _refused(sign_ins.by_link(each, ADDRESS, AGENT)) for each in (removed, "forged.code")}
    await write_closed(peopled.db, tenant, True)
    answers |= {await _refused(sign_ins.by_link(_code(settings, peopled.admin), ADDRESS, AGENT))}
    assert len(answers) == 1
    assert "person.refuse" in {row.action for row in await list_rows(peopled.db, PLATFORM)}


async def test_a_password_signs_in_and_what_is_wrong_gets_one_answer(
    peopled: Peopled, sign_ins: SignIns
) -> None:
    """A wrong one, an unknown address, a person without password, a closed one."""
    await _with_password(peopled.operator, peopled, sign_ins)
    new = await sign_ins.by_password(" OTTO@example.com", PASSWORD, ADDRESS, AGENT)
    assert (new.signed_in.membership.tenant_id, new.signed_in.session.second_factor_ms) == (PLATFORM, None)
    tries_ = [("otto@example.com", "wrong"), ("nobody@example.com", PASSWORD), ("ada@example.com", PASSWORD)]
    answers = {await _refused(sign_ins.by_password(*each, ADDRESS, AGENT)) for each in tries_}
    await persons.close_person(peopled.db, peopled.operator.person.id)
    answers |= {await _refused(sign_ins.by_password("otto@example.com", PASSWORD, ADDRESS, AGENT))}
    assert len(answers) == 1


async def test_whether_somebody_exists_takes_as_long_to_find_out(
    peopled: Peopled, sign_ins: SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all the time of a try is one hash: one of the same cost is computed whoever is named."""
    await _with_password(peopled.operator, peopled, sign_ins)
    compared: list[str] = []

    async def matches(_: str, stored: str | None) -> bool:
        compared.append(stored or passwords.nobodys_hash())
        return False

    monkeypatch.setattr(sign_ins.passwords, "matches", matches)
    for email in ("otto@example.com", "nobody@example.com", "ada@example.com", "no address"):
        await _refused(sign_ins.by_password(email, PASSWORD, ADDRESS, AGENT))
    assert len(compared) == 4
    assert {each.split("$")[3] for each in compared} == {compared[0].split("$")[3]}
    assert not any(passwords.is_outdated(each) for each in compared)


async def test_many_tries_from_one_address_cost_no_hash(
    settings: Settings, peopled: Peopled, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused before one is computed; another address goes on."""
    monkeypatch.setattr(tries.SignInTries.__init__, "__defaults__", (1.0,))
    slow = SignIns(settings, peopled.db, redis)
    await _refused(slow.by_password("a@example.com", "no", ADDRESS, AGENT))
    with pytest.raises(Refused, match="too many tries") as refused:
        await slow.by_password("b@example.com", "no", ADDRESS, AGENT)
    assert refused.value.refusal.scope == "address"
    assert "does not" in await _refused(slow.by_password("b@example.com", "no", "198.51.100.9", AGENT))


async def test_hashing_is_bounded() -> None:
    """Who comes when too many wait is told to come again."""
    few = passwords.Passwords(at_once=1, waiting_max=1)
    done = await asyncio.gather(*(few.matches("no", None) for _ in range(4)), return_exceptions=True)
    assert [each for each in done if each is False] == [False, False]
    assert len([each for each in done if isinstance(each, Refused) and each.refusal.retry]) == 2


async def test_a_code_of_the_second_factor_is_taken_once(
    settings: Settings, peopled: Peopled, sign_ins: SignIns
) -> None:
    """It stands in the session that showed it; eight at once with one code: one is taken."""
    await _with_password(peopled.operator, peopled, sign_ins)
    secret, first = await _with_totp(settings, peopled, sign_ins)
    assert (await _session(peopled, first)).second_factor_ms is not None
    code = TOTP(secret).at(now_ms() // 1000 + 30)  # the one before was taken when it was confirmed
    sessions = [await sign_ins.by_password("otto@example.com", PASSWORD, ADDRESS, AGENT) for _ in range(4)]
    done = await asyncio.gather(
        *(sign_ins.second_factor(each.signed_in, code, ADDRESS) for each in sessions), return_exceptions=True
    )
    assert done.count(None) == 1
    assert [each for each in done if each is not None and not isinstance(each, Refused)] == []
    with pytest.raises(Refused, match="does not sign you in"):
        await sign_ins.by_password("otto@example.com", PASSWORD, ADDRESS, AGENT, totp=code)


async def test_a_secret_is_good_in_its_own_row_alone(
    settings: Settings, peopled: Peopled, sign_ins: SignIns
) -> None:
    """The database has it hidden: who reads it makes no codes, who copies it into another's row neither."""
    await _with_password(peopled.operator, peopled, sign_ins)
    secret, _ = await _with_totp(settings, peopled, sign_ins)
    async with peopled.db.session() as session:
        row = await session.get(Person, peopled.operator.person.id)
    assert row is not None
    assert row.totp_hidden is not None
    assert secret not in row.totp_hidden
    assert totp_of(row.totp_hidden, peopled.operator, settings) == secret
    assert totp_of(row.totp_hidden, peopled.owner, settings) is None


async def test_a_second_factor_outlives_the_secret_that_hid_it(
    settings: Settings, peopled: Peopled, sign_ins: SignIns, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the installation's secret is being changed, who shows a code has their own hidden anew."""
    await _with_password(peopled.operator, peopled, sign_ins)
    secret, token = await _with_totp(settings, peopled, sign_ins)
    both = settings.model_copy(update={"secret": SecretStr("n" * 32), "secret_old": settings.secret})
    later = now_ms() + 60_000
    monkeypatch.setattr(sign_in, "now_ms", lambda: later)
    signed_in = await find_person_session(peopled.db, token)
    assert signed_in is not None
    code = TOTP(secret).at(later // 1000)
    await SignIns(both, peopled.db, redis).second_factor(signed_in, code, ADDRESS)
    async with peopled.db.session() as session:
        row = await session.get(Person, peopled.operator.person.id)
    assert row is not None
    new = both.model_copy(update={"secret_old": None})
    assert totp_of(row.totp_hidden or "", peopled.operator, new) == secret
    assert (await compare_states(peopled.db, PLATFORM)).faults == []


async def test_an_invitation_makes_a_member_once(peopled: Peopled, sign_ins: SignIns) -> None:
    """Eight at once: one member; used, late, withdrawn by a newer one: one answer."""
    tenant = peopled.tenant.tenant_id
    _, earlier = await invitations.invite(peopled.db, tenant, "new@example.com", "developer")
    _, code = await invitations.invite(peopled.db, tenant, "New@example.com", "developer")
    done = await asyncio.gather(
        *(sign_ins.by_invitation(code, "Nea", ADDRESS, AGENT) for _ in range(8)), return_exceptions=True
    )
    (new,) = [each for each in done if isinstance(each, NewPersonSession)]
    assert (new.signed_in.person.email, new.signed_in.membership.role) == ("new@example.com", "developer")
    answers = {
        await _refused(sign_ins.by_invitation(each, "Nea", ADDRESS, AGENT)) for each in (code, earlier)
    }
    assert answers == {await _refused(sign_ins.by_invitation("nonsense", "Nea", ADDRESS, AGENT))}
    with pytest.raises(Refused, match="a member already"):
        await invitations.invite(peopled.db, tenant, "new@example.com", "viewer")
    await persons.close_person(peopled.db, peopled.operator.person.id)
    with pytest.raises(Refused, match="closed") as closed:
        await invitations.invite(peopled.db, PLATFORM, "otto@example.com", "finance")
    assert closed.value.refusal.see is not None  # how to let them in again


async def test_an_address_is_invited_so_often(peopled: Peopled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be a mail, to somebody who asked for none: one that takes another's place counts, and one that
    was withdrawn. A day later they may be invited again."""
    tenant, ask = peopled.tenant.tenant_id, "guest@example.com"
    for _ in range(invitations.OF_ADDRESS_A_DAY_MAX - 1):
        await invitations.invite(peopled.db, tenant, ask, "viewer")
    await invitations.withdraw_invitation(peopled.db, tenant, ask)
    row, _ = await invitations.invite(peopled.db, tenant, ask, "viewer")
    with pytest.raises(Refused, match="wait a day") as refused:
        await invitations.invite(peopled.db, tenant, ask, "viewer")
    assert (refused.value.refusal.code, refused.value.refusal.field) == ("rate_limited", "email")
    await invitations.invite(peopled.db, tenant, "other@example.com", "viewer")
    monkeypatch.setattr(invitations, "A_DAY_MAX", invitations.OF_ADDRESS_A_DAY_MAX + 1)
    with pytest.raises(Refused, match="wait a day"):
        await invitations.invite(peopled.db, tenant, "third@example.com", "viewer")
    monkeypatch.setattr(invitations, "now_ms", lambda: row.created_ms + invitations.DAY_MS)
    await invitations.invite(peopled.db, tenant, ask, "viewer")


async def test_a_late_invitation_and_one_of_a_closed_tenant_are_not_good(
    peopled: Peopled, sign_ins: SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the answer that a wrong code gets; nor one that was withdrawn, or whose maker is gone
    or manages people no more."""
    tenant = peopled.tenant.tenant_id
    row, code = await invitations.invite(peopled.db, tenant, "new@example.com", "developer")
    with monkeypatch.context() as later:
        later.setattr(invitations, "now_ms", lambda: row.expires_ms)
        assert "not good any more" in await _refused(sign_ins.by_invitation(code, "Nea", ADDRESS, AGENT))
    await invitations.withdraw_invitation(peopled.db, tenant, "New@example.com")
    assert "not good any more" in await _refused(sign_ins.by_invitation(code, "Nea", ADDRESS, AGENT))
    _, code = await invitations.invite(
        peopled.db, tenant, "new@example.com", "admin", peopled.viewer.person.id
    )
    await memberships.end_membership(peopled.db, tenant, peopled.viewer.person.id)
    assert "not good any more" in await _refused(sign_ins.by_invitation(code, "Nea", ADDRESS, AGENT))
    _, code = await invitations.invite(
        peopled.db, PLATFORM, "new@example.com", "owner", peopled.operator.person.id
    )
    assert "not good any more" in await _refused(sign_ins.by_invitation(code, "Nea", ADDRESS, AGENT))
    _, code = await invitations.invite(peopled.db, tenant, "new@example.com", "developer")
    await write_closed(peopled.db, tenant, True)
    assert "not good any more" in await _refused(sign_ins.by_invitation(code, "Nea", ADDRESS, AGENT))


async def test_who_has_an_account_takes_an_invitation_signed_in(peopled: Peopled, sign_ins: SignIns) -> None:
    """A link is no proof of an address: who holds one of somebody else's gets into no account by it."""
    _, code = await invitations.invite(peopled.db, peopled.tenant.tenant_id, "otto@example.com", "viewer")
    await _with_password(peopled.operator, peopled, sign_ins)
    with pytest.raises(Refused, match="sign in with it"):
        await sign_ins.by_invitation(code, "Mallory", ADDRESS, AGENT)
    otto = (await sign_ins.by_password("otto@example.com", PASSWORD, ADDRESS, AGENT)).signed_in
    new = await sign_ins.by_invitation(code, "", ADDRESS, AGENT, otto)
    assert new.signed_in.person.id == peopled.operator.person.id
    assert new.signed_in.membership.tenant_id == peopled.tenant.tenant_id
    there = await sign_ins.by_password(
        "otto@example.com", PASSWORD, ADDRESS, AGENT, tenant=peopled.tenant.tenant_id
    )
    assert there.signed_in.membership.role == "viewer"


def totp_of(hidden: str, member: Member, settings: Settings) -> str | None:
    """The secret as it would be read in this person's row."""
    return own_account.totp.reveal_secret(hidden, member.person.id, settings.keyring)


def _code(settings: Settings, member: Member) -> str:
    return links.make_person_code(settings.keyring, member.person.id, member.membership.tenant_id, now_ms())


async def _refused(signing_in: Awaitable[object]) -> str:
    with pytest.raises(Refused) as refused:
        await signing_in
    assert refused.value.refusal.code == "unauthorized"
    return refused.value.refusal.message


async def _with_password(member: Member, peopled: Peopled, sign_ins: SignIns) -> None:
    await own_account.set_password(peopled.db, member.person.id, await sign_ins.passwords.hash(PASSWORD))


async def _with_totp(settings: Settings, peopled: Peopled, sign_ins: SignIns) -> tuple[str, str]:
    """The operator's secret, and the token of the session that confirmed it."""
    new = await sign_ins.by_password("otto@example.com", PASSWORD, ADDRESS, AGENT)
    of = (new.signed_in.person.id, PLATFORM, new.signed_in.session.id)
    secret = await own_account.enroll_totp(peopled.db, *of, settings.keyring)
    with pytest.raises(Refused, match="not right now"):
        await own_account.confirm_totp(peopled.db, *of, "no code", settings.keyring)
    await own_account.confirm_totp(peopled.db, *of, TOTP(secret).at(now_ms() // 1000), settings.keyring)
    return secret, new.token


async def _session(peopled: Peopled, token: str):
    signed_in = await find_person_session(peopled.db, token)
    assert signed_in is not None
    return signed_in.session
