"""The installation of a run of the books: its customers, books and keys are made by `parley`'s own commands,
and what was ordered is written down for the oracle."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from chaos.books import rows
from chaos.books.asking import Asker
from chaos.books.customers import (
    COVERED,
    CUSTOMERS,
    MODEL,
    OWN,
    SHARED,
    TIERED,
    CustomerPlan,
    flat,
    request_tiers,
    tiers,
)
from chaos.books.price_files import price_file, usd
from chaos.books.terms import ANY_MODEL, Customer, Granted, History, MonthlyCommitment, Tiers, Version
from chaos.installation.cluster import Installation
from chaos.installation.command_runner import CommandRunner

SOON_SECONDS = 30.0  # until then all books are made
TURNS = 8
PRIORITIES = {"promo": 10, "paid": 50}


@dataclass
class BooksTestbed:
    """What there is: `ids` of tenants by name; `history` is what the oracle judges by."""

    cluster: Installation
    commands: CommandRunner
    chosen: random.Random
    history: History = field(default_factory=History)
    askers: list[Asker] = field(default_factory=list[Asker])
    ids: dict[str, str] = field(default_factory=dict[str, str])
    books: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])  # owner, parent

    async def make(self, seconds: float) -> None:
        """All customers and books; in the time to come further versions of the shared one begin."""
        for wanted in CUSTOMERS:
            (made,) = await self.commands.parley("tenants", "create", wanted.name)
            self.ids[wanted.name] = str(made["tenant"])
            await self._keys(wanted.name)
        await self._shared(seconds)
        for wanted in CUSTOMERS:
            await self._customer(wanted)

    async def _shared(self, seconds: float) -> None:
        """Planned in any order, and before any is in force, so that none has to wait for a minute."""
        self.books[SHARED] = ("", "")
        first = time.time() + SOON_SECONDS
        turns = [int(1000 * (first + seconds * part / TURNS)) + part for part in range(TURNS)]
        for at_ms in self.chosen.sample(turns, TURNS):
            model = self.chosen.choice((MODEL, ANY_MODEL))
            await self.price(SHARED, {model: flat(self.chosen)}, at_ms=at_ms)
        await self.price(SHARED, {ANY_MODEL: flat(self.chosen), MODEL: flat(self.chosen)})

    async def price(
        self,
        book: str,
        prices: dict[str, Any],
        of_tiers: dict[tuple[str, str], Tiers] | None = None,
        at_ms: int | None = None,
        now: bool = False,
        flags: Sequence[str] = (),
    ) -> Version:
        """One more version of a book. `flags`: of the command."""
        number = 1 + sum(each.book == book for each in self.history.versions)
        version = Version(book, number, at_ms or 0, prices, of_tiers or {})
        owner, parent = self.books[book]
        file = self.cluster.site.settings.home / f"{book}-{number}.toml"
        await asyncio.to_thread(file.write_text, price_file(version, owner, parent, at_ms))
        done = await self.commands.run("prices", "import", str(file), *["--now"] * now, *flags, "--json")
        assert done.code == 0, done.err
        found = (await rows.read(self.cluster.database.engine, "price_version"))["price_version"]
        begins = next(
            int(each["valid_from_ms"])
            for each in found
            if (each["book_id"], each["version"]) == (book, number)
        )
        if at_ms is None:
            assert done.began_ms <= begins <= done.ended_ms, "it begins when it is imported"
        version = Version(book, number, at_ms or begins, prices, of_tiers or {}, done.ended_ms * now)
        self.history.versions.append(version)
        return version

    async def _customer(self, wanted: CustomerPlan) -> None:
        id = self.ids[wanted.name]
        await self._own_book(wanted)
        of_tenant = ("--time-zone", wanted.zone, "--price-book", wanted.book, "--show-costs")
        await self.commands.parley("tenants", "set", wanted.name, *of_tenant)
        chain = (wanted.book,) if wanted.book == SHARED else (wanted.book, SHARED)
        prepaid = bool(wanted.grants)
        customer = Customer(id, wanted.name, wanted.zone, chain, (), prepaid)
        self.history.customers[id] = customer
        for commitment in wanted.commitments:
            await self.commit(wanted.name, commitment)
        for number, (kind, nano) in enumerate(wanted.grants):
            await self.grant(wanted.name, kind, nano, f"first-{number}")
        if wanted.budget:
            limit = f"{usd(wanted.budget)} USD"
            await self.commands.parley("budgets", "set", "--tenant", wanted.name, "--limit", limit)

    async def _own_book(self, wanted: CustomerPlan) -> None:
        if wanted.book == SHARED:
            return
        self.books[wanted.book] = (wanted.name, SHARED)
        match wanted.book:
            case book if book == OWN:
                await self.price(book, {MODEL: flat(self.chosen)})
            case book if book == TIERED:
                await self.price(book, {MODEL: flat(self.chosen)}, tiers(self.chosen, MODEL))
            case book:
                assert book == COVERED
                of_tiers = request_tiers(self.chosen, ANY_MODEL)
                await self.price(book, {ANY_MODEL: flat(self.chosen)}, of_tiers)

    async def commit(self, name: str, of: MonthlyCommitment, *flags: str) -> str:
        """One more commitment of a customer; its id."""
        amount = ["--amount", f"{usd(of.amount)} USD", "--months", "3"]
        units = ["--model", of.model, "--meter", of.meter, "--units", str(of.units)] if of.meter else []
        overage = ["--overage", f"{usd(of.overage)} USD"] if of.overage is not None else []
        terms = (*amount, *units, *overage, *flags)
        (made,) = await self.commands.parley("prices", "commit", "--tenant", name, *terms)
        customer = self.history.customers[self.ids[name]]
        self.history.customers[customer.id] = replace(customer, commitments=(*customer.commitments, of))
        return str(made["id"])

    async def grant(
        self, name: str, kind: str, nano: int, key: str, seconds: int = 0, priority: int = 0
    ) -> None:
        """Money for a wallet; with `seconds` it ends so soon; with a `priority` it is spent in that turn."""
        ends = int(time.time()) + seconds if seconds else None
        ends_ms = None if ends is None else ends * 1000
        granted = Granted(self.ids[name], key, nano, priority or PRIORITIES[kind], ends_ms, kind)
        self.history.facts.append(granted)
        of = ["--tenant", name, "--kind", kind, "--key", key, "--amount", f"{usd(nano)} USD"]
        of += ["--priority", str(priority)] * bool(priority)
        if ends is not None:
            of += ["--expires", datetime.fromtimestamp(ends, UTC).isoformat()]
        await self.commands.parley("wallets", "grant", *of)

    async def _keys(self, name: str) -> None:
        """A service key in one project, and a user's in another."""
        await self.commands.parley("projects", "create", "--tenant", name, "web")
        (own,) = await self.commands.parley("keys", "create", "--tenant", name)
        (ann,) = await self.commands.parley(
            "keys", "create", "--tenant", name, "--project", "web", "--user", "ann"
        )
        users = (await rows.read(self.cluster.database.engine, "tenant_user"))["tenant_user"]
        user = next(
            each["id"] for each in users if each["tenant_id"] == self.ids[name] and each["name"] == "ann"
        )
        for key, of in ((own, ""), (ann, user)):
            facts = self.ids[name], key["secret"], key["project"], key["key"]
            self.askers.append(Asker(name, *facts, of))
