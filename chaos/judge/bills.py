"""Judges what was billed, in three ways that know nothing of each other: the usage events as the pool
published them, the rows in SQL, and what the tenants' slots counted. Each is held beside what the client was
told. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from billing.api import UsageEvent
from chaos.judge.allowed_losses import end_was_lost, event_was_trimmed, forgotten
from chaos.observations import Answered, Finding, Observations, Posted, WrongKind

CONFLICTING = "conflicting"
UNITS = 1_000_000  # prices are for so many tokens
Key = tuple[str, str]


@dataclass(frozen=True)
class Bill:
    """What a request used and costs, as somebody says."""

    reason: str
    input: int
    output: int
    cost_nano: int


def judge_bills(facts: Observations) -> Iterable[Finding]:
    """Everything that is wrong with what was billed."""
    events = _by_key(facts.events)
    rows: defaultdict[Key, list[Posted]] = defaultdict(list)
    for row in facts.posted:
        rows[row.tenant, row.request].append(row)
    unread = max(0, facts.events_added - len(facts.events))
    for key, answers in _asked(facts).items():
        if not events[key] and rows[key] and unread:
            unread -= 1  # published, by the pool's own count, and trimmed before it was read here
        elif not events[key] and rows[key] and event_was_trimmed(answers[0], facts.outages):
            pass
        else:
            yield from judge_events(answers, events[key], facts)
        yield from judge_rows(answers, rows[key], facts)
    if unread:
        yield Finding(WrongKind.DOUBLE_BILLED, "", f"{unread} more usage events than requests ended")
    billed = {key for key, found in [*events.items(), *rows.items()] if found}
    yield from judge_strangers({*_asked(facts)}, billed)
    yield from judge_sums(facts)
    yield from judge_quarantine(facts)
    for each in facts.compared:
        about = f"{each.check} {each.subject}: {each.actual} for {each.expected} {each.unit}"
        yield Finding(_direction(each.difference), "", f"{about} {each.waiting or each.detail}".rstrip())


def judge_events(
    answers: Sequence[Answered], events: Sequence[UsageEvent], facts: Observations
) -> Iterable[Finding]:
    """One event (INV-6), or another where Redis lost its end; and it says what it must cost.

    `answers`: what each of its readers saw, the one who asked first."""
    first = answers[0]
    if not events and not forgotten(first, facts.outages):
        yield Finding(WrongKind.UNBILLED, first.id, "no usage event")
    if len(events) > 1 and not end_was_lost(first, facts.outages):
        yield Finding(WrongKind.DOUBLE_BILLED, first.id, f"{len(events)} usage events")
    for event in events:
        if (cost := cost_of(event)) != event.cost_nano:
            what = _direction(event.cost_nano - cost)
            yield Finding(what, first.id, f"its event says {event.cost_nano} nano, its counts {cost}")
        yield from _beside_what_was_told(answers, bill_of(event), "published")


def judge_rows(answers: Sequence[Answered], rows: Sequence[Posted], facts: Observations) -> Iterable[Finding]:
    """One row (INV-10), and it says what the client was told (INV-9)."""
    first = answers[0]
    if not rows and not forgotten(first, facts.outages):
        yield Finding(WrongKind.UNBILLED, first.id, "not posted")
    if len(rows) > 1:
        yield Finding(WrongKind.DOUBLE_BILLED, first.id, f"posted {len(rows)} times")
    for row in rows:
        said = Bill(row.reason, row.input, row.output, row.cost_nano)
        yield from _beside_what_was_told(answers, said, "posted")


def judge_strangers(asked: set[Key], billed: set[Key]) -> Iterable[Finding]:
    """Nothing is billed that nobody asked for, or that was refused."""
    for tenant, request in sorted(billed - asked):
        yield Finding(
            WrongKind.DOUBLE_BILLED, request, f"billed to {tenant}, and nobody was accepted with it"
        )


def judge_sums(facts: Observations) -> Iterable[Finding]:
    """The tenants' slots counted what clients were told, each request once.

    What Redis has forgotten is not in its sums; SQL has it."""
    firsts = [answers[0] for answers in _asked(facts).values()]
    for tenant, sums in facts.settled.items():
        told = [each for each in firsts if each.tenant == tenant and each.ended_at is not None]
        lasting = [each for each in told if not forgotten(each, facts.outages)]
        counted = (sums.requests, sums.input, sums.output, sums.cost_nano)
        least, most = _summed(lasting), _summed(told)
        if any(count < low for count, low in zip(counted, least, strict=True)):
            yield Finding(WrongKind.UNBILLED, "", f"the slot of {tenant} counted {counted} of {least}")
        if any(count > high for count, high in zip(counted, most, strict=True)):
            yield Finding(WrongKind.DOUBLE_BILLED, "", f"the slot of {tenant} counted {counted} for {most}")


def judge_quarantine(facts: Observations) -> Iterable[Finding]:
    """The biller posted everything that it was given, but for a second end of what it had posted."""
    twice = {each.id for each in facts.answers if end_was_lost(each, facts.outages)}
    for request, reason in facts.quarantined:
        if reason == CONFLICTING and request in twice:
            continue
        yield Finding(WrongKind.UNBILLED, request, f"quarantined: {reason}")


def bill_of(event: UsageEvent) -> Bill:
    """What an event says."""
    return Bill(
        event.reason,
        event.input_uncached + event.input_cached,
        event.output_text + event.output_reasoning,
        event.cost_nano,
    )


def cost_of(event: UsageEvent) -> int:
    """What its counts cost at its prices, computed here a second time: each line rounded half to even."""
    prices = event.prices
    lines = (
        (event.input_uncached, prices.input_nano),
        (event.input_cached, prices.cached_input_nano),
        (event.output_text + event.output_reasoning, prices.output_nano),
    )
    ran = event.input_uncached + event.input_cached > 0
    return sum(round(Fraction(count * price, UNITS)) for count, price in lines) + ran * prices.request_nano


def _asked(facts: Observations) -> dict[Key, list[Answered]]:
    """What the readers of each accepted request saw; who asked it comes first."""
    asked: dict[Key, list[Answered]] = {}
    for answer in facts.answers:
        if not answer.refused:
            asked.setdefault((answer.tenant, answer.id), []).append(answer)
    return asked


def _by_key(events: Iterable[UsageEvent]) -> defaultdict[Key, list[UsageEvent]]:
    found: defaultdict[Key, list[UsageEvent]] = defaultdict(list)
    for event in events:
        found[event.tenant, event.request].append(event)
    return found


def _beside_what_was_told(answers: Sequence[Answered], said: Bill, how: str) -> Iterable[Finding]:
    for answer in (answer for answer in answers if answer.ended_at is not None):
        told = Bill(answer.reason, answer.input, answer.output, answer.cost_nano)
        if said != told:
            more = (said.cost_nano, said.output, said.input) > (told.cost_nano, told.output, told.input)
            yield Finding(_direction(1 if more else -1), answer.id, f"{how} {said}, told {told}")


def _direction(difference: int) -> WrongKind:
    return WrongKind.DOUBLE_BILLED if difference > 0 else WrongKind.UNBILLED


def _summed(answers: list[Answered]) -> tuple[int, int, int, int]:
    return (
        len(answers),
        sum(each.input for each in answers),
        sum(each.output for each in answers),
        sum(each.cost_nano for each in answers),
    )
