"""A wallet against a plain model: any sequence of grants, usage, corrections and ends."""

import random

from hypothesis import given
from hypothesis import strategies as st

from billing.ledger.grant_spending import Grant, GrantKind, SpendableWallet, TopUp
from billing.ledger.transactions import entries_of


class Day:
    """One tenant's books while hours pass; each step is one transaction."""

    def __init__(self, chosen: random.Random) -> None:
        self.chosen = chosen
        self.hour = 0
        self.grants: list[Grant] = []
        self.costs: dict[str, int] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.balances: dict[str, int] = {}

    def grant(self, amount: int, hours: int | None) -> None:
        """Money comes in, to stay for some hours."""
        ends = None if hours is None else self.hour + hours
        kind = self.chosen.choice([each.value for each in GrantKind])
        new = Grant(f"g{self.hour}", kind, self.chosen.randrange(3), amount, ends, self.hour)
        self.grants.append(new)
        self._book(0, {"source": amount, new.account: -amount})

    def use(self, cost: int, hours: int | None) -> None:
        """A request is posted, that was accepted some hours ago."""
        request, wallet = f"r{self.hour}", self._wallet()
        accepted = self.hour - (hours or 0)
        self.costs[request], self.used[request] = cost, {}
        paid = wallet.charge(request, cost, accepted)
        for account, amount in wallet.revived.items():
            self._book(0, {"breakage": amount, account: -amount})
        self._book(cost, paid)
        self._keep(wallet, accepted)
        could = [each for each in self.grants if each.pays_at(accepted)]
        assert request not in wallet.owed or not any(each.left_nano or each.lapsed_nano for each in could)

    def correct(self, cost: int, _: int | None) -> None:
        """A request cost something else in truth."""
        if not self.costs:
            return
        request, wallet = self.chosen.choice(list(self.costs)), self._wallet()
        more = cost - self.costs[request]
        if more > 0:
            self._book(more, wallet.charge(request, more))
        else:
            self._book(more, wallet.give_back(request, -more, self.costs[request], self.used[request]))
        self.costs[request] = cost
        self._keep(wallet)

    def expire(self, _: int, __: int | None) -> None:
        """What is over is booked as gone."""
        for each in self.grants:
            if each.expires_ms is not None and each.expires_ms <= self.hour:
                self._book(0, {each.account: each.left_nano, "breakage": -each.left_nano})
                each.left_nano, each.lapsed_nano = 0, each.lapsed_nano + each.left_nano

    def check(self) -> None:
        """INV-24 and INV-32: accounts hold what grants have left, and what nobody paid is owed."""
        assert sum(self.balances.values()) == 0
        for each in self.grants:
            assert each.left_nano == -self.balances.get(each.account, 0) >= 0
        assert sum(each.lapsed_nano for each in self.grants) == -self.balances.get("breakage", 0)
        paid = sum(sum(each.values()) for each in self.used.values())
        assert self.balances.get("receivable", 0) == sum(self.costs.values()) - paid >= 0

    def _wallet(self) -> SpendableWallet:
        return SpendableWallet("t1", 0, TopUp("", 0), (), self.grants, self.hour)

    def _book(self, charged: int, moved: dict[str, int]) -> None:
        paid = {(account, "p", ""): amount for account, amount in moved.items()}
        for account, amount, _, _ in entries_of({("output", "p", ""): charged}, paid):
            self.balances[account] = self.balances.get(account, 0) + amount

    def _keep(self, wallet: SpendableWallet, accepted: int | None = None) -> None:
        accepted = self.hour if accepted is None else accepted
        ends = {each.id: each.expires_ms for each in self.grants}
        for request, grant, amount in wallet.uses:
            expires = ends[grant]
            assert amount < 0 or expires is None or expires > accepted, "an expired grant paid"
            self.used[request][grant] = self.used[request].get(grant, 0) + amount


STEPS = {"grant": Day.grant, "use": Day.use, "correct": Day.correct, "expire": Day.expire}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 60), st.none() | st.integers(1, 12))),
    st.randoms(use_true_random=False),
)
def test_whatever_happens_in_whatever_order_accounts_and_grants_agree(
    steps: list[tuple[str, int, int | None]], chosen: random.Random
) -> None:
    """INV-32: No correction mints money. No credit stays where usage was
    posted."""
    day = Day(chosen)
    for what, amount, hours in steps:
        day.hour += 1
        STEPS[what](day, amount, hours)
        day.check()
