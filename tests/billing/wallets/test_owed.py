"""What a grant pays after its end, what a prepaid tenant owes, and how the next grant pays that."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from billing.audit.compare import compare_states
from billing.booking.adjustments import Correction, correct
from billing.cli.prices import prices_command
from billing.cli.tenants import tenants_command
from billing.ledger.grant_rows import load_wallets
from billing.ledger.grant_spending import Grant, SpendableWallet, TopUp
from billing.ledger.transactions import BREAKAGE
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.quota.types import Admitted
from billing.reconciliation.ledger import compare_derived, compare_ledger
from billing.tables.wallets import WalletGrant, WalletOwed
from billing.usage import encode
from billing.wallets.owed import Owed, OwedTerm, allot_payment, owed_by, set_owed_term
from billing.wallets.wallets import expire, grant, list_grants
from core.clock import now_ms
from core.errors import Refusal
from core.sql.database import Database
from tests.billing.acme import COMMANDS, Acme
from tests.billing.cli.commands import rows
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.billing.wallets.wallet_tenant import COST as EVENT_COST
from tests.billing.wallets.wallet_tenant import a_tenant, balances, paid, promo, sound, use

OF = ("--tenant", "acme")
ENDED = 5_000  # how many ms ago the grant of these tests ended


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    monkeypatch.setitem(COMMANDS, "tenants", tenants_command)
    monkeypatch.setitem(COMMANDS, "prices", prices_command)
    return Acme(home, redis_url, sqlite_template)


async def end_grants(books: QuotaLedger) -> None:
    """All grants ended ENDED ms ago."""
    async with books.db.engine.begin() as connection:
        ends = {"at": now_ms() - ENDED}
        await connection.execute(text("UPDATE wallet_grant SET expires_ms = :at"), ends)
    books.book.changed(books.tenant)


def given_money(acme: Acme, nano: int, key: str, *arguments: str) -> dict[str, Any]:
    """A grant by command; what it says."""
    amount = f"{nano / 1e9:.9f} USD"
    return rows(acme.parley("wallets", "grant", *OF, "--amount", amount, "--key", key, "--json", *arguments))[
        0
    ]


def test_a_grant_that_ends_mid_answer_pays_what_was_asked_for_before_its_end(acme: Acme) -> None:
    """INV-32: Also where its rest was booked as breakage before the biller came. What was asked for later it
    does not pay."""
    given_money(acme, 1_000, "promo", "--kind", "promo", "--expires", "2099-01-01")
    assert isinstance(acme.asks("a"), Admitted)
    acme.does(end_grants)
    assert rows(acme.parley("wallets", "expire", *OF, "--json")) == [{"expired": 1}]
    acme.does(lambda books: books.spend("a", accepted_ms=now_ms() - 2 * ENDED))
    acme.agrees()
    (listed,) = rows(acme.parley("wallets", "list", "--json"))
    assert (listed["left_nano"], listed["used_nano"], listed["owed_nano"]) == (0, COST, 0)
    history = rows(acme.parley("wallets", "show", *OF, "--history", "--json"))
    assert [(each["kind"], each["amount_nano"]) for each in history] == [
        ("grant", 1_000),
        ("expire", -1_000),
        ("revive", COST),
        ("usage", -COST),
    ]
    acme.does(lambda books: books.spend("b"))
    assert rows(acme.parley("wallets", "owed", *OF, "--json"))[0]["owed_nano"] == COST


def test_what_is_owed_is_a_line_wherever_money_is_shown(acme: Acme) -> None:
    """Wallet, statement, tenant, usage and month."""
    given_money(acme, COST + 10, "first")
    for name in ("a", "b"):
        acme.does(lambda books, name=name: books.booked(name, ended_ms=now_ms()))
    month = f"{datetime.now(UTC):%Y-%m}"
    line = f"owed beyond the wallet: $0.0000000{COST - 10}"
    for command in (
        ("wallets", "show", *OF),
        ("wallets", "show", *OF, "--history"),
        ("wallets", "owed", *OF),
        ("usage", "show", *OF),
        ("prices", "close-period", *OF, "--month", month, "--dry-run"),
    ):
        assert line in acme.parley(*command).output, command
    shown = rows(acme.parley("tenants", "show", "acme", "--json"))[0]
    assert (shown["pays"], shown["owed_nano"]) == ("prepaid", COST - 10)
    assert "owed" in acme.parley("wallets", "list").output


def test_the_next_grant_pays_what_is_owed_first_and_says_so_before(acme: Acme) -> None:
    """By the tenant's term; a dry run changes nothing."""
    given_money(acme, 20, "first")
    acme.spends("a")
    planned = given_money(acme, 100, "second", "--dry-run")
    assert (planned["pays_owed_nano"], planned["left_nano"], planned["done"]) == (
        COST - 20,
        120 - COST,
        "nothing: a dry run",
    )
    assert rows(acme.parley("wallets", "list", "--json"))[0]["owed_nano"] == COST - 20
    acme.parley("wallets", "owed", *OF, "--paid-by", "invoiced")
    assert given_money(acme, 100, "second", "--dry-run")["pays_owed_nano"] == 0
    acme.parley("wallets", "owed", *OF, "--paid-by", "next_grant")
    made = given_money(acme, 100, "second")
    assert (made["paid_owed_nano"], made["left_nano"]) == (COST - 20, 120 - COST)
    assert given_money(acme, 100, "second")["paid_owed_nano"] == 0
    assert rows(acme.parley("wallets", "owed", *OF, "--json")) == []
    acme.agrees()
    assert isinstance(acme.asks("b"), Admitted)
    acme.parley("usage", "refund", "a", *OF, "--cause", "broken")
    left = sum(each["left_nano"] for each in rows(acme.parley("wallets", "show", *OF, "--json")))
    assert left == 120
    acme.agrees()


