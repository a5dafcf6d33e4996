"""Prepaid money by operation: whose it is, what a dry run says, and what two edits at once become."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from billing.audit.log import list_rows
from billing.operations import corrections, tenants, wallet_views, wallets
from billing.operations.corrections import CorrectRequest, RefundRequest
from billing.operations.tenants import CreateTenant, NameTenant
from billing.operations.wallet_views import AsOf, ListOwed, SetOwed, SetWalletAlert, WalletHistory
from billing.operations.wallets import ClawBack, ExpireGrants, GrantMoney, PayOut, VoidGrant
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Change, Stores, Terms
from billing.wallets.owed import OwedTerm
from billing.wallets.wallets import grant
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import MONEY, MoneyAmount, Role, Uses, operation, operation_of
from core.sql.database import Database
from tests.billing.wallets.wallet_tenant import COST, paid, sound, use
from tests.support.redis import Redis

OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)
OUTPUT = 2_800  # of an_event()'s COST
WHY = Terms(reason="ticket 7")


@pytest.fixture
async def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """acme, with 9,000 nano under the key `g1`, and `other`."""
    made = Stores(settings, database, lambda: redis)
    for name in ("acme", "other"):
        await answer_of(tenants.create_tenant, made, OWNER, CreateTenant(name=name))
    await answer_of(wallets.grant, made, OWNER, granting("g1", 9_000), WHY)
    return made


def granting(key: str, nano: int, **more: Any) -> GrantMoney:
    """A grant to acme."""
    return GrantMoney(tenant="acme", amount=MoneyAmount.of(nano), key=key, **more)


async def left(stores: Stores) -> int:
    """What acme has left."""
    (found,) = (await answer_of(wallet_views.list_wallets, stores, OWNER, ListQuestion())).items
    assert found.name == "acme"
    return found.left.value


async def test_a_dry_run_answers_as_the_move_does_and_moves_nothing(stores: Stores, redis: Redis) -> None:
    """Every kind, with the money that it would move; the books, the log and Redis stay."""
    acme = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))).tenant
    await use(stores.db, acme, "r1")
    await answer_of(wallets.grant, stores, OWNER, granting("g2", 500), WHY)
    amount = MoneyAmount.of(100)
    for run, ask, nano in (
        (wallets.grant, granting("g3", 70), 70),
        (wallets.void_grant, VoidGrant(tenant="acme", grant="g2"), 500),
        (wallets.claw_back, ClawBack(tenant="acme", grant="g1", amount=amount, key="c"), 100),
        (wallets.pay_out, PayOut(tenant="acme", amount=amount, key="p"), 100),
        (
            corrections.correct_request,
            CorrectRequest(tenant="acme", request="r1", output=0, cause="x"),
            OUTPUT,
        ),
        (corrections.refund_request, RefundRequest(tenant="acme", request="r1", cause="y"), COST - OUTPUT),
    ):
        await redis.flushall()
        moves, before = operation_of(run), (await list_rows(stores.db, acme), await left(stores))
        would = await perform(stores, OWNER, moves, ask, Terms(reason="r", dry_run=True))
        assert (would.dry_run, would.moved_nano) == (True, nano), ask
        assert (await list_rows(stores.db, acme), await left(stores)) == before
        assert await redis.keys() == []
        for moved in (nano, 0):
            assert (await perform(stores, OWNER, moves, ask, WHY)).moved_nano == moved
    await sound(stores.db, acme)


async def test_what_is_over_is_booked_once(stores: Stores) -> None:
    """In each tenant's chain, with what was left; a dry run and a repetition book nothing."""
    tomorrow = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(now_ms() / 1000 + 86_400))
    ends = granting("g2", 500, expires=tomorrow)
    await answer_of(wallets.grant, stores, OWNER, ends, WHY)
    of_other = msgspec.structs.replace(ends, tenant="other", key="g3")
    await answer_of(wallets.grant, stores, OWNER, of_other, WHY)
    later = replace(stores, now_ms=lambda: now_ms() + 2 * 86_400_000)
    every, acme = ExpireGrants(), ExpireGrants(tenant="acme")
    assert (await answer_of(wallets.expire_grants, stores, OWNER, every, WHY)).expired == 0
    would = await answer_of(wallets.expire_grants, later, OWNER, every, Terms(reason="r", dry_run=True))
    assert would.expired == 2
    assert [
        (await answer_of(wallets.expire_grants, later, OWNER, ask, WHY)).expired
        for ask in (acme, acme, every, every)
    ] == [1, 0, 1, 0]
    for name in ("acme", "other"):
        owner = await find_tenant(stores.db, name)
        assert owner is not None
        (row, *_) = await list_rows(stores.db, owner.tenant_id)
        assert (row.action, row.target, "ticket 7" in row.after) == ("wallet.expire", owner.tenant_id, True)
        assert list(msgspec.json.decode(row.after)["unused_nano"].values()) == [500]
        await sound(stores.db, owner.tenant_id)


