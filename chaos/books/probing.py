"""Sends at the edge of a customer's money: what the oracle computes to be one nano short has to be refused,
and with that nano it has to be let in."""

import asyncio
import time
from dataclasses import dataclass

from chaos.books import rows
from chaos.books.asking import Asker
from chaos.books.checks import SumCheck
from chaos.books.customers import CUSTOMERS, MODEL
from chaos.books.expected import booked_of
from chaos.books.grant_spending import ReplayedWallet
from chaos.books.judge import expected_by
from chaos.books.price_files import usd
from chaos.books.pricing import least, steady_from, version_at
from chaos.books.terms import CLAW_BACK, PAY_OUT, History
from chaos.books.testbed import BooksTestbed
from chaos.books.wallet_checks import wallet_of
from chaos.books.withdrawals import MUCH, Moves

TOKENS_MAX = 40
STEADY_MS = 60_000  # for so long no planned price begins: commands take seconds where the machine is busy
RICH_AGAIN = 5_000_000_007


@dataclass
class Probes:
    """While nothing else asks, and nothing is killed."""

    moves: Moves
    check: SumCheck

    @property
    def testbed(self) -> BooksTestbed:
        """Whose money it is."""
        return self.moves.testbed

    async def all(self) -> None:
        """Everybody whose sends may be refused for money."""
        for wanted in CUSTOMERS:
            asker = next(each for each in self.testbed.askers if each.customer == wanted.name)
            if wanted.grants or wanted.budget:
                await self._steady()
            if wanted.grants:
                await self._wallet(asker)
                await self.testbed.grant(wanted.name, "paid", RICH_AGAIN, f"again-{wanted.name}")
            elif wanted.budget:
                await self._budget(asker)
                await self._limit(wanted.name, wanted.budget)

    async def _steady(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        steady_ms = steady_from(self.testbed.history.versions, now_ms, STEADY_MS)
        await asyncio.sleep((steady_ms - now_ms) / 1000)

    async def _wallet(self, asker: Asker) -> None:
        """What is left is brought to a nano below what the send takes at least."""
        wallet = await self._replayed_wallet(asker.tenant)
        ends = [each.granted.ends_ms for each in wallet.grants.values() if each.granted.ends_ms is not None]
        await asyncio.sleep(max(0.0, max(ends, default=0) / 1000 - time.time() + 1))  # promotions are over
        short = self._least(asker) - 1
        left = {key: kept.left for key, kept in wallet.grants.items() if kept.granted.ends_ms is None}
        for key, kept in wallet.grants.items():
            if key in left and kept.granted.kind != "paid" and left[key]:
                await self.moves.take(asker.customer, CLAW_BACK, f"all-{key}", left[key], key, True)
                left[key] = 0
        more = short - sum(left.values())
        if more > 0:  # what is owed is paid first
            await self.testbed.grant(
                asker.customer, "paid", more + wallet.owed, f"to-the-edge-{asker.customer}"
            )
        elif -more > MUCH:
            await self.moves.pay_much_out(asker.customer, -more)
        elif more:
            await self.moves.take(asker.customer, PAY_OUT, "to-the-edge", -more, "", True)
        await self._ask(asker, "insufficient_quota")
        await self.testbed.grant(asker.customer, "paid", 1, f"edge-{asker.customer}")
        await self._ask(asker, "")

    async def _budget(self, asker: Asker) -> None:
        """A hard limit a nano below what was spent and the send takes at least; and at it."""
        expected = expected_by(await self._history(), await self._rows())
        spent = sum(bill.cost for bill in expected.of_tenant(asker.tenant))
        edge = spent + self._least(asker)
        await self._limit(asker.customer, edge - 1)
        await self._ask(asker, "budget_exceeded")
        await self._limit(asker.customer, edge)
        await self._ask(asker, "")

    async def _limit(self, name: str, nano: int) -> None:
        await self.testbed.commands.parley("budgets", "set", "--tenant", name, "--limit", f"{usd(nano)} USD")

    def _least(self, asker: Asker) -> int:
        customer = self.testbed.history.customers[asker.tenant]
        found = version_at(self.testbed.history.versions, customer, MODEL, time.time_ns() // 1_000_000)
        assert found is not None, "it was billed by it"
        return least(self.moves.actions.crowd.next_input, found[1])

    async def _ask(self, asker: Asker, code: str) -> None:
        answer = await self.moves.actions.crowd.once(asker, TOKENS_MAX)
        said = answer.code if answer.refused else ""
        self.check.add([] if said == code else [(0, f"{asker.customer}: {said!r}, expected {code!r}")])
        if not answer.refused:
            await self.moves.actions.booked({answer.id})

    async def _replayed_wallet(self, tenant: str) -> ReplayedWallet:
        read = await self._rows()
        return wallet_of(tenant, expected_by(await self._history(), read), read)

    async def _rows(self) -> rows.Rows:
        return await rows.read(self.testbed.cluster.database.engine)

    async def _history(self) -> History:
        """All so far: what clients were told, then what was ordered."""
        crowd, known = self.moves.actions.crowd, self.testbed.history
        read = await self._rows()
        facts = [*crowd.told, *booked_of(crowd.forgotten, read), *known.facts]
        return History(known.customers, known.versions, facts, known.moved)
