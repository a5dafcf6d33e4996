"""Money taken out of wallets while customers ask, and what takes two people: voids, claw-backs, pay-outs,
grants and refunds, carried out, refused, approved and not approved. It is written down for the oracle."""

import random
import re
from collections import Counter
from dataclasses import dataclass, field

from chaos.books.checks import SumCheck
from chaos.books.customers import CUSTOMERS, USD
from chaos.books.operator_actions import Act, OperatorActions
from chaos.books.price_files import usd
from chaos.books.second_person import SecondPerson
from chaos.books.terms import CLAW_BACK, METERS, PAID, PAY_OUT, PROMO, VOID, Corrected, CreditTaken, Granted
from chaos.books.testbed import BooksTestbed
from chaos.installation.command_runner import Done

# Once there are two people, all that one moves in a day counts together: orders of one person are typed under
# a limit that they do not reach, and those of two under this one, which they do.
ALONE_CENTS_MAX = 100_000_000
CENTS_MAX = 5_000
LIMIT = "PARLEY_CORRECTION_CENTS_MAX"
MUCH = CENTS_MAX * USD // 100
RICH, POOR = "cyd", "gus"  # who has more than all that is taken, and who may have nothing left
LAST = 99  # of priorities: spent when nothing else is left
APPROVE = re.compile(r"approvals approve (\S+?)`")


