"""Holds the rows of the books beside what they should say. Pure, and nothing of the product is in it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from chaos.books.expected import Bill, Expected, Under, expected_of
from chaos.books.pricing import STAMP_MS
from chaos.books.purses import Charged, Ended, Purse, replay
from chaos.books.rows import Row, Rows
from chaos.books.terms import CACHED, INPUT, METERS, OUTPUT, REQUEST, Granted, History, Request

T = TypeVar("T")
HOUR_MS = 3_600_000
DETAILS_KEPT = 20
Fault = tuple[int, str]  # nano too much (below zero: too little), and what


@dataclass
class Check:
    """One comparison. `off`: how many of `compared` differ, by `off_nano` in all, whatever the sign."""

    name: str
    compared: int = 0
    off: int = 0
    off_nano: int = 0
    details: list[str] = field(default_factory=list[str])

    def add(self, faults: Iterable[Fault]) -> None:
        """One more thing that was compared."""
        self.compared += 1
        found = list(faults)
        self.off += bool(found)
        self.off_nano += sum(abs(nano) for nano, _ in found)
        self.details += [what for _, what in found][: max(0, DETAILS_KEPT - len(self.details))]


def under_of(rows: Rows) -> Under:
    """The version that each request was booked under."""
    return {key_of(each): (each["price_book_id"], each["price_version"]) for each in rows["usage_event"]}


def key_of(row: Row) -> Request:
    """Whose row it is."""
    return row["tenant_id"], row["request_id"]


def judge(history: History, rows: Rows, cached: Callable[[int], int]) -> list[Check]:
    """All checks. `cached`: how much of a prompt the engine found cached."""
    ended = {key_of(each): int(each["ended_ms"]) for each in rows["usage_event"]}
    expected = expected_of(history, under_of(rows), ended)
    return [
        _each("answers: billed as told", expected, _billed(rows)),
        _each("answers: tokens as their text says", expected, _counted(rows, cached)),
        _each("answers: priced as their time says", expected, _priced),
        _each("requests: lines, corrections included", expected, _lines(rows)),
        judge_strangers(expected, rows),
        _sums("ledger: revenue by tenant and meter", revenue(expected), _accounts(rows, "revenue:", -1)),
        _sums("rollups: hour, project, key, user", *rollups(expected, rows)),
        _sums("true-ups: month, model, meter", true_ups(expected), _true_up_rows(rows)),
        *judge_wallets(history, expected, rows),
        judge_held(rows),
    ]


def _each(name: str, expected: Expected, faults: Callable[[Bill], Iterator[Fault]]) -> Check:
    check = Check(name)
    for bill in expected.bills.values():
        check.add(faults(bill))
    return check


def _billed(rows: Rows) -> Callable[[Bill], Iterator[Fault]]:
    events = {key_of(each): each for each in rows["usage_event"]}

    def faults(bill: Bill) -> Iterator[Fault]:
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


def _counted(rows: Rows, cached: Callable[[int], int]) -> Callable[[Bill], Iterator[Fault]]:
    claims = {key_of(each): int(each["claims"]) for each in rows["usage_event"]}

    def faults(bill: Bill) -> Iterator[Fault]:
        told = bill.told
        if told.output != told.characters:
            yield 0, f"{told.id}: {told.output} tokens for {told.characters} characters"
        if told.input not in (told.asked_input, 0 if not told.output else told.asked_input):
            yield 0, f"{told.id}: {told.input} tokens for a prompt of {told.asked_input}"
        # What only a worker that died before its first token knew is not billed as cached.
        allowed = {cached(told.input)} | ({0} if claims.get(told.key_of, 1) > 1 or not told.output else set())
        if told.cached not in allowed:
            yield 0, f"{told.id}: {told.cached} tokens cached of {told.input}"

    return faults


def _priced(bill: Bill) -> Iterator[Fault]:
    if not bill.fits:
        yield bill.told.cost - bill.first_cost, f"{bill.told.id}: under a version that was not in force"
    elif bill.first_cost != bill.told.cost:
        off = bill.told.cost - bill.first_cost
        yield off, f"{bill.told.id}: told {bill.told.cost} nano, it costs {bill.first_cost}"


def _lines(rows: Rows) -> Callable[[Bill], Iterator[Fault]]:
    sums: defaultdict[tuple[Request, str], list[int]] = defaultdict(lambda: [0, 0])
    for line in rows["usage_line"]:
        own = sums[key_of(line), line["meter"]]
        own[0] += int(line["quantity"])
        own[1] += int(line["amount_nano"])

    def faults(bill: Bill) -> Iterator[Fault]:
        for meter in METERS:
            quantity, amount = sums[bill.told.key_of, meter]
            wanted = bill.quantities.get(meter, 0), bill.amounts[meter]
            if (quantity, amount) != wanted:
                off = amount - wanted[1]
                yield off, f"{bill.told.id}: {meter} {quantity} for {amount} nano, expected {wanted}"

    return faults


def judge_strangers(expected: Expected, rows: Rows) -> Check:
    """Nothing is booked that no client was accepted with."""
    check = Check("events: somebody asked for them")
    for row in rows["usage_event"]:
        known = key_of(row) in expected.bills
        check.add([] if known else [(int(row["cost_nano"]), f"{row['request_id']}: nobody asked")])
    return check


def _sums(name: str, wanted: Mapping[T, int], found: Mapping[T, int]) -> Check:
    check = Check(name)
    for key in sorted(wanted.keys() | found.keys(), key=repr):
        off = found.get(key, 0) - wanted.get(key, 0)
        check.add([(off, f"{key}: {found.get(key, 0)}, expected {wanted.get(key, 0)}")] if off else [])
    return check


def revenue(expected: Expected) -> dict[tuple[str, str], int]:
    """What the ledger credits, by tenant and meter."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for bill in expected.bills.values():
        for meter, nano in bill.amounts.items():
            found[bill.told.tenant, meter] += nano
    for (tenant, _), month in expected.true_ups.items():
        for (_, meter), nano in month.items():
            found[tenant, meter] += nano
    return {key: nano for key, nano in found.items() if nano}


