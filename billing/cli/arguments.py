"""Parsing of amounts and times on the command line."""

import re
from typing import Any
from zoneinfo import ZoneInfo

import click

from billing.money import from_text
from billing.periods import duration_ms, local_instant
from core.errors import Refused, StartupError
from core.terminal.safe_text import printable_line

NONE = "none"
DIGITS = re.compile(r"\d{1,16}", re.ASCII)
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


class _NanoAmount(click.ParamType[int]):
    """Money with its currency, like `250.00 USD`, as nano."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the nano-USD."""
        return value if isinstance(value, int) else nano_of(value)


class _PerCents(click.ParamType[list[int]]):
    """Whole numbers, separated by commas; `none`: no number."""

    name = "n,n,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers."""
        if value == NONE:
            return []
        try:
            return [int(each) for each in str(value).split(",") if each.strip()]
        except ValueError:
            self.fail(f"{printable_line(str(value))!r}: write per cents like 50,80,100", param, ctx)


WHOLE_TOKENS = _Tokens()
DURATION = _Duration()
NANO_AMOUNT = _NanoAmount()
PER_CENTS = _PerCents()


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
