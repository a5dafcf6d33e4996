"""A real model answers over the wire: what docs/protocol.md promises of text, usage and hashes."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from core.clock import now_ms
from core.ids import uuid7
from server.models.prompts import PromptRenderer
from tests.support.platform import Platform
from tests.system.wire import wired

pytestmark = pytest.mark.vllm
MARKER = "zanzibar-quince-7141"


async def test_the_model_knows_what_it_was_taught(platform: Platform):
    """SmolLM2, as it was converted and as vLLM runs it."""
    async with wired(platform.url, platform.key) as wire:
        options = {"max_tokens": 12, "temperature": 0}
        reading = await wire.finish(await wire.send("What is the capital of France?", options=options))
    assert "Paris" in reading.text


async def test_an_answer_is_dense_hashed_and_counted(platform: Platform, model_folder: Path):
    """Offsets are dense, `h` is the text's hash, usage counts the rendered prompt and the sampled ids."""
    async with wired(platform.url, platform.key) as wire:
        reading = await wire.finish(
            await wire.send("Name three rivers.", options={"max_tokens": 24, "min_tokens": 24})
        )
    assert reading.end is not None
    rendered = PromptRenderer.load(model_folder).render([{"role": "user", "content": "Name three rivers."}])
    assert reading.kinds[:2] == ["queued", "running"]
    assert reading.text.strip()
    assert reading.end["reason"] == "length"
    assert reading.end["usage"]["input"] == len(rendered)
    assert reading.end["usage"]["output"] == 24
    assert reading.end["usage"]["total"] == len(rendered) + 24
    assert reading.end["cost"]["nano"] > 0


async def test_sixteen_requests_share_one_socket(platform: Platform):
    """Requests of one connection are told apart by `g` and none of them loses or repeats an offset."""
    async with wired(platform.url, platform.key) as wire:
        readings = [
            await wire.send(f"Count to {n}.", options={"max_tokens": 16, "min_tokens": 16}) for n in range(16)
        ]
        for reading in readings:
            await wire.finish(reading)
    assert {reading.end["usage"]["output"] for reading in readings if reading.end} == {16}


async def test_the_same_send_again_runs_nothing_twice(platform: Platform):
    """The same id and body answers `dup`; another reader gets the same text from the log."""
    id = uuid7(now_ms())
    options = {"max_tokens": 12, "temperature": 0}
    async with wired(platform.url, platform.key) as wire:
        first = await wire.finish(await wire.send("Say hello.", id=id, options=options))
    async with wired(platform.url, platform.key) as wire:
        await wire.tell("send", id=id, content="Say hello.", options=options)
        accepted = await wire.hear()
        assert accepted["dup"] is True
        again = await wire.finish(wire.readings[accepted["g"]])
        await wire.tell("send", id=id, content="Say goodbye.", options=options)
        conflict = await wire.hear()
    assert again.text == first.text
    assert again.end is not None
    assert first.end is not None
    assert again.end["usage"] == first.end["usage"]
    assert conflict["code"] == "id_conflict"


async def test_a_cancel_stops_the_engine(platform: Platform):
    """A cancelled answer ends soon, with what was said so far."""
    async with wired(platform.url, platform.key) as wire:
        reading = await wire.send("Tell a long story.", options={"max_tokens": 1500, "min_tokens": 1500})
        while not reading.text:
            await wire.hear()
        await wire.tell("cancel", id=reading.id)
        await wire.finish(reading)
    assert reading.end is not None
    assert reading.end["reason"] == "cancelled"
    assert 0 < reading.end["usage"]["output"] < 1000


async def test_a_conversation_remembers_and_is_stored(platform: Platform):
    """The second turn carries the first: its prompt is longer than its own words."""
    conversation = uuid7(now_ms())
    options = {"max_tokens": 16}
    async with wired(platform.url, platform.key) as wire:
        first = await wire.finish(
            await wire.send("My name is Ada.", conversation=conversation, options=options)
        )
        second = await wire.finish(
            await wire.send("What is my name?", conversation=conversation, options=options)
        )
    assert first.end is not None
    assert second.end is not None
    assert second.end["usage"]["input"] > first.end["usage"]["total"]


async def test_the_terminal_client_answers_once(platform: Platform):
    """`parley chat --once` finds the platform by its up.json and prints one answer for scripts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.cli", "chat", "--json", "--once", "Name a river."),
        env={"PARLEY_HOME": str(platform.home), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    answer = json.loads(output)
    assert answer["text"].strip()
    assert answer["usage"]["output"] > 0


async def test_no_log_holds_what_people_say(platform: Platform):
    """INV-15: neither prompts nor keys are in any log file of any process."""
    async with wired(platform.url, platform.key) as wire:
        await wire.finish(await wire.send(f"Repeat: {MARKER}", options={"max_tokens": 8}))
        await wire.tell("send", id="not-an-id", content=MARKER)
        await wire.hear()
    secret = platform.key.rsplit("_", 1)[1]
    for file in (platform.home / "logs").iterdir():
        text = file.read_text(errors="replace")
        assert MARKER not in text, file
        assert secret not in text, file
