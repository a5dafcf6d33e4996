"""Holds the rows of the books beside what they should say. Pure, and nothing of the product is in it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from chaos.books.checks import Fault, SumCheck, accounts, key_of, sums_of
from chaos.books.expected import ExpectedBill, ExpectedBooks, Under, expected_of
from chaos.books.pricing import STAMP_MS
from chaos.books.rows import Rows
from chaos.books.terms import (
    CACHED,
    INPUT,
    METERS,
    OUTPUT,
    REQUEST,
    History,
    Request,
)
from chaos.books.wallet_checks import judge_orders, judge_wallets

HOUR_MS = 3_600_000
# At these ends the few letters that a policy was still holding are dropped; they were sampled, and cost.
HELD_IS_DROPPED = {"cancelled", "deadline", "error"}
HELD_MAX = 64


def under_of(rows: Rows) -> Under:
    """The version that each request was booked under."""
    return {key_of(each): (each["price_book_id"], each["price_version"]) for each in rows["usage_event"]}


def expected_by(history: History, rows: Rows) -> ExpectedBooks:
    """What the books should say, where they name versions and ends of requests."""
    ended = {key_of(each): int(each["ended_ms"]) for each in rows["usage_event"]}
    return expected_of(history, under_of(rows), ended)


def judge(history: History, rows: Rows, cached: Callable[[int], int]) -> list[SumCheck]:
    """All checks. `cached`: how much of a prompt the engine found cached."""
    expected = expected_by(history, rows)
    return [
        _each("answers: billed as told", expected, _billed(rows)),
        _each("answers: tokens as their text says", expected, _counted(rows, cached)),
        _each("answers: priced as their time says", expected, _priced),
        _each("requests: lines, corrections included", expected, _lines(rows)),
        judge_strangers(expected, rows),
        sums_of("ledger: revenue by tenant and meter", revenue(expected), accounts(rows, "revenue:", -1)),
        sums_of("rollups: hour, project, cost center, key, user", *rollups(expected, rows)),
        sums_of("true-ups: month, model, meter", true_ups(expected), _true_up_rows(rows)),
        sums_of("lines: by cost center", *by_center(expected, rows)),
        *judge_wallets(history, expected, rows),
        judge_orders(history, expected, rows),
        judge_held(rows),
    ]


def _each(name: str, expected: ExpectedBooks, faults: Callable[[ExpectedBill], Iterator[Fault]]) -> SumCheck:
    check = SumCheck(name)
    for bill in expected.bills.values():
        check.add(faults(bill))
    return check


def _billed(rows: Rows) -> Callable[[ExpectedBill], Iterator[Fault]]:
    events = {key_of(each): each for each in rows["usage_event"]}

    def faults(bill: ExpectedBill) -> Iterator[Fault]:
        told, row = bill.told, events.get(bill.told.key_of)
        if row is None:
            yield -told.cost, f"{told.id}: unbilled, told {told.cost} nano"
            return
        said = (row["reason"], row["input_uncached"] + row["input_cached"], row["input_cached"])
        said += (row["output_text"] + row["output_reasoning"], int(row["cost_nano"]))
        heard = (told.reason, told.input, told.cached, told.output, told.cost)
        if said != heard:
            yield int(row["cost_nano"]) - told.cost, f"{told.id}: told {heard}, booked {said}"
        whose = (told.project, told.key, told.user, told.model)
        if whose != (row["project_id"], row["key_id"], row["user_id"], row["model"]):
            yield 0, f"{told.id}: booked on another project, key, user or model"
        accepted, ended = row["accepted_ms"], row["ended_ms"]
        if not told.sent_ms - STAMP_MS <= accepted <= told.heard_ms + STAMP_MS:
            yield 0, f"{told.id}: accepted at {accepted}, not from {told.sent_ms} to {told.heard_ms}"
        if not told.sent_ms - STAMP_MS <= ended <= told.ended_ms + STAMP_MS:
            yield 0, f"{told.id}: ended at {ended}, heard at {told.ended_ms}"

    return faults


def _counted(rows: Rows, cached: Callable[[int], int]) -> Callable[[ExpectedBill], Iterator[Fault]]:
    claims = {key_of(each): int(each["claims"]) for each in rows["usage_event"]}

    def faults(bill: ExpectedBill) -> Iterator[Fault]:
        told = bill.told
        unseen = told.output - told.characters
        if unseen and not (told.reason in HELD_IS_DROPPED and 0 < unseen <= HELD_MAX):
            yield 0, f"{told.id}: {told.output} tokens for {told.characters} characters"
        if told.input not in (told.asked_input, 0 if not told.output else told.asked_input):
            yield 0, f"{told.id}: {told.input} tokens for a prompt of {told.asked_input}"
        # What only a worker that died before its first token knew is not billed as cached.
        allowed = {cached(told.input)} | ({0} if claims.get(told.key_of, 1) > 1 or not told.output else set())
        if told.cached not in allowed:
            yield 0, f"{told.id}: {told.cached} tokens cached of {told.input}"

    return faults


def _priced(bill: ExpectedBill) -> Iterator[Fault]:
    if not bill.fits:
        yield bill.told.cost - bill.first_cost, f"{bill.told.id}: under a version that was not in force"
    elif bill.first_cost != bill.told.cost:
        off = bill.told.cost - bill.first_cost
        yield off, f"{bill.told.id}: told {bill.told.cost} nano, it costs {bill.first_cost}"


def _lines(rows: Rows) -> Callable[[ExpectedBill], Iterator[Fault]]:
    sums: defaultdict[tuple[Request, str], list[int]] = defaultdict(lambda: [0, 0])
    for line in rows["usage_line"]:
        own = sums[key_of(line), line["meter"]]
        own[0] += int(line["quantity"])
        own[1] += int(line["amount_nano"])

    def faults(bill: ExpectedBill) -> Iterator[Fault]:
        for meter in METERS:
            quantity, amount = sums[bill.told.key_of, meter]
            wanted = bill.quantities.get(meter, 0), bill.amounts[meter]
            if (quantity, amount) != wanted:
                off = amount - wanted[1]
                yield off, f"{bill.told.id}: {meter} {quantity} for {amount} nano, expected {wanted}"

    return faults


def judge_strangers(expected: ExpectedBooks, rows: Rows) -> SumCheck:
    """Nothing is booked that no client was accepted with."""
    check = SumCheck("events: somebody asked for them")
    for row in rows["usage_event"]:
        known = key_of(row) in expected.bills
        check.add([] if known else [(int(row["cost_nano"]), f"{row['request_id']}: nobody asked")])
    return check


def revenue(expected: ExpectedBooks) -> dict[tuple[str, str], int]:
    """What the ledger credits, by tenant and meter."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for bill in expected.bills.values():
        for meter, nano in bill.amounts.items():
            found[bill.told.tenant, meter] += nano
    for (tenant, _), month in expected.true_ups.items():
        for (_, meter), nano in month.items():
            found[tenant, meter] += nano
    return {key: nano for key, nano in found.items() if nano}


