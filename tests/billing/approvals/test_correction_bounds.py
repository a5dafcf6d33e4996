"""What `parley usage correct` and `refund` may book: bounded, looked at first, and all or nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billing.cli import performers
from billing.posting.biller import post
from billing.posting.quarantine import held_events
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.quota.money import MoneyCounts
from billing.quota.types import Admitted
from billing.unit_of_work.perform import Performed, perform
from billing.usage import encode
from core.errors import Refusal, StartupError
from engine.models.tables import ModelVersion
from tests.billing.acme import Acme
from tests.billing.cli.commands import rows
from tests.billing.events import an_event
from tests.billing.limited import NANO
from tests.billing.quota.quota_ledger import COST, QuotaLedger

OF_A = ("a", "--tenant", "acme", "--cause", "ticket 1")
PER_REQUEST = msgspec.structs.replace(NANO, request_nano=50_000_000)


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """With the request `a`, billed COST."""
    acme = Acme(home, redis_url, sqlite_template)
    acme.spends("a")
    return acme


def refused(acme: Acme, *arguments: str, says: str, **settings: str) -> None:
    """One line that says so, and the books stay."""
    before = acme.cost()
    result = acme.types("usage", *arguments, **settings)
    assert result.exit_code != 0, result.output
    said = str(result.exception) if isinstance(result.exception, StartupError) else result.output
    assert says in said.splitlines()[-1], said
    assert acme.cost() == before


def test_a_correction_is_bounded_by_what_a_request_can_have(acme: Acme) -> None:
    """10^12 tokens for an answer of 7 were billed once. The model's context bounds all classes together; what
    nobody recorded is bounded by what no model has."""
    refused(acme, "correct", *OF_A, "--output", "1000000000000", says="at most 1,048,576 tokens")
    refused(acme, "correct", *OF_A, "--output", "1048565", says="at most 1,048,576 tokens")

    async def record(books: QuotaLedger) -> None:
        async with books.db.transaction() as session:
            session.add(
                ModelVersion(
                    name="smollm2",
                    version="1",
                    fingerprint="f1",
                    folder="/",
                    max_model_len=100,
                    manifest={},
                    created_ms=1,
                )
            )

    acme.does(record)
    refused(acme, "correct", *OF_A, "--output", "89", says="at most 100 tokens")
    acme.parley("usage", "correct", *OF_A, "--output", "88")
    refused(acme, "correct", *OF_A, "--input", "13", says="at most 100 tokens")
    assert acme.cost() == 12 + 2 * 88


def test_what_was_billed_beyond_the_bound_can_be_lowered(acme: Acme) -> None:
    """Down is always possible."""

    async def large(books: QuotaLedger) -> None:
        await books.booked("a large one", output_text=2_000_000, cost_nano=12 + 4_000_000)

    acme.does(large)
    less = ("correct", "a large one", "--tenant", "acme", "--cause", "x", "--output", "1900000")
    acme.parley("usage", *less)
    assert acme.cost() == COST + 12 + 3_800_000


def test_a_cause_is_a_name(acme: Acme) -> None:
    """One that somebody can read, and say again."""
    for cause in ("", " ", " x", "\x1b[2J", "x" * 201, "a\nb"):
        of = ("a", "--tenant", "acme", "--cause", cause)
        refused(acme, "correct", *of, "--output", "1", says="cause: expected a name")
    refused(acme, "refund", *of, says="cause: expected a name")


def test_what_is_no_number_of_tokens_is_refused(acme: Acme) -> None:
    """Digits, and no more than a request can have."""
    large = ("9223372036854775808", "9007199254740993")
    for number in (*large, "1e30", "NaN", "5,00", "٣", "1_000", "+3", " 3", "-1", "", "0x10"):
        refused(acme, "correct", *OF_A, f"--output={number}", says="tokens")


def test_nothing_where_nothing_was_is_no_correction(acme: Acme) -> None:
    """A meter that was not billed and is not to be."""
    assert "already" in acme.parley("usage", "correct", *OF_A, "--cached-input", "0").output
    refused(acme, "correct", *OF_A, "--cached-input", "1", says="no cached_input line")
    acme.parley("usage", "correct", *OF_A, "--cached-input", "0", "--output", "0")
    assert acme.cost() == 12


def test_a_class_that_was_not_billed_is_priced_by_the_requests_own_version(acme: Acme) -> None:
    """Which is kept for ever, whatever is in force now."""

    async def add(books: QuotaLedger) -> None:
        for input_price in (1_000_000, 9_000_000):
            prices = {"*": FlatPrices(input_price, 500_000, 2_000_000, 0)}
            await add_version(books.db, NewVersion("b", prices))

    refused(acme, "correct", *OF_A, "--cached-input", "4", says="no cached_input line")
    acme.does(add)
    acme.parley("usage", "correct", *OF_A, "--cached-input", "4", "--input", "8")
    assert acme.cost() == 8 + 2 + 2 * 7


def test_what_is_booked_while_redis_cannot_be_told_says_so(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, and said again it is told."""

    async def stale(*_: object, **__: object) -> bool:
        return False

    acme.does(lambda books: books.budget(1_000))
    assert isinstance(acme.asks("b"), Admitted)
    with monkeypatch.context() as busy:
        busy.setattr(MoneyCounts, "put", stale)
        said = acme.types("usage", "correct", *OF_A, "--output", "0")
    assert isinstance(said.exception, StartupError)
    assert "it is booked" in str(said.exception)
    assert "say it again" in str(said.exception)
    assert acme.cost() == 12
    acme.parley("usage", "correct", *OF_A, "--output", "0")
    acme.agrees()


