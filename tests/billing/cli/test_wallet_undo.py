"""Voiding, clawing back and paying out: only what is left and nothing holds, each once, enforced at once."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from sqlalchemy import text

from billing.audit.compare import compare_states
from billing.enforcement.limit_settings import LIMITS_CHANGED
from billing.quota.types import Admitted
from billing.tables.ledger import LedgerTxn
from billing.tenants.tenancy import CONTROL_CHANNEL, ControlNews
from billing.wallets.undo import PAID_OUT, Undo, UndoKind, book_undo
from billing.wallets.wallets import grant, wallet_state
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, StartupError
from core.sql.database import Database
from tests.billing.acme import Acme
from tests.billing.cli.commands import rows
from tests.billing.enforcement.takes import pay_out
from tests.billing.ledger.ledger_reading import read
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.billing.wallets.wallet_tenant import a_tenant, balances, paid, promo, sound, use
from tests.support.patience import soon
from tests.support.redis import Redis

OF = ("--tenant", "acme")
SAID = ("--reason", "ticket 7", "--json")
HELD = 12 + 1 + 2 * 256 + 1  # by a request that runs
CENT = 10_000_000


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def usd(nano: int) -> str:
    """As it is typed."""
    return f"{nano // 10**9}.{nano % 10**9:09} USD"


def granted(acme: Acme, nano: int, key: str = "g1", kind: str = "paid") -> str:
    """A grant by command; its id."""
    typed = ("grant", *OF, "--amount", usd(nano), "--key", key, "--kind", kind, "--json")
    return rows(acme.parley("wallets", *typed))[0]["grant"]


def left(acme: Acme) -> int:
    """What the wallet has left by the books."""
    return rows(acme.parley("wallets", "list", "--json"))[0]["left_nano"]


def refused(acme: Acme, result: Result, says: str, settled: bool = True) -> None:
    """One line; the books and what enforces them stay."""
    assert isinstance(result.exception, StartupError), (result.output, result.exception)
    (line,) = str(result.exception).splitlines()
    assert says in line
    if settled:
        acme.agrees()


def test_a_grant_that_was_a_mistake_is_voided_and_spends_no_more(acme: Acme) -> None:
    """By its id or its key, once; the next request is refused, though the gateway's counts knew the money."""
    first, second = granted(acme, 1_000), granted(acme, 2_000, "g2", "promo")
    assert isinstance(acme.asks("a"), Admitted)
    acme.does(lambda books: books.quota.release(books.tenant, "a"))
    (taken,) = rows(acme.parley("wallets", "void", *OF, first, *SAID))
    assert (taken["grant"], taken["taken_nano"], taken["state"]) == (first, 1_000, "taken")
    assert rows(acme.parley("wallets", "void", *OF, "g2", *SAID))[0]["grant"] == second
    again = rows(acme.parley("wallets", "void", *OF, "g2", *SAID))[0]["state"]
    assert "before" in again
    assert left(acme) == 0
    assert isinstance(acme.asks("b"), Refusal)
    shown = rows(acme.parley("wallets", "show", *OF, "--json"))
    assert [(each["state"], each["taken_back_nano"]) for each in shown] == [
        ("voided", 1_000),
        ("voided", 2_000),
    ]
    acme.agrees()


def test_what_paid_for_something_is_not_voided_but_its_rest_is_clawed_back(acme: Acme) -> None:
    """No more than is left; said again under its key, nothing more."""
    granted(acme, 1_000)
    acme.spends("a")
    refused(acme, acme.types("wallets", "void", *OF, "g1", *SAID), "claw back what is left")
    of = ("claw-back", *OF, "g1", "--key", "c1")
    too_much = acme.types("wallets", *of, "--amount", usd(1_001 - COST), *SAID)
    refused(acme, too_much, "is left of the grant")
    for state in ("taken", "was taken before: nothing is changed"):
        (taken,) = rows(acme.parley("wallets", *of, "--amount", usd(900 - COST), *SAID))
        assert (taken["taken_nano"], taken["state"]) == (900 - COST, state)
    assert left(acme) == 100
    refused(acme, acme.types("wallets", *of, "--amount", usd(100), *SAID), "was that of another")
    assert isinstance(acme.asks("b"), Admitted)
    acme.agrees()


