"""Operations of people on their own account hold nobody else up, however often they are called."""

import asyncio
import threading

import msgspec
import pytest

from billing.audit.log import list_rows
from billing.operations import own_account, people, tenants
from billing.operations.own_account import EDITS_A_MINUTE
from billing.operations.people_facts import InvitePerson, NoQuestion, SetPassword
from billing.operations.tenants import CreateTenant
from billing.people import own_account as account
from billing.people.actors import actor_of_cookie
from billing.people.memberships import join, lock_people
from billing.people.passwords import Passwords
from billing.people.sign_in import SignIns
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from core.clock import now_ms
from core.errors import Refused
from core.operations import Role, operation_of
from tests.billing.operations.acting import OWNER, stores
from tests.support.patience import wait_until
from tests.support.staff import signed_in_person

__all__ = ["stores"]

PASSWORD = SetPassword(password="correct horse battery")


@pytest.fixture
async def viewer(stores: Stores) -> OperationActor:
    """A viewer of acme, signed in."""
    ask = InvitePerson(email="vic@example.com", role=Role.VIEWER, tenant="acme")
    invited = await answer_of(people.invite_person, stores, OWNER, ask)
    assert invited.link is not None
    code = invited.link.shown.partition("#i=")[2]
    new = await SignIns(stores.settings, stores.db, stores.redis).by_invitation(code, "Vic", "192.0.2.1", "")
    who = await actor_of_cookie(stores.db, new.token, loopback=True)
    assert who is not None
    return who


async def test_nobody_waits_for_a_hash(
    stores: Stores, viewer: OperationActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write while it is made, which takes long and many may ask for at once."""
    hashing, go_on = threading.Event(), threading.Event()

    def slow(_: str) -> str:
        hashing.set()
        go_on.wait()
        return "hash"

    few = Passwords(at_once=1, waiting_max=1)
    monkeypatch.setattr(few, "hash", lambda password: few._one_of_few(slow, password))
    monkeypatch.setattr(own_account, "process_passwords", few)
    sets = [asyncio.create_task(answer_of(own_account.set_password, stores, viewer, PASSWORD)) for _ in "abc"]
    await asyncio.to_thread(hashing.wait)
    try:
        await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="meanwhile"))
        await wait_until(lambda: any(each.done() for each in sets))  # the third, where two are too many
    finally:
        go_on.set()
    done = await asyncio.gather(*sets, return_exceptions=True)
    assert len([each for each in done if isinstance(each, Refused) and each.refusal.retry]) == 1


async def test_an_account_is_changed_so_often(stores: Stores, viewer: OperationActor) -> None:
    """Dry runs count too; what is refused then is no row of the audit log. Who else asks is not refused."""
    enroll = operation_of(own_account.enroll_totp)
    for number in range(EDITS_A_MINUTE):
        await perform(stores, viewer, enroll, NoQuestion(), Terms(dry_run=number % 2 == 0))
    before = await list_rows(stores.db, PLATFORM)
    for run, ask in ((own_account.enroll_totp, NoQuestion()), (own_account.set_password, PASSWORD)):
        with pytest.raises(Refused, match="very often") as refused:
            await answer_of(run, stores, viewer, ask)
        assert refused.value.refusal.after_ms
    assert await list_rows(stores.db, PLATFORM) == before
    await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="meanwhile"))


async def test_a_session_is_no_key_to_its_person(
    stores: Stores, viewer: OperationActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gets into one that was opened long ago, or who made a link into it before its person joined
    others, sets no password without the present one."""
    again = SetPassword(password="another pass phrase")
    await answer_of(own_account.set_password, stores, viewer, PASSWORD)
    await answer_of(own_account.set_password, stores, viewer, PASSWORD)
    with monkeypatch.context() as later:
        later.setattr(account, "now_ms", lambda: now_ms() + account.FRESH_MS)
        with pytest.raises(Refused, match="present password") as refused:
            await answer_of(own_account.set_password, stores, viewer, again)
        assert refused.value.refusal.field == "current"
        wrong = msgspec.structs.replace(again, current="nonsense")
        with pytest.raises(Refused, match="not your present"):
            await answer_of(own_account.set_password, stores, viewer, wrong)
        right = msgspec.structs.replace(again, current=PASSWORD.password)
        await answer_of(own_account.set_password, stores, viewer, right)
    other = await find_tenant(stores.db, "other")
    assert other is not None
    async with stores.db.transaction() as session:
        await lock_people(session, other.tenant_id)
        await join(session, other.tenant_id, viewer.id, "viewer")
    with pytest.raises(Refused, match="present password"):
        await answer_of(own_account.set_password, stores, viewer, PASSWORD)
    right = msgspec.structs.replace(PASSWORD, current=again.password)
    await answer_of(own_account.set_password, stores, viewer, right)


async def test_a_password_needs_an_address_to_sign_in_with(stores: Stores) -> None:
    """The first owner has none: a password that signs nobody in is refused, with what else there is."""
    nameless = await signed_in_person(stores.db, "Olga", Role.OWNER)
    with pytest.raises(Refused, match="you have none: set that first"):
        await answer_of(own_account.set_password, stores, nameless, PASSWORD)
