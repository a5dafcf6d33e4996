"""The suite itself: its language is strict, and its ledger sees what a gateway must not do."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import STEPS, cases_in, parse_step
from tests.conformance.ledger import SHAPES, BrokenPromise, Frame, Ledger
from tests.conformance.values import BadCase, Names

HERE = Path(__file__).parent
FILE = """
about: x
cases:
  - name: a case
    why: because
    steps:
      - open: a
"""
BAD_FILES = {
    "an unknown key of a case": FILE + "    color: red\n",
    "an unknown key of a file": FILE + "color: red\n",
    "an unknown key of a step": FILE + "      - expect: {}\n        color: red\n",
    "no action": FILE + "      - within_ms: 5\n",
    "two actions": FILE + "      - expect: {}\n        send: {}\n",
    "a key given twice": FILE + "      - expect: {a: 1, a: 2}\n",
    "two cases of one name": FILE + "  - {name: a case, why: x, steps: []}\n",
    "an unknown encoding": FILE + "    encodings: [xml]\n",
    "no why": "about: x\ncases: [{name: y, steps: []}]\n",
}
WELCOME: Frame = {
    "t": "welcome",
    "session": "s",
    "connection": "c",
    "resume_token": "r",
    "resume_expires_at": 1,
    "heartbeat": {"interval_ms": 1, "timeout_ms": 1},
    "limits": {"events": 4, "bytes": 200, "frame": 1, "requests": 16, "connection_bytes": 400},
    "resumed": "none",
    "requests": [],
    "now": 1,
}
ID = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01"
ACCEPTED: Frame = {
    "t": "accepted",
    "id": ID,
    "g": 1,
    "epoch": 1,
    "dup": False,
    "priority": "bulk",
    "queue": {"position": 0, "wait_ms": 0},
    "quota": {},
}
QUEUED: Frame = {"t": "event", "g": 1, "o": 1, "k": "queued"}


def delta(a: int, b: int, p: int, x: str, g: int = 1) -> Frame:
    """A delta."""
    return {"t": "delta", "g": g, "a": a, "b": b, "p": p, "x": x, "i": 1}


def end(o: int, text: str) -> Frame:
    """The end of an answer of this text."""
    return {
        "t": "end",
        "g": 1,
        "o": o,
        "reason": "stop",
        "usage": {"input": 1, "cached_input": 0, "output": 1, "total": 2},
        "cost": {"nano": 0, "currency": "usd"},
        "timing": {"queue_ms": 0, "ttft_ms": 0, "total_ms": 0},
        "h": sha256(text.encode()).hexdigest(),
    }


def flagged(o: int = 2, **changes: Any) -> Frame:
    """A redaction of one letter."""
    value = {"category": "card", "action": "redact", "scope": "platform", "p": 0, "n": 1} | changes
    return {"t": "event", "g": 1, "o": o, "k": "flagged", "v": value}


BROKEN: dict[str, list[Frame]] = {
    "a frame of no g": [delta(1, 1, 0, "x", g=7)],
    "a gap": [delta(3, 3, 0, "x")],
    "a repeat": [QUEUED],
    "a reversed range": [delta(2, 1, 0, "x")],
    "a wrong position": [delta(2, 2, 0, "ab"), delta(3, 3, 1, "c")],
    "a wrong hash": [delta(2, 2, 0, "ab"), end(3, "abc")],
    "something after the end": [delta(2, 2, 0, "ab"), end(3, "ab"), delta(4, 4, 2, "c")],
    "a second end": [end(2, ""), end(3, "")],
    "a g of two requests": [{**ACCEPTED, "id": ID[:-1] + "2"}],
    "too many offsets unacknowledged": [delta(2, 5, 0, "x")],
    "too many bytes unacknowledged": [delta(2, 2, 0, "x" * 137)],
    "an empty delta": [delta(2, 2, 0, "")],
    "an unknown type": [{"t": "shout"}],
    "an unknown field": [{**QUEUED, "o": 2, "mood": "good"}],
    "a missing field": [{"t": "snap", "g": 1, "o": 1, "x": ""}],
    "a flag of no text": [flagged(p=1)],
    "a flag of text that was not sent": [delta(2, 2, 0, "ab"), flagged(3, p=1, n=2)],
    "a flag with another field": [delta(2, 2, 0, "ab"), flagged(3, match="ab")],
    "a flag without a place": [{"t": "event", "g": 1, "o": 2, "k": "flagged", "v": {"category": "card"}}],
    "a logged event without offset": [{"t": "event", "g": 1, "k": "running"}],
    "usage that does not add up": [
        end(2, "") | {"usage": {"input": 1, "cached_input": 0, "output": 1, "total": 3}}
    ],
    "an error of no known code": [{"t": "error", "code": "oops", "message": "x", "retry": False}],
}


@pytest.mark.parametrize("frames", BROKEN.values(), ids=BROKEN.keys())
def test_the_ledger_sees_a_broken_promise(frames: list[Frame]):
    """Each of these plays begins well; its last frame is the broken one."""
    ledger = Ledger({})
    for frame in [WELCOME, ACCEPTED, QUEUED, *frames[:-1]]:
        ledger.heard(frame)
    with pytest.raises(BrokenPromise):
        ledger.heard(frames[-1])


def test_the_ledger_takes_a_good_answer():
    """Dense, within the windows by acknowledgements, honestly hashed."""
    ledger = Ledger({})
    for frame in [WELCOME, ACCEPTED, QUEUED, delta(2, 3, 0, "ab")]:
        ledger.heard(frame)
    ledger.said({"t": "ack", "a": [[1, 3]]})
    ledger.heard(delta(4, 6, 2, "川" * 40))
    ledger.said({"t": "ack", "a": [[1, 6]]})
    for frame in [flagged(7, p=41), end(8, "ab" + "川" * 40)]:
        ledger.heard(frame)


def test_two_readers_must_get_the_same_text():
    """A second connection's different text, or different offsets for it, is a broken promise."""
    answers: Any = {}
    one, two = Ledger(answers), Ledger(answers)
    for ledger in (one, two):
        for frame in [WELCOME, ACCEPTED, QUEUED]:
            ledger.heard(frame)
    one.heard(delta(2, 3, 0, "abcd"))
    with pytest.raises(BrokenPromise):
        two.heard(delta(2, 2, 0, "abX"))


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_what_the_language_has_not_is_an_error(tmp_path: Path, text: str):
    """Never ignored: a mistyped expectation would hold nobody to anything."""
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(BadCase):
        cases_in(tmp_path)