def test_who_owes_more_than_is_granted_is_still_refused(acme: Acme) -> None:
    """The grant is gone at once."""
    given_money(acme, 10, "first")
    acme.does(lambda books: books.spend("a"))
    assert given_money(acme, 5, "second")["left_nano"] == 0
    assert isinstance(acme.asks("b"), Refusal)
    assert rows(acme.parley("wallets", "owed", *OF, "--json"))[0]["owed_nano"] == COST - 15


def test_a_term_of_a_tenant_without_a_wallet_is_refused(acme: Acme) -> None:
    """It has none to set it on."""
    assert "no wallet" in str(acme.types("wallets", "owed", *OF, "--paid-by", "invoiced").exception)


async def test_ended_grants_pay_in_their_order_and_the_books_hold(database: Database) -> None:
    """A batch with requests from before and after two ends; R1, R2 and R7 agree after it, and after a
    correction of each."""
    tenant, now = await a_tenant(database), now_ms()
    await grant(database, tenant, promo(5_000, "soon", expires_ms=now + 60_000))
    await grant(database, tenant, promo(4_000, "later", expires_ms=now + 120_000))
    async with database.engine.begin() as connection:
        await connection.execute(text("UPDATE wallet_grant SET expires_ms = expires_ms - 300000"))
    assert len(await expire(database, tenant, now)) == 2
    ends = now - 240_000, now - 180_000
    times = {"a": ends[0] - 1, "b": ends[0], "c": ends[1] - 1, "d": ends[1], "e": ends[0] - 2}
    events = [encode(an_event(name, tenant, accepted_ms=at, ended_ms=now)) for name, at in times.items()]
    batch, _ = await post(database, "default", events)
    assert batch.revived == {tenant}
    left = {
        row.idempotency_key: (row.left_nano, row.lapsed_nano) for row in await list_grants(database, tenant)
    }
    assert left == {"soon": (0, 0), "later": (0, 0)}
    owed = {row.request_id: row.owed_nano for row in await read(database, WalletOwed, tenant)}
    assert sum(owed.values()) == 5 * EVENT_COST - 9_000 == await owed_by(database, tenant)
    assert owed["d"] == EVENT_COST
    assert (await balances(database, tenant)).get(BREAKAGE) is None
    await agree(database, tenant)
    for name in times:
        await correct(database, tenant, Correction(name, {Meter.OUTPUT: 0}, "x"))
        await agree(database, tenant)
    assert await set_owed_term(database, tenant, OwedTerm.NEXT_GRANT)
    row, _ = await grant(database, tenant, paid(50_000, "p"))
    assert (row.left_nano, await owed_by(database, tenant)) == (50_000 - paid_owed(row), 0)
    await agree(database, tenant)


def paid_owed(row: WalletGrant) -> int:
    """What a grant paid of what was owed."""
    return row.amount_nano - row.left_nano


