"""When alerts are sent, sent again, given up and forgotten, to the millisecond; and what they say."""

import asyncio
from typing import Any

import pytest

from billing.alerts import outbox
from billing.alerts.addresses import checked_address, checked_url
from billing.alerts.messages import mail_text, summary
from billing.alerts.outbox import OutboxSender, next_attempt_ms
from billing.alerts.targets import add_target, remove_target, retry, send_test
from billing.alerts.user_names import with_names
from billing.budgets.thresholds import limit_at
from billing.tables.limits import Budget
from billing.tables.wallets import BudgetAlert, BudgetSpent, Outbox
from billing.tenants.tenancy import create_tenant
from billing.tenants.users import create_user
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from tests.billing.ledger.ledger_reading import read

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("attempts", "at_ms", "chance", "again_ms"),
    [
        (1, 0, 0.0, 5_000),
        (1, 0, 1.0, 10_000),
        (2, 7, 0.5, 15_007),
        (12, 0, 1.0, 20_480_000),
        (13, 0, 1.0, 6 * HOUR_MS),
        (200, 0, 0.0, 3 * HOUR_MS),
        (1, 3 * DAY_MS - 10_000, 1.0, 3 * DAY_MS),
        (1, 3 * DAY_MS - 9_999, 1.0, None),
    ],
)
def test_when_a_message_is_sent_again(attempts: int, at_ms: int, chance: float, again_ms: int | None) -> None:
    """Twice as long each time, six hours at most, for three days from when it was sent first."""
    assert next_attempt_ms(attempts, 0, at_ms, chance) == again_ms
    later = next_attempt_ms(attempts, 1_000, at_ms + 1_000, chance)
    assert later == (None if again_ms is None else again_ms + 1_000)


async def test_a_message_is_one_senders_for_three_minutes(sqlite: Database, settings: Settings) -> None:
    """Then another's, who knows when it was sent first. Not before it is due."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    due = (await send_test(sqlite, tenant, target.id)).next_attempt_ms
    one, other = OutboxSender(sqlite, settings), OutboxSender(sqlite, settings)
    assert await one._claim(due - 1) == []
    assert [row.first_sent_ms for row in await one._claim(due)] == [due]
    assert await other._claim(due + 179_999) == []
    assert [row.first_sent_ms for row in await other._claim(due + 180_000)] == [due]


async def test_eight_are_sent_at_once_and_mail_waits_a_minute(
    sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others come next. Without a mail server nothing was tried; what was told to nobody is over."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    for _ in range(9):
        await send_test(sqlite, tenant, target.id)
    later = now_ms() + 5_000
    monkeypatch.setattr(outbox, "now_ms", lambda: later)
    sender = OutboxSender(sqlite, settings)
    assert [await sender.send_due() for _ in range(3)] == [8, 1, 0]
    waiting = await read(sqlite, Outbox, tenant)
    assert {(row.next_attempt_ms, row.first_sent_ms) for row in waiting} == {(later + 60_000, None)}
    assert await retry(sqlite, tenant, waiting[0].id) == 1
    await remove_target(sqlite, tenant, target.id)
    monkeypatch.setattr(outbox, "now_ms", lambda: later + 60_000)
    assert [await sender.send_due() for _ in range(2)] == [8, 1]
    over = await read(sqlite, Outbox, tenant)
    assert {(row.state, row.ended_ms, row.claimed_by) for row in over} == {("failed", later + 60_000, "")}
    assert await retry(sqlite, tenant) == 9


async def test_what_was_sent_is_forgotten_after_90_days_and_sums_after_400(
    sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once an hour; not a millisecond sooner."""
    now = 2_000 * DAY_MS
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    messages = [await send_test(sqlite, tenant, target.id) for _ in range(3)]
    of: dict[str, Any] = {"tenant_id": tenant, "scope": "tenant", "scope_id": "", "period": "day"}
    of |= {"spent_nano": 1}
    async with sqlite.transaction() as session:
        for state, message, late_ms in zip(
            ("sent", "failed", "sent"), messages, (0, 1, HOUR_MS + 1), strict=True
        ):
            row = await session.get(Outbox, (tenant, message.id))
            assert row is not None
            row.state, row.next_attempt_ms = state, now - 90 * DAY_MS - 1 + late_ms
        for late_ms in (0, 1, HOUR_MS + 1):
            at = now - 400 * DAY_MS - 1 + late_ms
            more: dict[str, Any] = {"limit_nano": 1, "threshold": 50, "budget_id": "b", "created_ms": at}
            session.add(BudgetSpent(**of, window_start_ms=late_ms, window_end_ms=at))
            session.add(BudgetAlert(**of, window_start_ms=late_ms, **more))
    sender = OutboxSender(sqlite, settings)
    for at_ms, left in ((now, 2), (now + HOUR_MS - 1, 2), (now + HOUR_MS, 1)):
        monkeypatch.setattr(outbox, "now_ms", lambda at_ms=at_ms: at_ms)
        await sender._forget()
        found = [len(await read(sqlite, table, tenant)) for table in (Outbox, BudgetSpent, BudgetAlert)]
        assert found == [left] * 3, at_ms - now


