"""How large an engine's steps are: as measured by earlier starts on this machine."""

from pathlib import Path

import pytest

from chaos.injected.scripted import ScriptedEngine, seeded
from engine.scheduling.step_size import FILE, LEAST, MEASUREMENTS_MAX, MOST, StepSizes, chosen
from engine.worker import self_test
from tests.engine.tokens import ids_of


@pytest.mark.parametrize(
    ("measured", "size"),
    [
        ({}, 256),
        ({256: [0.4]}, 256),
        ({256: [0.9, 0.4]}, 256),
        ({256: [0.2]}, 512),
        ({256: [0.2], 512: [0.8]}, 384),
        ({256: [0.2], 384: [0.3], 512: [0.8]}, 384),
        ({256: [1.2]}, 128),
        ({256: [1.2], 128: [0.6], 64: [0.3]}, 64),
        ({64: [2.0]}, LEAST),
        ({MOST: [0.01]}, MOST),
    ],
)
def test_a_full_step_takes_at_most_half_a_second(measured: dict[int, list[float]], size: int):
    """By the fastest of each size; up by no more than one start can try, down as far as it must."""
    assert chosen(measured, first=256) == size


def test_starts_go_by_what_earlier_ones_measured(tmp_path: Path):
    """For their own model only, and no longer than it takes to know."""
    sizes = StepSizes(tmp_path, "tiny@1", first=256)
    assert (sizes.chosen(), sizes.known(256)) == (256, False)
    for seconds in (0.3, 0.2, 0.25, 0.4):
        sizes.learn(256, seconds)
    later = StepSizes(tmp_path, "tiny@1", first=256)
    assert later.known(256)
    assert later.chosen() == 512
    assert StepSizes(tmp_path, "tiny@2", first=256).chosen() == 256
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert MEASUREMENTS_MAX <= 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"tiny@1": 3}'])
def test_a_file_that_says_nothing_is_written_anew(tmp_path: Path, content: str):
    """Whatever is in it, a worker starts."""
    (tmp_path / FILE).write_text(content)
    sizes = StepSizes(tmp_path, "tiny@1", first=256)
    assert sizes.chosen() == 256
    sizes.learn(256, 1.0)
    assert sizes.chosen() == 128


def test_a_folder_that_takes_nothing_stops_no_worker(tmp_path: Path):
    """It measures at each start then."""
    sizes = StepSizes(tmp_path / "missing", "tiny@1", first=256)
    sizes.learn(256, 1.0)
    assert sizes.chosen() == 256


async def test_a_full_step_is_timed():
    """A step of the size that was asked for; None from an engine that makes none so large."""
    engine = ScriptedEngine(seeded(7, range(32, 127)), step_seconds=0.01)
    assert await self_test.full_step(engine, ids_of(self_test.TEXT), 256) == 0.01
    small = ScriptedEngine(seeded(7, range(32, 127)), step_seconds=0.01, max_model_len=16)
    assert await self_test.full_step(small, ids_of(self_test.TEXT), 256) is None
    assert engine.measured() == []
