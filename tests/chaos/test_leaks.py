"""What looks for secrets finds them however they are cut, and in text that was taken back."""

import urllib.request

import pytest

from chaos.injected.secrets import SECRETS, TRACES
from chaos.installation.span_receiver import receiving_spans
from chaos.judge.leaks import Overheard, find
from chaos.observations import Answered, WorkloadRequest
from chaos.workload import WatchedAnswer
from engine.api import Entry, EntryKind
from parley_client import Reset, Text


@pytest.mark.parametrize("trace", TRACES)
def test_a_secret_is_found_however_entries_cut_it(trace: str):
    """Letter by letter, with a flag between; a log without it is clean."""
    overheard = Overheard()
    for letter in f"see {trace}.":
        overheard.hear("gw", "r1", [Entry(1, EntryKind.TEXT, letter), Entry(2, EntryKind.FLAGGED, v=b"{}")])
    overheard.hear("gw", "r2", [Entry(1, EntryKind.TEXT, "nothing")])
    assert find({name: text.encode() for name, text in overheard.hints.items()}) == [
        f"hints of r1 to gw: {trace}"
    ]


def test_no_cut_secret_is_taken_for_a_whole_one():
    """An id that begins with 0 may stand right behind a text that ended within a secret."""
    for secret in SECRETS[:8]:
        assert find({"db": secret.strip()[:-1].encode() + b"01a2"}) == []


def test_what_a_reader_was_sent_stays():
    """Also the text that a reset replaced."""
    watched = WatchedAnswer(Answered("t", WorkloadRequest(0, "why?", 9), "r", 0.0))
    for event in (Text("AKIA"), Text("IOS"), Reset("AK"), Text("x")):
        watched.see(event, 1.0)
    assert "".join(watched.frames) == "AKIAIOS\nAKx"


def test_spans_are_received_as_they_come():
    """By a process that exports to the address."""
    with receiving_spans() as received:
        urllib.request.urlopen(f"{received.url}/v1/traces", b"a span").close()
        assert received.bodies == [b"a span"]
