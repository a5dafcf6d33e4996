"""What is agreed anew while customers ask: commitments made and ended, projects charged to other cost
centers, planned prices withdrawn and replaced. It is written down for the oracle."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from chaos.books.customers import MODEL, OWN, SHARED, USD, flat
from chaos.books.months import month_of, name_of
from chaos.books.operator_actions import DEAR, WITHDRAWN_AHEAD_MS, Act
from chaos.books.terms import ANY_MODEL, INPUT, OUTPUT, CostCenterChanged, MonthlyCommitment, Version
from chaos.books.testbed import BooksTestbed

MOVE_AHEAD_SECONDS = 8  # the command has to end before
CENTERS = ("north", "south")


@dataclass(frozen=True)
class Agreed:
    """A commitment that is to be ended: after so many months of notice, or (None) as if it had never been.
    `next_month`: it begins only then."""

    name: str
    terms: MonthlyCommitment
    notice: int | None = 0
    next_month: bool = False


AGREED = (
    Agreed("ada", MonthlyCommitment(2 * USD + 3)),
    Agreed("bob", MonthlyCommitment(USD // 3), 1),
    Agreed("dee", MonthlyCommitment(USD // 5, INPUT, ANY_MODEL, 5_000), None),
    Agreed("gus", MonthlyCommitment(USD // 8, OUTPUT, MODEL, 700), next_month=True),
)


@dataclass
class Agreements:
    """`ids`: of commitments, as AGREED has them."""

    testbed: BooksTestbed
    chosen: random.Random
    done: Counter[str] = field(default_factory=Counter[str])
    ids: list[str] = field(default_factory=list[str])
    centers: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _moved_at: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def kinds(self) -> list[Act]:
        """All orders, in turns."""
        return [self.move_project, self.end_commitment, self.replace_planned]

    async def make(self) -> None:
        """The commitments, and cost centers of everybody."""
        for each in AGREED:
            self.ids.append(await self._commit(each))
        for name in self.testbed.ids:
            self.centers[name] = {}
            for code in CENTERS:
                (made,) = await self.testbed.commands.parley("cost-centers", "create", "--tenant", name, code)
                self.centers[name][code] = str(made["cost_center"])

    async def _commit(self, agreed: Agreed) -> str:
        zone = self.testbed.history.customers[self.testbed.ids[agreed.name]].zone
        start, following = month_of(time.time_ns() // 1_000_000, zone)
        if agreed.next_month:
            start = following
        notice = ["--notice", str(agreed.notice or 0), "--from", name_of(start, zone)]
        return await self.testbed.commit(agreed.name, replace(agreed.terms, from_ms=start), *notice)

    async def end_commitment(self) -> bool:
        """The next of them, as its notice says."""
        number = self.done["commitments ended"]
        if number == len(AGREED):
            return False
        agreed, tenant = AGREED[number], self.testbed.ids[AGREED[number].name]
        customer = self.testbed.history.customers[tenant]
        mistake = ["--as-never-made"] * (agreed.notice is None)
        of = ("--tenant", agreed.name, self.ids[number], "--reason", "no more wanted", *mistake)
        await self.testbed.commands.parley("prices", "end-commitment", *of)
        found = next(each for each in customer.commitments if replace(each, from_ms=0) == agreed.terms)
        _, until = month_of(time.time_ns() // 1_000_000, customer.zone)
        for _ in range(agreed.notice or 0):
            _, until = month_of(until, customer.zone)
        ended = replace(found, until_ms=found.from_ms if agreed.notice is None else until)
        others = tuple(each for each in customer.commitments if each is not found)
        self.testbed.history.customers[tenant] = replace(customer, commitments=(*others, ended))
        self.done["commitments ended"] += 1
        return True

    async def move_project(self) -> bool:
        """A project to another cost center, from some seconds on."""
        asker = self.chosen.choice(self.testbed.askers)
        at = max(int(time.time()) + MOVE_AHEAD_SECONDS, self._moved_at.get(asker.project, 0) + 1)
        code = self.chosen.choice(CENTERS)
        start = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S%z")
        of = ("--tenant", asker.customer, asker.project, code, "--from", start)
        await self.testbed.commands.parley("projects", "charge-to", *of)
        center = self.centers[asker.customer][code]
        self.testbed.history.moved.append(CostCenterChanged(asker.tenant, asker.project, center, at * 1000))
        self._moved_at[asker.project] = at
        return True

    async def replace_planned(self) -> bool:
        """A version that would make everything dearer is planned, and another takes its place in one step or
        none does."""
        book = self.chosen.choice((SHARED, OWN))
        at_ms = time.time_ns() // 1_000_000 + WITHDRAWN_AHEAD_MS
        wrong = await self.testbed.price(book, {ANY_MODEL: DEAR}, at_ms=at_ms)
        if self.chosen.random() < 0.5:
            of = (book, str(wrong.number), "--reason", "too dear")
            await self.testbed.commands.parley("prices", "withdraw", *of)
            self.done["planned prices withdrawn"] += 1
        else:
            of = ("--replace", str(wrong.number), "--reason", "too dear")
            await self.testbed.price(book, {MODEL: flat(self.chosen)}, at_ms=at_ms + 7, flags=of)
            self.done["planned prices replaced"] += 1
        self._withdrawn(wrong)
        return True

    def _withdrawn(self, version: Version) -> None:
        versions = self.testbed.history.versions
        versions[versions.index(version)] = replace(version, withdrawn=True)
