"""`parley requests explain`: why one request took what it took, and cost what it cost."""

from collections.abc import Iterator, Mapping

import click

from billing.api import (
    UNITS,
    UNLIMITED_TOKENS,
    BookedLine,
    BookedRequest,
    HeldBack,
    HeldRequest,
    Meter,
    RefusalMatch,
    to_display,
)
from billing.rendering import CommandTerms, answered, asks
from billing.usage import sided
from core.operations import MoneyAmount, flat_facts
from core.terminal.terminal import print_json
from core.terminal.terminal_tables import Block, Table, print_blocks
from engine.cli.formatting import NOTHING, duration, life, time_of_day
from engine.operations.explain import Explained
from engine.operations.inspection import RequestDetail
from engine.operations.requests import ExplainRequest, explain_request

Facts = Iterator[tuple[str, str]]
POLICY_CHARACTERS = 12
_DONE = {"block": "blocked", "flag": "flagged", "redact": "redacted"}


@click.command("explain")
@asks(explain_request, arguments=("request",), options={"request": {"metavar": "ID"}})
def explain_command(ask: ExplainRequest, how: CommandTerms) -> None:
    """All that is known of the request ID but what was said.

    What it was billed, line by line; the version of prices that was in force, and why; who paid; corrections;
    its time line; the month it is billed in. Of one that runs: what it holds, of which limits, how far it is.
    That you read it stands in the audit log.
    """
    found = answered(explain_request, ask, how)
    if how.as_json:
        print_json(flat_facts(found))
    else:
        print_blocks(*_blocks(found))


def _blocks(found: Explained) -> Iterator[Block]:
    facts = [
        ("request", found.id),
        ("tenant", f"{found.tenant_name} ({found.tenant})"),
        ("state", found.state),
    ]
    if found.unread:
        facts.append(("not looked at", found.unread))
    yield _sheet([*facts, *(_billed(found.booked, found.names) if found.booked else ())])
    if found.booked is not None:
        yield from ("", "What it was billed", _lines(found.booked), "", "Its time", _steps(found.booked))
    for back in found.held_back:
        yield from ("", "Held back", _sheet(_back(back)))
    for refused in found.refused:
        yield from ("", "Refused", _sheet(_refused(refused)))
    if found.in_pool is not None:
        yield from ("", "In its pool", _sheet(_in_pool(found.in_pool)))
    if found.holds is not None and found.holds.state == "open":
        yield from ("", "What it holds", _sheet(_holds(found.holds)))
        if found.limits or found.share:
            yield from ("", "Its limits now", _limits(found))


