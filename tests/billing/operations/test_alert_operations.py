"""Operations on alerts: whose targets they are, what is shown once, and what was reached."""

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from billing.alerts import webhooks
from billing.enforcement.limit_settings import set_budget
from billing.operations import alerts
from billing.operations.alerts import (
    AddAlertTarget,
    ListAlerts,
    ListAlertTargets,
    NameAlertTarget,
    ReachedAlert,
)
from billing.posting.biller import post
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import encode
from core.errors import Refused
from core.operations import MoneyAmount, Role
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

HOOK = "https://hooks.example.com/parley"


async def admin_of(stores: Stores, role: Role = Role.ADMIN):
    """A member of acme."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    return member_of(found.tenant_id, role)


async def test_an_admin_says_where_alerts_go(stores: Stores) -> None:
    """A webhook's secret is shown once; a wrong address is refused at its field; a dry run adds nothing; a
    removed one is gone; another tenant's are unknown, and who only reads adds none."""
    admin = await admin_of(stores)
    hook, mail = (
        AddAlertTarget(tenant="acme", webhook=HOOK),
        AddAlertTarget(tenant="acme", email="a@acme.example"),
    )
    await answer_of(alerts.add_alert_target, stores, admin, hook, Terms(dry_run=True))
    made = await answer_of(alerts.add_alert_target, stores, admin, hook)
    assert (made.secret.shown.startswith("whsec_"), made.target.address) == (True, HOOK)
    await answer_of(alerts.add_alert_target, stores, admin, mail)
    listed = await answer_of(alerts.list_alert_targets, stores, admin, ListAlertTargets(tenant="acme"))
    assert [(each.kind, each.last) for each in listed.items] == [("webhook", ""), ("email", "")]
    for wrong in (AddAlertTarget(tenant="acme"), AddAlertTarget(tenant="acme", webhook="http://127.0.0.1/")):
        assert (await refusal_of(alerts.add_alert_target, stores, admin, wrong)).code == "bad_request"
    other = AddAlertTarget(tenant="other", webhook=HOOK)
    assert (await refusal_of(alerts.add_alert_target, stores, admin, other)).unknown
    reader = await admin_of(stores, Role.BILLING)
    assert (await refusal_of(alerts.add_alert_target, stores, reader, hook)).code == "forbidden"
    named = NameAlertTarget(tenant="acme", target=made.target.target)
    await answer_of(alerts.remove_alert_target, stores, admin, named)
    assert (await refusal_of(alerts.remove_alert_target, stores, admin, named)).unknown


async def test_a_test_goes_out_once_a_minute(stores: Stores) -> None:
    """So that nobody floods an address through us, not even by a target that is removed and added again."""
    admin = await admin_of(stores)
    hook = AddAlertTarget(tenant="acme", webhook=HOOK)
    made = await answer_of(alerts.add_alert_target, stores, admin, hook)
    named = NameAlertTarget(tenant="acme", target=made.target.target)
    await answer_of(alerts.send_test_alert, stores, admin, named)
    await answer_of(alerts.remove_alert_target, stores, admin, named)
    again = (await answer_of(alerts.add_alert_target, stores, admin, hook)).target.target
    other = NameAlertTarget(tenant="acme", target=again)
    assert "one test a minute" in (await refusal_of(alerts.send_test_alert, stores, admin, other)).message
    (listed,) = (
        await answer_of(alerts.list_alert_targets, stores, admin, ListAlertTargets(tenant="acme"))
    ).items
    assert listed.target == again


async def test_thresholds_that_were_reached_are_listed(stores: Stores) -> None:
    """Newest first, by page; members see their own tenant's alone."""
    admin = await admin_of(stores)
    tenant = admin.tenant or ""
    await set_budget(stores.db, stores.redis, tenant, scope="tenant", period="lifetime", limit_nano=1)
    await post(stores.db, "default", [encode(an_event(tenant=tenant))])
    found, after = list[ReachedAlert](), ""
    while after is not None:
        ask = ListAlerts(tenant="acme", limit=2, after=after)
        page = await answer_of(alerts.list_alerts, stores, admin, ask)
        found, after = [*found, *page.items], page.next
    assert sorted(each.percent for each in found) == [50, 80, 100]
    assert {each.limit for each in found} == {MoneyAmount.of(1)}
    assert (await answer_of(alerts.list_alerts, stores, OWNER, ListAlerts(tenant="other"))).items == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "169.254.169.254",
        "10.1.2.3",
        "[::1]",
        "[fd00::1]",
        "[fe80::1%25eth0]",
        "[::ffff:10.0.0.1]",
        "2130706433",
        "0x7f.1",
        "metadata.google.internal",
        "hooks.inside.example",
    ],
)
async def test_an_address_inside_is_refused_when_it_is_saved(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """However it is written, and where a name leads to one; in a dry run too. Where operators allow it, it is
    stored."""
    loop = asyncio.get_running_loop()
    known = loop.getaddrinfo

    async def getaddrinfo(name: str, port: int, **facts: Any) -> Any:
        if name == "hooks.inside.example":
            return [(2, 1, 6, "", ("93.184.215.14", port)), (2, 1, 6, "", ("10.0.0.7", port))]
        return await known(name, port, **facts)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    ask = AddAlertTarget(tenant="acme", webhook=f"https://{host}/hook")
    for terms in (Terms(dry_run=True), Terms()):
        with pytest.raises(Refused, match="inside a network") as refused:
            await answer_of(alerts.add_alert_target, stores, OWNER, ask, terms)
        assert refused.value.refusal.field == "webhook"
    allowed = replace(stores, settings=stores.settings.model_copy(update={"alert_private_targets": True}))
    made = await answer_of(alerts.add_alert_target, allowed, OWNER, ask)
    assert made.target.address == f"https://{host}/hook"


async def test_a_name_that_nobody_knows_yet_is_stored(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or that is slow to resolve: it is checked again, whenever something is sent."""
    monkeypatch.setattr(webhooks, "RESOLVE_SECONDS_MAX", 0.05)

    async def getaddrinfo(name: str, _: int, **__: Any) -> Any:
        if name.startswith("slow"):
            await asyncio.Event().wait()
        raise socket.gaierror("no such name")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    for host in ("slow.example", "unknown.example"):
        ask = AddAlertTarget(tenant="acme", webhook=f"https://{host}/")
        assert (await answer_of(alerts.add_alert_target, stores, OWNER, ask)).target.address