async def test_a_full_batch_is_followed_at_once_and_a_smaller_one_by_a_rest(
    sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is cleared away while messages wait; what fails is no reason to hurry, nor to end."""
    stop, done = asyncio.Event(), list[object]()
    batches: list[int | str] = [8, 8, "broken", 7, 0]
    sender = OutboxSender(sqlite, settings)

    async def send_due() -> int:
        done.append(found := batches.pop(0))
        return int(found)

    async def forget() -> None:
        done.append("forget")

    async def rest(until: asyncio.Event, seconds: float) -> None:
        done.append(seconds)
        if not batches:
            until.set()

    monkeypatch.setattr(sender, "send_due", send_due)
    monkeypatch.setattr(sender, "_forget", forget)
    monkeypatch.setattr(outbox, "_wait", rest)
    await sender.run(stop)
    assert done == [8, 8, "broken", 1.0, 7, "forget", 1.0, 0, "forget", 1.0]


async def test_a_message_is_marked_by_who_has_it_and_once(sqlite: Database, settings: Settings) -> None:
    """Whose claim has ended changes nothing any more, and what was sent is never anything else."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    due = (await send_test(sqlite, tenant, target.id)).next_attempt_ms
    beside = await send_test(sqlite, tenant, target.id)
    one, other = OutboxSender(sqlite, settings), OutboxSender(sqlite, settings)
    (late, *_) = await one._claim(due)
    await other._claim(due + 180_000)
    for sender, state, now in (
        (one, "failed", "waiting"),
        (other, "sent", "sent"),
        (other, "failed", "sent"),
    ):
        await sender._mark(late, state=state)
        rows = {row.id: row for row in await read(sqlite, Outbox, tenant)}
        assert (rows[late.id].state, rows[late.id].claimed_by == "") == (now, now == "sent")
        assert rows[beside.id].state == "waiting"


async def test_a_message_that_cannot_be_written_is_tried_again_and_a_store_that_is_away_is_not_its_fault(
    sqlite: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is counted as an attempt, the other leaves the message as it was."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "webhook", "https://example.com/")
    await send_test(sqlite, tenant, target.id)

    def fails(error: Exception) -> None:
        async def names(*_: object) -> None:
            raise error

        monkeypatch.setattr(outbox, "with_names", names)

    sender = OutboxSender(sqlite, settings)
    fails(OSError("no disk"))
    with pytest.raises(OSError, match="no disk"):
        await sender.send_due()
    (row,) = await read(sqlite, Outbox, tenant)
    assert (row.state, row.attempts, row.last_error) == ("waiting", 0, "")
    monkeypatch.setattr(outbox, "now_ms", lambda: row.claimed_until_ms)
    fails(KeyError("x"))
    assert await sender.send_due() == 1
    (row,) = await read(sqlite, Outbox, tenant)
    assert (row.state, row.attempts, row.last_error, row.claimed_by) == ("waiting", 1, "KeyError", "")


async def test_only_a_users_id_is_told_as_a_name(sqlite: Database) -> None:
    """What has none, or is of another scope, stays as it is."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    ann = (await create_user(sqlite, tenant, "ann")).id
    for payload, told in (
        ({"scope": "user", "scope_id": ann, "x": 1}, "ann"),
        ({"scope": "project", "scope_id": ann}, ann),
        ({"scope": "user", "scope_id": ""}, ""),
        ({"scope": "user", "scope_id": "u_gone"}, "u_gone"),
    ):
        assert await with_names(sqlite, tenant, payload) == {**payload, "scope_id": told}
    assert await with_names(sqlite, tenant, {"type": "test"}) == {"type": "test"}


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (
            {"type": "budget.threshold", "scope": "tenant", "scope_id": "", "threshold": 80, "period": "day"}
            | {"spent_usd": "8.00", "limit_usd": "10.00"},
            "80 % of the day budget of tenant: 8.00 of 10.00 USD spent",
        ),
        (
            {
                "type": "budget.threshold",
                "scope": "user",
                "scope_id": "n" * 81,
                "threshold": 80,
                "period": "day",
            }
            | {"spent_usd": "8.00", "limit_usd": "10.00"},
            f"80 % of the day budget of user {'n' * 80}: 8.00 of 10.00 USD spent",
        ),
        (
            {"type": "wallet.low", "left_usd": "1.00", "top_up_usd": "20.00"},
            "the wallet is low: 1.00 USD left, the last top-up was 20.00 USD",
        ),
        (
            {"type": "usage.unbilled", "tokens": 5, "of_tokens": 9, "pool": "p" * 81},
            f"5 of 9 output tokens of a day are not billed in pool {'p' * 80}",
        ),
        ({"type": "test"}, "this is a test of an alert's way to you"),
        ({"type": "noisy.found"}, "noisy.found"),
        ({}, "None"),
    ],
)
def test_what_happened_is_said_in_a_line(payload: dict[str, Any], said: str) -> None:
    """With names as long as a line holds."""
    assert summary(payload) == said


def test_a_mail_says_all_but_nano() -> None:
    """Times as people read them; each fact a line, which is cut."""
    facts = {"type": "test", "limit_nano": 5, "limit_usd": "x", "created_ms": DAY_MS, "long": "y" * 600}
    subject, text = mail_text({**facts, "never_ms": 10**20})
    assert subject == "Parley: this is a test of an alert's way to you"
    assert text.split("\n") == [
        *("this is a test of an alert's way to you", "", "type: test", "limit_usd: x", "long: " + "y" * 494),
        *("created: 1970-01-02T00:00:00+00:00", f"never: {10**20}", ""),
    ]


@pytest.mark.parametrize(("last", "fits"), [(61, True), (62, False)])
def test_an_address_has_254_characters(last: int, fits: bool) -> None:
    """And a webhook's URL two thousand."""
    address = f"{'a' * 64}@{'b' * 63}.{'c' * 63}.{'d' * last}"
    url = "https://example.com/" + "x" * (1_980 if fits else 1_981)
    for check in (lambda: checked_address(address), lambda: checked_url(url, private=False)):
        if fits:
            assert check() in (address, url)
        else:
            with pytest.raises(Refused):
                check()


@pytest.mark.parametrize(("now", "limit_nano"), [(99, 5), (100, 9)])
def test_an_override_holds_to_its_time(now: int, limit_nano: int) -> None:
    """Then the limit is what it was."""
    facts: dict[str, Any] = {"limit_nano": 9, "override_nano": 5, "override_until_ms": 100}
    assert limit_at(Budget(**facts), now) == limit_nano
    facts["override_nano"] = None
    assert limit_at(Budget(**facts), 0) == 9


@pytest.mark.parametrize("host", ["redis", "vm.", "kubernetes.default.svc", "10.0.0.1"])
def test_a_name_inside_a_network_is_refused_known_or_not(host: str) -> None:
    """Without a look-up, so that nobody learns which ones there are; operators may allow them."""
    with pytest.raises(Refused, match="inside a network"):
        checked_url(f"https://{host}/", private=False)
    assert checked_url(f"http://{host}/", private=True)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    "url",
    [
        " https://example.com/",
        "https://..../",
        "https://[v1.x]/",
        f"https://{'a' * 64}.example.com/",
        "https://%31%32%37.0.0.1/",
        "https://127%2e0%2e0%2e1/",
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, private: bool) -> None:
    """When it is saved, not by an alert that fails."""
    with pytest.raises(Refused):
        checked_url(url, private)


@pytest.mark.parametrize("host", ["hooks.example.com", "a_b.example.com.", "8.8.8.8", "[2606:4700::1111]"])
def test_a_host_of_the_internet_is_taken(host: str) -> None:
    """By name or by address."""
    assert checked_url(f"https://{host}:8443/x?y=1", private=False)
