"""A limit of 0 at a gateway: it never lets anything in, and says so."""

from typing import Any

import pytest

from billing.api import set_policy
from billing.limits import Dimension
from parley_client import Client, ProtocolError
from tests.server.requests.refusals import refusal
from tests.server.site import Site


@pytest.mark.parametrize("dimension", [each for each in Dimension if each is not Dimension.ANSWER])
async def test_who_may_nothing_is_not_told_to_try_again(gateway: Site, dimension: Dimension):
    """Neither by a code nor by a time; limits that some time lets in stand behind it."""
    of: dict[str, Any] = {"scope": "model", "scope_id": "tiny", "dimension": dimension}
    await set_policy(gateway.database, gateway.redis, gateway.tenant, limit=0, **of)
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        error = await refusal(peer)
        told = {
            name: error.get(name) for name in ("code", "retry", "after_ms", "scope", "dimension", "limit")
        }
        assert told == {
            "code": "insufficient_quota",
            "retry": False,
            "after_ms": None,
            "scope": "model",
            "dimension": dimension,
            "limit": 0,
        }
        async with Client(gateway.url, gateway.key) as client:
            with pytest.raises(ProtocolError) as refused:
                await client.send("hello")
        assert (refused.value.code, refused.value.retry) == ("insufficient_quota", False)
