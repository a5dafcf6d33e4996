"""What a wallet says of itself: its statement at any time, and each of its numbers held against the books."""

from typing import Any

from sqlalchemy import update
from sqlmodel import col

from billing.tables.wallets import Wallet, WalletGrant
from billing.wallets.ledger_check import wallet_faults
from billing.wallets.statements import grants_as_of, statement
from billing.wallets.undo import Undo, UndoKind, book_undo
from billing.wallets.wallets import expire, grant
from chaos.tampering.unguarded import tamper
from core.clock import now_ms
from core.sql.database import Database
from tests.billing.wallets.wallet_tenant import COST, a_tenant, paid, promo, use

ENDS = now_ms() + 3_600_000


async def spent(db: Database) -> tuple[str, WalletGrant, WalletGrant]:
    """A tenant with a payment, of which 70 nano are left, and promo money that ended unused."""
    tenant = await a_tenant(db)
    bought, _ = await grant(db, tenant, paid(COST + 100, "p"))
    given, _ = await grant(db, tenant, promo(50, "q", expires_ms=ENDS, priority=90))
    await use(db, tenant, "r1")
    await book_undo(db, tenant, Undo(UndoKind.CLAW_BACK, bought.id, 30, "k", "why"))
    await expire(db, tenant, ENDS)
    return tenant, bought, given


async def change(db: Database, table: Any, where: Any, **values: Any) -> None:
    """A row, behind the code's back."""
    async with db.transaction() as session:
        await (await session.connection()).execute(update(table).where(where).values(**values))


async def test_each_number_of_a_wallet_is_held_against_the_books(sqlite: Database) -> None:
    """By itself, with what the books say; a part of what lapsed may be from before that was counted."""
    tenant, bought, given = await spent(sqlite)
    p, q = f"grant {bought.id}", f"grant {given.id}"
    for row, right, wrong, fault in (
        (bought, {"left_nano": 70}, {"left_nano": 71}, [f"{p}: 71 nano are left, the ledger says 70"]),
        (bought, {"left_nano": 70}, {"left_nano": 69}, [f"{p}: 69 nano are left, the ledger says 70"]),
        (
            bought,
            {"taken_nano": 30},
            {"taken_nano": 29},
            [f"{p}: 29 nano were taken back, the ledger says 30"],
        ),
        (given, {"lapsed_nano": 50}, {"lapsed_nano": 51}, [f"{q}: 51 nano lapsed, the ledger says 50"]),
        (given, {"lapsed_nano": 50}, {"lapsed_nano": -1}, [f"{q}: -1 nano lapsed, the ledger says 50"]),
        (given, {"lapsed_nano": 50}, {"lapsed_nano": 0}, []),
    ):
        await change(sqlite, WalletGrant, col(WalletGrant.id) == row.id, **wrong)
        assert await wallet_faults(sqlite, tenant, whole=False) == fault, wrong
        await change(sqlite, WalletGrant, col(WalletGrant.id) == row.id, **right)
    assert await wallet_faults(sqlite, tenant) == []
    await change(sqlite, Wallet, col(Wallet.tenant_id) == tenant, posted_nano=COST + 1)
    unpaid = "requests owe 0 nano, the wallet says that 1 were not paid"
    posted = f"the wallet says {COST + 1} nano were posted, the lines {COST}"
    assert await wallet_faults(sqlite, tenant) == [unpaid, posted]
    assert await wallet_faults(sqlite, tenant, whole=False) == [unpaid]
    await change(sqlite, Wallet, col(Wallet.tenant_id) == tenant, posted_nano=COST)
    await tamper(
        sqlite,
        "UPDATE wallet_use SET amount_nano = amount_nano - 1",
        "DELETE FROM wallet_grant WHERE kind = 'promo'",
    )
    uses = f"{p}: its uses say {COST - 1} nano, the ledger {COST}"
    nobodys = f"account wallet:promo:{given.id} is of no grant"
    assert await wallet_faults(sqlite, tenant) == [uses, nobodys, unpaid]
    assert await wallet_faults(sqlite, "nobody") == []


async def test_a_statement_is_as_of_a_time_and_its_balance_runs(sqlite: Database) -> None:
    """Also where only the last movements are asked for; a grant has ended from its millisecond on."""
    tenant, bought, given = await spent(sqlite)
    all_of_it = [
        ("grant", COST + 100, COST + 100),
        ("grant", 50, COST + 150),
        ("usage", -COST, 150),
        ("claw_back", -30, 120),
        ("expire", -50, 70),
    ]
    for at_ms, last, wanted in (
        (ENDS, 10, all_of_it),
        (ENDS, 2, all_of_it[-2:]),
        (ENDS - 1, 10, all_of_it[:-1]),
        (ENDS - 1, 1, all_of_it[3:4]),
        (bought.created_ms - 1, 10, []),
    ):
        found = await statement(sqlite, tenant, at_ms, last)
        assert [(each.kind, each.amount_nano, each.balance_nano) for each in found] == wanted
    for at_ms, left in ((ENDS - 1, [(70, False), (50, False)]), (ENDS, [(70, False), (0, True)])):
        found_left = await grants_as_of(sqlite, tenant, at_ms)
        assert [each.grant.id for each in found_left] == [bought.id, given.id]
        assert [(each.left_nano, each.expired) for each in found_left] == left
    assert await grants_as_of(sqlite, tenant, bought.created_ms - 1) == []
    assert (await grants_as_of(sqlite, tenant, bought.created_ms))[0].grant.id == bought.id
