"""The PARLEY_TEST_ switches: a process of chaos or of a test obeys them, one of an installed wheel cannot.

`hand_on` names `start/` in PYTHONPATH, so that every interpreter below begins with its sitecustomize, which
installs the hooks (core/runtime/hooks.py). They read a variable when they are asked: a fork has variables of
its own.
"""

import os
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.runtime import hooks

if TYPE_CHECKING:  # a process that uses none of it does not import it
    from tokenizers import Tokenizer

    from chaos.injected.scripted import ScriptedEngine

START = str(Path(__file__).parent / "start")
PATH = "PYTHONPATH"
INJECTED = ("PARLEY_TEST_", "PARLEY_FAILPOINTS")
BACKEND = "PARLEY_TEST_BACKEND"


def hand_on(environment: MutableMapping[str, str]) -> None:
    """Processes that start with this environment obey the switches."""
    others = [each for each in environment.get(PATH, "").split(os.pathsep) if each and each != START]
    environment[PATH] = os.pathsep.join([START, *others])


def install() -> None:
    """This process obeys them from now on."""
    hooks.injected = INJECTED
    hooks.at_start = _arm
    hooks.other_engine = _other_engine


def _arm(home: Path) -> None:
    from chaos.injected.deaths import arm

    arm(home, os.environ)


def _other_engine() -> "Callable[[Tokenizer], ScriptedEngine] | None":
    if os.environ.get(BACKEND) != "scripted":
        return None
    from chaos.injected.scripted_by import engine_of

    return engine_of