def _sheet(facts: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Table:
    table = Table(headed=False)
    table.columns("fact", whole=True)
    table.columns("is")
    for name, value in facts:
        table.row(name, value)
    return table


def _billed(booked: BookedRequest, names: Mapping[str, str]) -> Facts:
    key, project = (_named(id, names) for id in (booked.key, booked.project))
    yield "whose", f"user {booked.user or NOTHING}, key {key}, project {project}"
    yield "model", ", ".join(filter(None, (booked.model, f"pool {booked.pool}", booked.priority)))
    yield "end", f"{booked.reason} {booked.code}".strip()
    if booked.policy:
        yield "safety", f"policy {booked.policy[:POLICY_CHARACTERS]}: {_found(booked.verdicts)}"
    if booked.trace_id:
        yield "trace", booked.trace_id
    cached = f"{booked.input_uncached + booked.input_cached} input ({booked.input_cached} cached)"
    again = f"{booked.claims} claims, {booked.recomputed_tokens} computed again"
    yield "tokens", f"{cached}, {booked.output_text + booked.output_reasoning} output; {again}"
    if booked.phases:
        yield "life", life(booked.phases)
    price = booked.price
    yield (
        "prices",
        f"book {price.book}, version {price.version}, model {price.model or NOTHING}",
    )
    since = time_of_day(price.from_ms or 0) or "the beginning"
    yield "", f"from {since} to {time_of_day(price.until_ms or 0) or 'further notice'}: {price.why}"
    if price.tiers:
        tiers = ", ".join(f"{meter} {mode}" for meter, mode in sorted(price.tiers.items()))
        yield "tiers", f"{tiers}: what they make of the month is booked when it is closed"
    yield (
        "cost",
        _money(booked.cost, booked)
        + (f", corrected to {_money(booked.amount, booked)}" if booked.amount != booked.cost else ""),
    )
    for each in booked.paid:
        yield "paid", f"{_money(each.amount, booked)} by the {each.kind} grant {each.grant}"
    if booked.owed is None:
        yield "paid", f"by invoice: {_money(booked.amount, booked)} owed"
    elif booked.owed.value:
        yield "owed", f"{_money(booked.owed, booked)}, which no grant paid"
    for each in booked.months:
        closed = f"closed {time_of_day(each.closed_ms)}" if each.closed_ms else "not closed yet"
        yield "month", f"{each.month}: {_money(each.amount, booked)}, {closed}"


def _found(verdicts: Mapping[str, Mapping[str, int]]) -> str:
    """The verdicts in words, as `1 × email redacted`."""
    each = [
        f"{count} × {category} {_DONE.get(action, action)}{' in the prompt' if of == 'prompt' else ''}"
        for category, counts in verdicts.items()
        for (of, action), count in ((sided(said), count) for said, count in counts.items())
    ]
    return ", ".join(each) or "nothing found"


def _lines(booked: BookedRequest) -> Table:
    table = Table()
    table.columns("line", right=True)
    table.columns("kind", "meter")
    table.columns("quantity", "price", "amount", right=True)
    table.columns("booked", "corrects", "cause")
    for line in booked.lines:
        amounts = (price_text(line, booked.currency), _money(line.amount, booked))
        corrects = "" if line.adjusts is None else str(line.adjusts)
        booked_on = (time_of_day(line.posted_ms) or NOTHING).partition("T")[0]  # times are in the time line
        table.row(
            *(str(line.line), line.kind, line.meter, f"{line.quantity:,}", *amounts),
            *(booked_on, corrects, line.cause),
        )
    return table


def price_text(line: BookedLine, currency: str) -> str:
    """A price as price files have it: for one request, else for a million."""
    if line.meter == Meter.REQUEST:
        return f"{to_display(line.price.value // UNITS, currency)} each"
    return f"{to_display(line.price.value, currency)} a million"


def _steps(booked: BookedRequest) -> Table:
    table = Table()
    table.columns("step", "at")
    table.columns("after", right=True)
    for step in booked.steps:
        table.row(step.name, time_of_day(step.at_ms) or NOTHING, duration(step.after_ms))
    return table


def _back(back: HeldBack) -> Facts:
    yield "reason", f"{back.reason}: {back.detail}"
    yield "since", time_of_day(back.since_ms) or NOTHING
    yield "decided", back.resolution or f"not yet: `parley quarantine accept {back.event_sha256} --reason …`"


def _refused(refused: RefusalMatch) -> Facts:
    yield "minute", time_of_day(refused.minute_ms) or NOTHING
    yield "code", f"{refused.code} {refused.why}".strip()
    yield "whose", "others" if refused.others else f"user {refused.user or NOTHING}, key {refused.key}"
    yield "beside it", f"{refused.number - 1:,} more of them in that minute"


def _in_pool(found: RequestDetail) -> Facts:
    row = found.row
    yield "pool", f"{row.pool}, {row.priority}, {row.status}, worker {row.worker or 'none'}"
    if found.older is not None:
        yield "in line", f"{found.older} of its class wait longer"
    yield (
        "tokens",
        (
            f"{row.prompt_tokens} prompt ({found.input_cached} cached), {row.tokens} sampled, "
            f"{found.granted} granted; {row.claims} claims, {found.recomputed_tokens} computed again, "
            f"{found.preempts} preemptions"
        ),
    )
    if found.phases:
        yield "life", life(found.phases)
    times = {"accepted": row.accepted_ms, "claimed": row.claimed_ms, "first token": row.first_token_ms}
    for name, at in {**times, "deadline": row.deadline_ms}.items():
        yield name, time_of_day(at) or NOTHING


def _holds(held: HeldRequest) -> Facts:
    yield "admitted", time_of_day(held.admitted_ms) or NOTHING
    yield "prices", f"book {held.book}, version {held.version}"
    granted = f"{held.granted} output granted so far"
    if held.granted >= UNLIMITED_TOKENS:
        granted = "output up to its max_tokens, as no money limits it"
    yield "tokens", f"{held.input_tokens} input, {granted}"
    yield "money", f"{to_display(held.held.value)} of each budget and the wallet"
    for each in held.counted_in:
        shadow = " (shadow)" if each.shadow else ""
        yield "counts in", f"{each.kind} of {each.scope} {each.scope_id} {each.of}".rstrip() + shadow


def _named(id: str, names: Mapping[str, str]) -> str:
    return f"{names[id]} ({id})" if id in names else id


def _limits(found: Explained) -> Table:
    """Its limits and its tenant's share of the pool, and what each would say of one more like it."""
    table = Table()
    table.columns("limit", "of")
    table.columns("used", "held", "most", right=True)
    table.columns("one more")
    for each in found.limits:
        models = "" if each.models == "*" else f", {each.models}"
        of = f"{each.scope} {found.names.get(each.scope_id, each.scope_id)}".rstrip()
        amounts = (_amount(each.used), _amount(each.held), _amount(each.limit))
        table.row(each.dimension + models, of, *amounts, each.verdict.value)
    share = found.share
    if share is not None:
        verdict = "wait" if share.waits else "go"
        for name, used, most in (
            ("slots", share.running, share.slots_max),
            ("KV tokens", share.tokens, share.tokens_max),
        ):
            table.row(
                f"{name} of pool {share.pool}", "tenant", *(_amount(n) for n in (used, None, most)), verdict
            )
    return table


def _amount(value: int | MoneyAmount | None) -> str:
    if value is None:
        return NOTHING
    return to_display(value.value) if isinstance(value, MoneyAmount) else f"{value:,}"


def _money(amount: MoneyAmount, booked: BookedRequest) -> str:
    return to_display(amount.value, booked.currency)
