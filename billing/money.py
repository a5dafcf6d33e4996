"""Money as text. Amounts are integers of nano-USD (a billionth of a dollar): no float, no Decimal."""

import re

NANO = 1_000_000_000
UNITS = 1_000_000  # a price is nano-USD for this many units
AMOUNT = re.compile(r"(-?)(\d{1,10})(?:\.(\d{1,9}))?", re.ASCII)
SIGNS = {"usd": "$"}


def round_half_even(dividend: int, divisor: int) -> int:
    """`dividend / divisor` to the nearest integer, a tie to the even one (IEEE 754, banker's rounding)."""
    assert divisor > 0, "a unit is positive"
    quotient, rest = divmod(dividend, divisor)
    return quotient + (2 * rest > divisor or (2 * rest == divisor and quotient % 2 == 1))


def to_text(nano: int) -> str:
    """Exact decimal with two to nine digits after the point: `0.0000125` for 12,500 nano."""
    whole, fraction = divmod(abs(nano), NANO)
    digits = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano < 0 else ''}{whole}.{digits}"


def from_text(text: str) -> int:
    """Parse a decimal with at most nine decimals into nano. Raises ValueError on anything else."""
    match = AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount: write it like 0.10, with at most nine decimals")
    sign, whole, fraction = match.groups()
    nano = int(whole) * NANO + int((fraction or "").ljust(9, "0"))
    return -nano if sign else nano


def to_display(nano: int, currency: str = "usd") -> str:
    """Exact amount for people: `$0.0000125`, `-$3.50`, `1.00 EUR`."""
    sign = SIGNS.get(currency)
    if sign is None:
        return f"{to_text(nano)} {currency.upper()}"
    return f"{'-' if nano < 0 else ''}{sign}{to_text(abs(nano))}"
