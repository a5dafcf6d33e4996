"""What a safety policy takes out of prompts, looked for everywhere: what the model got, history, Redis, SQL,
log lines, spans, metrics; and that a refused one left nothing."""

import json
from collections.abc import Sequence
from typing import Any

import httpx

from billing.api import Quota, RefusalSearch, find_refusals
from billing.requests.refusal_counter import RefusalCounter
from billing.usage import ENDED_FIELD, decode, ended_stream
from chaos.injected.scripted import ScriptedEngine
from core.clock import now_ms
from core.ids import uuid7
from engine.api import PolicyDocument, PolicyStore
from engine.safety.documents import PolicyDetector
from tests.engine.tokens import ids_of
from tests.security.sinks import Sinks
from tests.server.conftest import gateway as gateway
from tests.server.site import RawPeer, Site, saying
from tests.support.patience import wait_until

CARD, IBAN = "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"
PIECES = ("4111 1111", "DE89 3704")
RULES = PolicyDocument(
    (
        PolicyDetector("card", prompt="redact"),
        PolicyDetector("iban", prompt="block"),
        PolicyDetector("email", prompt="flag"),
    )
)
SENT = f"Is {CARD} of ann@example.org mine?"
SHOWN = "Is [CARD_1] of ann@example.org mine?"


async def test_vetoed_text_of_prompts_is_found_nowhere(gateway: Site, sinks: Sinks):
    """A redacted prompt reaches model and history as its placeholder, a blocked one nobody: no turn, no hold,
    no log; both are counted, by category and action."""
    await PolicyStore(gateway.database).set(gateway.redis, gateway.tenant, "", RULES, "as told")
    contexts: list[Sequence[int]] = []
    said = saying("ok")

    def noted(context: Sequence[int]) -> int:
        contexts.append(list(context))
        return said(context)

    talk = uuid7(now_ms())
    async with gateway.welcomed() as peer, gateway.crew.worker(ScriptedEngine(noted, step_seconds=0)):
        refused = await _refused(peer, talk)
        assert refused["safety"] == {"category": "iban", "scope": "tenant", "p": 3, "n": len(IBAN)}
        assert (await Quota(gateway.redis, gateway.settings).holds(gateway.tenant)) == []
        assert await _history(gateway) == []
        id = await peer.send(SENT, conversation=talk, system=f"of {CARD}")
        accepted = await peer.hear("accepted", id=id)
        assert [(each["category"], each.get("x"), each.get("m")) for each in accepted["flags"]] == [
            ("card", "[CARD_1]", "system"),
            ("card", "[CARD_1]", None),
            ("email", None, None),
        ]
        await peer.hear("end", g=accepted["g"])
        await wait_until(lambda: _stored(gateway))
        await peer.hear("accepted", id=await peer.send("And now?", conversation=talk))
        await wait_until(lambda: len(contexts) > 4)
    for context in contexts:
        assert not _holds(context, CARD)
        assert _holds(context, "of [CARD_1]")
    [user, _, *_] = await _history(gateway)
    assert (user["role"], user["content"]) == ("user", SHOWN)
    assert [(each["category"], each["p"], each["n"]) for each in user["flags"]] == [
        ("card", 3, 8),
        ("email", 15, 15),
    ]
    redis: Any = gateway.redis
    ends = await redis.xrange(ended_stream(gateway.settings.pool))
    events = {event.request: event for event in (decode(fields[ENDED_FIELD.encode()]) for _, fields in ends)}
    assert events[id].verdicts == {"card": {"prompt_redact": 2}, "email": {"prompt_flag": 1}}
    assert refused["id"] not in events
    assert await _counted(gateway) == ("safety_blocked", "iban block", (refused["id"],))
    everywhere = [await _redis(gateway), sinks.everything, json.dumps(await _history(gateway))]
    everywhere.append((gateway.settings.home / "parley.db").read_bytes().decode(errors="replace"))
    for piece in PIECES:
        assert [place for place, found in enumerate(everywhere) if piece in found] == []


def _holds(context: Sequence[int], text: str) -> bool:
    wanted = ids_of(text)
    return any(list(context[at : at + len(wanted)]) == wanted for at in range(len(context)))


async def _refused(peer: RawPeer, talk: str) -> dict[str, Any]:
    id = await peer.send(f"Is {IBAN} right?", conversation=talk)
    error = await peer.hear("error", id=id)
    assert (error["code"], error["retry"], error.get("scope")) == ("safety_blocked", False, None)
    return error


async def _counted(site: Site) -> tuple[str, str, tuple[str, ...]]:
    counter = RefusalCounter(site.database, site.redis, site.settings)

    async def found() -> tuple[str, str, tuple[str, ...]] | None:
        await counter.step(now_ms())
        sought = RefusalSearch(since_ms=0, until_ms=now_ms() + 60_000)
        rows = (await find_refusals(site.database, sought)).found
        return (rows[0].code, rows[0].why, tuple(rows[0].last_ids)) if rows else None

    await wait_until(found)
    counted = await found()
    assert counted is not None
    return counted


async def _stored(site: Site) -> bool:
    return any(each["role"] == "assistant" and each["status"] == "ended" for each in await _history(site))


async def _history(site: Site) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(verify=False, headers={"authorization": f"Bearer {site.key}"}) as client:
        listed = (await client.get(f"{site.url}/v1/conversations")).json()["conversations"]
        if not listed:
            return []
        path = f"{site.url}/v1/conversations/{listed[0]['id']}/messages"
        return (await client.get(path)).json()["messages"]


async def _redis(site: Site) -> str:
    """Every key and value, but for token ids, which are no text."""
    found: list[str] = []
    async for key in site.redis.scan_iter(match="*", count=1000):
        dumped = await site.redis.dump(key)
        found.append(f"{key!r} {(dumped or b'').decode('latin-1')}")
    return "\n".join(found)
