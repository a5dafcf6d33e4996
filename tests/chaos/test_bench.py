"""Each session benchmark in its short form: real processes, figures that can be true. No timing is judged.

One of them runs with every change, the others with `make test-long`.
"""

import json
import sys
from typing import Any

import pytest

from chaos.bench.console_pages import console_pages
from tests.support.patience import finished

FEW_REQUESTS = ("--tenants", "3", "--events", "3000", "--looked-into", "300", "--calls", "2")


def figures(*arguments: str) -> dict[str, Any]:
    """Run a benchmark; its figures by name."""
    command = [sys.executable, "-m", "chaos", "bench", *arguments, "--json"]
    done = finished(command)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["machine"]
    assert found["at"]
    for figure in found["figures"]:
        assert figure["reached"] is reaches_goal(**figure), figure
    return {figure["name"]: figure["value"] for figure in found["figures"]}


def reaches_goal(value: float, most: float | None, least: float | None, **_: object) -> bool | None:
    """What the number says of its goal; None: it has none."""
    if most is not None:
        return value <= most
    return None if least is None else value >= least


@pytest.mark.long
def test_sessions_cost_memory():
    """Connected sessions cost something, and less than a megabyte each."""
    found = figures("sessions", "--count", "60", "--idle", "0.5")
    assert found["sessions connected"] == 60
    assert 1 < found["memory a session (PSS)"] < 1024


def test_the_console_answers():
    """Every page of it, of workers that only beat."""
    few = ("--workers", "4", "--pools", "2", "--tenants", "3", "--events", "20", "--calls", "4")
    found = figures("console", *few)
    for page in console_pages():
        assert 0 < found[f"{page.name}, p50"] <= found[f"{page.name}, p95"]
    assert found["overview, answer"] > 3


def test_a_large_month_is_sent_in_the_memory_of_a_small_one():
    """Every line is a row of its own."""
    found = figures("export", "--lines", "8000")
    assert found["rows"] == 8000
    assert found["lines a second"] > 0


def test_a_forecast_is_nearer_than_a_straight_line():
    """Over the seeded tenants; in the middle, where it matters most, and at its worst."""
    found = figures("forecast")
    assert found["months judged"] == 45
    for part in ("median", "p90"):
        assert found[f"error, {part}"] < found[f"error of a straight line, {part}"]


def test_the_parts_of_a_bridge_add_up():
    """Of each pair of months, whatever is in them."""
    found = figures("bridge", "--pairs", "50")
    assert found["pairs of months whose parts add up exactly"] == 50
    assert found["largest remainder"] == 0


def test_the_portal_answers():
    """Its page of money, and the reads behind it, in books of which most is sums by the hour."""
    found = figures("portal", *FEW_REQUESTS, "--only", "spend")
    assert found["rows of usage_event"] < 310 < found["rows of rollup_hour"]
    assert 0 < found["spend, p50"] <= found["spend, p95"]
    reads = {name.partition(" ")[0].partition(",")[0] for name in found if name.startswith("spend.")}
    assert reads >= {"spend.summary", "spend.refusals", "spend.pools"}


@pytest.mark.long
def test_every_page_of_the_portal_answers():
    """As its router lists them."""
    found = figures("portal", *FEW_REQUESTS)
    for page in console_pages("portal"):
        assert 0 < found[f"{page.name}, p50"] <= found[f"{page.name}, p95"]


@pytest.mark.long
def test_a_gateway_relays_every_token():
    """All tokens arrive in order; the figure is per CPU second of the gateway."""
    found = figures("relay", "--streams", "6", "--seconds", "1", "--rate", "100")
    assert found["tokens/s a gateway core"] > 0
    assert found["tokens a delta"] >= 1
    assert found["tokens an entry"] >= 1


@pytest.mark.long
def test_a_profile_is_written(tmp_path: Any):
    """--profile leaves a file that names the gateway's functions."""
    profile = tmp_path / "profile.txt"
    figures("relay", "--streams", "3", "--seconds", "1", "--profile", str(profile))
    assert "samples" in profile.read_text()
    assert "server/" in profile.read_text()


