"""What the safety policy takes out of answers, looked for everywhere: frames, log, snapshots, history, Redis,
SQL, log lines, spans, metrics; with workers killed in mid-answer."""

import hashlib
import json
import re
from typing import Any

import httpx

from chaos.injected.scripted import ScriptedEngine
from core.clock import now_ms
from core.ids import uuid7
from engine.api import PolicyStore, visible_text
from engine.safety.documents import PolicyDetector, PolicyDocument
from tests.security.sinks import Sinks
from tests.server.conftest import gateway as gateway
from tests.server.site import Site, saying
from tests.support.patience import wait_until

CARD, KEY = "4111 1111 1111 1111", "AKIAIOSFODNN7EXAMPLE"
BODY = "MIIEowIBAAKCAQEAyvetoedvetoed"
PIECES = ("4111 1111", "AKIAIOSF", "vetoedvetoed")
SAID = (
    f"Your card {CARD} is stored, the key is {KEY}, write to bob@example.com.\n"
    f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----\nAgain: {CARD}. Done."
)
SHOWN = (
    "Your card [CARD_1] is stored, the key is [API_KEY_1], write to bob@example.com.\n"
    "[PRIVATE_KEY_1]\nAgain: [CARD_1]. Done."
)
FLAGS = [("card", 10), ("api_key", 41), ("email", 63), ("private_key", 80), ("card", 103)]


async def test_vetoed_text_is_found_nowhere(gateway: Site, sinks: Sinks):
    """INV-41: Three workers die in mid-answer, readers come and go; nobody was shown a letter of it."""
    seen: list[dict[str, Any]] = []
    async with gateway.welcomed() as peer:
        id = await peer.send("say it", conversation=uuid7(now_ms()))
        for tokens in (14, 55, 150):  # in the card, in the key, in the private key
            async with gateway.crew.worker(ScriptedEngine(saying(SAID), step_seconds=0.002)) as worker:
                await wait_until(lambda n=tokens: _reached(gateway, id, n))
            await gateway.crew.lose(worker.name)
            async with gateway.welcomed() as other:
                await other.tell("attach", id=id, o=0, epoch=1)
                seen.append(await other.hear("delta"))
        async with gateway.answering(SAID):
            end = await peer.hear("end")
        seen += [*peer.passed, end]
    text = "".join(
        frame["x"]
        for frame in seen
        if frame["t"] == "delta" and frame["g"] == end["g"] and frame in peer.passed
    )
    assert text == SHOWN
    assert end["h"] == hashlib.sha256(SHOWN.encode()).hexdigest()
    flags = [frame["v"] for frame in peer.passed if frame.get("k") == "flagged"]
    assert sorted(((flag["category"], flag["p"]) for flag in flags), key=lambda each: each[1]) == FLAGS
    async with gateway.welcomed() as late:
        await late.tell("attach", id=id, o=0, epoch=0)
        seen.append(await late.hear("end"))
        seen += late.passed
    entries = await gateway.crew.log.read(gateway.tenant, id, 0, 10_000)
    assert visible_text(entries) == SHOWN
    history = await _history(gateway)
    assert SHOWN in json.dumps(history).encode().decode("unicode_escape")
    everywhere = [
        json.dumps(seen),
        repr(entries),
        json.dumps(history),
        await _redis(gateway),
        sinks.everything,
    ]
    everywhere.append((gateway.settings.home / "parley.db").read_bytes().decode(errors="replace"))
    assert 'parley_safety_verdicts_total{action="redact",category="api_key"' in sinks.everything
    assert "parley_safety_held_tokens_bucket" in sinks.everything
    for piece in PIECES:
        assert [place for place, found in enumerate(everywhere) if piece in found] == []


async def test_what_a_block_leaves_unbilled_is_counted(gateway: Site, sinks: Sinks):
    """The tokens whose text was held: operators see what is sampled for nothing. Not of another end."""
    document, before = PolicyDocument((PolicyDetector("api_key", "block"),)), _unbilled(sinks)
    await PolicyStore(gateway.database).set(gateway.redis, gateway.tenant, "", document, "a test's")
    async with gateway.welcomed() as peer:
        for said, reason in (("nothing of it", "stop"), (f"the key is {KEY}, and on", "blocked")):
            async with gateway.answering(said):
                await peer.send("say it")
                end = await peer.hear("end")
                assert end["reason"] == reason
    assert end["usage"]["output"] == len("the key is ")
    await wait_until(lambda: _unbilled(sinks) - before == len(f"{KEY},"))


def _unbilled(sinks: Sinks) -> float:
    found = re.findall(r"^parley_safety_unbilled_tokens_total\S* (\S+)$", sinks.everything, re.MULTILINE)
    return float(found[-1]) if found else 0.0


async def _reached(site: Site, id: str, tokens: int) -> bool:
    return await site.redis.strlen(f"{{p:{site.settings.pool}}}tok:{site.tenant}:{id}") // 4 >= tokens


async def _history(site: Site) -> Any:
    async with httpx.AsyncClient(verify=False, headers={"authorization": f"Bearer {site.key}"}) as client:
        [conversation] = (await client.get(f"{site.url}/v1/conversations")).json()["conversations"]

        async def messages() -> Any:
            found = (await client.get(f"{site.url}/v1/conversations/{conversation['id']}/messages")).json()
            return found if found["messages"][-1]["content"] == SHOWN else None

        return await wait_until(messages)


async def _redis(site: Site) -> str:
    """Every key and value, token ids among them, which are no text."""
    found: list[str] = []
    async for key in site.redis.scan_iter(match="*", count=1000):
        dumped = await site.redis.dump(key)
        found.append(f"{key!r} {(dumped or b'').decode('latin-1')}")
    return "\n".join(found)
