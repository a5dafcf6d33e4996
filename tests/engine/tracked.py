"""A request as its test knows it: its state, its owner, and all that was ever committed to it."""

from dataclasses import dataclass, field

from engine.api import Claim, Status
from engine.queue_types import Append
from tests.engine.builders import append_to, end_entry, text, usage_event
from tests.engine.fair_model import Item

DEATHS_MAX = 4


@dataclass
class Tracked:
    """What a request should be."""

    item: Item
    status: Status = Status.QUEUED
    o: int = 1
    text: str = ""
    worker: str = ""
    deaths: int = 0
    cancelled: bool = False
    refunded: bool = False
    epoch: int = 1
    incarnation: int = 0
    asked_to_park: bool = False
    claim: Claim | None = None
    dead: list[Claim] = field(default_factory=list[Claim])
    made: list[Append] = field(default_factory=list[Append])

    @property
    def tenant(self) -> str:
        return self.item.tenant

    @property
    def id(self) -> str:
        return self.item.id

    @property
    def ids(self) -> range:
        """The token ids are their own positions."""
        return range(self.item.n)

    def doom(self) -> None:
        """No worker may have it any more, where that is so."""
        self.item.doomed = self.cancelled or self.deaths >= DEATHS_MAX

    def lose_owner(self, died: bool = False) -> None:
        """Its owner gave it up, or died."""
        assert self.claim is not None
        self.dead.append(self.claim)
        self.claim, self.worker, self.asked_to_park = None, "", False
        self.deaths += died
        self.doom()

    def next_append(self, count: int, x: str, end: bool = False, cached: int | None = None) -> Append:
        """What its owner appends next: so many tokens, which show `x`."""
        assert self.claim is not None
        n, shown = len(self.ids) + count, len(self.text) + len(x)
        entries = [text(self.o + 1, x, len(self.text), n)] if x else []
        if end:
            entries.append(end_entry(self.o + 1 + len(entries), n))
        return append_to(
            self.claim,
            ids=tuple(range(len(self.ids), n)),
            n0=len(self.ids),
            o0=self.o,
            entries=entries,
            raw=shown,
            visible=shown,
            input_cached=cached,
            end=usage_event(self.tenant, self.id) if end else None,
        )
