"""Words and numbers of what explains a tenant's spend: amounts in cents, large counts, dates. Pure."""

from billing.money import round_half_even

CENT = 10_000_000
MINUS = "\u2212"
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
SIZES = ((1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"))


def cents(nano: int) -> str:
    """`1,234.50`: to the cent, half to even; minus is U+2212."""
    size = round_half_even(abs(nano), CENT)
    return f"{MINUS if nano < 0 and size else ''}{size // 100:,}.{size % 100:02}"


def change(nano: int) -> str:
    """`+334.35`: an amount that was added or taken."""
    text = cents(nano)
    return text if nano <= 0 or text == "0.00" else f"+{text}"


def amount_of(count: int) -> str:
    """A large count, to three digits: `18.5 B`, `108 B`, `94.2 M`; below a million whole."""
    sign = MINUS if count < 0 else ""
    for size, letter in SIZES:
        if abs(count) >= size:
            tenths = round_half_even(abs(count) * 10, size)
            if tenths >= 1000:
                return f"{sign}{round_half_even(abs(count), size):,} {letter}"
            return f"{sign}{tenths // 10}.{tenths % 10} {letter}"
    return f"{sign}{abs(count):,}"


def share(part: int, whole: int) -> str:
    """`44.1 %`."""
    tenths = round_half_even(part * 1000, whole) if whole > 0 else 0
    return f"{tenths // 10}.{tenths % 10} %"


def month_name(number: int) -> str:
    """`November`, of a month's number."""
    return MONTHS[number % 12]


def listed(texts: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
