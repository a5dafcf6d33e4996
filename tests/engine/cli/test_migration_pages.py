"""What commands print of a move: before it, and what became of it."""

from typing import Any

from engine.cli.migration_pages import moved_line, preview_lines
from engine.operations.migration_preview import MigrationOutcome, MigrationPreview
from engine.operations.moving_tenants import MovedTenant

STAYS = MigrationOutcome(
    "r1", "t", "a", "b", False, "too_large", "no worker of pool b holds more than 9 tokens"
)
FACTS: dict[str, Any] = {
    **{"streams": 8, "streams_of": 9, "waiting": 3, "waiting_of": 3, "stay": [STAYS], "stay_total": 3},
    **{"slots": 48, "free": 6, "without_slot": 2, "waiting_there": 1, "kv": 0.54, "kv_after": 0.71},
    **{"recomputed_tokens": 41_208, "price": "as before"},
}


def test_a_preview_says_what_goes_and_what_stays() -> None:
    """With the reason of each that is shown, and how many more there are."""
    assert list(preview_lines(MigrationPreview(**FACTS))) == [
        "running answers that move: 8 of 9, each with a short pause",
        "others that move: 3 of 3; they keep their age",
        "room there: 6 of 48 slots are free; 2 would wait for one; 1 wait there now",
        "KV memory there: 54%, then about 71%",
        "computed again, not billed: 41,208 tokens",
        "price: as before",
        "r1 would stay: no worker of pool b holds more than 9 tokens",
        "and 2 more would stay",
    ]


def test_what_nobody_knows_is_said() -> None:
    """Where workers have not told their room."""
    facts: dict[str, Any] = {
        **FACTS,
        "slots": None,
        "free": None,
        "kv": None,
        "kv_after": None,
        "without_slot": 0,
        "price": "",
    }
    lines = list(preview_lines(MigrationPreview(**facts)))
    assert "room there: nobody has said it; 1 wait there now" in lines
    assert not any("KV" in line or "price" in line for line in lines)


def test_a_move_is_told_in_a_line() -> None:
    """With its longest pause, where an answer had one."""
    names: dict[str, Any] = {
        "pool": "a",
        "to": "b",
        "tenant": "acme",
        "leaves": [],
        "enters": True,
        "stay": [],
    }
    done = MovedTenant(**names, moved=11, streams_moved=8, streams_to_move=8, longest_pause_ms=620)
    told = "acme is served in pool b: 11 requests are moved, 8 of 8 running answers among them"
    assert moved_line(done) == f"{told}; 0 lost, 0 doubled, longest pause 0.62 s"
    assert moved_line(MovedTenant(**names, moved=0)).endswith(
        "0 of 0 running answers among them; 0 lost, 0 doubled"
    )
