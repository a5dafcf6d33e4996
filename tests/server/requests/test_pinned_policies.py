"""Tenants' own policies, end to end: a real gateway, Valkey, SQLite and a worker that loads what holds."""

from typing import Any

from billing.usage import ENDED_FIELD, decode, ended_stream
from engine.api import PolicyDocument, PolicyStore
from engine.safety.documents import DEFAULT_POLICY, PolicyDetector, PolicyPattern, policy_hash
from tests.server.site import Site
from tests.support.patience import wait_until
from tests.system.wire import wired

TEXT = "Ask EMP-123456 about card 4111 1111 1111 1111."
OWN = PolicyDocument(patterns=(PolicyPattern("employee_id", "EMP-[0-9]{6}", "redact"),))
TIGHTER = PolicyDocument(detectors=(PolicyDetector("card", "block"),))


async def pinned(site: Site) -> list[str]:
    """The policies of all that ended, as billing gets them."""
    redis: Any = site.redis
    found = await redis.xrange(ended_stream(site.settings.pool))
    return [decode(fields[ENDED_FIELD.encode()]).policy for _, fields in found]


async def answer(site: Site) -> tuple[str, str]:
    """What a send of now gets: text and reason of its end."""
    async with wired(site.url, site.key) as wire:
        reading = await wire.send("Hello.")
        await wire.finish(reading)
        assert reading.end is not None
        return reading.text, reading.end["reason"]


async def test_an_answer_is_filtered_by_what_holds_for_its_project(gateway: Site):
    """The default, the tenant's document beside it, and the project's, each from its edit on; the usage event
    says which."""
    store, hashes = PolicyStore(gateway.database), [DEFAULT_POLICY]
    async with gateway.answering(TEXT):
        assert await answer(gateway) == ("Ask EMP-123456 about card [CARD_1].", "stop")
        for project, document, wanted in (
            ("", OWN, ("Ask [EMPLOYEE_ID_1] about card [CARD_1].", "stop")),
            (gateway.project, TIGHTER, ("Ask [EMPLOYEE_ID_1] about card ", "blocked")),
        ):
            await store.set(gateway.redis, gateway.tenant, project, document, "as told")
            hashes.append(policy_hash(await store.applies(gateway.tenant, gateway.project)))

            async def told(wanted: tuple[str, str] = wanted) -> bool:
                return await answer(gateway) == wanted

            await wait_until(told)
    found = await pinned(gateway)
    assert list(dict.fromkeys(found)) == hashes, "and no other one in between"
    assert len(set(hashes)) == 3
