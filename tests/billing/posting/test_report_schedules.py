"""Reports by mail: one link for each period and reader, whichever biller looks, and no numbers."""

import asyncio
import email
from dataclasses import replace
from email import policy
from pathlib import Path

import pytest

from billing.alerts.outbox import OutboxSender
from billing.alerts.report_mail import NO_READER
from billing.closing.report_times import ReportEvery
from billing.operations import report_schedules
from billing.operations.report_schedules import NameSchedule, ScheduleReport
from billing.operations.shared_fields import NameTenant
from billing.people.memberships import set_role
from billing.people.persons import create_member
from billing.posting.biller import post
from billing.posting.report_schedules import ReportSchedules
from billing.tables.people import Person
from billing.tables.wallets import Outbox
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import encode
from core.clock import now_ms
from core.operations import Role
from tests.billing.closing.closing_month import GRADUATED, a_request, a_tenant, closed, in_month
from tests.billing.ledger.ledger_reading import read
from tests.billing.mail_server import MailServer, mail_server
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.home import settings_in

DAY_MS = 86_400_000


async def readers(stores: Stores, tenant: str) -> list[str]:
    """An admin, somebody of finance and a developer, each with an address: their ids."""
    ids: list[str] = []
    for name, role in (("ada", Role.ADMIN), ("fin", Role.BILLING), ("dev", Role.DEVELOPER)):
        made = await create_member(stores.db, tenant, name, role)
        async with stores.db.transaction() as session:
            person = await session.get(Person, made.person.id)
            assert person is not None
            person.email = f"{name}@example.com"
            session.add(person)
        ids.append(made.person.id)
    return ids


@pytest.fixture
async def tenant(stores: Stores) -> str:
    """One with usage in January 2025."""
    row = await a_tenant(stores.db, GRADUATED, name="tiered")
    await post(stores.db, "default", [encode(a_request(1, row, 1, 500))])
    return row.tenant_id


async def test_each_period_is_told_once_whichever_biller_looks(
    stores: Stores, tenant: str, home: Path
) -> None:
    """Three billers at once, and again, and after another close: a mail for each reader and month, with a
    link and no figure. Who may not see money by then is told nothing."""
    people = await readers(stores, tenant)
    long_ago = replace(stores, now_ms=lambda: in_month(1))
    ask = ScheduleReport(tenant="tiered", every=ReportEvery.MONTH)
    made = await answer_of(report_schedules.schedule_report, long_ago, OWNER, ask)
    assert made.people == 2
    settings = settings_in(home, smtp_host="127.0.0.1", smtp_security="none")
    billers = [ReportSchedules(stores.db, settings) for _ in range(3)]
    row = await find_tenant(stores.db, tenant)
    assert row is not None
    assert await billers[0].tell_due(now_ms() + 2 * DAY_MS) == 0
    await closed(stores.db, row, 1)
    assert await billers[0].tell_due(now_ms()) == 0, "its morning has not come"
    told = await asyncio.gather(*(each.tell_due(now_ms() + 2 * DAY_MS) for each in billers))
    assert sum(told) == 1
    assert await billers[1].tell_due(now_ms() + 3 * DAY_MS) == 0
    rows = await read(stores.db, Outbox, tenant)
    assert {each.target_id for each in rows} == set(people[:2])
    await set_role(stores.db, tenant, people[1], Role.VIEWER)
    async with stores.db.transaction() as session:
        for each in rows:
            each.next_attempt_ms = 0
            session.add(each)
    async with mail_server(MailServer()) as server:
        sending = settings_in(home, smtp_host="127.0.0.1", smtp_port=server.port, smtp_security="none")
        await OutboxSender(stores.db, sending).send_due()
    (mail,) = server.mails
    text = str(email.message_from_string(mail, policy=policy.default).get_content())
    assert "/portal/chargeback?month=2025-01&rows=cost_center&columns=model" in text
    assert "2025-01" in mail
    assert "USD" not in mail
    states = {each.target_id: (each.state, each.last_error) for each in await read(stores.db, Outbox, tenant)}
    assert states == {people[0]: ("sent", ""), people[1]: ("failed", NO_READER)}


async def test_who_is_asked_for_must_see_money_and_be_of_the_tenant(stores: Stores, tenant: str) -> None:
    """By their address, whatever its case; a developer's or a stranger's is refused. Another tenant's
    schedules are not there; one that is deleted is told no more."""
    await readers(stores, tenant)
    ask = ScheduleReport(tenant="tiered", every=ReportEvery.WEEK, rows="project", to=["FIN@example.com"])
    payer = member_of(tenant, Role.BILLING)
    made = await answer_of(report_schedules.schedule_report, stores, payer, ask)
    assert made.people == 1
    for to in ("dev@example.com", "nobody@example.com"):
        wrong = ScheduleReport(tenant="tiered", to=[to])
        assert (await refusal_of(report_schedules.schedule_report, stores, payer, wrong)).field == "to"
    developer = member_of(tenant, Role.DEVELOPER)
    assert (await refusal_of(report_schedules.schedule_report, stores, developer, ask)).code == "forbidden"
    other = await find_tenant(stores.db, "other")
    assert other is not None
    stranger = member_of(other.tenant_id, Role.ADMIN)
    name = NameSchedule(tenant="other", schedule=made.schedule)
    assert (await refusal_of(report_schedules.unschedule_report, stores, stranger, name)).unknown
    listed = await answer_of(report_schedules.list_schedules, stores, payer, NameTenant(tenant="tiered"))
    assert [each.schedule for each in listed.items] == [made.schedule]
    gone = NameSchedule(tenant="tiered", schedule=made.schedule)
    await answer_of(report_schedules.unschedule_report, stores, payer, gone)
    assert await ReportSchedules(stores.db, stores.settings).tell_due(now_ms() + 30 * DAY_MS) == 0
    assert (await refusal_of(report_schedules.unschedule_report, stores, payer, gone)).unknown
