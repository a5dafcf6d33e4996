"""What erasing reaches beside the rows of who is erased: held events, names, Redis, what comes meanwhile."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import event, text
from sqlmodel import SQLModel, select

from billing.audit import view
from billing.audit.log import list_rows
from billing.audit.view import users_in
from billing.booking.assess import Quarantined
from billing.cli.erasure import erase_known, held_of
from billing.enforcement.plans import create_plan, find_plan
from billing.limits import MoneyLimit, Scope
from billing.operations import chargeback, chargeback_export, report_schedules
from billing.operations.chargeback_export import AskExport
from billing.operations.shared_fields import NameTenant
from billing.periods import FIRST_MS, LAST_MS, PeriodWindow
from billing.posting.biller import post, post_in_parts
from billing.quota.client import Quota
from billing.quota.money import MoneyCounts
from billing.reports.exports import ExportFormat
from billing.tables.ledger import TagKey
from billing.tables.refusals import RefusalHour, RefusalMinute
from billing.tables.report_schedules import ReportSchedule
from billing.tables.tenants import UsageRow
from billing.tenants.cost_centers import create_cost_center, find_cost_center
from billing.tenants.erasure import _BY_SCOPE as RENAMED_BY_SCOPE
from billing.tenants.erasure import _BY_USER as RENAMED_BY_USER
from billing.tenants.erasure import erase_tenant, erase_user
from billing.tenants.keys import create_key
from billing.tenants.tenancy import close_tenant, create_project, create_tenant, find_project, find_tenant
from billing.tenants.users import close_user, create_user, known_users, list_users, user_named
from billing.unit_of_work.actors import local_actor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations import erasure
from server.conversations.erasure import erase_texts
from server.conversations.store import ConversationStore, Turn
from tests.billing.events import an_event
from tests.security.erasure import LABEL, NAME, WORDS, ErasureContext, scene, use, whole
from tests.support.redis import Redis
from tests.support.tables import tables_with

__all__ = ["scene"]


async def test_what_was_held_back_hides_no_words(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """A request that was never billed stands in no row of usage: its messages, in a conversation that a
    service key keeps, are told and erased all the same."""
    request, now = uuid7(now_ms()), now_ms()
    shared = "00000000-0000-7000-8000-000000000000"
    turn = Turn(shared, request, WORDS + "-held", "tiny", now, key="k1", user=NAME)
    await ConversationStore(database).open_turn(
        scene.tenant, ConversationOwner(scene.project, "k1", ""), turn
    )
    of = UsageOwner(project=scene.project, key="k1", user=NAME, metadata=b'{"label":"held-label"}')
    ended = an_event(request, scene.tenant, owner=of, accepted_ms=now, ended_ms=now)
    await post(database, "default", [encode(msgspec.structs.replace(ended, cost_nano=1))])
    user = await user_named(database, scene.tenant, NAME)
    assert user is not None
    told = repr([line async for line in held_of(database, user)])
    assert "held-label" in told
    assert WORDS + "-held" in told
    await close_user(database, redis, scene.tenant, NAME)
    await erase_texts(database, redis, settings, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    assert await tables_with(database, WORDS) == set()
    assert await tables_with(database, "held-label") == set()


async def test_the_name_of_a_key_goes_with_who_had_it(
    database: Database, redis: Redis, scene: ErasureContext
):
    """People call keys by whose they are; the audit log keeps it chained, and does not show it."""
    await create_key(database, scene.tenant, scene.project, user=NAME, name="lovelaces-laptop")
    await create_key(database, scene.tenant, scene.project, user="bob", name="bobs-laptop")
    await close_user(database, redis, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    assert await tables_with(database, "lovelaces-laptop") == {"audit_log"}
    assert "api_key" in await tables_with(database, "bobs-laptop")
    rows = await list_rows(database, scene.tenant)
    names = await known_users(database, scene.tenant, {each for row in rows for each in users_in(row)})
    told = repr([view.row_shown(row, names) for row in rows])
    assert "lovelaces-laptop" not in told
    assert "bobs-laptop" in told


async def test_texts_that_stay_end_the_erasing(
    database: Database,
    redis: Redis,
    settings: Settings,
    scene: ErasureContext,
    monkeypatch: pytest.MonkeyPatch,
):
    """Where another process has a conversation all the time, nobody is told that it is gone."""

    async def nothing(*_: object) -> tuple[int, set[str]]:
        return 0, set()

    monkeypatch.setattr(erasure, "purge", nothing)
    monkeypatch.setattr(erasure, "AGAIN_SECONDS", 0.0)
    await close_user(database, redis, scene.tenant, NAME)
    with pytest.raises(Refused, match="1 of the conversations"):
        await erase_texts(database, redis, settings, scene.tenant, NAME)


async def test_who_writes_while_they_are_erased_leaves_nothing(
    database: Database,
    redis: Redis,
    settings: Settings,
    scene: ErasureContext,
    monkeypatch: pytest.MonkeyPatch,
):
    """A gateway that has not heard yet that they are closed stores no more turn."""
    real, late = erasure.purge, [uuid7(now_ms()), uuid7(now_ms())]

    async def purge_while_one_writes(*facts: Any) -> tuple[int, set[str]]:
        if late:
            turn = Turn(late.pop(), uuid7(now_ms()), WORDS + "-late", "tiny", now_ms(), user=NAME)
            with pytest.raises(Refused, match="closed"):
                await ConversationStore(database).open_turn(
                    scene.tenant, ConversationOwner(scene.project, "", NAME), turn
                )
        return await real(*facts)

    monkeypatch.setattr(erasure, "purge", purge_while_one_writes)
    monkeypatch.setattr(erasure, "AGAIN_SECONDS", 0.0)
    await close_user(database, redis, scene.tenant, NAME)
    assert await erase_texts(database, redis, settings, scene.tenant, NAME) == (1, 4)
    assert len(late) == 1
    assert await tables_with(database, WORDS) == set()


async def test_erasing_a_tenant_takes_no_longer_by_each_user(
    database: Database, redis: Redis, scene: ErasureContext
):
    """A tenant makes as many users as it likes: were each a look through all its usage, in one transaction,
    it could never be erased, and on SQLite nobody else would write meanwhile."""

    async def statements(tenant: str) -> int:
        seen: list[str] = []

        def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            seen.append(statement)

        await close_tenant(database, redis, tenant)
        event.listen(database.engine.sync_engine, "before_cursor_execute", note)
        await erase_tenant(database, tenant)
        event.remove(database.engine.sync_engine, "before_cursor_execute", note)
        return len(seen)

    few, many = [(await create_tenant(database, name)).tenant_id for name in ("few", "many")]
    for tenant, count in ((few, 1), (many, 20)):
        for number in range(count):
            await create_user(database, tenant, f"user-{number}")
    assert await statements(few) == await statements(many)
    assert await tables_with(database, "user-1") == set()
    assert {user.closed_ms is None for user in await list_users(database, many)} == {False}


async def test_no_name_stands_in_the_way_of_erasing(database: Database, redis: Redis, scene: ErasureContext):
    """Tenants', projects' and cost centers' names are unique: one may be called as another is when erased."""
    other = await create_tenant(database, f"erased {scene.tenant[-12:]}")
    await create_project(database, scene.tenant, scene.project)
    await create_cost_center(
        database, scene.tenant, (await create_cost_center(database, scene.tenant, "1")).id
    )
    await close_tenant(database, redis, scene.tenant)
    await erase_tenant(database, scene.tenant)
    assert await find_tenant(database, other.name) == other


