"""People's moves at once: what one may not move alone is not moved in parts that run side by side, and a
proposal is booked once."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import msgspec
import pytest
from sqlmodel import select

from billing.booking.recent_moves import BY_TWO
from billing.cli.moves import MoneyMove, moved
from billing.cli.operations import CommandTerms, in_stores
from billing.cli.quarantine import accept_event
from billing.cli.run_command import run_on_database
from billing.ledger.grant_spending import GrantKind
from billing.operations import approvals, corrections, wallets
from billing.operations.approvals import NameProposal
from billing.operations.corrections import CorrectRequest, RefundRequest
from billing.operations.wallets import ClawBack, GrantMoney, PayOut, VoidGrant
from billing.posting.biller import post
from billing.posting.quarantine import held_events
from billing.tables.approvals import Proposal
from billing.tables.audit import AuditLog
from billing.tables.wallets import WalletGrant
from billing.tenants.tenancy import create_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.usage import PinnedPrices, encode
from billing.wallets.wallets import NewGrant, grant
from core.actor import Author, acting_as
from core.errors import StartupError
from core.operations import MoneyAmount, Role
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.wallets.wallet_tenant import sound
from tests.support.staff import signed_in_person

T = TypeVar("T")
Move = tuple[Callable[[Any, Any], Awaitable[Any]], msgspec.Struct]
USD = 10**9
SIX = range(6)
DEAR = PinnedPrices(  # 9 USD a token
    book="default", version=1, input_nano=0, cached_input_nano=0, output_nano=9 * USD * 10**6
)


@dataclass
class RacedOffice:
    """Tenants, a second person who is signed in, and commands that run side by side, each in a thread."""

    tenants: list[str] = field(default_factory=list[str])
    people: list[OperationActor] = field(default_factory=list[OperationActor])

    def at_once(self, *moves: Move) -> list[MoneyMove[Any] | StartupError]:
        """The outcomes of moves that begin together."""
        how = CommandTerms(as_json=True, reason="r")
        return together([lambda run=run, ask=ask: moved(run, ask, how, yes=True) for run, ask in moves])

    def does(self, action: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
        """Something with the database."""
        return run_on_database(action)

    def grants(self, tenant: str) -> list[WalletGrant]:
        """What is in a wallet."""
        return self.does(lambda db: read(db, WalletGrant, tenant))

    def audited(self, tenant: str, action: str) -> int:
        """How often the audit log says so."""
        found = self.does(lambda db: read(db, AuditLog, tenant))
        return sum(row.action == action for row in found)


def granting(tenant: str, dollars: int, key: str) -> Move:
    """A grant of so much."""
    return wallets.grant, GrantMoney(tenant=tenant, amount=usd(dollars), key=key)


async def proposals_in(db: Database) -> Sequence[Proposal]:
    """Of every tenant."""
    async with db.session() as session:
        return (await session.exec(select(Proposal))).all()


def usd(dollars: int) -> MoneyAmount:
    """So much."""
    return MoneyAmount.of(dollars * USD)


def together(calls: list[Callable[[], T]]) -> list[T | StartupError]:
    """What each answers, all begun at one moment."""
    ready = Barrier(len(calls))

    def run(call: Callable[[], T]) -> T | StartupError:
        ready.wait()
        try:
            return call()
        except StartupError as refused:
            return refused

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


@pytest.fixture
def office(home: Path, redis_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> RacedOffice:
    """Six tenants on SQLite or Postgres; one person moves 100 USD a day."""
    given = {"home": str(home), "redis_url": redis_url, "database_url": database_url}
    for name, value in (given | {"correction_cents_max": "10000"}).items():
        monkeypatch.setenv(f"PARLEY_{name.upper()}", value)
    made = RacedOffice()

    async def prepare(db: Database) -> None:
        made.tenants += [(await create_tenant(db, f"t{number}")).tenant_id for number in SIX]
        made.people += [await signed_in_person(db, name, Role.FINANCE) for name in ("Bob", "Cid")]

    run_on_database(prepare)
    return made


@pytest.mark.parametrize("tenants", [1, 6])
def test_grants_at_once_are_one_persons_up_to_the_limit(office: RacedOffice, tenants: int) -> None:
    """Six of 60 USD, for one tenant or each for another: one is booked, five wait for a second person."""
    of = [office.tenants[number % tenants] for number in SIX]
    done = office.at_once(*(granting(tenant, 60, f"g{n}") for n, tenant in enumerate(of)))
    assert sorted(each.state for each in done if not isinstance(each, StartupError)) == [
        "booked",
        *["proposed"] * 5,
    ]
    assert sum(len(office.grants(tenant)) for tenant in set(of)) == 1
    assert [row.state for row in office.does(proposals_in)] == ["waiting"] * 5


def test_a_grant_repeated_under_its_key_does_nothing_more(office: RacedOffice) -> None:
    """Six times at once, and again when it is there: one grant, which counts once."""
    tenant = office.tenants[0]
    done = [each for each in office.at_once(*[granting(tenant, 60, "g")] * 6) if isinstance(each, MoneyMove)]
    assert sorted((each.booked, each.answer.new, each.nano) for each in done) == [
        *[(True, False, 0)] * 5,
        (True, True, 60 * USD),
    ]
    assert len(office.grants(tenant)) == office.audited(tenant, "wallet.grant") == 1
    (more,) = office.at_once(granting(tenant, 40, "h"))
    assert isinstance(more, MoneyMove)
    assert more.booked


@pytest.mark.parametrize("kind", ["void", "claw_back", "pay_out", "correct", "refund"])
def test_what_is_taken_or_corrected_at_once_is_too(office: RacedOffice, kind: str) -> None:
    """Every kind of move, 90 USD each: one is booked, the others wait, and the books hold."""
    tenant = office.tenants[0]

    def made(n: int) -> Move:
        amount, key = usd(90), f"k{n}"
        of: dict[str, Any] = {"tenant": tenant}
        return {
            "void": (wallets.void_grant, VoidGrant(**of, grant=f"g{n}")),
            "claw_back": (wallets.claw_back, ClawBack(**of, grant=f"g{n}", amount=amount, key=key)),
            "pay_out": (wallets.pay_out, PayOut(**of, amount=amount, key=key)),
            "correct": (
                corrections.correct_request,
                CorrectRequest(**of, request=f"r{n}", output=0, cause=key),
            ),
            "refund": (corrections.refund_request, RefundRequest(**of, request=f"r{n}", cause=key)),
        }[kind]

    office.does(lambda db: _with_money(db, tenant, used=kind in ("correct", "refund")))
    done = office.at_once(*map(made, SIX))
    states = [getattr(each, "state", str(each)) for each in done]
    assert sorted(states) == ["booked", *["proposed"] * 5]
    office.does(lambda db: sound(db, tenant))


@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_accepted_events_are_one_persons_up_to_the_limit(
    office: RacedOffice, at_once: bool, billed: bool
) -> None:
    """Six held events of 90 USD, of requests that were billed (for less) or were not, at once or one after
    another: one is booked, five are refused with what to do, and wait as before. A grant counts them too."""
    tenant = office.tenants[0]
    office.does(lambda db: _with_held(db, tenant, billed))
    held = [each.event_sha256 for each in office.does(held_events)]
    assert len(held) == 6
    calls = [lambda event=event: accept_event(event, "looked at") for event in held]
    done = together(calls) if at_once else [together([call])[0] for call in calls]
    refused = [str(each) for each in done if isinstance(each, StartupError)]
    assert len(refused) == 5, done
    assert {"PARLEY_CORRECTION_CENTS_MAX" in each and "$90" in each for each in refused} == {True}, refused
    assert len(office.does(held_events)) == 5
    (grant,) = office.at_once(granting(tenant, 20, "g"))
    assert isinstance(grant, MoneyMove)
    assert grant.state == "proposed"
    office.does(lambda db: sound(db, tenant))


def test_what_a_grant_moved_counts_for_an_accepted_event(office: RacedOffice) -> None:
    """A grant of 90 USD, then one held event of 90."""
    tenant = office.tenants[0]
    office.does(lambda db: _with_held(db, tenant, billed=False))
    (grant,) = office.at_once(granting(tenant, 90, "g"))
    assert isinstance(grant, MoneyMove)
    assert grant.state == "booked"
    with pytest.raises(StartupError, match="PARLEY_CORRECTION_CENTS_MAX"):
        accept_event(office.does(held_events)[0].event_sha256, "looked at")


@pytest.mark.parametrize("kind", ["grant", "void", "pay_out"])
def test_a_proposal_approved_at_once_is_booked_once(office: RacedOffice, kind: str) -> None:
    """By two people in six calls: one books it, and nobody says that it failed."""
    tenant = office.tenants[0]
    office.does(lambda db: _with_money(db, tenant))
    moves: dict[str, Move] = {
        "grant": granting(tenant, 300, "much"),
        "void": (wallets.void_grant, VoidGrant(tenant=tenant, grant="big")),
        "pay_out": (wallets.pay_out, PayOut(tenant=tenant, amount=usd(400), key="p")),
    }
    (proposed,) = office.at_once(moves[kind])
    assert isinstance(proposed, MoneyMove)
    id = proposed.waits.rpartition(" ")[2].rstrip("`")

    def approve(who: OperationActor) -> str:
        ask = NameProposal(proposal=id)
        run = approvals.approve_proposal
        return in_stores(lambda stores: answer_of(run, stores, who, ask)).state

    done = together([lambda who=who: approve(who) for who in office.people * 3])
    said = [str(each) for each in done if isinstance(each, StartupError)]
    assert len(said) == 5
    assert {each.rpartition(": ")[2] for each in said} == {"it is booked"}
    (row,) = office.does(proposals_in)
    assert (row.state, row.why) == ("booked", "")
    assert office.audited(tenant, "proposal.fail") == 0
    office.does(lambda db: sound(db, tenant))


async def _with_money(db: Database, tenant: str, used: bool = False) -> None:
    """Six grants of 90 USD and one of 400, by two people, which count for nobody; `used`: six requests of 90
    USD too."""
    with acting_as(Author("ann", BY_TWO)):
        for key, dollars in {**{f"g{n}": 90 for n in SIX}, "big": 400}.items():
            await grant(db, tenant, NewGrant(GrantKind.PAID, dollars * USD, key))
    if used:
        tokens = {"input_uncached": 0, "input_cached": 0, "output_text": 10}
        events = [an_event(f"r{n}", tenant, prices=DEAR, **tokens) for n in SIX]
        assert (await post(db, "default", [encode(each) for each in events]))[1]


async def _with_held(db: Database, tenant: str, billed: bool) -> None:
    """Six held events of 90 USD; `billed`: of requests that were billed a token, 9 USD, each."""
    for n in SIX:
        tokens = {"input_uncached": 0, "input_cached": 0, "prices": DEAR}
        late = an_event(f"r{n}", tenant, output_text=11 if billed else 10, **tokens)
        first = an_event(f"r{n}", tenant, output_text=1, **tokens)
        events = [first, late] if billed else [msgspec.structs.replace(late, cost_nano=1)]
        await post(db, "default", [encode(each) for each in events])
