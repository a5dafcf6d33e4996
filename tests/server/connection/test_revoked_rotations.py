"""A key that is revoked while it is rotated, at an open gateway: who is let in, and how soon not."""

import httpx
import pytest

from billing.api import revoke_key, rotate_key
from billing.tenants.key_ends import Which
from tests.server.site import Site
from tests.support.patience import PROMPT_SECONDS, LivedTime


@pytest.mark.parametrize(
    ("which", "statuses"), [(Which.BOTH, [401, 401]), (Which.OLD, [401, 200]), (Which.NEW, [200, 401])]
)
async def test_connections_of_what_is_revoked_are_cut_and_the_other_key_goes_on(
    gateway: Site, which: Which, statuses: list[int]
):
    """The person who revokes names the new key, as a list of keys shows it; the leaked one is the old."""
    new, secret = await rotate_key(gateway.database, gateway.tenant, gateway.key_id, 3600, gateway.redis)
    bearers = [{"authorization": f"Bearer {each}"} for each in (gateway.key, secret)]
    async with (
        httpx.AsyncClient(base_url=gateway.url) as http,
        gateway.welcomed(gateway.key) as old_peer,
        gateway.welcomed(secret) as new_peer,
    ):
        for bearer in bearers:
            assert (await http.get("/v1/models", headers=bearer)).status_code == 200
        with LivedTime() as lived:
            await revoke_key(gateway.database, gateway.redis, gateway.tenant, new.id, which)
            for peer, status in zip((old_peer, new_peer), statuses, strict=True):
                if status == 401:
                    assert (await peer.hear("error"))["code"] == "unauthorized"
        assert lived.seconds < PROMPT_SECONDS
        found = [(await http.get("/v1/models", headers=bearer)).status_code for bearer in bearers]
        assert found == statuses
