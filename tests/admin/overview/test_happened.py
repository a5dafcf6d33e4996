"""What happened lately, in words."""

from typing import Any

import msgspec
import pytest

from admin.overview.answer import OverviewEvent
from admin.overview.facts import OverviewFacts, SqlFacts
from admin.overview.happened import SHOWN_MAX, TEXT_MAX, happened_of, tenants_named, untold
from billing.tables.audit import AuditLog
from billing.tables.tenants import PLATFORM
from tests.admin.overview.platforms import NAMES, NOW_MS, a_platform, noisy

LONG_ID = "01a21627-0c92-78db-b3aa-6ac8e4c9adc3"


def a_row(
    action: str, target: str, before: Any = None, after: Any = None, tenant: str = "t1", **facts: Any
) -> AuditLog:
    """A row of the audit log."""
    encoded = [msgspec.json.encode(each).decode() for each in (before, after)]
    row: dict[str, Any] = {"seq": 1, "at_ms": NOW_MS, "author": "Ann", "source": "api"}
    row |= {"before": encoded[0], "after": encoded[1], "previous_sha256": "", "sha256": "", **facts}
    return AuditLog(tenant_id=tenant, action=action, target=target, **row)


def told(*rows: AuditLog, **facts: Any) -> list[OverviewEvent]:
    """What is told of them."""
    return happened_of(a_platform(changes=rows, **facts))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (a_row("tenant.create", "t1", None, {"name": "acme"}), "tenant acme was created"),
        (
            a_row("limit.set", LONG_ID, {"limit_units": 9}, {"limit_units": 5_000, "reason": "launch week"}),
            "acme: limit …e4c9adc3 was set (limit units 5,000, was 9): “launch week”",
        ),
        (
            a_row("limit.set", LONG_ID, None, {"dimension": "requests_per_minute", "limit_units": 9}),
            "acme: limit requests per minute was set (9)",
        ),
        (
            a_row("wallet.grant", LONG_ID, None, {"amount_nano": 1_500_000_000, "created_ms": 1}),
            "acme: wallet …e4c9adc3 was given money ($1.50)",
        ),
        (a_row("terms.set", "t1", None, {"weight": 2.0}), "acme: terms were set"),
        (
            a_row("key.revoke", LONG_ID, {"name": "batch", "revoked_ms": 1}, {"revoked_ms": 2}),
            "acme: key batch was revoked",
        ),
        (
            a_row("pool.create", "eu-1", None, {"tenant_id": "t2"}, PLATFORM),
            "pool eu-1 was created for globex",
        ),
        (a_row("pool.create", "eu-1", None, {"model": "smollm2"}, PLATFORM), "pool eu-1 was created"),
        (
            a_row("pool.move", "default", None, {"tenant": "t2", "to": "eu-1", "leaves": []}, PLATFORM),
            "globex was moved out of pool default to eu-1",
        ),
        (a_row("request.migrate_all", "eu-1", tenant=PLATFORM), "pool eu-1 was emptied"),
        (a_row("worker.kill", "w5", None, {"pool": "eu-1"}, PLATFORM), "worker w5 was killed"),
        (a_row("thing.close_down", "x", tenant="t9"), "t9: thing x was closed down"),
    ],
)
def test_a_change_is_a_sentence(row: AuditLog, text: str) -> None:
    """Of whom, what, from what to what, and why."""
    assert told(row) == [OverviewEvent("2027-01-15T08:00:00+00:00", told(row)[0].state, text, "Ann")]


def test_states_tell_good_from_bad() -> None:
    """Most of what people do is neither."""
    rows = [a_row(action, "t1") for action in ("tenant.throttle", "period.close", "key.create")]
    assert [each.state for each in told(*rows)] == ["warn", "well", "info"]


def test_the_newest_come_first_and_findings_among_them() -> None:
    """Twelve; of a long reason what fits."""
    rows = [a_row("key.create", str(at), at_ms=NOW_MS - 20_000 * at) for at in range(20)]
    events = told(*rows, noisy=[noisy()])
    assert len(events) == SHOWN_MAX
    assert events[4].text == "initech takes 43 % of eu-1, its fair share is 14 %"
    assert len(told(a_row("key.create", "x", None, {"reason": "why " * 200}))[0].text) == TEXT_MAX
    finance = OverviewFacts(NOW_MS, None, SqlFacts(noisy=[noisy()]), NAMES, sees_pools=False)
    assert happened_of(finance) == []


def test_reads_and_signing_in_are_left_out() -> None:
    """Whatever looks record."""
    assert {"request.show", "request.list", "session.open"} <= untold()
    assert not {"key.create", "request.cancel"} & untold()


def test_names_are_asked_for_of_whom_rows_are_and_speak() -> None:
    """A pool's row is the platform's, and names a tenant."""
    row = a_row("pool.create", "eu-1", None, {"tenant_id": "t2"}, PLATFORM)
    moved = a_row("pool.move", "eu-1", None, {"tenant": "t3", "to": "big"}, PLATFORM)
    assert tenants_named([row, moved, a_row("key.create", "k")]) == {PLATFORM, "t1", "t2", "t3"}
