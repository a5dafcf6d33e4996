"""Parsing of amounts and times on the command line."""

import re
from typing import Any
from zoneinfo import ZoneInfo

import click

from billing.money import from_text
from billing.periods import LAST_MS, local_instant
from core.errors import Refused, StartupError
from core.terminal.safe_text import printable_line

DIGITS = re.compile(r"\d{1,16}", re.ASCII)
SPAN = re.compile(r"(?P<number>\d{1,12})(?P<unit>ms|s|m|h|d)", re.ASCII)
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SPAN_MS_MAX = 1_000 * 86_400_000
AMOUNT = re.compile(r"(?P<number>[^\s]+)\s*(?:USD|usd)", re.ASCII)


class _Tokens(click.ParamType[int]):
    """A number of tokens: plain digits, not every text that Python accepts as a number."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        if isinstance(value, int):
            return value
        if DIGITS.fullmatch(value) is None:
            self.fail(f"{printable_line(str(value))!r} is no number of tokens: write it like 300", param, ctx)
        return int(value)


class _Duration(click.ParamType[int]):
    """A span of time in ms: digits and a unit."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the milliseconds."""
        if isinstance(value, int):
            return value
        ms = duration_ms(value)
        if ms is None:
            problem = "is no span of time: write it like 500ms, 2s, 15m, 24h or 7d"
            self.fail(f"{printable_line(str(value))!r} {problem}", param, ctx)
        return ms


WHOLE_TOKENS = _Tokens()
DURATION = _Duration()


def duration_ms(text: str) -> int | None:
    """Parse milliseconds from a text like `2s`, at most 1000 days; None where it is invalid. Pure."""
    match = SPAN.fullmatch(text)
    ms = int(match["number"]) * UNITS_MS[match["unit"]] if match else SPAN_MS_MAX + 1
    return ms if ms <= SPAN_MS_MAX else None


def since_of(text: str, zone: ZoneInfo, now: int) -> int:
    """Parse Unix ms of a time, or of a span before now like `2h`. Raises StartupError."""
    ago = duration_ms(text)
    try:
        at = now - ago if ago is not None else instant_of(text, zone)
    except StartupError as error:
        raise StartupError(f"{error}, or like 2h: so long ago") from error
    if not 0 <= at <= LAST_MS:
        raise StartupError(f"{text!r} is before 1970 or after 9998")
    return at


TAKEN_BACK = "taken back"


def end_state(mistake: bool, dry_run: bool) -> str:
    """Describe the result of ending a commitment. Pure."""
    done = TAKEN_BACK if mistake else "ended"
    return f"would be {done}" if dry_run else done


def nano_of(text: str) -> int:
    """Parse nano-USD of an amount like `250.00 USD`, exactly. Raises StartupError."""
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise StartupError(f"{text!r} is no amount: write it with its currency, USD, like '250.00 USD'")
    try:
        return from_text(match["number"])
    except ValueError as error:
        raise StartupError(str(error)) from error


def instant_of(text: str, zone: ZoneInfo) -> int:
    """As `local_instant`. Raises StartupError."""
    try:
        return local_instant(text, zone)
    except Refused as refused:
        raise StartupError(refused.refusal.message) from refused
