"""The moment in which a version begins: whoever admits picks by its own clock what the gateway offered."""

import pytest

from billing.prices.book import NewVersion, add_version, offered_prices, pinned_prices
from billing.prices.files import FlatPrices
from billing.prices.withdrawals import withdraw_version
from billing.quota.bindings import Bindings
from billing.quota.client import Admitted, Quota
from billing.tenants.tenancy import create_tenant
from billing.usage import PinnedPrices, PriceOffer
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.signing.signed_text import Keyring
from core.sql.database import Database
from tests.billing.events import PRICES
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis

BEGIN_MS = 500_000
NEXT = PinnedPrices("default", 2, 900, 900, 900)
DAY_MS = 86_400_000


def flat(nano: int) -> FlatPrices:
    """All the same."""
    return FlatPrices(nano, nano, nano, 0)


@pytest.mark.parametrize(("at_ms", "bound"), [(BEGIN_MS - 1, PRICES), (BEGIN_MS, NEXT), (BEGIN_MS + 9, NEXT)])
async def test_a_request_is_bound_to_the_version_of_the_moment_in_which_it_is_admitted(
    redis: Redis, settings: Settings, at_ms: int, bound: PinnedPrices
) -> None:
    """With its prices, its hold and its seal; and sent again later, it keeps them."""
    quota = Quota(redis, settings, bindings=Bindings(Keyring(b"s" * 32), "here"))
    offered = {"next_prices": NEXT, "next_from_ms": BEGIN_MS}
    for now in (at_ms, at_ms + 1_000):
        answer = await quota.admit(an_admission(**offered, now_ms=now))
        assert isinstance(answer, Admitted)
        assert (answer.prices, answer.price_version) == (bound, bound.version)
    record = await quota.directory("t1", "r1")
    assert record is not None
    assert record.prices == bound


async def test_what_follows_is_offered_with_its_begin(database: Database) -> None:
    """Of the tenant's book and of its parents, whichever begins first; not what was withdrawn."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    now = now_ms()
    start = now + DAY_MS
    assert (await offered_prices(database, tenant, "m")).next is None
    second, _ = await add_version(database, NewVersion("default", {"*": flat(2)}, valid_from_ms=start))
    third, _ = await add_version(database, NewVersion("default", {"*": flat(3)}, valid_from_ms=start + 9))
    offer = await offered_prices(database, tenant, "m")
    assert offer.next is not None
    assert (offer.now.version, offer.next.version, offer.next_from_ms) == (1, second.version, start)
    assert [offer.at(at).version for at in (now, start - 1, start, start + 9)] == [1, 1, 2, 2]
    await withdraw_version(database, "default", second.version, "typo")
    offer = await offered_prices(database, tenant, "m")
    assert offer.next is not None
    assert (offer.next.version, offer.next_from_ms) == (third.version, start + 9)
    after = await offered_prices(database, tenant, "m", start + 9)
    assert after == PriceOffer(offer.next)


async def test_a_model_that_has_no_price_next_is_not_offered_one(database: Database) -> None:
    """And one that has none now is refused, whatever begins."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    start = now_ms() + DAY_MS
    await add_version(database, NewVersion("default", {"only": flat(2)}, valid_from_ms=start))
    assert (await offered_prices(database, tenant, "m")).next is None
    with pytest.raises(Refused):
        await offered_prices(database, tenant, "m", start)


async def test_what_was_withdrawn_prices_nothing_when_its_time_comes(database: Database) -> None:
    """The version before it stays in force, for whoever asks at that time."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    start = now_ms() + DAY_MS
    typo, _ = await add_version(database, NewVersion("default", {"*": flat(2)}, valid_from_ms=start))
    assert (await pinned_prices(database, tenant, "m", start)).version == typo.version
    await withdraw_version(database, "default", typo.version, "typo")
    assert (await pinned_prices(database, tenant, "m", start)).version == 1
    assert await offered_prices(database, tenant, "m", start - 1) == PriceOffer(
        await pinned_prices(database, tenant, "m")
    )
