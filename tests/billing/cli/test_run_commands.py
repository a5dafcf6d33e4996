"""`parley runs`, and the steps that a command shows which takes long."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from billing.cli.operations import step_line, steps_shown
from billing.cli.runs import runs_command
from billing.operations import tenants
from billing.unit_of_work.actors import local_actor
from billing.unit_of_work.progress import BegunRun, ProgressEvent
from billing.unit_of_work.run_rows import beat, write_run
from core.operations import operation_of, registered
from core.sql.database import Database

STEP = ProgressEvent(3, 7, "w1 has 4 in hand", 0)


async def begun(db: Database) -> str:
    """A drain that is under way, after its first step."""
    run = BegunRun.of(local_actor(), registered()["workers.drain"], write_run)
    run.progress.tell(STEP.done, STEP.of, STEP.what)
    async with db.transaction() as session:
        await write_run(session, run)
        await beat(session, run)
    return run.id


async def typed(*words: str) -> Result:
    """What `parley runs` says."""
    return await asyncio.to_thread(CliRunner().invoke, runs_command, words)


async def test_runs_are_listed_shown_and_stopped(
    sqlite: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People see the last step, programs all of them."""
    monkeypatch.setenv("PARLEY_HOME", str(home))
    run = await begun(sqlite)
    listed = await typed("list", "--json")
    assert [json.loads(line)["run"] for line in listed.stdout.splitlines()] == [run]
    assert step_line(STEP) in (await typed("show", run)).stdout
    stopped = json.loads((await typed("stop", run, "--json")).stdout)
    assert (stopped["stop_asked"], stopped["state"], stopped["events"][0]["of"]) == (True, "running", 7)
    assert (await typed("show", "nobody")).exit_code == 1


def test_a_terminal_shows_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, and clears the line at its end; nothing of what is short."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with steps_shown(registered()["workers.drain"]) as told:
        assert told is not None
        told(STEP)
    assert capsys.readouterr().err == "\r\033[K3 of 7: w1 has 4 in hand\r\033[K"
    with steps_shown(operation_of(tenants.create_tenant)) as told:
        assert told is None
