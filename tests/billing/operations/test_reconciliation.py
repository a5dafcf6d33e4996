"""Whether the books agree, as they were compared last."""

from dataclasses import replace

from billing.operations.people_facts import NoQuestion
from billing.operations.reconciliation import (
    STALE_MS,
    CheckLight,
    CheckState,
    lights_of,
    show_reconciliation,
)
from billing.quota.redis_keys import posted_key
from billing.reconciliation.comparison import Check, Comparison
from billing.reconciliation.last_run import SHOWN_MAX, LastRun, checks_of, last_run
from billing.reconciliation.run import Reconciliation
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.redis import Redis

EQUAL = Comparison(Check.R2, "t", "receivable", "nano", 5, 5)
DIFFERS = Comparison(Check.R1, "t", "output", "nano", 5, 1 << 70, age_ms=9)
WAITS = Comparison(Check.R4, "t", "cost", "nano", 5, 4, waiting="usage is under way", age_ms=3)


def lights(at_ms: int, *compared: Comparison) -> dict[Check, CheckLight]:
    """The lights of a comparison, a moment after it."""
    shown = lights_of(LastRun(0, checks_of(compared)), {"t": "acme"}, at_ms)
    return {each.check: each for each in shown.checks}


def test_each_check_is_a_light_with_what_is_wrong() -> None:
    """Equal, different with how much and since when, or what it waits for; no green light for nothing."""
    shown = lights(1_000, EQUAL, DIFFERS, WAITS)
    assert list(shown) == list(Check)
    assert (shown[Check.R2].state, shown[Check.R2].why) == (CheckState.EQUAL, "")
    one = shown[Check.R1]
    assert (one.state, one.why, one.age_ms) == (CheckState.DIFFERS, "1 of 1 differ", 9)
    (pair,) = one.unequal
    assert (pair.tenant_name, pair.difference) == ("acme", str((1 << 70) - 5))
    assert (shown[Check.R4].state, shown[Check.R4].why) == (CheckState.WAITING, "usage is under way")
    assert (shown[Check.R8].state, shown[Check.R8].compared) == (CheckState.UNKNOWN, 0)


def test_what_was_equal_long_ago_is_not_known_to_be() -> None:
    """A difference stays one until a comparison says otherwise."""
    shown = lights(STALE_MS + 1, EQUAL, DIFFERS, WAITS)
    states = {check: shown[check].state for check in (Check.R1, Check.R2, Check.R4)}
    unknown = CheckState.UNKNOWN
    assert states == {Check.R1: CheckState.DIFFERS, Check.R2: unknown, Check.R4: unknown}
    assert "does a biller run?" in shown[Check.R2].why
    assert lights(STALE_MS, EQUAL)[Check.R2].state is CheckState.EQUAL


def test_of_many_differences_the_oldest_are_stored() -> None:
    """All are counted."""
    many = [replace(DIFFERS, subject=f"s{n}", age_ms=n) for n in range(100)]
    stored = checks_of([WAITS, *many])["R1"]
    assert (stored.compared, stored.differing, len(stored.unequal)) == (100, 100, SHOWN_MAX)
    assert stored.unequal[0].age_ms == 99


async def test_what_was_found_last_is_shown_and_nothing_compared(stores: Stores, redis: Redis) -> None:
    """Never until then; a comparison of a part, or of one tenant, does not take its place."""
    before = await answer_of(show_reconciliation, stores, OWNER, NoQuestion())
    assert (before.compared, {each.state for each in before.checks}) == (None, {CheckState.UNKNOWN})
    acme = await find_tenant(stores.db, "acme")
    assert acme is not None
    looking = Reconciliation(stores.db, stores.redis, stores.settings)
    await looking.run({Check.R7})
    assert await last_run(stores.db) is None
    await looking.run()
    found = await answer_of(show_reconciliation, stores, OWNER, NoQuestion())
    assert found.compared is not None
    by_check = {each.check: each for each in found.checks}
    assert (by_check[Check.R7].state, by_check[Check.R7].compared) == (CheckState.EQUAL, 9)
    await redis.hset(posted_key(acme.tenant_id), "cost_nano", "5")
    again = await answer_of(show_reconciliation, stores, OWNER, NoQuestion())
    assert [each.state for each in again.checks] == [each.state for each in found.checks]
    await looking.run(tenant_id=acme.tenant_id)
    assert (await answer_of(show_reconciliation, stores, OWNER, NoQuestion())).compared == found.compared
    await looking.run()
    now = await answer_of(show_reconciliation, stores, OWNER, NoQuestion())
    (four,) = [each for each in now.checks if each.check is Check.R4]
    assert (four.state, four.unequal[0].tenant_name) == (CheckState.DIFFERS, "acme")
