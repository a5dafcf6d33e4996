"""Seams without a queue: what an interrupted answer is made of, and what vLLM is given so that it goes on."""

import json
import random
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from chaos.injected.scripted import ScriptedEngine, seeded
from core.configuration.settings import Settings
from core.errors import StartupError
from engine.backends.base import Finish, Generation, GenerationRefusedError, StepOutput
from engine.backends.environment import engine_environment
from engine.request import Sampling
from engine.worker.interrupted import InterruptedEngine, InterruptedPrompt
from tests.engine.grammar.walks import PERSON, Walk
from tests.engine.tokens import ids_of
from tests.engine.workers import LIMITS, PROMPT, TOKENIZER, PoolWorkers
from tests.support.redis import Redis

FORMAT = '{"object":true}'


async def test_a_seam_does_not_show(settings: Settings):
    """INV-22: Cut anywhere, inside characters and stop strings, and after its last token, an answer is the
    same."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    engine = ScriptedEngine(seeded(seed, ids_of("abc é€🙂")), step_seconds=0)
    runs = InterruptedEngine(engine, TOKENIZER, LIMITS, settings)
    sampling = Sampling(max_tokens=40, stop=("ab", "ca c"))
    whole = [InterruptedPrompt([*PROMPT, at], sampling) for at in range(30)]
    answers = await runs.answers(whole)
    lengths = [range(1, len(given.ids) + 1) for given in answers]
    cuts = [tuple(sorted(rng.sample(length, min(2, len(length))))) for length in lengths]
    cut = [InterruptedPrompt(ask.prompt, sampling, at) for ask, at in zip(whole, cuts, strict=True)]
    assert await runs.answers(cut) == answers
    await runs.stop()
    assert {given.reason for given in answers} == {"stop", "length"}


@dataclass
class Unable:
    """An engine that cannot give an answer its shape, or does not take it at all."""

    refuses: bool
    max_model_len: int = 8192
    kv_tokens: int = 1 << 20
    submitted: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._idle = ScriptedEngine(lambda _: 0, step_seconds=0.01)
        self._pending: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._idle, name)

    async def submit(self, generation: Generation) -> None:
        """Remembers it."""
        self.submitted.append(generation.id)
        if self.refuses:
            raise GenerationRefusedError("no")
        await self._idle.submit(generation)
        self._pending.append(generation.id)

    async def steps(self) -> AsyncGenerator[list[StepOutput]]:
        """Nothing is sampled."""
        async for _ in self._idle.steps():
            ids, self._pending = self._pending, []
            await self.abort(ids)
            yield [StepOutput(id, [], Finish.UNFIT, 0) for id in ids]

    async def abort(self, ids: Collection[str]) -> None:
        """Forgets them."""
        await self._idle.abort(ids)


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_shape_that_no_engine_can_give_ends_its_request_only(
    redis: Redis, settings: Settings, refuses: bool
):
    """At once and typed: another worker would do no better. It costs nothing."""
    crew, engine = PoolWorkers(redis, settings), Unable(refuses)
    async with crew.worker(engine):  # pyright: ignore[reportArgumentType]
        end = await crew.ended(await crew.send(response_format=FORMAT))
    assert (end["reason"], end["code"]) == ("error", "bad_request")
    assert end["usage"]["total"] == 0
    assert len(engine.submitted) == 1


def test_vllm_is_told_which_model_runner_to_use(settings: Settings):
    """What the operator set, stays, and is refused at start."""
    assert engine_environment(settings, {}, cpu=False)["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    own = engine_environment(settings, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, cpu=False)
    assert own["VLLM_USE_V2_MODEL_RUNNER"] == "1"


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")  # what vLLM imports is full of deprecations
def test_the_model_runner_that_forgets_penalties_is_refused():
    """With what to do."""
    from engine.backends.vllm import refuse_other_runner

    config: Any = SimpleNamespace(use_v2_model_runner=True)
    with pytest.raises(StartupError, match="VLLM_USE_V2_MODEL_RUNNER=0"):
        refuse_other_runner(config)
    config.use_v2_model_runner = False
    refuse_other_runner(config)


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")  # what vLLM imports is full of deprecations
async def test_what_vllm_does_not_take_is_refused(settings: Settings, home: Path):
    """Its own errors are no ValueErrors; they end one request, not the worker."""
    from vllm.exceptions import VLLMValidationError

    from engine.backends.vllm import VllmEngine

    async def add_request(*_: Any) -> None:
        raise VLLMValidationError("no such schema")

    engine: Any = VllmEngine(settings, home, 64)
    engine._llm = SimpleNamespace(add_request=add_request)
    with pytest.raises(GenerationRefusedError, match="VLLMValidationError"):
        await engine.submit(Generation(id="a", prompt=[1], max_tokens=1, stop_ids=()))


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")  # what vLLM imports is full of deprecations
def test_noise_follows_the_position_in_the_answer():
    """Whether a token is sampled by the first generation or by one that continues: same noise; no two
    tokens and no two seeds share it."""
    import torch

    from engine.backends.vllm_seeded_sampling import TAIL, positioned

    def noise(seed: int, tail: int, sampled: int) -> int:
        generator = positioned(torch.Generator().manual_seed(seed), {TAIL: tail})
        generator.place(sampled)
        drawn = int(torch.randint(1 << 62, (1,), generator=generator))
        generator.set_offset(generator.get_offset() - 4)  # vLLM discards the sample of a prefill's chunk
        generator.place(sampled)
        assert int(torch.randint(1 << 62, (1,), generator=generator)) == drawn
        return drawn

    assert noise(7, 0, 12) == noise(7, 12, 0) == noise(7, 5, 7)
    assert len({noise(seed, 0, at) for seed in range(5) for at in range(40)}) == 200


def _continued(tail: int, *ids: int) -> Any:
    """A request as vLLM has it whose last `tail` ids were said before."""
    from engine.backends.vllm_seeded_sampling import TAIL

    parameters = SimpleNamespace(extra_args={TAIL: tail})
    return SimpleNamespace(request_id="r", prompt_token_ids=list(ids), sampling_params=parameters)


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")  # what vLLM imports is full of deprecations
def test_a_grammar_takes_the_tail_first():
    """The ids behind the prompt; one that does not fit is this request's error."""
    from engine.backends.vllm_grammar import replay

    taken: list[int] = []

    def accept(_: str, ids: list[int]) -> bool:
        taken.extend(ids)
        return 9 not in ids

    grammar = SimpleNamespace(accept_tokens=accept)
    replay(grammar, _continued(0, 1, 9))
    assert taken == []
    replay(grammar, _continued(2, 1, 2, 3))
    assert taken == [2, 3]
    with pytest.raises(ValueError, match="shape"):
        replay(grammar, _continued(1, 1, 9))


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")  # what vLLM imports is full of deprecations
def test_an_answer_of_a_shape_that_is_cut_twice_is_the_uninterrupted_one_and_fits():
    """INV-22, INV-23: By the workers' compiler, which begins at the shape's root for each engine: one schema,
    cut at every place and once more behind it."""
    from engine.backends.vllm_grammar import replay

    def at_seam(matcher: Any, answer: bytes) -> None:
        grammar = SimpleNamespace(accept_tokens=lambda _, ids: all(matcher.accept_token(id) for id in ids))
        replay(grammar, _continued(len(answer), 1, 2, *answer))

    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    walk = Walk()
    answers = ((n, walk.answer(PERSON, random.Random(n))) for n in range(seed, seed + 100))
    seed, whole = next((n, answer) for n, answer in answers if answer is not None)
    jsonschema.validate(json.loads(whole), PERSON)
    for cut in range(1, len(whole)):
        cuts = (cut, min(cut + 3, len(whole)))
        assert walk.answer(PERSON, random.Random(seed), cuts, at_seam) == whole, cuts


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")  # what vLLM imports is full of deprecations
def test_tokens_with_control_characters_are_masked():
    """One bit a token, 32 in a word; what the vocabulary does not have stays as it is."""
    from engine.backends.vllm_grammar import printable

    vocabulary = [b"a", b"\n", b" x", b"b\tc", "é".encode(), b"\x1f"] + [b"z"] * 40
    words = printable(vocabulary, 2).tolist()
    bits = [words[id // 32] >> id % 32 & 1 for id in range(64)]
    assert [id for id, bit in enumerate(bits) if not bit] == [1, 3, 5]
