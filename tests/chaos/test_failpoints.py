"""Kills at named points: real gateways, workers and billers; then the books are proved to the nano."""

import json
import sys

import msgspec
import pytest

from chaos.failpoints import ledger_faults
from core.runtime.failpoints import Failpoint
from tests.billing.events import an_event
from tests.support.processes import finished

SEED = 20261122
HALVES = {"first": list(Failpoint)[::2], "second": list(Failpoint)[1::2]}
ON_POSTGRES = (pytest.mark.postgres, pytest.mark.long)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=ON_POSTGRES)])
def test_a_death_at_any_named_point_bills_every_request_once(database: str, half: str) -> None:
    """INV-39: A biller, gateway or worker dies at every point, half of them in one run; on Postgres in
    the long form."""
    points = [argument for point in HALVES[half] for argument in ("--point", point.value)]
    command = [sys.executable, "-m", "chaos", "run", "failpoints", "--database", database, *points]
    command += ["--seed", str(SEED), "--json"]
    print("replay:", " ".join(command[1:]))
    done = finished(command)
    assert done.stdout, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["wrong"] == [], done.stderr[-2000:]
    assert done.returncode == 0
    assert found["reached"] == sorted(point.value for point in HALVES[half])
    assert found["billed_nano"] > 0


def test_each_point_is_in_one_half() -> None:
    """Together the two runs pass all of them."""
    assert sorted([*HALVES["first"], *HALVES["second"]]) == sorted(Failpoint)


def test_what_is_wrong_with_a_ledger_is_found() -> None:
    """A nano too much or too little, a request that was booked twice, not at all, or out of nothing."""
    events = [an_event("r1"), an_event("r2"), an_event("r2")]
    cost = an_event().cost_nano
    right = {"t1": 2 * cost}, {"r1": 1, "r2": 1}
    assert list(ledger_faults(events, *right)) == []
    assert len(list(ledger_faults(events, {"t1": 2 * cost + 1}, right[1]))) == 1
    assert len(list(ledger_faults(events, {"t1": 2 * cost, "t2": 1}, right[1]))) == 1
    assert len(list(ledger_faults(events, right[0], {"r1": 1, "r2": 2}))) == 1
    assert len(list(ledger_faults(events, right[0], {"r1": 1}))) == 1
    assert len(list(ledger_faults(events, right[0], {**right[1], "r3": 1}))) == 1
    cheaper = msgspec.structs.replace(
        an_event("r1"), cost_nano=0
    )  # what an event says of itself is not asked
    assert list(ledger_faults([cheaper, events[1]], *right)) == []