@operation("tests.grant", "POST /tests", may=MONEY, audit="wallet.grant", uses=Uses())
async def grant_in_silence(change: Change, ask: NameTenant) -> NameTenant:
    """Grant money without saying how much."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    await grant(change.db, owner, paid(70, "silent"))
    return ask


@pytest.mark.parametrize("dry_run", [False, True])
async def test_money_that_an_operation_does_not_say_it_moves_is_not_moved(
    stores: Stores, dry_run: bool
) -> None:
    """What the audit rows hold is what was looked at."""
    with pytest.raises(AssertionError, match="moves other money than it says"):
        await answer_of(grant_in_silence, stores, OWNER, NameTenant(tenant="acme"), Terms(dry_run=dry_run))
    assert await left(stores) == 9_000


async def test_another_tenants_money_is_unknown(stores: Stores) -> None:
    """Its wallet to members, and a grant or a request of another tenant to everybody."""
    other = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="other"))).tenant
    member = OperationActor(Author("Mia", "api"), Role.BILLING, tenant=other)
    amount = MoneyAmount.of(1)
    for who, run, ask in (
        (member, wallet_views.show_wallet, AsOf(tenant="acme")),
        (member, wallet_views.show_history, WalletHistory(tenant="acme")),
        (member, wallet_views.list_owed, ListOwed(tenant="acme")),
        (OWNER, wallets.void_grant, VoidGrant(tenant="other", grant="g1")),
        (OWNER, wallets.claw_back, ClawBack(tenant="other", grant="g1", amount=amount, key="k")),
        (OWNER, corrections.refund_request, RefundRequest(tenant="other", request="r1", cause="c")),
    ):
        with pytest.raises(Refused) as refused:
            await answer_of(run, stores, who, ask, WHY)
        assert refused.value.refusal.unknown, ask
    with pytest.raises(Refused, match="your role, billing, may not do this"):
        await answer_of(wallets.pay_out, stores, member, PayOut(tenant="other", amount=amount, key="k"), WHY)
    assert (await answer_of(wallet_views.show_wallet, stores, member, AsOf(tenant="other"))).grants == []


async def test_of_two_edits_of_a_wallet_one_is_done(stores: Stores) -> None:
    """By its version; a tenant without a wallet has nothing to edit."""
    shown = await perform(stores, OWNER, operation_of(wallet_views.show_wallet), AsOf(tenant="acme"))
    assert shown.version is not None
    terms = Terms(reason="r", version=shown.version)
    done = await asyncio.gather(
        answer_of(
            wallet_views.set_alert, stores, OWNER, SetWalletAlert(tenant="acme", thresholds=[50, 7]), terms
        ),
        answer_of(
            wallet_views.set_owed, stores, OWNER, SetOwed(tenant="acme", paid_by=OwedTerm.INVOICED), terms
        ),
        return_exceptions=True,
    )
    (refused,) = [each for each in done if isinstance(each, BaseException)]
    assert isinstance(refused, Refused)
    assert refused.refusal.code == "conflict"
    with pytest.raises(Refused, match="has no wallet"):
        await answer_of(wallet_views.set_alert, stores, OWNER, SetWalletAlert(tenant="other"), WHY)


async def test_a_time_is_the_tenants_and_a_bad_one_names_its_field(stores: Stores) -> None:
    """When a grant ends, and as of when a wallet is shown."""
    made = await answer_of(wallets.grant, stores, OWNER, granting("g2", 5, expires="2030-01-01"), WHY)
    assert made.grant.expires == "2030-01-01T00:00:00+00:00"
    for run, ask, field in (
        (wallets.grant, granting("g3", 5, expires="tomorrow"), "expires"),
        (wallet_views.show_wallet, AsOf(tenant="acme", as_of="later"), "as_of"),
    ):
        with pytest.raises(Refused, match="is no time") as refused:
            await answer_of(run, stores, OWNER, ask, WHY)
        assert refused.value.refusal.field == field


@pytest.mark.parametrize("amount", [{"nano": "1e3"}, {"nano": "9" * 20}, {"nano": "5", "currency": "EUR"}])
def test_what_is_no_amount_is_no_struct(amount: dict[str, str]) -> None:
    """Other numbers, sizes and currencies end at the edge."""
    with pytest.raises(msgspec.ValidationError, match="amount"):
        msgspec.convert({"tenant": "acme", "key": "k", "amount": amount}, GrantMoney)