def _accounts(rows: Rows, prefix: str, sign: int) -> dict[tuple[str, str], int]:
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in rows["ledger_entry"]:
        if entry["account"].startswith(prefix):
            found[entry["tenant_id"], entry["account"].removeprefix(prefix)] += sign * int(
                entry["amount_nano"]
            )
    return {key: nano for key, nano in found.items() if nano}


MEASURES = {INPUT: "input_uncached", CACHED: "input_cached", OUTPUT: "output_text", REQUEST: "requests"}


def rollups(
    expected: Expected, rows: Rows
) -> tuple[dict[tuple[object, ...], int], dict[tuple[object, ...], int]]:
    """Every number of every hour: as it should be, and as it is. Months' true-ups are in neither."""
    booked = {key_of(each) for each in rows["usage_event"]}
    wanted: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for move in expected.moves:
        told = move.bill.told
        if told.key_of not in booked:
            continue
        hour = move.at_ms - move.at_ms % HOUR_MS
        of = (told.tenant, hour, told.project, told.key, told.user, told.model)
        for meter in (INPUT, CACHED, OUTPUT):
            wanted[*of, MEASURES[meter]] += move.quantities.get(meter, 0)
        wanted[*of, "requests"] += move.requests
        wanted[*of, "amount_nano"] += move.amount
    found: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for row in rows["rollup_hour"]:
        if row["key_id"]:
            of = tuple(
                row[name] for name in ("tenant_id", "hour_ms", "project_id", "key_id", "user_id", "model")
            )
            for name in (*MEASURES.values(), "amount_nano"):
                found[*of, name] += int(row[name])
    return dict(wanted), dict(found)


def true_ups(expected: Expected) -> dict[tuple[object, ...], int]:
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