OF_ROLLUP = ("tenant_id", "hour_ms", "project_id", "cost_center_id", "key_id", "user_id", "model")
MEASURES = {INPUT: "input_uncached", CACHED: "input_cached", OUTPUT: "output_text", REQUEST: "requests"}


def rollups(
    expected: ExpectedBooks, rows: Rows
) -> tuple[dict[tuple[object, ...], int], dict[tuple[object, ...], int]]:
    """Every number of every hour: as it should be, and as it is. Months' true-ups are in neither."""
    booked = {key_of(each) for each in rows["usage_event"]}
    wanted: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for move in expected.moves:
        told = move.bill.told
        if told.key_of not in booked:
            continue
        hour = move.at_ms - move.at_ms % HOUR_MS
        of = (told.tenant, hour, told.project, move.bill.center, told.key, told.user, told.model)
        for meter in (INPUT, CACHED, OUTPUT):
            wanted[*of, MEASURES[meter]] += move.quantities.get(meter, 0)
        wanted[*of, "requests"] += move.requests
        wanted[*of, "amount_nano"] += move.amount
    found: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for row in rows["rollup_hour"]:
        if row["key_id"]:
            of = tuple(row[name] for name in OF_ROLLUP)
            for name in (*MEASURES.values(), "amount_nano"):
                found[*of, name] += int(row[name])
    return dict(wanted), dict(found)


def by_center(
    expected: ExpectedBooks, rows: Rows
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """What is charged to each cost center, by tenant: as it should be, and as the lines of requests are."""
    wanted: defaultdict[tuple[str, str], int] = defaultdict(int)
    for bill in expected.bills.values():
        wanted[bill.told.tenant, bill.center] += bill.cost
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for line in rows["usage_line"]:
        if line["kind"] != "true_up":
            found[line["tenant_id"], line["cost_center_id"]] += int(line["amount_nano"])
    return dict(wanted), dict(found)


def true_ups(expected: ExpectedBooks) -> dict[tuple[object, ...], int]:
    """By tenant, month's beginning, model and meter."""
    return {
        (tenant, month, *line): nano
        for (tenant, month), of_month in expected.true_ups.items()
        for line, nano in of_month.items()
    }


def _true_up_rows(rows: Rows) -> dict[tuple[object, ...], int]:
    charges = {(each["tenant_id"], each["id"]): each for each in rows["charge"]}
    found: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for line in rows["usage_line"]:
        if line["kind"] == "true_up":
            charge = charges[key_of(line)]
            of = (line["tenant_id"], int(charge["start_ms"]), charge["model"], line["meter"])
            found[of] += int(line["amount_nano"])
    return {key: nano for key, nano in found.items() if nano}


def judge_held(rows: Rows) -> SumCheck:
    """Somebody decided on every event that was held."""
    check = SumCheck("quarantine: decided on")
    for row in rows["usage_quarantine"]:
        open_ = row["resolved_ms"] is None
        check.add([(0, f"{row['request_id']}: {row['reason']}, {row['detail']}")] if open_ else [])
    return check


def judge_refused(history: History, refused: Mapping[tuple[str, str], int]) -> SumCheck:
    """While Parley was at work, who pays afterwards was never refused for money, nor anybody for a budget.

    `refused`: how many sends, by customer and code."""
    check = SumCheck("sends: refused for money where it may lack")
    prepaid = {each.name for each in history.customers.values() if each.prepaid}
    for (name, code), count in sorted(refused.items()):
        wrong = code == "budget_exceeded" or (code == "insufficient_quota" and name not in prepaid)
        check.add([(0, f"{name}: {count} sends were refused with {code}")] if wrong else [])
    return check
