"""`parley noisy` and `parley quarantine`: what waits for somebody's decision, and what each decision does."""

from pathlib import Path
from typing import Any

import pytest

from billing.posting.biller import post
from billing.tables.noisy import NoisyFinding
from billing.tenants.pool_terms import list_terms
from billing.usage import encode
from tests.billing.acme import Acme
from tests.billing.quota.quota_ledger import COST, QuotaLedger


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def find(acme: Acme, finding: str) -> str:
    """A finding that the watch made of the tenant, without a throttle; the tenant's id."""

    async def make(books: QuotaLedger) -> str:
        facts: dict[str, Any] = {
            "tenant_id": books.tenant,
            "pool": "default",
            "opened_ms": 1_000,
            "updated_ms": 2_000,
            "share_permille": 912,
            "fair_permille": 500,
            "used_tokens": 77,
            "others_wait_ms": 900,
            "baseline_wait_ms": 40,
            "slots_max": 3,
            "proposal": {"slots": 9, "kv_tokens": 12_345, "workers": 2},
        }
        async with books.db.transaction() as session:
            session.add(NoisyFinding(id=finding, **facts))
        return books.tenant

    return acme.does(make)


def slots_max(acme: Acme) -> int | None:
    """How many requests the tenant runs at once now."""

    async def look(books: QuotaLedger) -> int | None:
        found = [each for each in await list_terms(books.db) if each.tenant_id == books.tenant]
        return found[0].slots_max if found else None

    return acme.does(look)


def test_a_finding_is_shown_and_accepted(acme: Acme) -> None:
    """To people with shares and names, to scripts with all numbers; accepted, the tenant is held to it."""
    assert acme.parley("noisy", "list").output == "nobody is noisy\n"
    tenant = find(acme, "f1")
    (found,) = acme.told("noisy", "list")
    assert found == acme.told("noisy", "show", "f1")[0]
    facts = {"finding": "f1", "tenant": tenant, "pool": "default", "share_permille": 912, "throttled": False}
    assert facts.items() <= found.items()
    assert found["own_pool"] == {"slots": 9, "kv_tokens": 12_345, "workers": 2}
    row = acme.parley("noisy", "list").output
    assert all(each in row for each in ("f1", "acme", "91 %", "50 %", "900", "40"))
    advice = acme.parley("noisy", "show", "f1").output.split("\n\n")[1]
    assert "2 workers (9 requests at once, 12,345 tokens in memory)" in advice
    assert "`parley noisy accept f1` lets it run 3 requests at once." in advice
    assert slots_max(acme) is None
    (held,) = acme.told("noisy", "accept", "f1", "--reason", "ticket 7")
    assert (held["state"], held["reason"], held["throttled"]) == ("accepted", "ticket 7", True)
    assert held["throttled_at"] is not None
    assert slots_max(acme) == 3


def test_a_finding_that_is_dismissed_is_over(acme: Acme) -> None:
    """Its throttle ends, it is listed no more but among all, and nobody decides on it again."""
    find(acme, "f1")
    acme.parley("noisy", "accept", "f1", "--reason", "loud")
    (over,) = acme.told("noisy", "dismiss", "f1", "--reason", "a launch")
    assert (over["state"], over["reason"], over["throttled"]) == ("dismissed", "a launch", False)
    assert None not in (over["closed"], over["lifted_at"])
    assert slots_max(acme) is None
    assert (acme.told("noisy", "list"), acme.told("noisy", "list", "--all")) == ([], [over])
    assert "parley noisy accept" not in acme.parley("noisy", "show", "f1").output
    for verb in ("accept", "dismiss"):
        assert "closed" in acme.refuses("noisy", verb, "f1", "--reason", "x")
        assert "no finding 'f2'" in acme.refuses("noisy", verb, "f2", "--reason", "x")
    assert "no finding 'f2'" in acme.refuses("noisy", "show", "f2")
    assert "--reason" in acme.refuses("noisy", "accept", "f1")


def hold_back(acme: Acme, *requests: str) -> None:
    """Requests whose events say a cost that their prices do not give."""

    async def wrong(books: QuotaLedger) -> None:
        events = [encode(books.event(each, cost_nano=COST + 5)) for each in requests]
        await post(books.db, "A", events)

    acme.does(wrong)


def test_what_is_held_back_is_listed_and_decided_on_once(acme: Acme) -> None:
    """Accepted it is billed by its prices, dismissed not at all; what was decided is listed apart."""
    assert acme.parley("quarantine", "list").output == "no event is held back\n"
    hold_back(acme, "a", "b")
    first, second = acme.told("quarantine", "list")
    assert {first["request"], second["request"]} == {"a", "b"}
    assert (first["pool"], first["resolved"], first["resolution"]) == ("A", None, "")
    assert first["event"] in acme.parley("quarantine", "list").output
    assert acme.cost() == 0
    (done,) = acme.told("quarantine", "accept", first["event"], "--reason", "ticket 7")
    assert done["event"] == first["event"]
    assert acme.cost() == COST
    assert acme.told("quarantine", "dismiss", second["event"], "--reason", "a test") == [
        {"event": second["event"], "done": "dismissed"}
    ]
    assert acme.cost() == COST
    assert acme.told("quarantine", "list") == []
    resolved = {each["request"]: each for each in acme.told("quarantine", "list", "--resolved")}
    assert "ticket 7" in resolved[first["request"]]["resolution"]
    assert resolved[second["request"]]["resolution"] == "dismissed: a test"
    for verb in ("accept", "dismiss"):
        again = acme.refuses("quarantine", verb, first["event"], "--reason", "again")
        assert "was decided on already" in again
        assert "no held event" in acme.refuses("quarantine", verb, "none", "--reason", "x")
    assert acme.cost() == COST
