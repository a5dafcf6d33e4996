"""Prices that change while a gateway runs: whoever sends pays by the version of that moment."""

import pytest

from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.quota.client import Quota
from billing.tenants.tenancy import PRICES_CHANGED, publish_news
from core.clock import now_ms
from server.models import catalogue
from tests.server.site import RawPeer, Site
from tests.support.patience import wait_until

PRICES = {"*": FlatPrices(5, 5, 5, 0)}


async def version(site: Site, peer: RawPeer) -> int:
    """The one that a request sent now is bound to."""
    id = await peer.send()
    await peer.hear("accepted", id=id)
    record = await Quota(site.redis, site.settings).directory(site.tenant, id)
    assert record is not None
    return record.prices.version


async def test_a_version_begins_when_it_says_however_long_a_gateway_keeps_prices(
    gateway: Site, monkeypatch: pytest.MonkeyPatch
):
    """A planned one without any news; one that begins at once by news of it."""
    monkeypatch.setattr(catalogue, "KEEP_SECONDS", 3_600.0)
    begins = now_ms() + 1_000
    await add_version(gateway.database, NewVersion("default", PRICES, valid_from_ms=begins))
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        assert await version(gateway, peer) in (1, 2)  # a slow machine may be late

        async def begun() -> bool:
            return now_ms() >= begins

        await wait_until(begun)
        assert await version(gateway, peer) == 2
        await add_version(gateway.database, NewVersion("default", {"*": FlatPrices(6, 6, 6, 0)}))
        await publish_news(gateway.redis, "", PRICES_CHANGED)

        async def told() -> bool:
            return await version(gateway, peer) == 3

        await wait_until(told)
