"""Numbers in sentences. Pure."""

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def duration(ms: float) -> str:
    """How long: `0.3 s`, `12 s`, `4 min`, `3 h`, `2 days`."""
    if ms < 10 * SECOND:
        return f"{ms / SECOND:.1f} s"
    if ms < 2 * MINUTE:
        return f"{ms / SECOND:.0f} s"
    if ms < 2 * HOUR:
        return f"{ms / MINUTE:.0f} min"
    if ms < 2 * DAY:
        return f"{ms / HOUR:.0f} h"
    return f"{ms / DAY:.0f} days"


def count(number: int, thing: str, things: str = "") -> str:
    """So many things: `1 worker`, `14 workers`, `1,204 requests`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def verb(number: int, one: str, many: str) -> str:
    """The verb that goes with so many."""
    return one if number == 1 else many


def percent(share: float) -> str:
    """A share of 0 to 1: `43 %`."""
    return f"{100 * share:.0f} %"


def listed(names: list[str], shown: int = 3) -> str:
    """`a`, `a and b`, `a, b and 4 more`."""
    rest = len(names) - shown
    parts = names[:shown] + ([f"{rest} more"] if rest > 0 else [])
    return " and ".join([part for part in (", ".join(parts[:-1]), parts[-1]) if part]) if parts else ""
