"""`chaos bench api-lists` in its short form: every list is called, slow ones are named. No time is judged."""

import json
import sys
from typing import Any

import httpx

from chaos.bench.api_lists.cases import ReadCase, has_pages, is_list, read_cases
from chaos.bench.api_lists.command import LIST_MS_MAX, figures_of
from chaos.bench.api_lists.timing import TimedCase, Visit
from core.operations import registered
from tests.support.patience import finished

KNOWN = {"tenant": ["acme"], "days": ["30"], "last": ["1000"], "project": ["lab"]}


def test_each_list_is_called_with_each_filter() -> None:
    """Choices and switches are tried all, what is known by its name; others of a tenant's beside it."""
    lists = {name: each for name, each in registered().items() if not each.writes and is_list(each)}
    assert {"tenants.list", "wallets.history", "safety.history", "requests.list"} <= lists.keys()
    assert not {"limits.show", "tenants.show"} & lists.keys()
    assert has_pages(lists["keys.list"])
    targets = {case.target for case in read_cases(lists["budgets.list"], KNOWN)}
    assert targets == {"/api/tenants/acme/budgets", "/api/tenants/acme/budgets?ended=true"}
    stats = {case.target for case in read_cases(lists["safety.stats"], KNOWN)}
    assert "/api/safety/stats?tenant=acme&days=30" in stats
    assert not read_cases(registered()["budgets.show"], KNOWN)


def test_the_slowest_case_of_a_list_is_what_its_line_says() -> None:
    """A case that is rare among the calls is not lost in them."""
    declared = registered()["tenants.list"]
    visit = Visit("owner", httpx.AsyncClient(), [declared])
    quick = TimedCase(visit, ReadCase(declared, "first page", "/api/tenants"), [1.0] * 99)
    slow = TimedCase(visit, ReadCase(declared, "deep page", "/api/tenants"), [LIST_MS_MAX + 1.0])
    (figure,) = figures_of([quick, slow], [])
    assert figure.reached is False
    assert "deep page" in figure.name
    (figure,) = figures_of([quick], [])
    assert figure.reached is True


def test_the_short_form_times_consoles_of_both_sides() -> None:
    """Real processes over a seeded database; those who may not list something are not asked to."""
    command = [sys.executable, "-m", "chaos", "bench", "api-lists", "--tenants", "3", "--events", "40"]
    done = finished([*command, "--rounds", "1", "--only", "tenants.", "--json"])
    assert done.returncode in (0, 1), done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    timed = {(case["visitor"], case["operation"]) for case in found["cases"]}
    assert {("owner", "tenants.list"), ("admin of a small one", "tenants.show")} <= timed
    assert done.returncode == int(any(figure["reached"] is False for figure in found["figures"]))
