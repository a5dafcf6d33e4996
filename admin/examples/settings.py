"""Makes example tenants by operations, as an operator would: each change has its row in the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from admin.examples.tenants import PLANS, ExampleKey, ExampleTenant, KeyEnd
from billing.api import Stores, Terms, local_actor, perform
from core.operations import MoneyAmount, registered

REASON = "parley demo seed"
EXPIRES_DAYS = 9
CENT_NANO = 10_000_000
STRICT = {"detectors": [{"name": "card", "action": "block"}, {"name": "email", "action": "redact"}]}


@dataclass(frozen=True)
class ExampleOwner:
    """Ids of an example tenant and of what it has, by their names."""

    tenant: str
    projects: Mapping[str, str]
    keys: Mapping[str, str]
    users: Mapping[str, str]


class ExampleSettings:
    """What operators set."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def do(self, operation: str, **facts: Any) -> Any:
        """Perform an operation; raises Refused. Others hear of it, or it fails."""
        declared = registered()[operation]
        done = await perform(
            self._stores,
            local_actor(),
            declared,
            msgspec.convert(facts, declared.asks),
            Terms(reason=REASON),
        )
        if done.untold is not None:
            raise done.untold
        return done.answer

    async def make_plans(self) -> None:
        """The plans that there are not."""
        page = await self.do("plans.list", limit=200)
        known = {each.name for each in page.items}
        for plan in PLANS:
            if plan.name in known:
                continue
            await self.do("plans.create", name=plan.name, weight=plan.weight)
            for dimension, limit in (
                ("requests_per_minute", plan.requests),
                ("tokens_per_minute", plan.tokens),
                ("concurrency", plan.at_once),
            ):
                await self.do("plans.set_limit", plan=plan.name, dimension=dimension, limit=limit)

    async def make_tenant(self, of: ExampleTenant) -> ExampleOwner:
        """A tenant with its plan, projects, users, keys and limits."""
        tenant = (await self.do("tenants.create", name=of.name)).tenant
        await self.do("plans.assign", tenant=tenant, plan=of.plan)
        if of.zone != "UTC":
            await self.do("tenants.set", tenant=tenant, time_zone=of.zone)
        projects = {
            name: (await self.do("projects.create", tenant=tenant, name=name)).project for name in of.projects
        }
        users = {name: (await self.do("users.create", tenant=tenant, user=name)).id for name in of.users}
        keys = {each.name: await self._make_key(tenant, each) for each in of.keys}
        if of.limit_per_minute:
            await self.do(
                "limits.set",
                tenant=tenant,
                scope="tenant",
                dimension="requests_per_minute",
                limit=of.limit_per_minute,
            )
        if of.strict:
            await self.do("safety.set", tenant=tenant, document=STRICT)
        return ExampleOwner(tenant, projects, keys, users)

    async def _make_key(self, tenant: str, key: ExampleKey) -> str:
        expires = datetime.now(UTC) + timedelta(days=EXPIRES_DAYS)
        facts = {"expires": expires.isoformat()} if key.end is KeyEnd.EXPIRES else {}
        made = await self.do("keys.create", tenant=tenant, project=key.project, name=key.name, **facts)
        return made.key.key

    async def revoke_keys(self, of: ExampleTenant, owner: ExampleOwner) -> None:
        """Those that are to be; what they used stays theirs."""
        for key in of.keys:
            if key.end is KeyEnd.REVOKED:
                await self.do("keys.revoke", tenant=owner.tenant, key=owner.keys[key.name])

    async def top_up(self, of: ExampleTenant, owner: ExampleOwner, used_nano: int) -> None:
        """Money in advance, in parts of what is going to be used."""
        for number, part in enumerate(of.grants):
            kind = "promo" if number and number == len(of.grants) - 1 else "paid"
            await self.do(
                "wallets.grant",
                tenant=owner.tenant,
                amount=money(used_nano * part),
                key=f"example-{number + 1}",
                kind=kind,
                note="an example",
            )

    async def set_budget(self, owner: ExampleOwner, period: str, limit_nano: float) -> None:
        """A budget of the whole tenant."""
        await self.do("budgets.set", tenant=owner.tenant, period=period, limit=money(limit_nano))

    async def set_user_budget(self, owner: ExampleOwner, cents: int) -> None:
        """A budget that each user has for a day; beyond it nothing is refused."""
        await self.do(
            "budgets.set",
            tenant=owner.tenant,
            scope="user",
            period="day",
            limit=money(cents * CENT_NANO),
            soft=True,
        )


def money(nano: float) -> dict[str, str]:
    """An amount on the wire, in whole hundredths of a cent, at least one. Pure."""
    unit = CENT_NANO // 100
    return {"nano": MoneyAmount.of(max(1, round(nano / unit)) * unit).nano}
