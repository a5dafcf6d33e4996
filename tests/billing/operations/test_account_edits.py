"""Names, addresses and languages of people: who changes whose, and what of it nobody learns."""

import asyncio

import pytest

from billing.audit.log import list_rows
from billing.operations import own_account, people
from billing.operations.people_facts import EditOwnAccount, EditPerson, InvitePerson, SetPassword
from billing.people import own_account as account
from billing.people.links import make_person_code
from billing.people.person_sessions import SignedInPerson
from billing.people.persons import create_member, ensure_owner
from billing.people.sign_in import SignIns
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.clock import now_ms
from core.errors import Refused
from core.operations import Role
from tests.billing.operations.acting import OWNER, member_of, refusal_of, stores
from tests.support.staff import signed_in_person

__all__ = ["stores"]

PASSWORD = "correct horse battery"
TAKEN = "somebody has this e-mail address already"


async def test_the_first_owner_gets_an_address_and_with_it_a_password(stores: Stores) -> None:
    """By a command, as there is nobody else yet; then they sign in by it, and approve at a terminal."""
    assert await ensure_owner(stores.db, "root") is not None
    edited = await answer_of(
        people.edit_person_of, stores, OWNER, EditPerson(person="root", email=" Root@Example.com ")
    )
    assert (edited.email, edited.name, edited.role) == ("root@example.com", "root", Role.OWNER)
    await account.set_password(stores.db, edited.person, await account.process_passwords.hash(PASSWORD))
    sign_ins = SignIns(stores.settings, stores.db, stores.redis)
    new = await sign_ins.by_password("root@example.com", PASSWORD, "192.0.2.1", "")
    assert new.signed_in.person.id == edited.person
    (row,) = [each for each in await list_rows(stores.db, PLATFORM) if each.action == "person.edit"]
    assert (row.target, row.author) == (edited.person, "Ann")
    assert "root@example.com" not in row.after


async def test_an_owner_gives_themselves_an_address(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon after they signed in; later they show the password, as for another one. A name of the staff
    stays: the audit log knows them by it."""
    olga = await signed_in_person(stores.db, "Olga", Role.OWNER)
    own = await answer_of(
        own_account.edit_own, stores, olga, EditOwnAccount(email="o@example.com", language="de")
    )
    assert (own.email, own.language, own.password) == ("o@example.com", "de", False)
    await answer_of(own_account.set_password, stores, olga, SetPassword(password=PASSWORD))
    again = EditOwnAccount(email="olga@example.com")
    with monkeypatch.context() as later:
        later.setattr(account, "now_ms", lambda: now_ms() + account.FRESH_MS)
        assert (await refusal_of(own_account.edit_own, stores, olga, again)).field == "current"
        shown = EditOwnAccount(email="olga@example.com", current=PASSWORD)
        assert (await answer_of(own_account.edit_own, stores, olga, shown)).email == "olga@example.com"
        await answer_of(own_account.edit_own, stores, olga, EditOwnAccount(language=""))
    for ask, field in (
        (EditOwnAccount(name="Oleg"), "name"),
        (EditOwnAccount(email="nonsense"), "email"),
        (EditOwnAccount(language="German!"), "language"),
    ):
        assert (await refusal_of(own_account.edit_own, stores, olga, ask)).field == field
    renamed = EditPerson(person="olga@example.com", name="Oleg")
    assert (await refusal_of(people.edit_person_of, stores, OWNER, renamed)).field == "name"
    by_themselves = EditPerson(person="olga@example.com", email="other@example.com")
    with pytest.raises(Refused, match="your own account"):
        await answer_of(people.edit_person_of, stores, olga, by_themselves, Terms(reason="moved"))


async def test_an_address_is_one_persons(stores: Stores) -> None:
    """Of two who ask at once for the same one, one has it; the other learns that it is taken, and not by
    whom. A dry run changes nothing."""
    made = [await create_member(stores.db, PLATFORM, name, "support") for name in ("Sue", "Sam")]
    asks = [EditPerson(person=each.person.id, email="desk@example.com") for each in made]
    await answer_of(people.edit_person_of, stores, OWNER, asks[0], Terms(dry_run=True))
    done = await asyncio.gather(
        *(answer_of(people.edit_person_of, stores, OWNER, ask) for ask in asks), return_exceptions=True
    )
    (refused,) = [each for each in done if isinstance(each, BaseException)]
    assert isinstance(refused, Refused)
    assert (refused.refusal.message, refused.refusal.field) == (TAKEN, "email")


async def test_an_admin_names_their_own_members(stores: Stores) -> None:
    """And nobody of another tenant, nor who belongs to others too. Addresses of members are set by the
    platform's owners: an admin would learn by trying who has an account here."""
    acme, other = [await find_tenant(stores.db, name) for name in ("acme", "other")]
    assert acme is not None
    assert other is not None
    vic = await create_member(stores.db, acme.tenant_id, "Vic", "viewer", "vic@example.com")
    await create_member(stores.db, other.tenant_id, "Eve", "admin", "eve@example.com")
    admin = member_of(acme.tenant_id, Role.ADMIN)
    named = await answer_of(
        people.edit_person_of, stores, admin, EditPerson(person="vic@example.com", name="V")
    )
    assert (named.name, named.email) == ("V", "vic@example.com")
    for address in ("eve@example.com", "free@example.com"):
        refusal = await refusal_of(
            people.edit_person_of, stores, admin, EditPerson(person="V", email=address)
        )
        assert (refusal.field, refusal.message) == ("email", "an invitation proves an address")
    foreign = EditPerson(person="eve@example.com", name="E")
    assert (await refusal_of(people.edit_person_of, stores, admin, foreign)).unknown
    invite = InvitePerson(email="vic@example.com", role=Role.VIEWER, tenant="other")
    invited = await answer_of(people.invite_person, stores, OWNER, invite)
    sign_ins = SignIns(stores.settings, stores.db, stores.redis)
    assert invited.link is not None
    code = invited.link.shown.partition("#i=")[2]
    link = await sign_ins.by_invitation(code, "", "192.0.2.1", "", await _signed_in(stores, vic.person.id))
    assert link.signed_in.person.id == vic.person.id
    refusal = await refusal_of(people.edit_person_of, stores, admin, EditPerson(person="V", name="W"))
    assert "belong to others too" in refusal.message
    moved = EditPerson(person="V", tenant="acme", email="v@example.com")
    assert (await answer_of(people.edit_person_of, stores, OWNER, moved)).email == "v@example.com"


async def _signed_in(stores: Stores, person: str) -> SignedInPerson:
    """This person's session, by a link."""
    acme = await find_tenant(stores.db, "acme")
    assert acme is not None
    code = make_person_code(stores.settings.keyring, person, acme.tenant_id, now_ms())
    new = await SignIns(stores.settings, stores.db, stores.redis).by_link(code, "192.0.2.1", "")
    return new.signed_in
