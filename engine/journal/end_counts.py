"""Counts of requests that one process ended, by the hour, for the biller, which finds lost ends by them.
Pure, but for `publish`."""

from collections import OrderedDict

import msgspec

from billing.usage import EndedCounts, ended_hours, read_event
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable
from engine.journal.token_counts import HOUR_MS
from engine.queue.journaled_ends import JournaledEnd

REMEMBERED_MAX = 16_384
HOURS_MAX = 3  # sent again each time: a late end may still be counted in the hour before


class EndCounts:
    """Counts of one process. An end that is added twice, as its reply was lost, counts once."""

    def __init__(self) -> None:
        self._hours: dict[int, EndedCounts] = {}
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, end: JournaledEnd) -> None:
        """Count one end, in the hour in which it will be billed."""
        key = end.tenant, end.request
        event = read_event(end.event)
        if key in self._known or isinstance(event, Unreadable):
            return
        self._known[key] = None
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        counts = self._hours.setdefault(event.ended_ms - event.ended_ms % HOUR_MS, EndedCounts())
        counts.requests += 1
        counts.output += event.output_text + event.output_reasoning
        counts.cost_nano += event.cost_nano
        while len(self._hours) > HOURS_MAX:
            del self._hours[min(self._hours)]

    @property
    def hours(self) -> dict[int, EndedCounts]:
        """Counts of the latest hours, by Unix ms of the hour's beginning."""
        return dict(self._hours)


async def publish(redis: RedisClient, pool: str, writer: str, counted: EndCounts) -> None:
    """Send the counts to the biller; repeating it changes nothing."""
    fields = {f"{writer}:{hour}": msgspec.msgpack.encode(each) for hour, each in counted.hours.items()}
    if fields:
        await redis.hset(ended_hours(pool), mapping=fields)
