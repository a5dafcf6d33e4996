"""A real worker process with vLLM on CPU in float32, fed through the queue. One engine start for all.

Its model is a shallow one (tests/support/shallow.py), on one thread; the whole one answers in
tests/system/test_answers.py.
"""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import psutil
import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import Control, EntryKind, checked_format
from engine.grammar.response_format import Shape
from engine.main import ENGINE_DEAD
from engine.models.provision import prepare, register
from engine.models.registry import ModelRecord
from engine.models.vocabulary import load_tokenizer
from tests.engine.builders import TENANT
from tests.engine.workers import PoolWorkers
from tests.support import engines
from tests.support.home import settings_in, short_folder
from tests.support.patience import (
    ENGINE_SECONDS,
    LONG_TEST_SECONDS,
    PROMPT_SECONDS,
    LivedTime,
    ended,
    wait_until,
)
from tests.support.redis import Redis
from tests.support.shallow import shallow
from tests.support.valkey import running_valkey

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(LONG_TEST_SECONDS)]
PREEMPTED_TRIES_MAX = 10
LOOK_SECONDS = 0.05  # an engine at work needs the cores more than who looks at it

CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


@dataclass
class VllmWorker:
    """The process, and what it takes to send it work."""

    process: "subprocess.Popen[bytes]"
    settings: Settings
    record: ModelRecord
    log: Path


@pytest.fixture(scope="module")
def vllm_worker(
    model_folder: Path, sqlite_template: Path, pytestconfig: pytest.Config
) -> Generator[VllmWorker]:
    """`parley worker` in float32, where a greedy answer does not depend on how it was batched."""
    with short_folder("vllm") as home, running_valkey(home) as redis_url:
        shutil.copy(sqlite_template, home / "parley.db")
        settings = settings_in(home, redis_url=redis_url, worker_dtype="float32", worker_max_model_len=2048)
        record = asyncio.run(_registered(settings, shallow(model_folder, home / "shallow")))
        environment = os.environ | {
            "PARLEY_HOME": str(home),
            "PARLEY_REDIS_URL": redis_url,
            "PARLEY_MODEL": record.name,
            "PARLEY_WORKER_DTYPE": "float32",
            "PARLEY_WORKER_THREADS": "1",
        }
        log = home / "worker.log"
        with log.open("wb") as out:
            argv = [sys.executable, "-m", "engine.main", "worker"]
            process = subprocess.Popen(argv, env=environment, stdout=out, stderr=out, start_new_session=True)
        yield VllmWorker(process, settings, record, log)
        process.terminate()
        ended(process)
        engines.count(pytestconfig, [log])


async def _registered(settings: Settings, folder: Path) -> ModelRecord:
    db = Database(settings.database_endpoint)
    try:
        return await register(db, await prepare(str(folder), settings.home, print), settings)
    finally:
        await db.close()


@dataclass
class EngineClient:
    """Sends chat turns to the worker's pool."""

    crew: PoolWorkers
    worker: VllmWorker

    def __post_init__(self) -> None:
        self.tokenizer = load_tokenizer(self.worker.record.folder)

    async def ask(self, question: str, **sampling: Any) -> str:
        """One greedy turn; its id."""
        prompt = self.tokenizer.encode(CHAT.format(question), add_special_tokens=False).ids
        options: dict[str, Any] = {"temperature": 0.0, "max_tokens": 40, **sampling}
        return await self.crew.send(prompt=prompt, fingerprint=self.worker.record.fingerprint, **options)

    async def answer(self, question: str, **sampling: Any) -> tuple[str, dict[str, Any]]:
        """The visible text and the END entry's value."""
        id = await self.ask(question, **sampling)
        end = await self.crew.ended(id)
        return await self.crew.text(id), end

    async def preempted(self, question: str, at: int, **sampling: Any) -> tuple[str, dict[str, Any]]:
        """The text and the END entry's value of an answer that was preempted once it had `at` tokens, asked
        again where it had ended before this process, beside others on few cores, came to look."""
        for _ in range(PREEMPTED_TRIES_MAX):
            id = await self.ask(question, **sampling)
            if await self.crew.reached(id, at):
                await self.crew.queue.control(TENANT, id, Control.PREEMPT)
            end = await self.crew.ended(id)
            if "moved:preempt" in await self.crew.kinds(id):
                return await self.crew.text(id), end
        raise AssertionError(f"{PREEMPTED_TRIES_MAX} answers ended before they were preempted")


@pytest.fixture
async def client(vllm_worker: VllmWorker) -> AsyncGenerator[EngineClient]:
    """Ready when the worker is."""
    redis = Redis.from_url(vllm_worker.settings.redis_endpoint)
    crew = PoolWorkers(redis, vllm_worker.settings, interval=LOOK_SECONDS)

    async def registered() -> bool:
        assert vllm_worker.process.poll() is None, vllm_worker.log.read_text()[-4000:]
        return bool(await crew.queue.workers())

    await wait_until(registered, ENGINE_SECONDS, 10 * LOOK_SECONDS)
    yield EngineClient(crew, vllm_worker)
    await redis.aclose()


