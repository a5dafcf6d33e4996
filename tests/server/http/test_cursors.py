"""A page's cursor is what the page before gave: whatever else is shown is refused before SQL sees it."""

import base64

import pytest

from core.errors import Refused
from server.http.cursors import pack_position, pack_time, read_position, read_time

ID = "019e7044-8800-7e85-a4b6-d520e1958a18"  # as it is in the names of the cases
LARGEST = 10**18 - 1


def packed(text: str) -> str:
    """As ours look."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_what_was_packed_is_read():
    """Up to the largest number; no cursor is the beginning."""
    for number in (0, 7, LARGEST):
        assert read_position(pack_position(number)) == number
        assert read_time(pack_time(number, ID)) == (number, ID)
    for nothing in (None, ""):
        assert (read_position(nothing), read_time(nothing)) == (0, None)


@pytest.mark.parametrize(
    "cursor",
    [
        packed(str(LARGEST + 1)),
        packed("-1"),
        packed("١"),
        packed("1 "),
        "x",
        "é",
        "MQ=é",
        "!MQ==",
        packed("0" * 149 + "1"),
        "MQ==" + "\n",
    ],
)
def test_any_other_position_is_refused(cursor: str):
    """Too large, of other digits, not base64."""
    with pytest.raises(Refused, match="cursor"):
        read_position(cursor)


@pytest.mark.parametrize(
    "text", ["7", "7:", f":{ID}", f"x:{ID}", f"7:{ID}x", f"{LARGEST + 1}:{ID}", "7:no-id"]
)
def test_any_other_time_is_refused(text: str):
    """One half is missing, or none of ours."""
    with pytest.raises(Refused, match="cursor"):
        read_time(packed(text))


@pytest.mark.parametrize(("characters", "read"), [(200, True), (204, False)])
def test_a_cursor_is_so_long_at_most(monkeypatch: pytest.MonkeyPatch, characters: int, read: bool):
    """Before anything is made of it."""
    monkeypatch.setattr("server.http.cursors.INTEGER_DIGITS_MAX", 1_000)
    cursor = packed("0" * (characters // 4 * 3 - 1) + "7")
    assert len(cursor) == characters
    if read:
        assert read_position(cursor) == 7
        return
    with pytest.raises(Refused):
        read_position(cursor)
