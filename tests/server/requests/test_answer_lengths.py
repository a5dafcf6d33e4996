"""How long an answer gets at a gateway, where its sender does not say."""

import httpx

from billing.api import set_policy
from tests.server.site import Site


async def test_an_answer_of_no_said_length_has_the_least_of_its_limits(gateway: Site):
    """The sender is told; who asks for more gets more."""
    of = (gateway.database, gateway.redis, gateway.tenant)
    await set_policy(*of, scope="tenant", dimension="answer_tokens", limit=900)
    await set_policy(*of, scope="project", scope_id=gateway.project, dimension="answer_tokens", limit=3)
    async with gateway.answering("four more"), gateway.welcomed() as peer:
        assert (await peer.hear("accepted", id=await peer.send()))["max_tokens"] == 3
        assert (await peer.hear("end"))["reason"] == "length"
        accepted = await peer.hear("accepted", id=await peer.send(options={"max_tokens": 1000}))
        assert accepted["max_tokens"] == 1000
        assert (await peer.hear("end"))["reason"] == "stop"
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        reply = await http.get("/v1/limits", headers={"authorization": f"Bearer {gateway.key}"})
    assert reply.json()["answers"] == [{"model": "tiny", "max_tokens": 3, "scope": "project"}]
    assert reply.json()["limits"] == []
