"""What limits refused is summed by the hour: few rows, every refusal in one, whose limit it was."""

from hypothesis import given
from hypothesis import strategies as st

from billing.limits import Dimension, Scope
from billing.periods import HOUR_MS, PeriodWindow
from billing.requests.refusal_counter import RefusalCounter
from billing.requests.refusal_counts import MINUTE_MS, OTHERS, Counts, RefusalCount, RefusalKey
from billing.requests.refusal_hours import COUNTED_MAX, LIMIT_STATUSES, HourCount, HourKey, folded, hours_of
from billing.requests.refusal_stream import RefusalTally
from billing.requests.refused_by import AtLimit, RefusedBy, WhoseLimit, limit_words, refused_in, whose
from billing.tables.limits import QuotaPolicy
from billing.tables.tenants import PLATFORM, TenantUser
from billing.tenants.erasure import erase_user
from billing.tenants.keys import create_key, rotate_key
from billing.tenants.tenancy import create_project, create_tenant
from billing.tenants.users import close_user
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from server.http.replies import STATUSES
from server.protocol.codes import ErrorCode
from tests.support.redis import Redis

HOUR = 1_790_812_800_000
KEY = "key requests_per_minute"


def counted(key: str, user: str, code: str, why: str, number: int = 1, minute: int = 0) -> Counts:
    """Refusals of one minute of the hour."""
    of = RefusalKey("a", HOUR + minute * MINUTE_MS, key, user, code)
    return {of: RefusalCount(number, why)}


def test_a_key_counts_for_limits_on_keys_and_projects_a_user_for_those_on_users() -> None:
    """All else is the tenant's as a whole; what no limit refused is not counted, nor what is nobody's."""
    counts = {
        **counted("k", "u", "rate_limited", KEY, 3),
        **counted("k", "v", "rate_limited", KEY, 4, minute=1),
        **counted("k", "u", "budget_exceeded", "project month"),
        **counted("k", "u", "insufficient_quota", "tenant wallet"),
        **counted("l", "u", "rate_limited", "user concurrency"),
        **counted("l", "u", "overloaded", "no such scope"),
        **counted("k", "u", "bad_request", ""),
        RefusalKey("", HOUR, OTHERS, OTHERS, "rate_limited"): RefusalCount(9, KEY),
    }
    assert hours_of(counts) == {
        HourKey("a", HOUR, "rate_limited", KEY, "k", ""): HourCount(7, HOUR + MINUTE_MS),
        HourKey("a", HOUR, "budget_exceeded", "project month", "k", ""): HourCount(1, HOUR),
        HourKey("a", HOUR, "insufficient_quota", "tenant wallet", "", ""): HourCount(1, HOUR),
        HourKey("a", HOUR, "rate_limited", "user concurrency", "", "u"): HourCount(1, HOUR),
        HourKey("a", HOUR, "overloaded", "", "", ""): HourCount(1, HOUR),
    }


keys = st.builds(
    HourKey,
    tenant_id=st.just("a"),
    hour_ms=st.just(HOUR),
    code=st.sampled_from(sorted(LIMIT_STATUSES)),
    why=st.sampled_from([KEY, "tenant month"]),
    key_id=st.sampled_from(["", *(f"k{number}" for number in range(8))]),
    user_id=st.just(""),
)
hours = st.dictionaries(keys, st.builds(HourCount, st.integers(1, 50), st.integers(1, 50)), max_size=20)


@given(hours, hours)
def test_rows_of_an_hour_are_bounded_and_lose_nothing(
    first: dict[HourKey, HourCount], then: dict[HourKey, HourCount]
) -> None:
    """Keys that are known keep their row; further ones share one."""
    known = folded(first, [], most=3)
    after = folded(then, known, most=3)
    assert sum(each.number for each in after.values()) == sum(each.number for each in then.values())
    named = {of for of in (*known, *after) if of.key_id not in ("", OTHERS)}
    assert len(named) <= 3
    assert all(of in after for of in then if of in known)


def test_the_statuses_are_those_of_the_gateway() -> None:
    """Codes of 402, 429 and 503, each."""
    assert {
        str(code): status for code, status in STATUSES.items() if status in (402, 429, 503)
    } == LIMIT_STATUSES
    assert set(LIMIT_STATUSES) <= set(ErrorCode)


