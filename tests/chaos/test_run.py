"""Chaos runs in their short form: real processes, scripted engine, a fixed seed; the oracle finds nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS_MAX = 100.0
SEED = 20261121


def attacked(*arguments: str) -> dict[str, Any]:
    """Run a scenario; what it reported."""
    command = [sys.executable, "-m", "chaos", "run", *arguments, "--seed", str(SEED), "--json"]
    print("replay:", " ".join(command[1:]))
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.stdout, done.stderr[-4000:]
    report = json.loads(done.stdout)
    assert done.returncode == 0, (report["findings"], done.stderr[-2000:])
    return report


def figure(report: dict[str, Any], name: str) -> float:
    """One of its figures."""
    return next(each["value"] for each in report["figures"] if each["name"] == name)


def test_kills_lose_nothing_and_a_run_goes_on_where_it_was(tmp_path: Path):
    """Workers die in mid-answer; every answer is whole, billed once, and nothing is left. The state file
    spares a second call the rounds that were done."""
    state = str(tmp_path / "state.json")
    first = attacked("kill-workers", "--kills", "12", "--workers", "3", "--state", state)
    assert figure(first, "faults") == 12
    assert figure(first, "answers") > 10
    assert figure(first, "seams that readers saw") > 5
    again = attacked("kill-workers", "--kills", "12", "--workers", "3", "--state", state)
    assert again["figures"] == first["figures"]
    assert str(SEED) in first["replay"]


def test_cut_connections_lose_nothing():
    """Clients come back by themselves and read on where they stood."""
    report = attacked("disconnects", "--kills", "10", "--workers", "2")
    assert figure(report, "clients: reconnects") == 10
    assert figure(report, "clients: resumed") > 0


def test_a_quiet_tenant_is_compared_in_one_run():
    """Idle, beside a full worker, and under a flood; everybody's answers are judged. No timing is."""
    report = attacked("noisy-neighbour", "--asks", "3", "--flood", "32")
    assert figure(report, "answers") > 9
    assert figure(report, "p95 under flood, of full") > 0


def test_an_engine_core_needs_vllm():
    """A scenario that does not apply says so."""
    command = [sys.executable, "-m", "chaos", "run", "kill-engine-core", "--engine", "scripted"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 2
    assert "does not apply" in done.stderr
