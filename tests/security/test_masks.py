"""Shapes from a generator: what the trial lets through costs the shared steps next to nothing."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from engine.backends.mask_budget import CALL_SECONDS_MAX
from tests.support.patience import ENGINE_TEST_SECONDS

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(ENGINE_TEST_SECONDS)]


def test_no_mask_of_an_accepted_shape_is_slow(model_folder: Path):
    """A few of them here; `python -m chaos bench masks` for hundreds, and the figure. None is over what ends
    a request in the engine."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    argv = [*("-m", "chaos", "bench", "masks", "--json", "--shapes", "6"), "--seed", str(seed)]
    done = subprocess.run([sys.executable, *argv, "--model", model_folder], capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert found["seed"] == seed
    assert sum(found["outcomes"].values()) == 6
    for each in found["worst"]:
        assert max(each["mask"], each["token"]) < CALL_SECONDS_MAX, each