def judge_wallets(history: History, expected: Expected, rows: Rows) -> list[Check]:
    """What is left of each grant, and what every tenant owes."""
    purses = {
        each.id: purse_of(each.id, expected, rows) for each in history.customers.values() if each.prepaid
    }
    left = {
        (tenant, key): kept.left for tenant, purse in purses.items() for key, kept in purse.grants.items()
    }
    stands = {
        (each["tenant_id"], each["idempotency_key"]): int(each["left_nano"]) for each in rows["wallet_grant"]
    }
    names = {each["id"]: (each["tenant_id"], each["idempotency_key"]) for each in rows["wallet_grant"]}
    of_ledger = dict.fromkeys(stands, 0)
    for (_, account), nano in _accounts(rows, "wallet:", -1).items():
        of_ledger[names[account.partition(":")[2]]] += nano
    owed = {
        id: purses[id].owed + _beyond(expected, id)
        if id in purses
        else sum(bill.cost for bill in expected.of_tenant(id)) + _beyond(expected, id)
        for id in history.customers
    }
    receivable = {tenant: nano for (tenant, _), nano in _accounts(rows, "receivable", 1).items()}
    spent = {tenant: sum(purse.cost.values()) for tenant, purse in purses.items()}
    posted = {each["tenant_id"]: int(each["posted_nano"]) for each in rows["wallet"]}
    lacking = {request: nano for purse in purses.values() for request, nano in purse.lacking.items()}
    lacks = {key_of(each): int(each["owed_nano"]) for each in rows["wallet_owed"]}
    return [
        _sums("wallets: left of each grant", left, stands),
        _sums("wallets: left of each grant, by the ledger", left, of_ledger),
        _sums("wallets: what requests cost", spent, posted),
        _sums("wallets: what no grant paid yet", lacking, lacks),
        _sums("tenants: what they owe", owed, receivable),
    ]


def _beyond(expected: Expected, tenant: str) -> int:
    return sum(sum(month.values()) for (of, _), month in expected.true_ups.items() if of == tenant)


def purse_of(tenant: str, expected: Expected, rows: Rows) -> Purse:
    """A wallet after its moves, in the order in which the books have them; amounts are the oracle's."""
    keys = {
        each["id"]: each["idempotency_key"] for each in rows["wallet_grant"] if each["tenant_id"] == tenant
    }
    by_seq = sorted(
        (each for each in rows["usage_line"] if each["tenant_id"] == tenant), key=lambda row: row["seq"]
    )
    events = [each for each in rows["usage_event"] if each["tenant_id"] == tenant]
    accepted = {each["request_id"]: int(each["accepted_ms"]) for each in events}
    moves: list[Granted | Charged | Ended] = []
    for txn in sorted(
        (each for each in rows["ledger_txn"] if each["tenant_id"] == tenant), key=lambda row: row["seq"]
    ):
        _, _, rest = txn["idempotency_key"].partition(":")
        match txn["kind"]:
            case "grant":
                moves.append(expected.grants[tenant, rest])
            case "expire":
                moves.append(Ended(keys[rest.rpartition(":")[0]]))
            case "adjust":
                id, _, cause = rest.partition(":")
                moved = expected.by_cause.get(((tenant, id), cause), 0)
                moves.append(Charged((tenant, id), moved, txn["posted_ms"]))
            case "usage":
                own = by_seq[txn["first_line_seq"] - 1 : txn["last_line_seq"]]
                for id in dict.fromkeys(line["request_id"] for line in own):
                    bill = expected.bills.get((tenant, id))
                    asked_ms = min(accepted.get(id, txn["posted_ms"]), txn["posted_ms"])
                    moves.append(Charged((tenant, id), bill.first_cost if bill else 0, asked_ms))
            case _:
                pass
    return replay(moves)


def judge_held(rows: Rows) -> Check:
    """Somebody decided on every event that was held."""
    check = Check("quarantine: decided on")
    for row in rows["usage_quarantine"]:
        open_ = row["resolved_ms"] is None
        check.add([(0, f"{row['request_id']}: {row['reason']}, {row['detail']}")] if open_ else [])
    return check