def test_what_a_running_answer_holds_is_not_taken(acme: Acme) -> None:
    """Nor what an answer used that is not booked yet. When it has ended, the rest can be."""
    granted(acme, 1_000)
    assert isinstance(acme.asks("a"), Admitted)
    of = ("claw-back", *OF, "g1", "--amount", usd(1_001 - HELD), "--key", "c1", *SAID)
    refused(acme, acme.types("wallets", *of), "held by answers that run")
    refused(acme, acme.types("wallets", "void", *OF, "g1", *SAID), "held by answers that run")
    assert left(acme) == 1_000

    async def settled(books: QuotaLedger) -> None:
        await books.quota.settle(books.event("a"))

    acme.does(settled)
    pay_out = ("pay-out", *OF, "--amount", usd(1_001 - COST), "--key", "p1", *SAID)
    refused(acme, acme.types("wallets", *pay_out), "held by answers that run", settled=False)
    acme.parley("wallets", *of)
    assert left(acme) == HELD - 1

    async def posted(books: QuotaLedger) -> Any:
        await books.spend("a")
        state = await wallet_state(books.db, books.tenant, now_ms())
        return state.limit_nano - state.posted_nano if state else None

    assert acme.does(posted) == HELD - 1 - COST
    acme.agrees()


def test_a_paid_balance_is_paid_out_and_promo_money_is_not(acme: Acme) -> None:
    """Of the newest paid grants first, to an account of its own."""
    for key, kind in (("old", "paid"), ("gift", "promo"), ("new", "paid")):
        granted(acme, 1_000, key, kind)
    of = ("pay-out", *OF, "--key", "p1")
    refused(acme, acme.types("wallets", *of, "--amount", usd(2_001), *SAID), "of paid money is left")
    taken = rows(acme.parley("wallets", *of, "--amount", usd(1_400), *SAID))
    assert [(each["key"], each["taken_nano"]) for each in taken] == [("new", 1_000), ("old", 400)]
    assert rows(acme.parley("wallets", *of, "--amount", usd(1_400), *SAID))[0]["state"] != "taken"

    async def booked(books: QuotaLedger) -> Any:
        await sound(books.db, books.tenant)
        assert (await compare_states(books.db, books.tenant)).faults == []
        return await balances(books.db, books.tenant)

    assert acme.does(booked)[PAID_OUT] == -1_400
    assert left(acme) == 1_600
    history = rows(acme.parley("wallets", "show", *OF, "--history", "--json"))
    assert [(each["kind"], each["amount_nano"]) for each in history][-1] == ("pay_out", -1_400)
    acme.agrees()


def test_much_is_looked_at_first_and_more_than_one_person_moves_not_at_all(acme: Acme) -> None:
    """As a correction is; a dry run shows any."""
    granted(acme, 300 * CENT)
    for of in (
        ("claw-back", *OF, "g1", "--amount", usd(200 * CENT), "--key", "c1"),
        ("pay-out", *OF, "--amount", usd(200 * CENT), "--key", "c1"),
        ("void", *OF, "g1"),
    ):
        refused(acme, acme.types("wallets", *of, *SAID), "say --yes")
        bounded = acme.types("wallets", *of, "--yes", *SAID, correction_cents_max="150")
        refused(acme, bounded, "one person moves at most")
        shown = acme.parley("wallets", *of, "--dry-run", *SAID, correction_cents_max="150")
        assert rows(shown)[0]["state"] == "not booked"
    assert left(acme) == 300 * CENT
    acme.parley("wallets", *of, "--yes", *SAID)
    assert left(acme) == 0


