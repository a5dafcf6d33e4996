"""A gateway's journals of ends, one a pool: for requests that it cancels and reaps itself."""

from collections.abc import Callable

from core.configuration.settings import Settings
from engine.api import Journal, JournaledEnd, make_journal


class EndJournals:
    """The journals of one gateway, by pool. `owner`: this gateway's name."""

    def __init__(self, settings: Settings, owner: str) -> None:
        self._settings = settings
        self._owner = owner
        self._by_pool: dict[str, Journal | None] = {}

    def of(self, pool: str) -> Journal | None:
        """A pool's journal; None where journals are switched off."""
        if pool not in self._by_pool:
            self._by_pool[pool] = make_journal(self._settings, pool, self._owner)
        return self._by_pool[pool]

    def of_queue(self, pool: str) -> Callable[[JournaledEnd], None]:
        """Callback by which the pool's queue reports its ends."""

        def ended(end: JournaledEnd) -> None:
            if journal := self.of(pool):
                journal.add(end)

        return ended
