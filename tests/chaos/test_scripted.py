"""The scripted engine behaves like an engine: steps in lockstep, limits, end-of-sequence, aborts, death."""

import asyncio
import os
import signal
from contextlib import aclosing

import pytest

from chaos.injected.scripted import ScriptedEngine, poisoned, seeded
from engine.backends.base import EngineDeadError, Finish, Generation, StepOutput
from tests.engine.tokens import EOS
from tests.support.patience import QUIET_SECONDS

VOCABULARY = range(97, 123)


def asked(id: str, min_tokens: int = 0) -> Generation:
    """A generation of ten ids."""
    return Generation(id=id, prompt=[1, 2, 3], stop_ids=(EOS,), max_tokens=10, min_tokens=min_tokens)


async def test_a_continuation_says_what_the_whole_would_have_said():
    """The next id is a function of all before it, so prompt and tail as one prompt go on alike."""
    engine = ScriptedEngine(seeded(5, VOCABULARY), step_seconds=0)
    whole = (await _run(engine, asked("whole")))["whole"]
    part = Generation(id="part", prompt=[1, 2, 3, *whole[:4]], max_tokens=6, stop_ids=(EOS,))
    assert whole[:4] + (await _run(engine, part))["part"] == whole
    other = (await _run(ScriptedEngine(seeded(6, VOCABULARY), step_seconds=0), asked("whole")))["whole"]
    assert other != whole


def test_poison_kills_who_runs_it_and_changes_nothing_else(monkeypatch: pytest.MonkeyPatch):
    """A prompt that holds the marker is fatal; every other one has the same answer as without it."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(number))  # pyright: ignore
    script, fatal = seeded(5, VOCABULARY), poisoned(seeded(5, VOCABULARY), [7, 8])
    assert fatal([7, 9, 8]) == script([7, 9, 8])
    assert killed == []
    fatal([1, 7, 8, 2])
    assert killed == [signal.SIGKILL]


async def test_end_of_sequence_waits_for_min_tokens():
    """As in vLLM: the id is masked before."""
    engine = ScriptedEngine(lambda context: EOS, step_seconds=0)
    ids = (await _run(engine, asked("a", min_tokens=2)))["a"]
    assert len(ids) == 3
    assert ids[-1] == EOS


async def test_aborted_generations_do_not_come_out():
    """The others go on."""
    engine = ScriptedEngine(seeded(5, VOCABULARY), step_seconds=0)
    await engine.submit(asked("gone"))
    await engine.submit(asked("kept"))
    await engine.abort(["gone", "unknown"])
    assert set(await _finish(engine)) == {"kept"}
    assert engine.aborted == ["gone"]


async def test_death_and_hang_show():
    """A dead engine raises; a hung one ages."""
    engine = ScriptedEngine(seeded(5, VOCABULARY), step_seconds=0)
    await engine.submit(asked("a"))
    engine.hang()
    steps = asyncio.ensure_future(anext(aiter(engine.steps())))
    done, _ = await asyncio.wait([steps], timeout=QUIET_SECONDS)
    assert not done
    assert engine.stats().step_age_ms >= 40
    engine.die()
    with pytest.raises(EngineDeadError):
        await steps
    with pytest.raises(EngineDeadError):
        await engine.submit(asked("b"))


async def _run(engine: ScriptedEngine, generation: Generation) -> dict[str, list[int]]:
    await engine.submit(generation)
    return await _finish(engine)


async def _finish(engine: ScriptedEngine) -> dict[str, list[int]]:
    """All ids until nothing is unfinished."""
    found: dict[str, list[int]] = {}
    outputs: list[StepOutput] = []
    async with aclosing(engine.steps()) as steps:
        async for batch in steps:
            outputs += batch
            for output in batch:
                found.setdefault(output.id, []).extend(output.tokens)
            if not engine.unfinished():
                break
    assert outputs[-1].finish in (Finish.STOP, Finish.LENGTH)
    return found