@dataclass
class Moves:
    """`answered`: whether orders were carried out or refused where only one of both was right."""

    actions: OperatorActions
    second: SecondPerson
    chosen: random.Random
    done: Counter[str] = field(default_factory=Counter[str])
    answered: SumCheck = field(
        default_factory=lambda: SumCheck("orders: carried out or refused as they should be")
    )

    @property
    def testbed(self) -> BooksTestbed:
        """Whose wallets they are."""
        return self.actions.testbed

    @property
    def kinds(self) -> list[Act]:
        """All orders, in turns."""
        return [self.void, self.claw_back, self.by_two, self.pay_out, self.too_much]

    async def void(self) -> bool:
        """A grant that was a mistake, or one that may have paid for something, which is refused."""
        if self.chosen.random() < 0.25:
            await self.take(RICH, VOID, "first-0", CUSTOMERS[2].grants[0][1], "first-0")
            return True
        name, key = self.chosen.choice((RICH, POOR)), self._key("mistake")
        kind, nano = self.chosen.choice((PAID, PROMO)), self.chosen.randrange(1_001, 99_999)
        await self.testbed.grant(name, kind, nano, key, priority=LAST)
        await self.take(name, VOID, key, nano, key, True if name == RICH else None)
        return True

    async def claw_back(self) -> bool:
        """A part of a grant; of one that may be spent by now too."""
        name = self.chosen.choice((RICH, RICH, POOR))
        grant = "first-1"
        nano = self.chosen.randrange(1, 5_000_000 if name == RICH else 50_000)
        await self.take(name, CLAW_BACK, self._key("back"), nano, grant, True if name == RICH else None)
        return True

    async def pay_out(self) -> bool:
        """Back to the customer, the newest first: over the bounds of a grant now and then."""
        name = self.chosen.choice((RICH, RICH, POOR))
        nano = self.chosen.randrange(1, 150_000 if name == RICH else 40_000)
        await self.take(name, PAY_OUT, self._key("out"), nano, "", True if name == RICH else None)
        return True

    async def too_much(self) -> bool:
        """A nano more than the grant ever had, or than anybody has."""
        if self.chosen.random() < 0.5:
            kind, nano = CUSTOMERS[2].grants[1]
            assert kind == PAID
            await self.take(RICH, CLAW_BACK, self._key("back"), nano + 1, "first-1", False)
        else:
            await self.take(POOR, PAY_OUT, self._key("out"), 40 * USD + 1, "", False)
        return True

    async def take(
        self, name: str, kind: str, key: str, nano: int, grant: str, right: bool | None = None
    ) -> bool:
        """One order to take money out. `right`: whether it has to be done; None: the wallet decides."""
        done = await self.testbed.commands.run(*self._taking(name, kind, key, nano, grant))
        taken = CreditTaken(self.testbed.ids[name], kind, key, nano, grant)
        self._note(taken, done)
        off = right is not None and right != (not done.code)
        self.answered.add([(0, f"{kind} of {nano} nano, {name}: {done.err or done.out}")] if off else [])
        return not done.code

    def _taking(self, name: str, kind: str, key: str, nano: int, grant: str) -> list[str]:
        of = ["wallets", kind.replace("_", "-"), *[grant] * bool(grant), "--tenant", name]
        of += [] if kind == VOID else ["--amount", f"{usd(nano)} USD", "--key", key]
        return [*of, "--reason", "it was wrong", "--yes", "--json"]

    def _note(self, taken: CreditTaken, done: Done) -> None:
        if not done.code:
            self.testbed.history.facts.append(taken)
            self.done[f"{taken.kind} carried out"] += 1
        else:
            self.done[f"{taken.kind} refused"] += 1

    async def by_two(self) -> bool:
        """What one person may not move: approved, tried by a command first, rejected, or never answered."""
        turns: list[Act] = [self._grant_of_two, self._refund_of_two, self._pay_out_of_two, self._unapproved]
        return await turns[self.done["proposed"] % len(turns)]()

    async def _grant_of_two(self) -> bool:
        key, nano = self._key("large"), MUCH + self.chosen.randrange(1, 999_999)
        proposal = await self._propose(*self._granting(key, nano))
        alone = await self.second.approve_by_command(proposal)
        self.answered.add([] if alone else [(0, "a command approved what a command proposed")])
        if await self._approved(proposal):
            self.testbed.history.facts.append(Granted(self.testbed.ids[RICH], key, nano, 50))
        return True

    async def _pay_out_of_two(self) -> bool:
        await self.pay_much_out(RICH, MUCH + self.chosen.randrange(1, 999_999))
        return True

    async def pay_much_out(self, name: str, nano: int) -> None:
        """A pay-out that takes two people, of money that is there."""
        key = self._key("out")
        proposal = await self._propose(*self._taking(name, PAY_OUT, key, nano, ""))
        if await self._approved(proposal):
            self.testbed.history.facts.append(CreditTaken(self.testbed.ids[name], PAY_OUT, key, nano))

    async def _refund_of_two(self) -> bool:
        told = await self.actions.billed(again=False)
        if told is None or not told.cost:
            return False
        cause = f"refund by two {len(self.testbed.history.facts)}"
        of = ("usage", "refund", told.id, "--tenant", told.tenant, "--cause", cause, "--yes", "--json")
        proposal = await self._propose(*of, cents_max=0)
        if await self._approved(proposal):
            self.testbed.history.facts.append(
                Corrected(told.tenant, told.id, cause, dict.fromkeys(METERS, 0))
            )
        return True

    async def _unapproved(self) -> bool:
        key, nano = self._key("large"), MUCH + self.chosen.randrange(1, 999_999)
        proposal = await self._propose(*self._granting(key, nano))
        self.testbed.history.unapproved.append((self.testbed.ids[RICH], f"grant:{key}"))
        if self.done["not approved"] % 2:
            await self.testbed.commands.parley("approvals", "reject", proposal, "--reason", "not agreed")
        self.done["not approved"] += 1
        return True

    def _granting(self, key: str, nano: int) -> list[str]:
        of = ["wallets", "grant", "--tenant", RICH, "--kind", PAID, "--key", key]
        return [*of, "--amount", f"{usd(nano)} USD", "--json"]

    async def _propose(self, *order: str, cents_max: int = CENTS_MAX) -> str:
        """The proposal that an order became."""
        done = await self.testbed.commands.run(*order, environment={LIMIT: str(cents_max)})
        found = APPROVE.search(done.err)
        if not done.code or found is None:
            raise RuntimeError(f"{' '.join(order)} was not proposed: {done.err or done.out}")
        self.done["proposed"] += 1
        return found[1]

    async def _approved(self, proposal: str) -> bool:
        """True where the second person had it booked."""
        refused = await self.second.approve(proposal)
        self.answered.add([(0, f"approved, and not booked: {refused}")] if refused else [])
        self.done["approved"] += not refused
        return not refused

    def _key(self, what: str) -> str:
        self.done["keys"] += 1
        return f"{what}-{self.done['keys']}"