def test_a_whole_request_is_refunded_with_the_price_of_the_request(acme: Acme) -> None:
    """Once, to what paid it, and the wallet can spend it again at once."""
    acme.parley("wallets", "grant", "--tenant", "acme", "--amount", "0.000000080 USD", "--key", "first")

    async def dear(books: QuotaLedger) -> None:
        assert isinstance(await books.ask("b"), Admitted)
        await books.spend("b", prices=PER_REQUEST, cost_nano=COST + 50)

    acme.does(dear)
    assert acme.cost() == COST + 50 + COST
    assert isinstance(acme.asks("no"), Refusal)
    of = ("refund", "b", "--tenant", "acme", "--cause", "outage of 3 May")
    acme.parley("usage", *of)
    assert acme.cost() == COST
    acme.agrees()
    assert isinstance(acme.asks("yes"), Admitted)
    assert "already" in acme.parley("usage", *of).output
    (again,) = rows(acme.parley("usage", *of, "--json"))
    assert (again["amount_nano"], again["line"]) == (0, None)
    assert "already" in again["state"]
    refused(acme, "refund", "none", *of[2:], says="no billed request")


def test_a_large_amount_is_looked_at_first_and_a_larger_one_refused(acme: Acme) -> None:
    """Without --yes it is shown and not booked; --dry-run shows any; above the limit nobody books alone."""
    less = ("correct", *OF_A, "--output", "0")
    assert "-$0.000000014" in acme.parley("usage", *less, "--dry-run").output
    assert acme.cost() == COST
    shown = acme.types("usage", *less, correction_unasked_cents_max="0")
    assert shown.exit_code == 1
    assert "-$0.000000014" in shown.output
    assert "--yes" in str(shown.exception)
    assert acme.cost() == COST
    limits = {"correction_cents_max": "0", "correction_unasked_cents_max": "0"}
    refused(acme, *less, "--yes", says="PARLEY_CORRECTION_CENTS_MAX", **limits)
    refused(acme, "refund", *OF_A, "--yes", says="PARLEY_CORRECTION_CENTS_MAX", **limits)
    acme.parley("usage", *less, "--yes", correction_unasked_cents_max="0")
    assert acme.cost() == 12


def test_what_has_grown_since_it_was_looked_at_is_not_booked(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else corrected the request between: what goes without --yes is bounded where it is booked."""

    async def looks(*given: Any, told: Any) -> Performed:
        done = await perform(*given, told=told)
        return replace(done, moved_nano=0) if given[-1].dry_run else done

    monkeypatch.setattr(performers, "perform", looks)
    less = ("correct", *OF_A, "--output", "0")
    refused(acme, *less, says="look at it first", correction_unasked_cents_max="0")


def test_quarantine_accepts_no_more_than_a_request_can_have(acme: Acme) -> None:
    """An event of 10^12 tokens can only be dismissed, of a request that was billed or of one that was not."""

    async def hold(books: QuotaLedger) -> list[str]:
        event = an_event("a", books.tenant, input_cached=0, output_text=10**12, prices=NANO)
        other = msgspec.structs.replace(event, request="other", cost_nano=1)
        await post(books.db, "default", [encode(event), encode(other)])
        return [held.event_sha256 for held in await held_events(books.db)]

    held = acme.does(hold)
    assert len(held) == 2
    for each in held:
        result = acme.types("quarantine", "accept", each, "--reason", "x")
        assert isinstance(result.exception, StartupError)
        assert "at most 1,048,576 tokens" in str(result.exception)
    assert acme.cost() == COST
