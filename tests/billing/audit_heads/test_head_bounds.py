"""How heads of chains are read, and what their places and keys may be: at the limits themselves."""

from pathlib import Path

import msgspec
import pytest

from billing.audit_heads import check, stores
from billing.audit_heads.check import check_heads
from billing.audit_heads.heads import line_of
from billing.audit_heads.stores import key_of
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.audit_heads.a_head import HEAD
from tests.support.home import settings_in


async def test_heads_are_read_some_at_a_time(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many faults are kept; the newest head may stand anywhere. One owner's alone, where that is asked
    for; a blank line is none that cannot be read."""
    told: list[str] = []
    for name, value in (("LINES_AT_ONCE", 2), ("FAULTS_MAX", 4), ("PROGRESS_LINES", 3)):
        monkeypatch.setattr(check, name, value)
    monkeypatch.setattr(check, "progress", told.append)
    days = (3, 7, 5, 1, 6, 2, 4)
    heads = [
        msgspec.structs.replace(HEAD, time=f"2026-11-0{day}", sequence=day, tenant=f"t{day % 2}")
        for day in days
    ]
    lines = [*map(line_of, heads[:3]), "", " \n", "x", *map(line_of, heads[3:])]
    found = await check_heads(sqlite, lines, "parley", None)
    assert (found.heads, found.unread, found.unsigned, found.latest) == (7, 1, 0, "2026-11-07")
    assert [fault.partition(",")[0] for _, fault in found.faults] == [f"change {day}" for day in days[:4]]
    assert told == ["5 heads read", "7 heads read"]
    assert (await check_heads(sqlite, lines, "parley", None, "t0")).heads == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [("ho st\u00e9\x7f", "host"), ("\u00e9 ", "-"), ("~!" * 150, "~!" * 127 + "~"), ("", "-")],
)
def test_a_host_is_named_as_the_protocol_has_it(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 5424: 255 printable characters of ASCII, or nobody."""
    monkeypatch.setattr("socket.gethostname", lambda: name)
    assert stores._host_name() == said


def test_a_key_of_heads_has_32_bytes(home: Path) -> None:
    """Or more; fewer are refused at the start."""
    assert key_of(settings_in(home)) is None
    assert key_of(settings_in(home, audit_heads_key="k" * 32)) == b"k" * 32
    with pytest.raises(StartupError, match="at least 32 bytes"):
        key_of(settings_in(home, audit_heads_key="k" * 31))
