"""Variables that are misspelt are told, those of others are not, and signals end what a script started."""

import os
import re
import signal
from pathlib import Path

import click
import pytest

from core.access.processes import PROCESSES
from core.cli import in_one_line
from core.runtime.environment import (
    SHOWN_MAX,
    child_environment,
    setting_names,
    unknown_settings,
    unknown_settings_text,
)

ROOT = Path(__file__).parents[2]
CANARY = "canary-Zq7x"
NAME = re.compile(r"\bPARLEY_[A-Z0-9_]*[A-Z0-9]\b(?!_|\*)")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("PARLEY_SECRT", "PARLEY_SECRET"),
        ("PARLEY_DATABASE_ULR", "PARLEY_DATABASE_URL"),
        ("PARLEY_SECRET_FLIE", "PARLEY_SECRET_FILE"),
        ("PARLEY_ALLOWED_HOST", "PARLEY_ALLOWED_HOSTS"),
        ("parley_prt", "PARLEY_PORT"),
    ],
)
def test_a_misspelt_setting_is_told_with_the_one_that_was_meant(typed: str, meant: str):
    said = unknown_settings_text({typed: CANARY, "PATH": "/bin", "PARLEY_POOL": "default"})
    assert f"{typed} (did you mean {meant}?)" in said
    assert CANARY not in said


def test_one_that_is_like_none_is_told_alone():
    assert (
        unknown_settings_text({"PARLEY_ZZZ": CANARY}) == "ignored, since no setting is called so: PARLEY_ZZZ"
    )


def test_however_many_it_is_one_short_line():
    said = unknown_settings_text({f"PARLEY_{'Q' * 5000}{number}": CANARY for number in range(500)})
    assert said.endswith(f" and {500 - SHOWN_MAX} more")
    assert len(said) < 2000


def test_settings_and_variables_of_others_are_not_told():
    """All names that the code, the tests and the documents have, in any case."""
    named = set[str]()
    folders = ("core", "billing", "engine", "server", "admin", "chaos", "clients", "tests", "scripts", "docs")
    texts = [ROOT / name for name in ("README.md", "docker-compose.yml", "Dockerfile", "Makefile")]
    for folder in folders:
        texts += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    for path in texts:
        if path != Path(__file__):
            named |= set(NAME.findall(path.read_text()))
    constants = {"PARLEY_FULL", "PARLEY_IDLE"}  # of a bench: names in Python
    assert set(unknown_settings(named)) <= constants
    assert not unknown_settings_text(setting_names() | {"parley_port", "PARLEY_TEST_ANYTHING", "PATH"})


def test_a_misspelt_secret_is_no_childs():
    """Neither an engine's nor any process'."""
    for process in (None, *PROCESSES):
        found = child_environment({"PARLEY_SECRT": CANARY, "PARLEY_KEY": CANARY, "PARLEY_POOL": "p"}, process)
        assert found == {"PARLEY_POOL": "p"}


def test_every_command_warns_and_goes_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """On stderr, in one line without controls: what a script reads is as it was."""

    @click.command()
    def command() -> None:
        click.echo("done")

    monkeypatch.setenv("PARLEY_SECRT\x1b[2J", CANARY)
    monkeypatch.setattr("sys.argv", ["parley"])
    with pytest.raises(SystemExit) as ended:
        in_one_line(command)
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert out == "done\n"
    assert err.startswith("parley: ignored")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert CANARY not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ignored", [True, False])
def test_a_command_is_ended_by_a_signal(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, ignored: bool
):
    """By SIGTERM as by Ctrl-C, which it may clean up after; also where a script put it in the background, and
    SIGINT was ignored."""
    cleaned: list[bool] = []

    @click.command()
    def command() -> None:
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 0)  # the handler runs by now
        finally:
            cleaned.append(True)

    monkeypatch.setattr("sys.argv", ["parley"])
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended:
            in_one_line(command)
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)
    assert (ended.value.code, cleaned) == (1, [True])
