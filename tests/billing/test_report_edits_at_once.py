"""Edits of what reports are told apart by and sent to, eight at once, as in test_edits_at_once."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from billing.audit.compare import compare_states
from billing.operations import report_schedules
from billing.operations.report_schedules import NameSchedule, ScheduleReport
from billing.tables.ledger import TagKey
from billing.tables.report_schedules import ReportSchedule
from billing.tables.tenants import PLATFORM
from billing.tenants.tags import TAGS_MAX, declare_tag, withdraw_tag
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.configuration.settings import Settings
from tests.billing.edits import AT_ONCE, Edited
from tests.billing.edits import settings as settings  # the fixture
from tests.billing.operations.acting import OWNER

Ask = Callable[[Any, msgspec.Struct], Awaitable[Any]]


async def tags(on: Edited, _: Ask) -> None:
    """One of a key, no more than there may be; one is withdrawn once, and may be declared again."""
    owner = on.tenant.tenant_id
    assert len(await on.at_once(lambda n: declare_tag(on.db, owner, "team"))) == 1
    for n in range(TAGS_MAX - 3):
        await declare_tag(on.db, owner, f"tag{n}")
    assert len(await on.at_once(lambda n: declare_tag(on.db, owner, f"more{n}"))) == 2
    assert len(await on.at_once(lambda n: withdraw_tag(on.db, owner, "team"))) == 1
    await on.at_once(
        lambda n: declare_tag(on.db, owner, "team") if n % 2 else withdraw_tag(on.db, owner, "tag0")
    )
    rows = [row for row in await on.rows(TagKey) if row.until_ms is None]
    assert len(rows) == len({row.key for row in rows}) == TAGS_MAX - 1
    assert (len(await on.audited("tag.declare")), len(await on.audited("tag.withdraw"))) == (TAGS_MAX + 1, 2)


async def reports_by_mail(on: Edited, ask: Ask) -> None:
    """No more than there may be; one is stopped once."""
    report = ScheduleReport(tenant="acme", rows="cost_center", columns="model")
    for _ in range(report_schedules.SCHEDULES_MAX - 1):
        await ask(report_schedules.schedule_report, report)
    made = await on.at_once(lambda n: ask(report_schedules.schedule_report, report))
    assert len(made) == 1
    one = NameSchedule(tenant="acme", schedule=made[0].schedule)
    assert len(await on.at_once(lambda n: ask(report_schedules.unschedule_report, one))) == 1
    assert len(await on.open(ReportSchedule)) == report_schedules.SCHEDULES_MAX - 1
    assert len(await on.audited("report_schedule.delete")) == 1


async def stopping_and_adding_reports(on: Edited, ask: Ask) -> None:
    """Each adds one and stops one of its own: none is lost, none is stopped for another."""
    report = ScheduleReport(tenant="acme", rows="cost_center", columns="model")
    made = [await ask(report_schedules.schedule_report, report) for _ in range(AT_ONCE // 2)]

    async def edit(n: int) -> Any:
        if n % 2:
            return await ask(report_schedules.schedule_report, report)
        one = NameSchedule(tenant="acme", schedule=made[n // 2].schedule)
        return await ask(report_schedules.unschedule_report, one)

    assert len(await on.at_once(edit)) == AT_ONCE
    left = {row.id for row in await on.open(ReportSchedule)}
    assert len(left) == AT_ONCE // 2
    assert not left & {each.schedule for each in made}


EDITS = (tags, reports_by_mail, stopping_and_adding_reports)


@pytest.mark.parametrize("edits", EDITS, ids=[each.__name__ for each in EDITS])
async def test_of_edits_of_reports_at_once_each_sees_the_one_before(
    settings: Edited, edits: Callable[[Edited, Ask], Awaitable[None]]
) -> None:
    """And the audit log has each change in its place."""
    stores = Stores(Settings(), settings.db, lambda: settings.redis)

    async def ask(run: Any, asked: msgspec.Struct) -> Any:
        return await answer_of(run, stores, OWNER, asked)

    await edits(settings, ask)
    for owner in (settings.tenant.tenant_id, PLATFORM):
        assert (await compare_states(settings.db, owner)).faults == []