@pytest.mark.parametrize(
    "written",
    ["$sesame", "$ref nobody", "$key nobody", {"$sum": [1]}, {"$repeat": "x"}, {"$list": 1, "n": 2}],
)
def test_an_unknown_word_is_an_error(written: Any):
    """In a value and in a pattern."""
    with pytest.raises(BadCase):
        Names().value(written)
    with pytest.raises(BadCase):
        Names().mismatch(written, "x")


def test_patterns_match_what_readme_says():
    """One good and one bad value for each word."""
    table: list[tuple[Any, Any, Any]] = [
        ({"a": "$absent"}, {}, {"a": 1}),
        ({"a": "$any"}, {"a": None}, {}),
        ("$int", 5, True),
        ("$bool", False, 0),
        ("$hash", "0" * 64, "0" * 63),
        ("$uuid", ID, ID[1:]),
        (1, 1, True),
        ([1, "$int"], [1, 2], [1, 2, 3]),
        ({"$contains": "b"}, "abc", "ac"),
        ({"$between": [1, 2]}, 2, 3),
        ({"$one_of": [1, 2]}, 2, 3),
        ({"$has": [2]}, [1, 2], [1]),
        ({"$length": 2}, [1, 1], [1]),
        ({"$only": {"a": 1}}, {"a": 1}, {"a": 1, "b": 2}),
        ({"$not": 1}, 2, 1),
        ({"$repeat": "x", "times": 2}, "xx", "x"),
        ("$$5", "$5", "$$5"),
    ]
    for pattern, good, bad in table:
        assert Names().mismatch(pattern, good) is None, pattern
        assert Names().mismatch(pattern, bad) is not None, pattern


def test_a_name_is_kept_by_a_match_only_and_then_holds():
    """A failed match keeps nothing; a kept name must be equal the next time."""
    names = Names()
    assert names.mismatch({"a": "$bind one", "b": 1}, {"a": 5, "b": 2})
    assert "one" not in names.bound
    assert names.mismatch({"a": "$bind one"}, {"a": 5}) is None
    assert names.mismatch({"a": "$bind one"}, {"a": 6})
    assert names.value("$ref one +1") == 6


def test_every_message_of_the_table_has_a_shape():
    """messages.yaml and docs/protocol.md name the same server messages."""
    table = (HERE.parent.parent / "docs" / "protocol.md").read_text().partition("## Server to client")[2]
    rows = [line for line in table.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in row.split("|")[1].replace("`", "").replace(" ", "").split("/")}
    assert named == set(SHAPES)


def test_steps_are_parsed_by_their_action():
    """A step's other keys are those of its action."""
    with pytest.raises(BadCase):
        parse_step({"expect": {}, "times": 3}, STEPS)
