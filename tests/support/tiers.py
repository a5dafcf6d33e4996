"""The two forms of the suite: `make test`, and `make test-long` with all of it and more examples.

A test of the long form only is marked `long`; most Postgres twins are, by the list here.
"""

import os
from typing import TypeVar

import pytest

T = TypeVar("T")
IS_LONG = os.environ.get("PARLEY_TEST_LONG") == "1"

# Tests with the fixture `database` run on SQLite and on Postgres. In these files no statement is of a kind
# that other files do not try on Postgres with each change: of their twins one stays, the rest are long.
TWINS_ARE_LONG = {
    "tests/admin/test_console.py",
    "tests/billing/wallets/test_budgets.py",
    "tests/billing/reports/test_focus.py",
    "tests/billing/tenants/test_keys.py",
    "tests/billing/test_limits.py",
    "tests/billing/wallets/test_owed.py",
    "tests/billing/prices/test_pinned_prices.py",
    "tests/billing/prices/test_book.py",
    "tests/billing/prices/test_version_starts.py",
    "tests/billing/prices/test_versions.py",
    "tests/billing/posting/test_quarantine.py",
    "tests/billing/ledger/test_usage_proofs.py",
    "tests/security/test_poisoned_reconciliation.py",
    "tests/security/test_session_ends.py",
    "tests/security/test_what_erasing_reaches.py",
    "tests/server/http/test_http.py",
    "tests/server/pools/test_tenant_terms.py",
}


def by_form(short: T, long: T) -> T:
    """How much, in the form that runs."""
    return long if IS_LONG else short


def long_twins(names: list[str]) -> set[str]:
    """Of the tests on Postgres those that are for the long form: all of such a file but the first by name."""
    by_file: dict[str, list[str]] = {}
    for name in sorted(names):
        by_file.setdefault(name.split("::", 1)[0], []).append(name)
    return {name for file in TWINS_ARE_LONG for name in by_file.get(file, [])[1:]}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, before tests are chosen by their marks."""
    on_postgres = {item.nodeid: item for item in items if item.get_closest_marker("postgres") is not None}
    for name in long_twins(list(on_postgres)):
        on_postgres[name].add_marker(pytest.mark.long)
