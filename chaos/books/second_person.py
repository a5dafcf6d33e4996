"""A second person in a run of the books, of finance and signed in, who approves what commands propose."""

from dataclasses import dataclass

import msgspec

from billing.api import (
    OperationActor,
    SignIns,
    Stores,
    Terms,
    actor_of_session,
    ensure_owner,
    local_actor,
    perform,
)
from chaos.installation.cluster import Installation
from core.errors import Refused
from core.operations import registered

HERE = ("127.0.0.1", "chaos")  # address and agent of the session


@dataclass
class SecondPerson:
    """Whoever `who` is."""

    stores: Stores
    who: OperationActor

    async def approve(self, proposal: str) -> str:
        """Book a proposal. Why it was refused; empty: it is booked."""
        return await self._approve(self.who, proposal)

    async def approve_by_command(self, proposal: str) -> str:
        """As `approve`, by nobody who is signed in."""
        return await self._approve(local_actor(), proposal)

    async def _approve(self, who: OperationActor, proposal: str) -> str:
        operation = registered()["approvals.approve"]
        ask = msgspec.convert({"proposal": proposal}, operation.asks)
        try:
            await perform(self.stores, who, operation, ask, Terms(reason="agreed"))
        except Refused as refused:
            return refused.refusal.message
        return ""


async def signed_in_second_person(cluster: Installation) -> SecondPerson:
    """Invited by a command, as the installation's owner would."""
    stores = Stores(cluster.site.settings, cluster.database, lambda: cluster.redis)
    await ensure_owner(stores.db, "first")
    invite = registered()["people.invite"]
    ask = msgspec.convert({"email": "second@example.com", "role": "finance"}, invite.asks)
    code = (await perform(stores, local_actor(), invite, ask)).answer.link.shown.rpartition("=")[2]
    sign_ins = SignIns(stores.settings, stores.db, stores.redis)
    opened = await sign_ins.by_invitation(code, "second", *HERE)
    return SecondPerson(stores, actor_of_session(opened.signed_in, loopback=True))