async def test_an_answer_streams(client: EngineClient):
    """Text comes in many entries while it is decoded; the end's hash, usage and times fit."""
    id = await client.ask("What is the capital of France?", max_tokens=64, min_tokens=32)
    end = await client.crew.ended(id)
    entries = [entry for entry in await client.crew.entries(id) if entry.k is EntryKind.TEXT]
    text = "".join(entry.x for entry in entries)
    assert len(entries) > 5
    assert end["h"] == hashlib.sha256(text.encode()).hexdigest()
    assert 32 <= end["usage"]["output"] <= 64
    assert 0 < end["timing"]["ttft_ms"] < end["timing"]["total_ms"]


async def test_its_engine_finds_no_secret(client: EngineClient):
    """Neither the worker's environment nor that of any process it started has what it was started with."""
    worker = psutil.Process(client.worker.process.pid)
    assert "PARLEY_HOME" in worker.environ()
    for process in (worker, *worker.children(recursive=True)):
        assert "PARLEY_REDIS_URL" not in process.environ()


async def test_a_seam_does_not_show_in_float32(client: EngineClient):
    """INV-22: Preempted at any token and continued from its log, a greedy answer is the uninterrupted one."""
    question = "Write two sentences about the sea."
    whole, end = await client.answer(question)
    assert len(set(whole)) > 10, "of one word for ever nobody sees what is missing"
    for at in (1, 7, 20):
        text, again = await client.preempted(question, at)
        assert text == whole
        assert again["usage"]["output"] == end["usage"]["output"]


async def test_penalties_count_what_was_said_before_a_seam(client: EngineClient):
    """INV-22: A penalised greedy answer that was preempted at any token is the uninterrupted one."""
    question = "Write a list of ten colours."
    options = {"presence_penalty": 0.7, "frequency_penalty": 0.9, "repetition_penalty": 1.1, "min_tokens": 40}
    whole, _ = await client.answer(question, **options)
    assert whole != (await client.answer(question, min_tokens=40))[0]
    for at in (3, 12, 25):
        text, _ = await client.preempted(question, at, **options)
        assert text == whole


async def test_a_stop_string_behind_a_seam_ends_the_answer_where_it_did(client: EngineClient):
    """INV-22: Preempted at any token before it, the answer is the uninterrupted one. Where the seam is within
    the stop string is tried without an engine (test_seams.py)."""
    question, options = "Write two sentences about the sea.", {"max_tokens": 96}
    whole, _ = await client.answer(question, **options)
    stop = max((whole[at : at + 8] for at in range(len(whole) - 8)), key=whole.index)
    for at in (1, 12):
        text, end = await client.preempted(question, at, stop=(stop,), **options)
        assert (text, end["reason"]) == (whole[: whole.index(stop)], "stop")


async def test_a_cancel_reaches_the_engine(client: EngineClient):
    """The answer ends with what it has, and the engine has nothing left to do."""
    id = await client.ask("Tell me a very long story.", max_tokens=1500, min_tokens=1500)
    await client.crew.reaches(id, 4)
    with LivedTime() as lived:
        await client.crew.queue.control(TENANT, id, Control.CANCEL)
        end = await client.crew.ended(id)
    assert lived.seconds < PROMPT_SECONDS
    assert end["reason"] == "cancelled"
    assert 4 <= end["usage"]["output"] < 1500

    async def idle() -> bool:
        return (await client.crew.queue.workers())[0].info.get("running") == 0

    await wait_until(idle)


async def test_min_and_max_tokens_and_stop_strings(client: EngineClient):
    """min = max is exactly that many; a stop string is cut off and ends the answer."""
    _, exact = await client.answer("Say hi.", min_tokens=25, max_tokens=25)
    assert (exact["reason"], exact["usage"]["output"]) == ("length", 25)
    whole, _ = await client.answer("Count from one to nine.", min_tokens=30, max_tokens=30)
    stop = whole[12:17]
    text, end = await client.answer("Count from one to nine.", min_tokens=0, max_tokens=30, stop=(stop,))
    assert text == whole[: whole.index(stop)]
    assert end["reason"] == "stop"


async def test_a_seeded_answer_repeats(client: EngineClient):
    """Same seed, same answer; another seed, another one."""
    options = {"temperature": 1.0, "max_tokens": 24, "min_tokens": 24}
    first, _ = await client.answer("Name some colours.", seed=11, **options)
    assert (await client.answer("Name some colours.", seed=11, **options))[0] == first
    assert (await client.answer("Name some colours.", seed=12, **options))[0] != first


async def test_seeded_noise_goes_on_at_a_seam(client: EngineClient):
    """INV-22: A sampled answer that was preempted is the uninterrupted one."""
    options = {"temperature": 1.0, "max_tokens": 24, "min_tokens": 24, "seed": 11}
    whole, _ = await client.answer("Name some colours.", **options)
    text, _ = await client.preempted("Name some colours.", 9, **options)
    assert text == whole


