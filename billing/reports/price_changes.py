"""Price versions that began in a time, and what they changed, in words. Reads only."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.money import round_half_even, to_text
from billing.periods import PeriodWindow
from billing.prices.book import ANY_MODEL, price_sources
from billing.prices.files import FlatPrices
from billing.prices.versions import number_at, prices_of
from billing.tables.tenants import PriceVersion

CHANGES_MAX = 10  # of one month: the newest
MODELS_NAMED = 2
FIELDS = (
    ("input_nano", "input"),
    ("cached_input_nano", "input from the cache"),
    ("output_nano", "output"),
    ("request_nano", "requests"),
)
Prices = Mapping[str, FlatPrices]


class PriceChange(NamedTuple):
    """A version that began, and the prices before it (none: it was the first) and from it on."""

    book: str
    version: int
    valid_from_ms: int
    before: Prices
    after: Prices


async def price_changes(session: AsyncSession, tenant_id: str, window: PeriodWindow) -> list[PriceChange]:
    """The changes of a tenant's prices in a time, oldest first; of more than CHANGES_MAX the newest."""
    found: list[PriceChange] = []
    async for book in price_sources(session, tenant_id):
        began = (
            select(PriceVersion)
            .where(col(PriceVersion.book_id) == book.id, col(PriceVersion.tenant_id) == book.tenant_id)
            .where(col(PriceVersion.valid_from_ms) >= window.start_ms)
            .where(col(PriceVersion.valid_from_ms) < window.end_ms, col(PriceVersion.withdrawn_ms).is_(None))
            .order_by(col(PriceVersion.valid_from_ms).desc())
            .limit(CHANGES_MAX)
        )
        for version in (await session.exec(began)).all():
            own = number_at(book.id, book.tenant_id, version.valid_from_ms - 1)
            was = select(PriceVersion).where(
                col(PriceVersion.book_id) == book.id,
                col(PriceVersion.tenant_id) == book.tenant_id,
                col(PriceVersion.version) == own,
            )
            before = (await session.exec(was)).first()
            prices = {} if before is None else await prices_of(session, before)
            now = await prices_of(session, version)
            found.append(PriceChange(book.id, version.version, version.valid_from_ms, prices, now))
    return sorted(found, key=lambda each: each.valid_from_ms)[-CHANGES_MAX:]


def changed_words(change: PriceChange, used: Collection[str]) -> str | None:
    """What a change says of the models that were used: "output of m from 0.72 to 0.79 a million tokens, n
    down 13 %"; None where their prices stayed. Pure."""
    told = [(model, _moved(change, model)) for model in sorted(used)]
    moved = [(model, each) for model, each in told if each]
    if not moved:
        return None
    moved.sort(key=lambda each: -max(abs(now - was) for _, was, now in each[1]))
    words = [_words(model, each, place == 0) for place, (model, each) in enumerate(moved[:MODELS_NAMED])]
    more = len(moved) - MODELS_NAMED
    return ", ".join(words) + (f" and {more} more models" if more > 0 else "")


Moved = list[tuple[str, int, int]]


def _moved(change: PriceChange, model: str) -> Moved:
    was, now = _of(change.before, model), _of(change.after, model)
    if was is None or now is None:
        return []
    pairs = [(word, int(getattr(was, name)), int(getattr(now, name))) for name, word in FIELDS]
    return [each for each in pairs if each[1] != each[2]]


def _of(prices: Prices, model: str) -> FlatPrices | None:
    return prices.get(model) or prices.get(ANY_MODEL)


def _words(model: str, moved: Moved, exactly: bool) -> str:
    percents = {_percent(was, now) for _, was, now in moved}
    if len(moved) > 1 and len(percents) == 1 and None not in percents:
        return f"{model} {percents.pop()}"
    word, was, now = max(moved, key=lambda each: abs(each[2] - each[1]))
    percent = _percent(was, now)
    if exactly or percent is None:
        return f"{word} of {model} from {to_text(was)} to {to_text(now)} {_unit(word)}"
    return f"{word} of {model} {percent}"


def _unit(word: str) -> str:
    return "a million" if word == "requests" else "a million tokens"


def _percent(was: int, now: int) -> str | None:
    if was <= 0:
        return None
    percent = round_half_even(abs(now - was) * 100, was)
    return f"{'up' if now > was else 'down'} {percent} %" if percent else None
