"""docs/redis.md lists every kind of key and channel that a process may touch."""

import re
from pathlib import Path

from core.access import processes

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"


def test_every_kind_of_key_stands_on_the_page_and_no_other():
    """As `core/access/processes.py` declares them, by which users of Redis are made."""
    listed = set(re.findall(r"`((?:[PTI]|parley):[\w:~]+)`", PAGE.read_text()))
    declared = {
        kind
        for process in processes.PROCESSES
        for kinds in (process.reads, process.writes, process.listens)
        for kind in kinds
    }
    assert listed == declared