async def test_whoever_comes_first_takes_and_the_books_hold(database: Database) -> None:
    """Several at once, of the same and of different names: no more than was there, each once."""
    tenant = await a_tenant(database)
    first, _ = await grant(database, tenant, paid(9_000, "p"))
    await grant(database, tenant, promo(1_000, "q"))
    await use(database, tenant, "r1")
    whole = [Undo(UndoKind.CLAW_BACK, first.id, 4_000, key, "r") for key in ("a", "a", "b", "b")]
    done = await asyncio.gather(
        *(book_undo(database, tenant, each) for each in whole), return_exceptions=True
    )
    assert sorted(each.done for each in done if not isinstance(each, BaseException)) == [False, True]
    assert {type(each) for each in done if isinstance(each, BaseException)} == {Refused}
    await book_undo(database, tenant, Undo(UndoKind.PAY_OUT, "", 2_300, "d", "r"))
    await sound(database, tenant)
    txns = sorted(await read(database, LedgerTxn, tenant), key=lambda txn: txn.seq)
    kinds = [txn.kind for txn in txns]
    assert kinds == ["grant", "grant", "usage", "claw_back", "pay_out"]
    with pytest.raises(Refused, match="0 of paid money"):
        await book_undo(database, tenant, Undo(UndoKind.PAY_OUT, "", 1, "e", "r"))


async def test_only_what_has_not_ended_is_taken(sqlite: Database) -> None:
    """Also where nobody has booked yet that it did; what was given for nothing is nobody's to be paid."""
    tenant = await a_tenant(sqlite)
    made, _ = await grant(sqlite, tenant, paid(1_000, "p"))
    await grant(sqlite, tenant, promo(1_000, "q"))
    async with sqlite.transaction() as session:
        ended = text("UPDATE wallet_grant SET expires_ms = 1 WHERE idempotency_key = 'p'")
        await (await session.connection()).execute(ended)
    for undo, says in (
        (Undo(UndoKind.PAY_OUT, "", 1, "k", "r"), "0 of paid money"),
        (Undo(UndoKind.CLAW_BACK, made.id, 1, "k", "r"), "0 is left of the grant"),
        (Undo(UndoKind.VOID, made.id, 0, "", "r"), "can be voided"),
    ):
        with pytest.raises(Refused, match=says):
            await book_undo(sqlite, tenant, undo)


async def test_a_key_is_that_of_one_taking_of_one_grant(sqlite: Database) -> None:
    """The same amount of another grant is another one; what is taken twice of one grant adds up."""
    tenant = await a_tenant(sqlite)
    await grant(sqlite, tenant, paid(1_000, "p"))
    second, _ = await grant(sqlite, tenant, paid(1_000, "q"))
    undo = Undo(UndoKind.CLAW_BACK, second.id, 100, "c", "r")
    assert [(each.id, amount) for each, amount in (await book_undo(sqlite, tenant, undo)).parts] == [
        (second.id, 100)
    ]
    with pytest.raises(Refused, match="was that of another"):
        await book_undo(sqlite, tenant, Undo(UndoKind.CLAW_BACK, "p", 100, "c", "r"))
    assert (await book_undo(sqlite, tenant, undo)).done
    await book_undo(sqlite, tenant, Undo(UndoKind.CLAW_BACK, second.id, 50, "d", "r"))
    await sound(sqlite, tenant)


async def test_what_is_being_taken_is_spent_by_nobody_and_gateways_hear_of_it(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """A gateway that looks before it is booked still finds it in the books, and does not put it back."""
    tenant = await a_tenant(sqlite)
    await grant(sqlite, tenant, paid(1_000, "p"))
    books = QuotaLedger(sqlite, redis, settings, tenant)
    assert isinstance(await books.ask("a"), Admitted)
    await books.quota.release(tenant, "a")
    found: list[Any] = []

    async def meanwhile() -> None:
        found.append(await QuotaLedger(sqlite, redis, settings, tenant).ask("b"))

    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await soon(listener.get_message(timeout=None))
        await pay_out(books, meanwhile=meanwhile)
        message = await soon(listener.get_message(timeout=None))
    assert [type(each) for each in found] == [Refusal]
    assert message is not None
    news = msgspec.json.decode(bytes(message["data"]), type=ControlNews)  # type: ignore[arg-type]
    assert (news.kind, news.tenant) == (LIMITS_CHANGED, tenant)