async def test_an_answer_of_a_shape_fits_it_across_a_seam(client: EngineClient):
    """INV-22, INV-23: It parses and validates; preempted anywhere, it is the uninterrupted one."""
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 20},
            "stars": {"type": "integer", "minimum": 1, "maximum": 5},
            "tags": {"type": "array", "items": {"enum": ["old", "new"]}, "maxItems": 3},
        },
        "required": ["title", "stars", "tags"],
    }
    asked = {"type": "json_schema", "json_schema": {"name": "film", "schema": schema}}
    options = {"response_format": checked_format(asked), "max_tokens": 96}
    whole, end = await client.answer("Tell me about a film, as JSON.", **options)
    assert end["reason"] == "stop"
    jsonschema.validate(json.loads(whole), schema)
    for at in (1, 9):
        text, _ = await client.preempted("Tell me about a film, as JSON.", at, **options)
        assert text == whole


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[a-z]{1,256}$"},  # fails while it is compiled
        {"type": "nonsense"},  # is refused by vLLM
    ],
)
async def test_a_shape_that_the_engine_cannot_serve_ends_its_request_only(
    client: EngineClient, schema: dict[str, Any]
):
    """No gateway lets these through. Typed, at once, and the engine goes on with others."""
    packed = msgspec.json.encode(Shape(schema=schema)).decode()
    other = asyncio.create_task(client.answer("Say hi.", min_tokens=20, max_tokens=20))
    _, end = await client.answer("Say hi.", response_format=packed)
    assert (end["reason"], end["code"], end["usage"]["total"]) == ("error", "bad_request", 0)
    assert (await other)[1]["reason"] == "length"


async def test_a_shape_whose_masks_stall_the_engine_ends_its_request_only(client: EngineClient):
    """No gateway lets it through: it takes several times the budget of 0.1 s for a token."""
    packed = msgspec.json.encode(Shape(pattern=r"(\w*\s*){40}")).decode()
    other = asyncio.create_task(client.answer("Say hi.", min_tokens=20, max_tokens=20))
    _, end = await client.answer("Say hi.", response_format=packed)
    assert (end["reason"], end["code"], end["usage"]["output"]) == ("error", "bad_request", 0)
    assert (await other)[1]["reason"] == "length"
    log = client.worker.log.read_text()
    assert "engine.answer_format_too_slow" in log
    assert "grammar rejected" not in log


async def test_a_seeded_prompt_in_several_chunks(client: EngineClient):
    """Longer than one prefill step, and many at once: the engine lives, and the answer still repeats."""
    long = "Repeat after me: " + "all work and no play makes Jack a dull boy, " * 24
    options = {"temperature": 1.0, "max_tokens": 12, "min_tokens": 12, "seed": 5}
    first, _ = await client.answer(long, **options)
    crowd = [client.answer(f"{n} {long}", **{**options, "seed": n}) for n in range(4)]
    assert all(end["reason"] == "length" for _, end in await asyncio.gather(*crowd))
    assert (await client.answer(long, **options))[0] == first


async def test_many_at_once(client: EngineClient):
    """More than the worker has slots for: all end."""
    asked = [client.answer(f"What is {n} plus {n}?", max_tokens=16) for n in range(40)]
    answers = await asyncio.gather(*asked)
    assert all(end["reason"] in ("stop", "length") for _, end in answers)


async def test_a_repeated_prompt_is_cached(client: EngineClient):
    """Whole blocks of it (128 ids on CPU) are not computed again, and the usage says so."""
    long = "Repeat after me: " + "all work and no play " * 60
    _, first = await client.answer(long, max_tokens=2)
    _, again = await client.answer(long, max_tokens=2)
    assert first["usage"]["cached_input"] == 0
    assert again["usage"]["cached_input"] >= 128
    assert again["usage"]["input"] == first["usage"]["input"]


async def test_the_log_says_nothing_of_prompts(client: EngineClient):
    """Neither vLLM's lines nor ours hold what was asked or answered."""
    await client.answer("My password is xyzzy-plugh.", max_tokens=8)
    log = client.worker.log.read_text()
    assert "request.ended" in log
    assert "xyzzy" not in log


@pytest.mark.last
async def test_a_dead_engine_core_ends_the_worker(client: EngineClient):
    """It says so and exits non-zero, and leaves no process behind. The worker of the others is gone then."""
    process = client.worker.process
    id = await client.ask("Tell me a very long story.", max_tokens=1500, min_tokens=1500)
    await client.crew.reaches(id, 4)
    children = psutil.Process(process.pid).children(recursive=True)
    core = next(child for child in children if "EngineCore" in " ".join(child.cmdline()))
    core.kill()
    assert await asyncio.to_thread(process.wait, 10) == ENGINE_DEAD
    await wait_until(lambda: not any(child.is_running() for child in children))
