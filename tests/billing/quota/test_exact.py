"""Amounts in the tenant slot, on a real Valkey: exact to the nano, whatever their size and the prices."""

import random

import msgspec
import pytest

from billing.enforcement.take_credit import _end_take, _take_in_redis
from billing.limits import LIMIT_NANO_MAX, WALLET, WALLET_MODULUS_NANO, WALLET_WINDOW
from billing.prices.rating import Counts, rate
from billing.quota.client import _SETTLE
from billing.quota.packing import settlement
from billing.usage import PinnedPrices
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from tests.billing.limited import NANO, LimitedTenant, a_budget
from tests.support.redis import Redis


@pytest.fixture
def tenant(redis: Redis, settings: Settings) -> LimitedTenant:
    """A tenant without limits; a token in costs 1 nano, one out 2."""
    return LimitedTenant(redis, settings)


@pytest.mark.parametrize("amount", [99_999_999_999_999, 123_456_789_012_345, 3_999_999_999_999_989])
async def test_amounts_of_14_digits_and_more_stay_exact(tenant: LimitedTenant, amount: int) -> None:
    """Lua's own texts of numbers keep 14 digits; nothing here is written by them."""
    tenant.prices = replace_prices(input_nano=1_000_000, output_nano=1_000_000)
    tenant.limit(a_budget(LIMIT_NANO_MAX))
    await tenant.seed(spent=amount - 1)
    await tenant.admit("a", input=0, chunk=10)
    assert await tenant.sums() == (amount - 1, 0, 11)
    await tenant.settle("a", input=0, output=2, line_seq=7)
    assert await tenant.sums() == (amount + 1, 0, 0)
    dear = replace_prices(input_nano=1_000_000 * (2 + (LIMIT_NANO_MAX - amount) // 1000))
    refusal = await tenant.refused("b", input=1000, prices=dear)
    assert (refusal.spent, refusal.remaining) == (amount + 1, max(0, LIMIT_NANO_MAX - amount - 1))


def replace_prices(**prices: int) -> PinnedPrices:
    """NANO with other prices."""
    return msgspec.structs.replace(NANO, **prices)


async def test_a_hold_covers_every_cost(tenant: LimitedTenant) -> None:
    """Whatever the prices, the classes of the tokens and their rounding: what is settled is never more."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    tenant.limit(a_budget(LIMIT_NANO_MAX))
    await tenant.seed()
    for at in range(120):
        prices = replace_prices(
            input_nano=chance.choice([0, 1, 499_999, 500_000, 1_500_000, chance.randrange(10**10)]),
            cached_input_nano=chance.choice([0, 1, 500_000, 1_500_000, chance.randrange(10**10)]),
            output_nano=chance.choice([0, 1, 500_000, 1_500_000, chance.randrange(10**10)]),
            request_nano=chance.choice([0, 1, 500_000, 1_500_000, chance.randrange(10**12)]),
        )
        cached, uncached = chance.randrange(5), chance.randrange(5000)
        text, reasoning = chance.randrange(4), chance.randrange(300)
        await tenant.admit(f"r{at}", cached + uncached, chunk=text + reasoning, prices=prices)
        cost = rate(Counts(uncached, cached, text, reasoning), prices)[1]
        _, _, held = await tenant.sums()
        assert cost <= held, f"seed {seed}: {prices}"
        await tenant.quota.release("t1", f"r{at}")


async def test_monstrous_prices_refuse_rather_than_pass(tenant: LimitedTenant) -> None:
    """A cost beyond what a script counts is more than any limit. No price makes money."""
    tenant.limit(a_budget(LIMIT_NANO_MAX))
    await tenant.seed()
    monster = replace_prices(input_nano=2**62, output_nano=2**62)
    assert (await tenant.refused("a", input=2**32, prices=monster)).code == "budget_exceeded"
    with pytest.raises(ValueError, match="range"):
        await tenant.quota.settle(tenant.event("a", cost_nano=-1))


@pytest.mark.parametrize("left", [-LIMIT_NANO_MAX, -20, 0, 103, 104, 1_000, LIMIT_NANO_MAX - 1])
@pytest.mark.parametrize(
    "spent", [20, WALLET_MODULUS_NANO - 10, WALLET_MODULUS_NANO, 3 * WALLET_MODULUS_NANO + 5]
)
async def test_a_wallet_is_what_was_granted_less_what_was_spent(
    tenant: LimitedTenant, spent: int, left: int
) -> None:
    """Wherever in the scripts' modulus the two are, and whichever of them is ahead: who owes is let in no
    more than who has nothing."""
    tenant.limit(a_budget(max(0, spent + left), period=WALLET, window=WALLET_WINDOW))
    left = max(0, spent + left) - spent
    await tenant.seed(spent=spent)
    answer = await tenant.ask("a", input=100, chunk=1)  # which costs 104 at most
    if left < 104:
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.remaining) == ("insufficient_quota", max(0, left))
    else:
        assert not isinstance(answer, Refusal)
        assert answer.standing.budget is not None
        assert answer.standing.budget.remaining == left - 104


@pytest.mark.parametrize("spent", [0, 7_200_000_000_001, WALLET_MODULUS_NANO - 703])
async def test_what_is_free_of_a_wallet_can_be_taken_out_of_it(tenant: LimitedTenant, spent: int) -> None:
    """To the last nano, wherever it is in the scripts' modulus, and no older look puts it back. What an
    answer holds stays; of a wallet that Redis does not know, nothing is taken here."""
    held = 100 + 1 + 256 * 2 + 1
    await _take_in_redis(tenant.redis, "t1", 1, "take0")
    wallet = a_budget(spent + held + 100, period=WALLET, window=WALLET_WINDOW, revision=now_ms())
    tenant.limit(wallet)
    await tenant.seed(spent=spent)
    await tenant.admit("a")
    with pytest.raises(Refused, match=r"\$0.0000001 can be taken now"):
        await _take_in_redis(tenant.redis, "t1", 101, "take1")
    await _take_in_redis(tenant.redis, "t1", 20, "take2")
    answer = await tenant.admit("b", input=0, chunk=1)
    assert answer.standing.budget is not None
    assert answer.standing.budget.remaining == 77
    for _ in range(2):  # a repetition takes nothing more
        await _take_in_redis(tenant.redis, "t1", 77, "take3")
    assert (await tenant.refused("c", input=0, chunk=1)).remaining == 0
    for _ in range(2):
        await _end_take(tenant.redis, "t1", "take3", given_back=True)
    await tenant.quota.release("t1", "b")
    assert (await tenant.admit("d", input=0, chunk=1)).standing.budget == answer.standing.budget


@pytest.mark.parametrize(
    ("seed", "reply"), [(None, b"unknown"), (4, b"recount"), (5, b"unknown"), (6, b"unknown")]
)
async def test_a_line_that_may_not_be_counted_yet_is_counted_by_the_books(
    tenant: LimitedTenant, seed: int | None, reply: bytes
) -> None:
    """Redis lost the request: only where its money was read before the line."""
    tenant.limit(a_budget(10_000))
    if seed is not None:
        await tenant.seed(spent=0, seq=seed)
    call = settlement(tenant.event("a", output=5), 5, tenant.now)
    assert not isinstance(call, ValueError)
    assert await _SETTLE(tenant.redis, *call) == reply
