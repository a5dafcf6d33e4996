"""Prepaid money: what pays for what, in which order, and that the books, the grants and the lines agree."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.booking.adjustments import Correction, correct
from billing.ledger.grant_spending import Grant, GrantKind, SpendableWallet, TopUp
from billing.limits import LIMIT_NANO_MAX
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.tables.ledger import LedgerHead, LedgerTxn
from billing.tables.wallets import WalletUse
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageEvent, encode
from billing.wallets.wallets import (
    NewGrant,
    expire,
    grant,
    list_grants,
    tenants_with_expired,
    wallet_state,
)
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.wallets.wallet_tenant import COST, a_tenant, balances, paid, promo, sound, use

HOUR_MS = 3_600_000


async def test_a_top_up_is_made_once_however_often_it_is_asked_for(database: Database) -> None:
    """The same key is the same grant; another under it is
    refused, and so is the same at once from several processes."""
    tenant = await a_tenant(database)
    made = await asyncio.gather(*(grant(database, tenant, paid(10_000, "cs_1")) for _ in range(4)))
    assert sorted(new for _, new in made) == [False, False, False, True]
    assert len({row.id for row, _ in made}) == 1
    with pytest.raises(Refused, match="another grant"):
        await grant(database, tenant, paid(10_001, "cs_1"))
    assert await balances(database, tenant) == {"wallet:paid": -10_000, "stripe_clearing": 10_000}
    await sound(database, tenant)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0, None, 9), (1, 5, 1)),  # the lower priority, though it is younger and has no end
        ((1, 5, 9), (1, 6, 1)),  # what expires first, though it is younger
        ((1, 6, 9), (1, None, 1)),  # what expires at all
        ((1, 5, 1), (1, 5, 9)),  # the older one
        ((1, None, 1), (1, None, 9)),
    ],
)
def test_of_two_grants_the_first_one_pays(
    first: tuple[int, int | None, int], second: tuple[int, int | None, int]
) -> None:
    """(priority, expires_ms, created_ms): whichever was read first, and though neither is used up. What goes
    back goes to the last one."""
    for swapped in (False, True):
        names = [("first", first), ("second", second)]
        grants = [
            Grant(name, GrantKind.PROMO, priority, 100, expires, created)
            for name, (priority, expires, created) in (names[::-1] if swapped else names)
        ]
        wallet = SpendableWallet("t", 0, TopUp("", 0), [], grants, 2)
        wallet.charge("r", 70)
        assert wallet.changed == {"first": 30}
        wallet.charge("r", 50)
        assert wallet.changed == {"first": 0, "second": 80}
        wallet.give_back("r", 30, 120, {"first": 100, "second": 20})
        assert wallet.changed == {"first": 10, "second": 100}


async def test_grants_are_spent_by_priority_then_expiry_then_age_and_the_rest_is_owed(
    database: Database,
) -> None:
    """Every nano is on an account."""
    tenant, soon = await a_tenant(database), now_ms() + HOUR_MS
    await grant(database, tenant, paid(2_000, "p"))
    await grant(database, tenant, promo(1_000, "late", expires_ms=soon + 1))
    await grant(database, tenant, promo(900, "soon", expires_ms=soon))
    await grant(database, tenant, promo(500, "first", expires_ms=soon + 9, priority=0))
    await use(database, tenant, "r1")
    left = {row.idempotency_key: row.left_nano for row in await list_grants(database, tenant)}
    assert left == {"first": 0, "soon": 0, "late": 0, "p": 700}
    await use(database, tenant, "r2")
    found = await balances(database, tenant)
    assert (found["receivable"], found.get("wallet:paid")) == (3_000, None)
    state = await wallet_state(database, tenant, now_ms())
    assert state is not None
    assert (state.limit_nano, state.posted_nano, state.line_seq) == (2 * COST, 2 * COST, 8)
    await sound(database, tenant)


async def test_a_tenant_without_a_wallet_owes_and_has_no_state(database: Database) -> None:
    """What was posted before the wallet was opened stays owed, and its corrections too."""
    tenant = await a_tenant(database)
    await use(database, tenant, "before")
    assert await wallet_state(database, tenant, now_ms()) is None
    await grant(database, tenant, paid(10_000, "p"))
    await correct(database, tenant, Correction("before", {Meter.OUTPUT: 0}, "x"))
    assert (await balances(database, tenant))["receivable"] == 900
    state = await wallet_state(database, tenant, now_ms())
    assert state is not None
    assert (state.limit_nano, state.posted_nano) == (10_000, 0)
    await sound(database, tenant)


async def test_what_is_unused_of_a_grant_ends_at_its_time_once(database: Database) -> None:
    """An expired grant pays for nothing, also before its rest is
    booked as breakage, which several processes do once."""
    tenant, ends = await a_tenant(database), now_ms() + HOUR_MS
    await grant(database, tenant, promo(5_000, "promo", expires_ms=ends))
    await grant(database, tenant, paid(9_000, "p"))
    await use(database, tenant, "r1")
    before = await wallet_state(database, tenant, ends - 1)
    after = await wallet_state(database, tenant, ends)
    assert before is not None
    assert after is not None
    assert (before.limit_nano - after.limit_nano, before.next_expiry_ms) == (1_300, ends)
    assert await tenants_with_expired(database, ends - 1) == []
    assert await tenants_with_expired(database, ends) == [tenant]
    booked = await asyncio.gather(*(expire(database, tenant, ends) for _ in range(3)))
    assert sorted(len(each) for each in booked) == [0, 0, 1]
    assert (await balances(database, tenant))["breakage"] == -1_300
    assert await tenants_with_expired(database, ends) == []
    assert await wallet_state(database, tenant, ends) == after
    await sound(database, tenant)


def test_an_expired_grant_pays_for_nothing() -> None:
    """From its very millisecond on."""
    spent = Grant("g", "promo", 10, 100, 5_000, 0)
    for at, left in ((4_999, 60), (5_000, 100)):
        wallet = SpendableWallet("t1", 0, TopUp("", 0), (), [Grant(**vars(spent))], at)
        wallet.charge("r1", 40)
        assert wallet.grants[0].left_nano == left


async def test_a_correction_gives_back_to_the_grants_that_paid(database: Database) -> None:
    """What was owed first, then the last that was spent; what goes to an expired grant ends with it."""
    tenant, ends = await a_tenant(database), now_ms() + HOUR_MS
    await grant(database, tenant, promo(1_000, "promo", expires_ms=ends))
    await grant(database, tenant, paid(2_000, "p"))
    await use(database, tenant, "r1")
    await correct(database, tenant, Correction("r1", {Meter.OUTPUT: 3}, "1"))  # 1,600 less: 700 were owed
    found = await balances(database, tenant)
    assert (found.get("receivable"), found["wallet:paid"], found.get("wallet:promo")) == (None, -900, None)
    await correct(database, tenant, Correction("r1", {Meter.OUTPUT: 0, Meter.INPUT: 0}, "2"))
    assert (await balances(database, tenant))["wallet:promo"] == -900
    await sound(database, tenant)
    assert [unused for _, unused in await expire(database, tenant, ends)] == [900]
    await correct(database, tenant, Correction("r1", {Meter.CACHED_INPUT: 0}, "3"))
    assert [unused for _, unused in await expire(database, tenant, ends)] == [100]
    assert await balances(database, tenant) == {
        "stripe_clearing": 2_000,
        "promo_expense": 1_000,
        "wallet:paid": -2_000,
        "breakage": -1_000,
    }
    await sound(database, tenant)


async def test_order_and_repeats_of_events_change_no_total_of_a_wallet(database: Database) -> None:
    """Batches in any order, twice, by two billers: each
    grant has left what it has left when all came once, in order."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    costs = [chosen.choice((0, 1, 333, 9_999)) for _ in range(40)]
    outcomes: list[object] = []
    for shuffled in (False, True):
        tenant = (await create_tenant(database, f"acme {shuffled}")).tenant_id
        await grant(database, tenant, promo(40_000_000, "a"))
        await grant(database, tenant, paid(30_000_000, "b"))
        events = [an_event(f"r{n}", tenant, output_text=cost) for n, cost in enumerate(costs)]
        if shuffled:
            events += chosen.sample(events, 20)
            chosen.shuffle(events)
        batches = [events[at : at + 7] for at in range(0, len(events), 7)]
        for first, second in zip(batches[::2], [*batches[1::2], []], strict=False):
            await asyncio.gather(_post(database, first), _post(database, second))
        await sound(database, tenant)
        left = {row.idempotency_key: row.left_nano for row in await list_grants(database, tenant)}
        state = await wallet_state(database, tenant, now_ms())
        assert state is not None
        outcomes.append((left, await balances(database, tenant), state.posted_nano))
    assert outcomes[0] == outcomes[1]


