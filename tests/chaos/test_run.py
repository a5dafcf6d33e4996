"""Chaos runs in their short form: real processes, scripted engine, a fixed seed; the oracle finds nothing."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import ENGINE_SECONDS, ENGINE_TEST_SECONDS, RUN_SECONDS
from tests.support.processes import finished

SEED = 20261121


def attacked(*arguments: str, seconds: float = RUN_SECONDS) -> dict[str, Any]:
    """Run a scenario; what it reported."""
    command = [sys.executable, "-m", "chaos", "run", *arguments, "--seed", str(SEED), "--json"]
    print("replay:", " ".join(command[1:]))
    done = finished(command, seconds=seconds)
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


def test_no_letter_of_a_secret_is_found_whatever_dies():
    """INV-41: Answers have secrets in them; workers and gateways die, connections are cut, readers come."""
    report = attacked("safety", "--kills", "10", "--workers", "3")
    assert figure(report, "leaked") == 0
    assert figure(report, "answers") > 10
    for kind in (
        "readings",
        "logs",
        "hints",
        "stored messages",
        "pages of metrics",
        "exports of spans",
        "files",
    ):
        assert figure(report, f"searched for secrets: {kind}") > 0, kind


@pytest.mark.long
def test_no_letter_of_a_secret_is_found_after_five_hundred_resumes():
    """The same for longer: readers come back to their answers, with workers and gateways killed."""
    report = attacked("safety", "--resumes", "500")
    assert figure(report, "leaked") == 0
    assert figure(report, "clients: resumed") >= 500
    assert figure(report, "faults: SIGKILL of a gateway") > 0
    assert figure(report, "faults: SIGKILL of a worker") > 0


@pytest.mark.long
def test_sixty_kills_lose_nothing():
    """Six a second, until most answers have moved several times."""
    report = attacked("kill-workers", "--kills", "60", "--rate", "6")
    assert figure(report, "faults") == 60
    assert figure(report, "seams that readers saw") > 60


@pytest.mark.long  # three engines; a real one's worker is killed by tests/system/test_no_orphans.py, too
@pytest.mark.vllm
@pytest.mark.timeout(ENGINE_TEST_SECONDS)
def test_a_kill_of_a_real_vllm_worker_loses_nothing():
    """SmolLM2 under the supervisor: what a killed worker had goes on at the other, which was ready."""
    options = ["--engine", "vllm", "--workers", "2", "--kills", "1", "--rate", "1"]
    report = attacked("kill-workers", *options, seconds=ENGINE_SECONDS)
    assert figure(report, "faults with warm capacity") == 100
    assert figure(report, "seams that readers saw") > 0


@pytest.mark.long
def test_stopped_workers_lose_nothing():
    """What a woken worker still writes changes nothing; others had its answers by then."""
    report = attacked("stop-workers", "--kills", "3", "--workers", "3")
    assert figure(report, "seams that readers saw") > 0


@pytest.mark.long
def test_poison_is_singled_out():
    """It ends engine_lost, and nothing that ran beside it does."""
    report = attacked("poison", "--kills", "2", "--workers", "3")
    assert figure(report, "ended engine_lost") == 2
    assert figure(report, "seams that readers saw") > 2


def test_a_redis_that_lost_its_tail_loses_nothing_in_silence():
    """What it had accepted before goes on; what it has forgotten ends log_lost; nobody pays twice."""
    report = attacked("kill-redis", "--kills", "2", "--workers", "2")
    assert figure(report, "answers") > 10


@pytest.mark.long
def test_a_redis_that_lost_everything_ends_everything_typed():
    """And takes new requests at once."""
    report = attacked("flush-redis", "--kills", "2", "--workers", "2")
    forgotten = figure(report, "ended log_lost or not_resumable")
    assert 0 < forgotten < figure(report, "answers")


@pytest.mark.long
def test_all_readers_at_once_read_the_same():
    """Six more readers of every open answer, each judged like the first."""
    report = attacked("reload-storm", "--kills", "2", "--workers", "2")
    assert figure(report, "answers") > 40


@pytest.mark.long
def test_oversized_requests_are_refused_and_hurt_nobody():
    """What cannot fit gets a code; what fits is answered."""
    report = attacked("oom", "--kills", "2", "--workers", "2")
    assert figure(report, "refused with a code") > 0
    assert figure(report, "answers") > 10


def test_cut_connections_lose_nothing():
    """Clients come back by themselves and read on where they stood."""
    report = attacked("disconnects", "--kills", "10", "--workers", "2", "--rate", "4")
    # A cut may hit a client that is just leaving, or coming back from the cut before.
    assert 5 <= figure(report, "clients: reconnects") <= 10
    assert figure(report, "clients: resumed") > 0


@pytest.mark.long
def test_a_quiet_tenant_is_compared_in_one_run():
    """Idle, beside a full worker, and under a flood; everybody's answers are judged. No timing is."""
    report = attacked("noisy-neighbour", "--asks", "3", "--flood", "32")
    assert figure(report, "answers") > 9
    assert figure(report, "p95 under flood, of full") > 0


def test_an_engine_core_needs_vllm():
    """A scenario that does not apply says so."""
    command = [sys.executable, "-m", "chaos", "run", "kill-engine-core", "--engine", "scripted"]
    done = finished(command)
    assert done.returncode == 2
    assert "does not apply" in done.stderr
