"""`parley plans`: what is typed, what is told of it, and what tenants have then."""

from pathlib import Path
from typing import Any

import pytest

from billing.enforcement.limit_cache import read_rows
from billing.limits import RequestFacts, limits_of
from billing.tenants.pool_terms import find_terms
from core.clock import now_ms
from tests.billing.acme import Acme
from tests.billing.quota.quota_ledger import QuotaLedger


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def in_force(acme: Acme) -> dict[str, Any]:
    """What the tenant may take now."""

    async def look(books: QuotaLedger) -> dict[str, Any]:
        terms = await find_terms(books.db, books.tenant)
        rows = await read_rows(books.db, books.tenant, now_ms())
        limits = limits_of(rows, RequestFacts(books.tenant, "p", "k", "", "m"), now_ms()).units
        place = {"weight": terms.weight, "slots_max": terms.slots_max, "reserve_tokens": terms.reserve_tokens}
        return place | {each.dimension.value: each.limit for each in limits}

    return acme.does(look)


def test_a_plan_from_its_making_to_its_end(acme: Acme) -> None:
    """Made, given limits, shown, assigned, taken away and ended: each is told as it is in force then."""
    none = in_force(acme)
    assert acme.parley("plans", "list").output == "there are no plans: see `parley plans create`\n"
    (made,) = acme.told(
        "plans", "create", "gold", "--priority-max", "bulk", "--weight", "2.5", "--slots-max", "4",
        "--reserve-tokens", "100",
    )  # fmt: skip
    facts = {"name": "gold", "price_book": "default", "priority_max": "bulk", "weight": 2.5, "slots_max": 4}
    assert facts.items() <= made.items()
    assert (made["tokens_max"], made["reserve_tokens"], made["ended"]) == (None, 100, None)
    limit = ("set-limit", "gold", "--dimension", "tokens_per_minute", "--limit")
    (first,) = acme.told("plans", *limit, "600", "--burst", "50")
    assert (first["dimension"], first["limit"], first["burst"]) == ("tokens_per_minute", 600, 50)
    (second,) = acme.told("plans", *limit, "700")
    assert acme.told("plans", "show", "gold") == [{**made, "limits": [second]}]  # in place of the first
    assert in_force(acme) == none
    (moved,) = acme.told("plans", "assign", "acme", "gold")
    assert (moved["name"], moved["plan"], moved["plan_id"]) == ("acme", "gold", made["plan"])
    assert moved["priority_max"] == "bulk"
    assert acme.told("plans", "list") == [{**made, "tenants": 1}]
    place = {"weight": 2.5, "slots_max": 4, "reserve_tokens": 100}
    assert in_force(acme) == place | {"tokens_per_minute": 700}
    (ended,) = acme.told("plans", *limit, "none")
    assert (ended["limit_id"], ended["ended"] is None) == (second["limit_id"], False)
    assert in_force(acme) == place
    assert acme.told("plans", "assign", "acme", "none")[0]["plan"] is None
    assert in_force(acme) == none
    (over,) = acme.told("plans", "end", made["plan"])
    assert over == {**made, "ended": over["ended"]}
    assert over["ended"] is not None
    assert "has ended" in acme.refuses("plans", "assign", "acme", "gold")


def test_a_plan_is_shown_to_people(acme: Acme) -> None:
    """What is empty is left out; limits stand below, or what makes one."""
    acme.parley("plans", "create", "gold", "--weight", "2")
    shown = acme.parley("plans", "show", "gold").output
    assert "weight         2.0\n" in shown
    assert "slots_max" not in shown
    assert shown.endswith("\n\nno limits: see `parley plans set-limit --help`\n")
    acme.parley("plans", "set-limit", "gold", "--dimension", "concurrency", "--limit", "3", "--scope", "key")
    assert "concurrency" in acme.parley("plans", "show", "gold").output.split("\n\n")[1]
    assert "gold" in acme.parley("plans", "list").output


def test_a_tenants_plan_is_told_by_its_name(acme: Acme) -> None:
    """Wherever a tenant is shown; scripts get the id beside it, people do not."""
    (made,) = acme.told("plans", "create", "gold")
    assert "gold" in (said := acme.parley("plans", "assign", "acme", "gold").output)
    assert made["plan"] not in said
    named = ("gold", made["plan"])
    for words in (("list",), ("show", "acme"), ("set", "acme", "--regex", "on"), ("close", "acme")):
        (facts,) = acme.told("tenants", *words)
        assert (facts["plan"], facts["plan_id"]) == named, words
    for words in (("list",), ("show", "acme"), ("reopen", "acme")):
        said = acme.parley("tenants", *words).output
        assert ("gold" in said, made["plan"] in said) == (True, False), words


def test_what_is_wrong_with_a_plan_is_one_line(acme: Acme) -> None:
    """And nothing is made, moved or ended."""
    acme.parley("plans", "create", "gold")
    assert "'gold'" in acme.refuses("plans", "create", "gold")
    assert "'lead'" in acme.refuses("plans", "create", "iron", "--price-book", "lead")
    assert "weight" in acme.refuses("plans", "create", "iron", "--weight", "0")
    unknown = "there is no plan 'iron': see `parley plans list`"
    for words in (("show", "iron"), ("end", "iron"), ("assign", "acme", "iron")):
        assert acme.refuses("plans", *words) == unknown
    limit = ("--dimension", "concurrency", "--limit")
    assert acme.refuses("plans", "set-limit", "iron", *limit, "1") == unknown
    assert "has no such limit" in acme.refuses("plans", "set-limit", "gold", *limit, "none")
    assert "nobody" in acme.refuses("plans", "assign", "nobody", "gold")
    assert [(row["name"], row["tenants"], row["ended"]) for row in acme.told("plans", "list")] == [
        ("gold", 0, None)
    ]
