"""SIGKILL of a supervisor: its workers go with it, and the next one's answer on (INV-17)."""

from pathlib import Path

import pytest

from tests.support.home import lend_model, short_folder
from tests.support.patience import LONG_TEST_SECONDS
from tests.support.platform import running_platform
from tests.system.killing import alive, family, kill_mid_answer, kill_up, one

pytestmark = pytest.mark.timeout(LONG_TEST_SECONDS)
SCRIPTED = {"PARLEY_TEST_BACKEND": "scripted", "PARLEY_TEST_STEP_MS": "20"}


async def test_answers_go_on_under_the_next_supervisor(model_folder: Path):
    """INV-17: A worker, the supervisor, the fleet's controller, then `parley up` are killed: the engine is a
    script, all else is real."""
    with short_folder("platform") as home:
        lend_model(home, model_folder)
        with running_platform(home, environment=SCRIPTED, fresh=False) as platform:
            for words in (("engine.main", " worker "), ("core.cli", " supervisor "), ("core.cli", " fleet ")):
                process = one(platform, *words)
                leash = process.parent()
                assert leash is not None
                await kill_mid_answer(platform, process, family(process))
                assert not alive({leash})
            await kill_up(platform)
