"""An engine that is not sound is found out before it answers anybody."""

import itertools
import math
from typing import Any

import msgspec
import pytest

from chaos.injected.scripted import NextToken, ScriptedEngine, seeded
from core.errors import StartupError
from engine.backends.base import Finish, StepOutput
from engine.worker import self_test
from tests.engine.tokens import ids_of

TEXT = ids_of(self_test.TEXT)
VOCABULARY = 256
COUNTING = itertools.count()


def engine(next_token: NextToken | None = None, **changes: Any) -> ScriptedEngine:
    """One that takes its steps at once."""
    return ScriptedEngine(next_token or seeded(7, range(32, 127)), step_seconds=0, **changes)


class Altered(ScriptedEngine):
    """Changes what each step brings."""

    changes: dict[str, Any] = {}

    def _sample(self, running: Any) -> StepOutput:
        return msgspec.structs.replace(super()._sample(running), **self.changes)


def altered(**changes: Any) -> Altered:
    """An engine whose outputs all have these."""
    made = Altered(seeded(7, range(32, 127)), step_seconds=0)
    made.changes = changes
    return made


async def test_a_sound_engine_passes_and_keeps_nothing():
    """Nothing of the self-test is left in the engine, or counted as a step of later work."""
    sound = engine()
    await self_test.warm_up(sound, TEXT, 64)
    assert sound.measured() == []
    await self_test.check(sound, TEXT, VOCABULARY)
    assert sound.unfinished() == set()


async def test_a_short_context_is_enough():
    """The prompts fit the model, however little it takes."""
    small = engine(max_model_len=self_test.ANSWER_TOKENS + 4)
    await self_test.warm_up(small, TEXT, 4096)
    await self_test.check(small, TEXT, VOCABULARY)


@pytest.mark.parametrize(
    ("unsound", "why"),
    [
        (altered(logprobs=[math.nan]), "probabilities are not numbers"),
        (altered(logprobs=[-math.inf]), "probabilities are not numbers"),
        (altered(logprobs=[]), "probabilities are not numbers"),
        (altered(tokens=[VOCABULARY]), "ids that are no tokens"),
        (altered(tokens=[]), "ids that are no tokens"),
        (altered(finish=Finish.ERROR), "refused to go on"),
        (engine(lambda _: next(COUNTING) % VOCABULARY), "different answers"),
    ],
)
async def test_an_unsound_engine_does_not_pass(unsound: ScriptedEngine, why: str):
    """With a line that says what is wrong."""
    with pytest.raises(StartupError, match=f"self-test failed: .*{why}"):
        await self_test.check(unsound, TEXT, VOCABULARY)


async def test_an_engine_that_hangs_or_dies_does_not_pass(monkeypatch: pytest.MonkeyPatch):
    """The wait has an end."""
    monkeypatch.setattr(self_test, "SECONDS_MAX", 0.05)
    hanging = engine()
    hanging.hang()
    with pytest.raises(StartupError, match="has not answered"):
        await self_test.warm_up(hanging, TEXT, 64)
    dying = engine()
    dying.die()
    with pytest.raises(StartupError, match="told to die"):
        await self_test.check(dying, TEXT, VOCABULARY)
