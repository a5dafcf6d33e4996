"""The hooks are empty in an interpreter that chaos and tests did not begin."""

import os
import subprocess
import sys

from chaos.injected.switches import PATH, START, hand_on

PROGRAM = "from core.runtime import hooks as h; print(h.injected, h.at_start, h.at_failpoint, h.other_engine)"


def said(environment: dict[str, str]) -> str:
    """By an interpreter that begins so."""
    given = {"PARLEY_TEST_BACKEND": "scripted", "PARLEY_FAILPOINTS": "biller.after_read", **environment}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout.strip()


def test_no_variable_of_ours_fills_a_hook() -> None:
    """A process of the product reacts to none of the switches; one that chaos began does."""
    plain = {name: value for name, value in os.environ.items() if name != PATH}
    assert said(plain) == "() None None None"
    began = dict(plain)
    hand_on(began)
    assert said(began).startswith("('PARLEY_TEST_', 'PARLEY_FAILPOINTS') <function")


def test_who_hands_the_switches_on_keeps_the_path() -> None:
    """Once, in front of what is there."""
    environment = {PATH: os.pathsep.join(["/a", START, "/b"])}
    hand_on(environment)
    assert environment[PATH] == os.pathsep.join([START, "/a", "/b"])
