"""`python -m chaos bench silent`: what a crowd of silent sockets from one address costs those who stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import click
import uvloop

from chaos.bench.session.feeding import Feeder
from chaos.bench.session.lean_socket import upgrade
from chaos.bench.session.reader import BenchReader, check
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import interval
from chaos.installation.testbed import UNLIMITED, RunningProcess, SessionTestbed, ground
from core.configuration.settings import Settings

TARGET_RATIO = 1.2
SOURCE = "127.0.0.9"  # no trusted proxy: its sockets count as its own
SUBPROTOCOL = "parley.v1.json"
OPEN_PER_SECOND = 1000.0
SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class SilentOptions:
    """How it is measured. `again`: seconds until a socket that was refused or closed is opened anew."""

    streams: int
    silent: int
    pairs: int
    span: float
    rate: float
    again: float


@dataclass(frozen=True)
class Span:
    """One measured span of the gateway."""

    cpu_seconds: float
    tokens: int
    held: int = 0
    tries: int = 0

    @property
    def microseconds_a_token(self) -> float:
        """The gateway's CPU, all of it, for each token that it passed on."""
        return 1e6 * self.cpu_seconds / self.tokens


@click.command()
@click.option("--streams", default=100, show_default=True, help="Answers that are read, one a connection.")
@click.option("--silent", default=5000, show_default=True, help="Sockets that say nothing, from one address.")
@click.option("--pairs", default=9, show_default=True, help="Spans without and with them, in turn.")
@click.option("--span", default=6.0, show_default=True, help="Seconds of a span.")
@click.option("--rate", default=30.0, show_default=True, help="Tokens a second and answer.")
@click.option(
    "--again", default=60.0, show_default=True, help="Seconds until one that was closed tries again."
)
@json_option
def silent(
    streams: int, silent: int, pairs: int, span: float, rate: float, again: float, as_json: bool
) -> None:
    """The gateway's CPU a token beside 5,000 silent sockets from one address (aim: 1.2 times that without).

    Half of them upgrade and say no hello, half send nothing at all. Spans without and with them take turns on
    one gateway, whose settings are the defaults.
    """
    found = uvloop.run(_measure(SilentOptions(streams, silent, pairs, span, rate, again)))
    show("silent", _figures(found, silent), as_json)


def _figures(found: Sequence[tuple[Span, Span]], silent: int) -> list[Figure]:
    ratios = sorted(crowd.microseconds_a_token / alone.microseconds_a_token for alone, crowd in found)
    low, high = interval(ratios)
    middle = ratios[len(ratios) // 2]
    alone = sorted(alone.microseconds_a_token for alone, _ in found)[len(found) // 2]
    crowd = sorted(crowd.microseconds_a_token for _, crowd in found)[len(found) // 2]
    return [
        Figure("CPU a token with them, of that without (median)", middle, "", most=TARGET_RATIO),
        Figure("  from, by 95 % of such runs", low, ""),
        Figure("  to", high, ""),
        Figure("CPU a token without (median)", alone, "µs"),
        Figure("CPU a token with (median)", crowd, "µs"),
        Figure("silent sockets", silent, ""),
        Figure("of them open at most at the end of a span", max(crowd.held for _, crowd in found), ""),
        Figure("tries a span, at most", max(crowd.tries for _, crowd in found), ""),
        Figure("pairs", len(found), ""),
        Figure("tokens a span", min(crowd.tokens for _, crowd in found), ""),
    ]


async def _measure(terms: SilentOptions) -> list[tuple[Span, Span]]:
    async with ground() as site:
        defaults = {name: Settings.model_fields[name].default for name in UNLIMITED}
        gateway = await site.gateway(**defaults)
        feeder = await Feeder.start(site, terms.streams)
        readers = await _reading(site, gateway, terms.streams)
        await feeder.claim(terms.streams)
        await feeder.write(int(terms.rate), terms.rate)  # the first second is not like the others
        found: list[tuple[Span, Span]] = []
        for pair in range(terms.pairs):
            spans: dict[bool, Span] = {}
            for crowded in (False, True) if pair % 2 == 0 else (True, False):
                spans[crowded] = await _span(gateway, feeder, terms, crowded)
            check(readers)
            found.append((spans[False], spans[True]))
            ratio = spans[True].microseconds_a_token / spans[False].microseconds_a_token
            progress(f"pair {pair + 1}: {ratio:.3f}, {spans[True]}")
        for reader in readers:
            reader.close()
        return found


async def _reading(site: SessionTestbed, gateway: RunningProcess, streams: int) -> list[BenchReader]:
    """Readers with an accepted answer each."""
    readers = [await BenchReader.connect(gateway.url, site.key) for _ in range(streams)]
    for reader in readers:
        await reader.send()
    return readers


async def _span(gateway: RunningProcess, feeder: Feeder, terms: SilentOptions, crowded: bool) -> Span:
    if not crowded:
        return await _written(gateway, feeder, terms)
    async with _crowd(gateway.url, terms) as crowd:
        before = crowd.tries
        span = await _written(gateway, feeder, terms)
        return Span(span.cpu_seconds, span.tokens, len(crowd.held), crowd.tries - before)


async def _written(gateway: RunningProcess, feeder: Feeder, terms: SilentOptions) -> Span:
    await asyncio.sleep(SETTLE_SECONDS)
    began = gateway.usage
    done = await feeder.write(int(terms.span * terms.rate), terms.rate)
    return Span(gateway.usage.cpu_seconds - began.cpu_seconds, done["tokens"])


class _SilentSockets:
    """Sockets that say nothing, and come again when they are closed."""

    def __init__(self, url: str, terms: SilentOptions) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.tries = 0
        self.held: set[Any] = set()
        self.request = upgrade("/v1/ws", parts.netloc, SUBPROTOCOL)
        self._at = (parts.hostname, parts.port)
        self._again = terms.again

    async def sit(self, upgraded: bool) -> None:
        """One of them, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self.tries += 1
            gone = loop.create_future()
            try:
                await loop.create_connection(
                    lambda gone=gone: _SilentSocket(self, gone, upgraded), *self._at, local_addr=(SOURCE, 0)
                )
                await gone
            except OSError:
                pass
            await asyncio.sleep(self._again)


class _SilentSocket(asyncio.Protocol):
    """One silent socket."""

    def __init__(self, crowd: _SilentSockets, gone: "asyncio.Future[None]", upgraded: bool) -> None:
        self._crowd = crowd
        self._gone = gone
        self._upgraded = upgraded
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Ask for the upgrade, or not even for that."""
        self._transport = transport
        self._crowd.held.add(transport)
        if self._upgraded:
            transport.write(self._crowd.request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Refused or put out."""
        if self._transport is not None:
            self._crowd.held.discard(self._transport)
        if not self._gone.done():
            self._gone.set_result(None)


@asynccontextmanager
async def _crowd(url: str, terms: SilentOptions) -> AsyncGenerator[_SilentSockets]:
    """All of them have tried once when the block begins; they go with it."""
    crowd = _SilentSockets(url, terms)
    sitting: list[asyncio.Task[None]] = []
    began = time.monotonic()
    for number in range(terms.silent):
        sitting.append(asyncio.create_task(crowd.sit(upgraded=number % 2 == 0)))
        await asyncio.sleep(max(0.0, began + number / OPEN_PER_SECOND - time.monotonic()))
    try:
        yield crowd
    finally:
        for each in sitting:
            each.cancel()
        for transport in list(crowd.held):
            transport.abort()
        await asyncio.gather(*sitting, return_exceptions=True)