async def test_who_is_called_as_anothers_id_is_not_taken_for_it(database: Database):
    """What closes and erases by an id does so to whose id it is."""
    acme = await create_tenant(database, "acme")
    posing = await create_tenant(database, acme.tenant_id)
    assert await find_tenant(database, acme.tenant_id) == acme
    assert await find_tenant(database, posing.tenant_id) == posing
    project = await create_project(database, acme.tenant_id, "web")
    await create_project(database, acme.tenant_id, project.id)
    assert await find_project(database, acme.tenant_id, project.id) == project
    center = await create_cost_center(database, acme.tenant_id, "4711")
    await create_cost_center(database, acme.tenant_id, center.id)
    assert await find_cost_center(database, acme.tenant_id, center.id) == center
    plan = await create_plan(database, "gold", price_book="default")
    await create_plan(database, plan.id, price_book="default")
    assert await find_plan(database, plan.id) == plan


async def test_redis_forgets_who_was_known_by_name(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """Of users from before there were ids: what is counted for ever is counted under their name."""
    window = PeriodWindow(FIRST_MS, LAST_MS)
    quota = Quota(redis, settings, database)
    for user in (NAME, "u_bob"):
        money = MoneyCounts(redis)
        for shadow in (False, True):
            limit = MoneyLimit(Scope.USER, user, "lifetime", window, 1, shadow=shadow)
            await money.put(scene.tenant, [(limit, 1, 1 << 40)], anew=False)
    assert await redis_with(redis, NAME)
    await close_user(database, redis, scene.tenant, NAME)
    await erase_known(database, redis, settings, scene.tenant, NAME)
    assert await redis_with(redis, NAME) == []
    assert len(await quota.budget_sums(scene.tenant)) == 2
    assert await redis_with(redis, "u_bob")


async def late_events(database: Database, tenant: str, user: str) -> None:
    """What a dead node's journal brings: one to book, one to hold, another end of the first."""
    now = now_ms()
    of = UsageOwner(project="p1", key="k1", user=user, metadata=b'{"label":"late-label"}')
    first = an_event(uuid7(now), tenant, owner=of, accepted_ms=now, ended_ms=now)
    wrong = msgspec.structs.replace(first, request=uuid7(now), cost_nano=1)
    other = an_event(first.request, tenant, owner=of, accepted_ms=now, ended_ms=now, output_text=1)
    for each in (first, wrong, other):
        await post(database, "default", [encode(each)])


@pytest.mark.parametrize("name", [NAME, "bob"])
async def test_what_comes_late_brings_no_words_back(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext, name: str
):
    """Of who had a name for an id, and of who had not: booked without labels and name; others keep theirs."""
    await erase_conversations(database, redis, settings, scene)
    user = await user_named(database, scene.tenant, name)
    assert user is not None
    await close_user(database, redis, scene.tenant, name)
    await late_events(database, scene.tenant, user.id)
    assert await tables_with(database, "late-label") == {"usage_event", "usage_quarantine"}
    await erase_user(database, scene.tenant, user.id)
    async with database.session() as session:
        booked = len((await session.exec(select(UsageRow))).all())
    await late_events(database, scene.tenant, user.id)
    async with database.session() as session:
        assert len((await session.exec(select(UsageRow))).all()) == booked + 1
    assert await tables_with(database, "late-label") == set()
    assert await tables_with(database, NAME) == (
        {"audit_log"} if name == NAME else await where_ada_is(database)
    )
    assert await whole(database, scene.tenant) == []
    ann = await create_user(database, scene.tenant, "ann")
    await late_events(database, scene.tenant, ann.id)
    assert await tables_with(database, "late-label") == {"usage_event", "usage_quarantine"}


async def test_what_the_database_refuses_says_no_words_of_who_was_erased(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """An event that comes late and cannot be stored is held without label and name, as one that can be is."""
    await erase_conversations(database, redis, settings, scene)
    user = await user_named(database, scene.tenant, NAME)
    assert user is not None
    await close_user(database, redis, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    async with database.transaction() as session:
        line = "(:tenant, 9999, 'bad', 1, 'usage', 'input', 0, 0, 0, 'b', 1, '', NULL, 0, 0, '')"
        await (await session.connection()).execute(
            text(f"INSERT INTO usage_line VALUES {line}"), {"tenant": scene.tenant}
        )
    of = UsageOwner(project="p1", key="k1", user=user.id, metadata=b'{"label":"late-label"}')
    [(batch, _)] = await post_in_parts(database, "default", [encode(an_event("bad", scene.tenant, owner=of))])
    assert [each.reason for each in batch.held] == [Quarantined.UNSTORABLE]
    assert await tables_with(database, "late-label") == set()


async def erase_conversations(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
) -> None:
    """The texts of all of them, which are not of the books."""
    await erase_texts(database, redis, settings, scene.tenant, None)


async def where_ada_is(database: Database) -> set[str]:
    """Somebody else was erased: she stays where she was."""
    found = await tables_with(database, NAME)
    assert {"tenant_user", "usage_event", "rollup_hour"} <= found
    return found


async def test_what_comes_late_of_an_erased_tenant_says_no_words(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """Of users it had, by the names that were their ids, and of its own labels."""
    await erase_conversations(database, redis, settings, scene)
    await close_tenant(database, redis, scene.tenant)
    await erase_tenant(database, scene.tenant)
    for user in (NAME, "", "u_" + "0" * 32):
        await late_events(database, scene.tenant, user)
    assert await tables_with(database, "late-label") == set()
    assert await tables_with(database, NAME) == {"audit_log"}
    assert await whole(database, scene.tenant) == []


async def redis_with(redis: Redis, word: str) -> list[bytes]:
    """The keys in which a word stands, in their names or in sorted sets."""
    found: list[bytes] = []
    async for key in redis.scan_iter():
        held = await redis.zrange(key, 0, -1) if await redis.type(key) == b"zset" else []
        found += [key] if word in repr([key, *held]) else []
    return found


def test_each_table_with_a_users_id_is_erased():
    """A new one has to be named where users are erased, or here, with what does it."""
    otherwise = {
        "tenant_user": "replaced",
        "rollup_tag": "deleted",
        "browser_session": "deleted",
        "conversation": "erase_texts",
        "message": "erase_texts",
    }
    by_user = {name for name, table in SQLModel.metadata.tables.items() if "user_id" in table.columns}
    by_scope = {name for name, table in SQLModel.metadata.tables.items() if "scope_id" in table.columns}
    renamed = {str(table.__tablename__) for table in (*RENAMED_BY_USER, *RENAMED_BY_SCOPE)}
    assert by_user | by_scope == renamed | (otherwise.keys() - {"tenant_user"})


async def test_reports_of_who_was_erased_tell_their_sums_and_no_name(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """Sums by label are gone, those by user and hour and refusals are of an id that says nothing, in reports,
    exports and lists of requests; a report by mail of their label alone ends, one of a label that others have
    stays."""
    async with database.transaction() as session:
        session.add(TagKey(tenant_id=scene.tenant, key="label", since_ms=0))
    bob = await user_named(database, scene.tenant, "bob")
    assert bob is not None
    await use(database, scene.tenant, scene.project, NAME, WORDS, 2)
    await use(database, scene.tenant, scene.project, bob.id, "what-bob-said", 1)
    await _add_rows(database, scene.tenant)
    assert {"rollup_tag", "report_schedule", "refusal_hour"} <= (
        await tables_with(database, NAME) | await tables_with(database, LABEL)
    )
    await close_user(database, redis, scene.tenant, NAME)
    await erase_texts(database, redis, settings, scene.tenant, NAME)
    id = await erase_user(database, scene.tenant, NAME)
    assert await tables_with(database, LABEL) == set()
    assert await tables_with(database, NAME) == {"audit_log"}
    assert {"refusal_hour", "refusal_minute", "rollup_hour"} <= await tables_with(database, id)
    assert "rollup_tag" not in await tables_with(database, id)
    async with database.session() as session:
        left = (await session.exec(select(ReportSchedule.only))).all()
    assert left == ["label=x"]
    assert await whole(database, scene.tenant) == []
    stores = Stores(settings, database, lambda: redis)
    told = await _told(stores, scene.tenant)
    assert all(NAME not in each and LABEL not in each for each in told)
    assert id[-8:] in told[0]


async def _add_rows(database: Database, tenant: str) -> None:
    """Refusals, and reports by mail of a label."""
    hour: dict[str, Any] = {"key_id": "k1", "user_id": NAME, "code": "rate_limited", "number": 1}
    of: dict[str, Any] = {"rows": "user", "columns": "project", "every": "month", "people": []}
    async with database.transaction() as session:
        session.add(RefusalMinute(tenant_id=tenant, minute_ms=60_000, last_ids=[], **hour))
        session.add(RefusalHour(tenant_id=tenant, hour_ms=0, why="", last_ms=1, **hour))
        for number, label in enumerate((LABEL, "x")):
            of |= {"only": f"label={label}", "last_period": ""}
            session.add(ReportSchedule(tenant_id=tenant, id=f"s{number}", created_ms=1, **of))


async def _told(stores: Stores, tenant: str) -> list[str]:
    """What a month's reports, its files and the lists of requests and refusals say."""
    who = local_actor()
    asks: list[tuple[Any, Any]] = [
        (chargeback.report, chargeback.AskChargeback(tenant=tenant, rows="user")),
        (chargeback.report, chargeback.AskChargeback(tenant=tenant, rows="tag:label")),
        (report_schedules.list_schedules, NameTenant(tenant=tenant)),
    ]
    told = [repr(await answer_of(run, stores, who, ask)) for run, ask in asks]
    for form in ExportFormat:
        file = await answer_of(chargeback_export.export, stores, who, AskExport(tenant=tenant, format=form))
        async with file.read() as pieces:
            told.append(b"".join([each async for each in pieces]).decode())
    return told