async def _post(database: Database, events: Sequence[UsageEvent]) -> None:
    if events:
        await post(database, "default", [encode(event) for event in events])


async def test_any_sequence_of_grants_usage_expiry_and_corrections_keeps_the_books(
    database: Database,
) -> None:
    """Whatever happens to a wallet: it is never below zero, every transaction sums to zero, and the ledger
    says what the grants say. No refund is more than what was paid."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen, tenant, number = random.Random(seed), await a_tenant(database), 0
    clock = now_ms()
    for step in range(45):
        match chosen.choice(("grant", "use", "use", "correct", "expire")):
            case "grant":
                ends = chosen.choice((None, clock + HOUR_MS * chosen.randrange(1, 40)))
                new = NewGrant(
                    chosen.choice(list(GrantKind)), chosen.randrange(1, 20_000), f"g{step}", None, ends
                )
                await grant(database, tenant, new)
            case "use":
                names = [f"r{number + more}" for more in range(chosen.randrange(1, 4))]
                number += len(names)
                await use(database, tenant, *names)
            case "correct" if number:
                meter = chosen.choice((Meter.OUTPUT, Meter.INPUT, Meter.CACHED_INPUT))
                request = f"r{chosen.randrange(number)}"
                wanted = Correction(request, {meter: chosen.randrange(20)}, f"c{step}")
                await correct(database, tenant, wanted)
            case _:
                await expire(database, tenant, clock + HOUR_MS * chosen.randrange(40))
    await sound(database, tenant)
    net: dict[str, int] = {}
    for row in await read(database, WalletUse, tenant):
        net[row.request_id] = net.get(row.request_id, 0) + row.amount_nano
    assert min(net.values(), default=0) >= 0


grants = st.lists(
    st.builds(
        Grant,
        id=st.uuids().map(str),
        kind=st.sampled_from(["paid", "promo"]),
        priority=st.integers(0, 3),
        left_nano=st.integers(0, 50),
        expires_ms=st.none() | st.integers(0, 20),
        created_ms=st.integers(0, 5),
    ),
    max_size=6,
)


@given(grants, st.lists(st.integers(0, 60), max_size=8), st.data())
def test_a_wallet_pays_all_it_can_and_takes_back_what_it_paid(
    given_grants: list[Grant], costs: list[int], data: st.DataObject
) -> None:
    """In any order of costs the same is left of each grant; given back in full, all is as it was."""
    before = {each.id: each.left_nano for each in given_grants}

    def wallet() -> SpendableWallet:
        return SpendableWallet("t1", 0, TopUp("", 0), (), [Grant(**vars(each)) for each in given_grants], 10)

    one, other = wallet(), wallet()
    usable = one.left_nano
    paid_by = {f"r{n}": one.charge(f"r{n}", cost) for n, cost in enumerate(costs)}
    assert sum(sum(each.values()) for each in paid_by.values()) == min(usable, sum(costs))
    for n, cost in enumerate(data.draw(st.permutations(costs))):
        other.charge(f"r{n}", cost)
    assert {each.id: each.left_nano for each in one.grants} == {
        each.id: each.left_nano for each in other.grants
    }
    for n, cost in enumerate(costs):
        used: dict[str, int] = {}
        for taken in [each for each in one.uses if each.request_id == f"r{n}"]:
            used[taken.grant_id] = used.get(taken.grant_id, 0) + taken.amount_nano
        one.give_back(f"r{n}", cost, cost, used)
    assert {each.id: each.left_nano for each in one.grants} == before
    assert one.cost_nano == 0


@pytest.mark.parametrize(
    "new",
    [
        paid(0, "a"),
        paid(-1, "a"),
        paid(LIMIT_NANO_MAX + 1, "a"),
        paid(1, ""),
        paid(1, "with space"),
        paid(1, "a", expires_ms=1),
        promo(1, "a", priority=101),
        NewGrant(GrantKind.PAID, 1, "a", note="x" * 501),
    ],
)
async def test_grants_that_cannot_be_are_refused(sqlite: Database, new: NewGrant) -> None:
    """Nothing is booked and no wallet is opened."""
    tenant = await a_tenant(sqlite)
    with pytest.raises(Refused):
        await grant(sqlite, tenant, new)
    assert await wallet_state(sqlite, tenant, now_ms()) is None
    assert await read(sqlite, LedgerTxn, tenant) == []


async def test_what_a_wallet_holds_in_all_is_bounded(sqlite: Database) -> None:
    """By what the scripts of Redis count exactly. What was ever spent is not."""
    tenant = await a_tenant(sqlite)
    await grant(sqlite, tenant, paid(LIMIT_NANO_MAX, "a"))
    with pytest.raises(Refused, match="at most"):
        await grant(sqlite, tenant, paid(1, "b"))
    with pytest.raises(Refused, match="no such tenant"):
        await grant(sqlite, "nobody", paid(1, "b"))
    heads: list[LedgerHead] = await read(sqlite, LedgerHead, tenant)
    assert heads[0].txn_seq == 1
