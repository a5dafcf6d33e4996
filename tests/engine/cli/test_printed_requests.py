"""What `parley requests` prints of a line and of one request, fact by fact."""

from typing import Any

import pytest

from billing.api import UNLIMITED_TOKENS, HeldRequest
from billing.usage import RequestPhase
from core.operations import MoneyAmount
from core.terminal.terminal_tables import print_blocks
from engine.cli import explain, requests
from engine.operations.inspection import InspectedRequest, RequestDetail
from engine.request import Control
from tests.engine.cli.printed import AT_MS, printed

ID = "0196d3c0-0000-7000-8000-000000000001"


def a_row(**changes: Any) -> InspectedRequest:
    """A request in line that nobody has worked on."""
    fields: dict[str, Any] = {
        **{"tenant": "t1", "id": ID, "pool": "near", "status": "queued", "priority": "bulk", "lane": "ids"},
        **{"worker": "", "model": "tiny", "claims": 0, "prompt_tokens": 10, "tokens": 20, "log_head": 30},
        **{"accepted_ms": AT_MS - 2_000, "claimed_ms": 0, "first_token_ms": 0},
        **{"deadline_ms": AT_MS + 3_000, **changes},
    }
    return InspectedRequest(**fields)


def a_detail(row: InspectedRequest, **changes: Any) -> dict[str, str]:
    """Of this request, by the names of its lines; None where there is none such."""
    fields: dict[str, Any] = {
        **{"warm": "", "fingerprint": "f", "epoch": 1, "visible": 2, "covered": 3, "granted": 4},
        **{"input_cached": 5, "recomputed_tokens": 6, "deaths": 7, "preempts": 8, "control": 0},
        **{"moved_to": "", "older": None, "log_first": None, "readers": {}, "now_ms": AT_MS, **changes},
    }
    came_from, names = fields.pop("came_from", []), fields.pop("names", {})
    return dict(requests._lines(RequestDetail(row=row, **fields), came_from, names))


def test_requests_are_printed_with_how_long_they_wait_and_have(capsys: pytest.CaptureFixture[str]):
    """What has ended says why and has no more time; what is late has none left."""
    ended = a_row(status="ended", reason="stop", priority="", worker="w1", claims=1)
    late = a_row(accepted_ms=AT_MS + 1, deadline_ms=AT_MS - 1)
    listed = requests.ListedRequests([a_row(), ended, late], {"t1": "acme"}, AT_MS)
    print_blocks(requests._table(listed))
    lines = printed(capsys)
    assert [" ".join(line.split()) for line in lines] == [
        "id tenant status class worker model prompt tokens age left",
        f"{ID} acme queued bulk - tiny 10 20 2.0 s 3.0 s",
        f"{ID} acme stop - w1 tiny 10 20 2.0 s -",
        f"{ID} acme queued bulk - tiny 10 20 0 ms 0 ms",
    ]
    assert lines[0].index("prompt") + len("prompt") == lines[1].index(" 10 ") + 3, (
        "numbers stand on the right"
    )


def test_one_request_is_told_whole():
    """Where it is, what it has cost, and who reads it."""
    row = a_row(claims=2, worker="w1", claimed_ms=AT_MS, first_token_ms=AT_MS + 1)
    readers = {"g2": "stuck", "g1": "reading"}
    phases = [RequestPhase("queued", 2), RequestPhase("claimed", 2_000)]
    came_from = ["far", "farther"]
    told = a_detail(row, older=9, log_first=3, readers=readers, came_from=came_from, phases=phases)
    assert told == {
        "request": ID,
        "tenant": "t1",
        "pool": "near, moved there from far, farther",
        "model": "tiny",
        "status": "queued",
        "class": "bulk, ids lane",
        "in line": "9 of its class wait longer",
        "worker": "w1",
        "claims": "2, 7 engine deaths in a row, 8 preemptions",
        "tokens": "10 prompt (5 cached), 20 sampled (3 shown), 4 granted, 6 computed again",
        "log": "entries 3 to 30, epoch 1, 2 characters",
        "life": "queued 2 ms, claimed 2.0 s",
        "accepted": "2027-01-15T07:59:58.123+00:00",
        "claimed": "2027-01-15T08:00:00.123+00:00",
        "first token": "2027-01-15T08:00:00.124+00:00",
        "deadline": "2027-01-15T08:00:03.123+00:00",
        "readers": "g1 reading, g2 stuck",
    }


@pytest.mark.parametrize(
    ("granted", "told"),
    [
        (256, "12 input, 256 output granted so far"),
        (UNLIMITED_TOKENS, "12 input, output up to its max_tokens, as no money limits it"),
    ],
)
def test_what_a_running_request_may_write(granted: int, told: str):
    """In words where nothing is counted out to it."""
    times = (AT_MS, AT_MS)
    held = HeldRequest(
        *("open", "p", "p", "k", "", "tiny", 12, granted, MoneyAmount.of(0), *times, False, "b", 1, [])
    )
    assert dict(explain._holds(held))["tokens"] == told


def test_what_is_not_so_is_not_told():
    """No place in line where it does not wait, no time that was never reached."""
    told = a_detail(a_row())
    assert "in line" not in told
    names = ("pool", "worker", "log", "claimed", "first token", "readers")
    assert [told[name] for name in names] == [
        *("near", "none", "entries none kept, epoch 1, 2 characters", "-", "-", "none")
    ]
    assert a_detail(a_row(), warm="w0")["worker"] == "none; last w0"
    assert a_detail(a_row(), names={"t1": "acme"})["tenant"] == "acme (t1)"
    assert a_detail(a_row(), older=0)["in line"] == "0 of its class wait longer"


@pytest.mark.parametrize(
    ("control", "moved_to", "status"),
    [
        (Control(0), "", "queued"),
        (Control.CANCEL, "", "queued, told to cancel"),
        (Control.PREEMPT | Control.DRAIN, "far", "queued to pool far, told to preempt and drain"),
    ],
)
def test_what_a_request_was_told_to_do(control: Control, moved_to: str, status: str):
    """By name."""
    assert a_detail(a_row(), control=control, moved_to=moved_to)["status"] == status
