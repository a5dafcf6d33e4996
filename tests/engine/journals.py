"""Journals of tests, which end with them."""

from collections.abc import Generator

import pytest

from core.configuration.settings import Settings
from engine.journal.files import FOLDER
from engine.journal.journal import Journal

POOL = "default"

_made: list[Journal] = []


def a_journal(settings: Settings, owner: str, bytes_max: int = 1 << 20) -> Journal:
    """Of the pool, in the folder where keepers look."""
    _made.append(Journal(settings.home / FOLDER, POOL, owner, bytes_max))
    return _made[-1]


@pytest.fixture(autouse=True)
def journals_are_closed() -> Generator[None]:
    """Those that nobody ran, too."""
    yield
    while _made:
        _made.pop()._segments.close()  # pyright: ignore[reportPrivateUsage]