async def test_a_month_is_summed_by_the_limit_that_refused(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """A key stands for its chain of rotations, its project for limits on projects; each entry counts once; a
    window that begins within an hour takes its edges from minutes."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    project = (await create_project(database, tenant, "lab")).id
    old, _ = await create_key(database, tenant, project, name="evals")
    new, _ = await rotate_key(database, tenant, old.id, 60)
    tally, counter = RefusalTally(redis, settings.installation), RefusalCounter(database, redis, settings)
    now = now_ms()
    for key in (old.id, new.id, new.id):
        tally.add((tenant, key, ""), "rate_limited", KEY, "", now)
    tally.add((tenant, new.id, ""), "budget_exceeded", "project month", "", now - 2 * HOUR_MS)
    tally.add(("nobody", "k", ""), "rate_limited", KEY, "", now)
    await tally.tell()
    while await counter.step(now):
        pass
    minute = now - now % MINUTE_MS
    found = await refused_in(database, tenant, PeriodWindow(0, now + HOUR_MS))
    by_key = RefusedBy(AtLimit("rate_limited", "key", "requests_per_minute", old.id), 3, minute)
    assert found.by[0] == by_key
    assert [each.limit for each in found.by[1:]] == [AtLimit("budget_exceeded", "project", "month", project)]
    assert found.all == 4
    edge = await refused_in(database, tenant, PeriodWindow(minute, minute + MINUTE_MS))
    assert edge.by == [by_key]
    await counter.clear(now + 500 * 24 * HOUR_MS)
    assert (await refused_in(database, tenant, PeriodWindow(0, now + HOUR_MS))).by == []


async def test_the_name_goes_with_who_had_it(database: Database, redis: Redis, settings: Settings) -> None:
    """One who is older than opaque ids is known in the sums by the id that stays."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    async with database.transaction() as session:
        session.add(TenantUser(tenant_id=tenant, id="Ada", name="Ada", created_ms=1))
    tally, counter = RefusalTally(redis, settings.installation), RefusalCounter(database, redis, settings)
    tally.add((tenant, "k", "Ada"), "rate_limited", "user concurrency", "", now_ms())
    await tally.tell()
    await counter.step(now_ms())
    await close_user(database, redis, tenant, "Ada")
    id = await erase_user(database, tenant, "Ada")
    found = await refused_in(database, tenant, PeriodWindow(0, now_ms() + HOUR_MS))
    assert [each.limit.id for each in found.by] == [id]


def a_policy(
    tenant: str, scope_id: str = "", created_ms: int = 0, ended_ms: int | None = None
) -> QuotaPolicy:
    """A limit on requests a minute of keys."""
    return QuotaPolicy(
        tenant_id=tenant,
        id="l",
        scope=Scope.KEY,
        scope_id=scope_id,
        dimension=Dimension.REQUESTS,
        limit_units=1,
        created_ms=created_ms,
        ended_ms=ended_ms,
    )


def test_whose_limit_it_was_is_told_by_those_of_then() -> None:
    """Parley's where no tenant's limit refused; a budget is the tenant's; else one's own that held, then the
    plan's."""
    by_key = RefusedBy(AtLimit("rate_limited", "key", "requests_per_minute", "k"), 1, HOUR)
    of_plan, own = a_policy(PLATFORM), a_policy("a", "k")
    assert whose(RefusedBy(AtLimit("overloaded", "", "", ""), 1, HOUR), [own]) is WhoseLimit.PLATFORM
    assert whose(RefusedBy(AtLimit("budget_exceeded", "key", "month", "k"), 1, HOUR), []) is WhoseLimit.YOURS
    assert whose(by_key, [of_plan]) is WhoseLimit.PLAN
    assert whose(by_key, [of_plan, own]) is WhoseLimit.YOURS
    for other in (
        a_policy("a", "l"),
        a_policy("a", ended_ms=HOUR - 1),
        a_policy("a", created_ms=HOUR + HOUR_MS),
    ):
        assert whose(by_key, [of_plan, other]) is WhoseLimit.PLAN


def test_a_limit_is_said_in_words() -> None:
    """With the name of whose count was at it."""
    said = {
        AtLimit("budget_exceeded", "key", "month", "k"): "Budget of key lab evals",
        AtLimit("budget_exceeded", "project", "day", "p"): "Budget of a day of project lab evals",
        AtLimit("rate_limited", "tenant", "concurrency", ""): "Requests at once of acme",
        AtLimit("rate_limited", "user", "tokens_per_minute", OTHERS): "Tokens a minute of further users",
        AtLimit("insufficient_quota", "tenant", "wallet", ""): "Prepaid credit",
        AtLimit("overloaded", "", "", ""): "No room in a pool in time",
        AtLimit("account_suspended", "", "", ""): "The account is closed",
    }
    for limit, words in said.items():
        assert limit_words(limit, "acme", "lab evals") == words
    assert (
        limit_words(AtLimit("rate_limited", "key", "concurrency", "k9"), "acme", "")
        == "Requests at once of key k9"
    )
    assert COUNTED_MAX >= 20
