"""What may be put into a wallet, in which order it goes, and what ends when: at the limits themselves."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import col

from billing.audit.log import list_rows
from billing.ledger.grant_spending import Grant, GrantKind, SpendableWallet, TopUp
from billing.limits import LIMIT_NANO_MAX
from billing.periods import LAST_MS
from billing.tables.ledger import LedgerEntry
from billing.tables.wallets import BudgetAlert, Wallet, WalletGrant
from billing.wallets import undo, wallets
from billing.wallets.owed import OwedTerm, set_owed_term
from billing.wallets.undo import Undo, UndoKind, book_undo
from billing.wallets.wallets import (
    NewGrant,
    expire,
    grant,
    list_grants,
    set_low_percents,
    tenants_with_expired,
    wallet_state,
)
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.ledger.ledger_reading import read
from tests.billing.wallets.wallet_tenant import COST, a_tenant, paid, promo, sound, use

SOON = now_ms() + 3_600_000


def refuses(check: Callable[..., object], *arguments: object) -> bool:
    """Whether it cannot be."""
    try:
        check(*arguments)
    except Refused:
        return True
    return False


async def change(db: Database, table: Any, key: str, **values: Any) -> None:
    """A grant or wallet, behind the code's back."""
    async with db.transaction() as session:
        where = (
            col(WalletGrant.idempotency_key) == key if table is WalletGrant else col(Wallet.tenant_id) == key
        )
        await (await session.connection()).execute(update(table).where(where).values(**values))


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("amount_nano", (1, LIMIT_NANO_MAX), (0, LIMIT_NANO_MAX + 1)),
        ("priority", (None, 0, 100), (-1, 101)),
        ("idempotency_key", ("!", "~" * 200), ("", "x" * 201, "a b", "é", "a\n")),
        ("note", ("x" * 500,), ("x" * 501,)),
        ("author", ("x" * 500,), ("x" * 501,)),
    ],
)
def test_a_grant_is_within_its_bounds(name: str, taken: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    """Each at its limit, and just beyond."""
    good = NewGrant(GrantKind.PAID, 1, "k")
    assert [refuses(wallets._check, replace(good, **{name: value})) for value in taken] == [False] * len(
        taken
    )
    assert [refuses(wallets._check, replace(good, **{name: value})) for value in refused] == [True] * len(
        refused
    )


async def test_a_wallet_has_room_for_so_much_and_so_many(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is spent takes none. A grant ends later than now, and before time does."""
    tenant = await a_tenant(sqlite)
    assert (wallets.OPEN_MAX, undo.GRANTS_MAX) == (1_000, 1_000)
    monkeypatch.setattr(wallets, "OPEN_MAX", 2)
    monkeypatch.setattr(wallets, "now_ms", lambda: SOON)
    for ends_ms in (SOON, LAST_MS):
        with pytest.raises(Refused, match="in the future"):
            await grant(sqlite, tenant, paid(1, "a", ends_ms))
    await grant(sqlite, tenant, paid(1, "a", SOON + 1))
    await grant(sqlite, tenant, paid(LIMIT_NANO_MAX - 2, "b", LAST_MS - 1))
    with pytest.raises(Refused, match="2 grants are open"):
        await grant(sqlite, tenant, paid(1, "c"))
    await change(sqlite, WalletGrant, "a", left_nano=0)
    with pytest.raises(Refused, match="what a wallet has left"):
        await grant(sqlite, tenant, paid(3, "c"))
    await grant(sqlite, tenant, paid(2, "c"))


async def test_a_key_is_that_of_one_grant(sqlite: Database) -> None:
    """Of its kind, amount, priority and end; a priority that is not said is that of its kind."""
    tenant = await a_tenant(sqlite)
    made, _ = await grant(sqlite, tenant, promo(5, "k", expires_ms=SOON))
    same = NewGrant(GrantKind.PROMO, 5, "k", None, SOON)
    assert await grant(sqlite, tenant, same) == (made, False)
    for other in ({"kind": GrantKind.PAID}, {"amount_nano": 6}, {"priority": 11}, {"expires_ms": SOON + 1}):
        with pytest.raises(Refused, match="another grant"):
            await grant(sqlite, tenant, replace(same, **other))
    assert (await grant(sqlite, tenant, paid(5, "p")))[0].priority == 50


async def test_what_a_grant_pays(sqlite: Database) -> None:
    """It pays what is owed, as far as it goes, where that is the tenant's term."""
    tenant = await a_tenant(sqlite)
    await grant(sqlite, tenant, paid(COST - 17, "a"))
    await use(sqlite, tenant, "r1")
    for key, amount, left in (("b", 6, 0), ("c", 4, 0), ("d", 10, 3)):
        assert (await grant(sqlite, tenant, paid(amount, key)))[0].left_nano == left
    await use(sqlite, tenant, "r2")
    await set_owed_term(sqlite, tenant, OwedTerm.INVOICED)
    assert (await grant(sqlite, tenant, paid(10, "e")))[0].left_nano == 10


async def test_alerts_go_by_the_last_payment_and_by_promo_money_where_there_is_none(sqlite: Database) -> None:
    """A present hides no bill."""
    tenant = await a_tenant(sqlite)
    for new, top_up in ((promo(5, "a"), 5), (promo(6, "b"), 5), (paid(7, "c"), 7), (promo(8, "d"), 7)):
        await grant(sqlite, tenant, new)
        (wallet,) = await read(sqlite, Wallet, tenant)
        assert (wallet.top_up_nano, wallet.low_percents) == (top_up, [20, 5])
    (of,) = [row for row in await list_grants(sqlite, tenant) if row.id == wallet.top_up_grant_id]
    assert of.idempotency_key == "c"


async def test_a_wallet_alerts_at_up_to_twenty_per_cents(sqlite: Database) -> None:
    """Each once, the highest first; of a tenant without one there is nothing to set."""
    tenant = await a_tenant(sqlite)
    assert not await set_low_percents(sqlite, tenant, [5])
    await grant(sqlite, tenant, paid(5, "a"))
    for percents in ([0, 5], [5, 101], list(range(1, 22))):
        with pytest.raises(Refused, match="20 per cents at most, each from 1 to 100"):
            await set_low_percents(sqlite, tenant, percents)
    assert await set_low_percents(sqlite, tenant, [1, 100, 7, 7, *range(11, 27)])
    (wallet,) = await read(sqlite, Wallet, tenant)
    assert wallet.low_percents == [100, *range(26, 10, -1), 7, 1]
    (told,) = [row for row in await list_rows(sqlite, tenant) if row.action == "wallet.alert"]
    assert [json.loads(each)["low_percents"] for each in (told.before, told.after)] == [
        [20, 5],
        wallet.low_percents,
    ]


async def test_grants_are_listed_in_the_order_in_which_they_go(sqlite: Database) -> None:
    """What is gone last, whatever its priority."""
    tenant = await a_tenant(sqlite)
    for new in (
        promo(1, "gone", priority=0),
        paid(1, "ever"),
        paid(1, "ever_too"),
        paid(1, "later", SOON + 1),
        paid(1, "soon", SOON),
        promo(1, "first"),
    ):
        await grant(sqlite, tenant, new)
    await change(sqlite, WalletGrant, "gone", left_nano=0, expires_ms=SOON - 1)
    ordered = ["first", "soon", "later", "ever", "ever_too", "gone"]
    assert [row.idempotency_key for row in await list_grants(sqlite, tenant)] == ordered
    for at_ms, left, next_ms in (
        (SOON - 2, 5, SOON),
        (SOON - 1, 5, SOON),
        (SOON, 4, SOON + 1),
        (SOON + 1, 3, None),
    ):
        state = await wallet_state(sqlite, tenant, at_ms)
        assert state is not None
        assert (state.limit_nano, state.posted_nano, state.line_seq, state.next_expiry_ms) == (
            left,
            0,
            0,
            next_ms,
        )


async def test_some_grants_end_at_once_those_that_ended_first(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last nano, at their millisecond; the others with the next call."""
    tenant = await a_tenant(sqlite)
    monkeypatch.setattr(wallets, "EXPIRED_AT_ONCE", 2)
    for number in (2, 0, 1, 3):
        await grant(sqlite, tenant, promo(1, str(number), expires_ms=SOON + number))
    assert [len(await expire(sqlite, tenant, SOON - 1)), await tenants_with_expired(sqlite, SOON - 1)] == [
        0,
        [],
    ]
    ended: list[list[tuple[str, int]]] = []
    while await tenants_with_expired(sqlite, SOON + 2) == [tenant]:
        found = await expire(sqlite, tenant, SOON + 2)
        ended.append([(row.idempotency_key, unused) for row, unused in found])
    assert ended == [[("0", 1), ("1", 1)], [("2", 1)]]
    await sound(sqlite, tenant)
    names = [row.account for row in await read(sqlite, LedgerEntry, tenant) if row.amount_nano == -1]
    assert names.count("breakage") == 3


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("amount_nano", (1, LIMIT_NANO_MAX), (0, -1, LIMIT_NANO_MAX + 1)),
        ("key", ("!", "x" * 200), ("", "a b", "x" * 201)),
        ("reason", ("x",), ("", "\n")),
    ],
)
def test_what_is_undone_is_within_its_bounds(
    name: str, taken: tuple[Any, ...], refused: tuple[Any, ...]
) -> None:
    """A void takes all there is and needs no name of its own; a reason it has."""
    for kind in (UndoKind.CLAW_BACK, UndoKind.PAY_OUT):
        good = Undo(kind, "g", 1, "k", "r")
        assert not any(refuses(undo._check, replace(good, **{name: value})) for value in taken)
        assert all(refuses(undo._check, replace(good, **{name: value})) for value in refused)
    void = Undo(UndoKind.VOID, "g", 0, "", "r")
    assert all(
        refuses(undo._check, replace(void, **{name: value})) is (name == "reason") for value in refused
    )
    assert (void.txn_key, replace(void, kind=UndoKind.PAY_OUT, key="k").txn_key) == ("void:g", "pay_out:k")


@pytest.mark.parametrize(("expires_ms", "left_nano"), [(None, 10), (101, 10), (100, 0)])
def test_all_that_is_left_can_be_clawed_back_and_no_nano_more(expires_ms: int | None, left_nano: int) -> None:
    """Of a grant that has ended nothing is."""
    table: Any = WalletGrant
    row = table(left_nano=10, expires_ms=expires_ms)
    for amount_nano in (left_nano, left_nano + 1):
        of = Undo(UndoKind.CLAW_BACK, "g", amount_nano, "k", "r")
        assert refuses(undo._left_for, of, row, 100) is (amount_nano > left_nano)


async def test_what_was_taken_is_recorded_with_its_grants(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a grant is known by its id before another's key. So many grants are paid out at once."""
    tenant = await a_tenant(sqlite)
    first, _ = await grant(sqlite, tenant, paid(10, "a"))
    second, _ = await grant(sqlite, tenant, paid(20, first.id))
    await book_undo(sqlite, tenant, Undo(UndoKind.CLAW_BACK, first.id, 4, "k", "why"))
    await book_undo(sqlite, tenant, Undo(UndoKind.PAY_OUT, "", 22, "p", "why"))
    await book_undo(sqlite, tenant, Undo(UndoKind.CLAW_BACK, first.id, 4, "k", "why"))
    told = [
        row for row in await list_rows(sqlite, tenant) if row.action in ("wallet.claw_back", "wallet.pay_out")
    ]
    assert [(row.action, row.target, json.loads(row.after)) for row in told[::-1]] == [
        (
            "wallet.claw_back",
            first.id,
            {"reason": "why", "key": "k", "amount_nano": 4, "grants": {first.id: 4}},
        ),
        (
            "wallet.pay_out",
            tenant,
            {"reason": "why", "key": "p", "amount_nano": 22, "grants": {second.id: 20, first.id: 2}},
        ),
    ]
    rows = {row.id: (row.left_nano, row.taken_nano) for row in await list_grants(sqlite, tenant)}
    assert rows == {first.id: (4, 6), second.id: (0, 20)}
    await grant(sqlite, tenant, paid(1, "b"))
    monkeypatch.setattr(undo, "GRANTS_MAX", 1)
    with pytest.raises(Refused, match=r"\$0.000000001 of paid money"):
        await book_undo(sqlite, tenant, Undo(UndoKind.PAY_OUT, "", 2, "q", "why"))


async def test_what_is_taken_tells_that_little_is_left(sqlite: Database) -> None:
    """At the per cents of the last payment, as spending does; nothing is taken of nothing."""
    tenant = await a_tenant(sqlite)
    made, _ = await grant(sqlite, tenant, paid(100, "a"))
    for amount, key in ((79, "k1"), (1, "k2"), (15, "k3")):
        await book_undo(sqlite, tenant, Undo(UndoKind.CLAW_BACK, made.id, amount, key, "why"))
    told = [(row.threshold, row.spent_nano) for row in await read(sqlite, BudgetAlert, tenant)]
    assert sorted(told) == [(5, 95), (20, 80)]
    with pytest.raises(Refused, match="above 0"):
        await book_undo(sqlite, tenant, Undo(UndoKind.CLAW_BACK, made.id, 0, "k4", "why"))


def test_an_empty_grant_pays_for_nothing_and_says_nothing() -> None:
    """Whether it was empty before, or became so: no use of nothing is written."""
    grants = [
        Grant(name, "paid", 0, left, None, at)
        for at, (name, left) in enumerate((("a", 0), ("b", 5), ("c", 9)))
    ]
    wallet = SpendableWallet("t", 0, TopUp("", 0), (), grants, 2)
    wallet.charge("r1", 5)
    wallet.charge("r0", 0)
    wallet.charge("r2", 1)
    assert [(each.request_id, each.grant_id, each.amount_nano) for each in wallet.uses] == [
        ("r1", "b", 5),
        ("r2", "c", 1),
    ]