@pytest.mark.long
def test_a_token_costs_more_on_the_wire_than_its_text():
    """Framing comes on top of the text, and msgpack's is smaller."""
    found = figures("wire", "--seconds", "1", "--firsts", "4")
    text = found["text itself"]
    assert text < found["300 tokens/s, msgpack"] < found["300 tokens/s, json"] < 200
    assert found["append of the first text to its delta, p50"] > 0


@pytest.mark.long
def test_a_reader_resumes_in_the_middle():
    """Every reconnect is a full resume with text."""
    found = figures("resume", "--count", "4", "--others", "0,3")
    assert found["reconnects beside 0 other streams"] == found["reconnects beside 3 other streams"] == 4
    assert found["first replayed byte beside 3 other streams, p50"] > 0


def test_a_cancel_reaches_the_engine():
    """Each cancel is one abort, before its answer's end is read."""
    found = figures("cancel", "--count", "4", "--streams", "3")
    assert found["cancels"] == 4
    assert 0 < found["cancel sent to engine.abort, p50"] < found["cancel sent to `end` received, p99"]


@pytest.mark.long
def test_a_drain_loses_nothing():
    """Every answer is whole, and the gateway ended in order."""
    found = figures("drain", "--streams", "4", "--drain-seconds", "2")
    assert found["answers lost or not whole"] == 0
    assert found["its exit code"] == 0


def test_a_tenant_moves_with_its_live_answers():
    """Each is whole and would be billed once, also those that begin meanwhile; their readers pause."""
    found = figures("move-tenant", "--streams", "3", "--tokens", "200")
    assert found["live answers that moved"] >= 3
    assert found["lost or not whole"] == found["doubled"] == found["not to be billed"] == 0
    assert found["answers that began meanwhile"] > found["of these lost or not whole"] == 0
    assert 0 < found["pause p50"] <= found["longest pause"]


@pytest.mark.long
def test_a_pool_rolls_to_a_version_and_back():
    """No answer fails, and the version in use has a ready worker whenever somebody looks."""
    found = figures("roll", "--streams", "4", "--bulk", "8")
    assert found["errors"] == found["not whole"] == 0
    assert found["without a ready worker of the version in use"] == 0
    assert found["answers"] > 16


@pytest.mark.parametrize("events", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_backup_beside_writers_is_restored_whole(events: int):
    """No event of before it is missing, and verify and reconcile find nothing."""
    found = figures("backup", "--events", str(events))
    assert found["usage events in the backup's database"] > events
    assert {"copying the database", "restore: verify", "restore: reconcile"} <= found.keys()
    assert found["events of before the backup that are missing"] == 0
    assert found["faults and differences after it"] == 0


@pytest.mark.long
@pytest.mark.postgres
def test_a_backup_of_postgres_beside_writers_is_restored_whole():
    """The same by pg_dump."""
    found = figures("backup", "--events", "20000", "--postgres")
    assert found["usage events in the backup's database"] > 20_000
    assert found["events of before the backup that are missing"] == 0
    assert found["faults and differences after it"] == 0


@pytest.mark.long
def test_interactive_work_beside_bulk():
    """The worker is full but for what bulk leaves free, and the engine's own queue is told."""
    found = figures("interactive", "--engine", "scripted", "--slots", "8", "--rounds", "1", "--probes", "3")
    assert found["streams of bulk work beside it, as planned"] == 7
    assert found["first token, full of bulk work, p50"] > 0
    assert found["longest queue inside the engine"] <= 2


@pytest.mark.long
def test_a_quiet_tenant_beside_a_flood():
    """Three settings, each with its first tokens."""
    small = ("--slots", "4", "--flood", "12", "--rounds", "1", "--probes", "3")
    found = figures("noisy", "--engine", "scripted", *small)
    for setting in ("idle", "full, no backlog", "under the flood"):
        assert found[f"first token, {setting}, p95"] > 0
    assert found["p95 under the flood, of full"] > 0


def test_each_benchmark_says_what_it_does():
    """--help of the group lists them all, with a line of its own that is not cut."""
    command = [sys.executable, "-m", "chaos", "bench", "--help"]
    listed = finished(command).stdout
    lines = {line.split()[0]: line for line in listed.splitlines() if line.strip()}
    session = ("sessions", "relay", "wire", "resume", "cancel", "drain", "stream")
    for name in (*session, "queue", "fairness", "interactive", "noisy", "prefill"):
        assert len(lines[name].split()) > 3
        assert not lines[name].endswith("...")