async def test_what_a_grant_becomes_by_itself_is_no_change_of_it(database: Database) -> None:
    """It lapses and comes back without anybody: the audit log's last state of it still stands."""
    tenant, ends = await a_tenant(database), now_ms() + 60_000
    await grant(database, tenant, promo(9_000, "a", expires_ms=ends))
    await expire(database, tenant, ends)
    await use(database, tenant, "r1", "r2", "r3")
    assert (await compare_states(database, tenant)).faults == []
    await grant(database, tenant, paid(9_000, "b"))
    assert (await compare_states(database, tenant)).faults == []
    await agree(database, tenant)


async def agree(database: Database, tenant: str) -> None:
    """The books, the wallet and what is kept of both."""
    await sound(database, tenant)
    compared, _ = await compare_ledger(database, tenant, now_ms(), whole=True)
    compared += await compare_derived(database, tenant, whole=True)
    assert [each.facts() for each in compared if each.difference] == []


async def test_what_is_kept_of_what_is_owed_is_compared(database: Database) -> None:
    """A row that was changed, or is gone, is found."""
    tenant = await a_tenant(database)
    await grant(database, tenant, paid(1_000, "p"))
    await use(database, tenant, "r1")
    await agree(database, tenant)
    async with database.engine.begin() as connection:
        await connection.execute(text("UPDATE wallet_owed SET owed_nano = owed_nano - 1"))
    compared = await compare_derived(database, tenant)
    assert {each.subject for each in compared if each.difference} == {"wallet", "owed beyond the wallet"}


@given(st.lists(st.integers(1, 50), max_size=5), st.integers(0, 200))
def test_money_pays_what_is_owed_in_its_order_and_no_more(owed: list[int], left: int) -> None:
    """All of one before the next."""
    found = allot_payment([Owed(str(at), nano, "", "", 0) for at, nano in enumerate(owed)], left)
    amounts = [amount for _, amount in found]
    assert sum(amounts) == min(left, sum(owed))
    assert amounts[:-1] == owed[: len(amounts)][:-1]


def test_what_lapsed_comes_back_only_as_far_as_it_is_needed_and_for_its_time() -> None:
    """To the millisecond; what is left of others is spent in the order of grants."""
    ended = Grant("ended", "promo", 0, 0, 1_000, 0, lapsed_nano=70)
    other = Grant("other", "paid", 1, 30, None, 0)
    wallet = SpendableWallet("t", 0, TopUp("", 0), (), [ended, other], 2_000)
    assert wallet.charge("late", 10, 1_000) == {other.account: 10}
    assert wallet.charge("early", 40, 999) == {ended.account: 40}
    assert (wallet.revived, ended.lapsed_nano, ended.left_nano) == ({ended.account: 40}, 30, 0)
    assert wallet.charge("early 2", 60, 999) == {ended.account: 30, other.account: 20}
    assert wallet.owed == {"early 2": 10}
    assert wallet.left_nano == 0


def test_what_is_left_pays_before_what_lapsed_comes_back() -> None:
    """A correction may have given back a part of an ended grant: only what is missing then is revived."""
    grant = Grant("g", "promo", 0, 10, 1_000, 0, lapsed_nano=70)
    wallet = SpendableWallet("t", 0, TopUp("", 0), (), [grant], 2_000)
    assert wallet.charge("early", 30, 999) == {grant.account: 30}
    assert (wallet.revived, grant.lapsed_nano, grant.left_nano) == ({grant.account: 20}, 50, 0)


def test_a_time_that_is_to_come_is_now() -> None:
    """A gateway's clock may be ahead: what has not ended pays, and what has ended by then does too."""
    grant = Grant("g", "promo", 0, 100, 3_000, 0)
    wallet = SpendableWallet("t", 0, TopUp("", 0), (), [grant], 2_000)
    assert wallet.charge("ahead", 30, 4_000) == {grant.account: 30}
    assert wallet.owed == {}


async def test_a_grant_is_in_the_wallet_once(database: Database) -> None:
    """Though it has some left and some that lapsed, as after a correction of what it paid."""
    tenant, now = await a_tenant(database), now_ms()
    await grant(database, tenant, promo(5_000, "g", expires_ms=now + 60_000))
    async with database.transaction() as session:
        await (await session.connection()).execute(text("UPDATE wallet_grant SET lapsed_nano = 7"))
        wallet = (await load_wallets(session, [tenant], now, now))[tenant]
    assert [(each.left_nano, each.lapsed_nano) for each in wallet.grants] == [(5_000, 7)]
