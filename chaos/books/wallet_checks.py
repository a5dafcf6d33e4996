"""Holds wallets, and the orders that moved their money, beside what the books say of them. Pure, and nothing
of the product is in it."""

from collections import Counter, defaultdict

from chaos.books.checks import SumCheck, accounts, key_of, sums_of
from chaos.books.expected import ExpectedBooks
from chaos.books.grant_spending import Charged, GrantEnded, Move, ReplayedWallet, replay
from chaos.books.rows import Rows
from chaos.books.terms import PAID, PAY_OUT, History

SOURCES = ("promo_expense", "stripe_clearing")
ORDERED = {"grant", "void", "claw_back", "pay_out", "adjust"}


def judge_wallets(history: History, expected: ExpectedBooks, rows: Rows) -> list[SumCheck]:
    """What is left of each grant, and what every tenant owes."""
    wallets = {
        each.id: wallet_of(each.id, expected, rows) for each in history.customers.values() if each.prepaid
    }
    left = {
        (tenant, key): kept.left for tenant, wallet in wallets.items() for key, kept in wallet.grants.items()
    }
    stands = {
        (each["tenant_id"], each["idempotency_key"]): int(each["left_nano"]) for each in rows["wallet_grant"]
    }
    names = {each["id"]: (each["tenant_id"], each["idempotency_key"]) for each in rows["wallet_grant"]}
    of_ledger = dict.fromkeys(stands, 0)
    for (_, account), nano in accounts(rows, "wallet:", -1).items():
        of_ledger[names[account.partition(":")[2]]] += nano
    owed = {
        id: wallets[id].owed + _beyond(expected, id)
        if id in wallets
        else sum(bill.cost for bill in expected.of_tenant(id)) + _beyond(expected, id)
        for id in history.customers
    }
    receivable = {tenant: nano for (tenant, _), nano in accounts(rows, "receivable", 1).items()}
    spent = {tenant: sum(wallet.cost.values()) for tenant, wallet in wallets.items()}
    posted = {each["tenant_id"]: int(each["posted_nano"]) for each in rows["wallet"]}
    lacking = {request: nano for wallet in wallets.values() for request, nano in wallet.lacking.items()}
    lacks = {key_of(each): int(each["owed_nano"]) for each in rows["wallet_owed"]}
    return [
        sums_of("wallets: left of each grant", left, stands),
        sums_of("wallets: left of each grant, by the ledger", left, of_ledger),
        sums_of("wallets: what requests cost", spent, posted),
        sums_of("wallets: what no grant paid yet", lacking, lacks),
        sums_of("tenants: what they owe", owed, receivable),
        sums_of("ledger: where wallets' money came from", *sources(expected, rows)),
    ]


def sources(
    expected: ExpectedBooks, rows: Rows
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """By tenant what customers paid in, what was given away, and what was paid back to them."""
    wanted: defaultdict[tuple[str, str], int] = defaultdict(int)
    for (tenant, _), granted in expected.grants.items():
        wanted[tenant, SOURCES[granted.kind == PAID]] += granted.amount
    for (tenant, _), taken in expected.taken.items():
        paid_out = taken.kind == PAY_OUT
        to = "paid_out" if paid_out else SOURCES[expected.grants[tenant, taken.grant].kind == PAID]
        wanted[tenant, to] -= taken.amount
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in rows["ledger_entry"]:
        if entry["account"] in (*SOURCES, "paid_out"):
            found[entry["tenant_id"], entry["account"]] += int(entry["amount_nano"])
    return dict(wanted), dict(found)


def judge_orders(history: History, expected: ExpectedBooks, rows: Rows) -> SumCheck:
    """What was carried out is in the books once; what was refused, or nobody approved, is not."""
    check = SumCheck("orders: booked once, or not at all")
    booked: Counter[tuple[str, str]] = Counter()
    for txn in rows["ledger_txn"]:
        if txn["kind"] in ORDERED:
            booked[txn["tenant_id"], txn["idempotency_key"]] += 1
    corrected = {
        (of, f"adjust:{id}:{cause}"): moved for ((of, id), cause), moved in expected.by_cause.items()
    }
    must = {(tenant, f"grant:{key}") for tenant, key in expected.grants} | expected.taken.keys()
    must |= {order for order, moved in corrected.items() if moved}
    for order in sorted(must | corrected.keys() | booked.keys() | set(history.unapproved)):
        times = booked[order]
        right = times == 1 if order in must else times <= (order in corrected)
        check.add([] if right else [(0, f"{order}: booked {times} times")])
    return check


def _beyond(expected: ExpectedBooks, tenant: str) -> int:
    return sum(sum(month.values()) for (of, _), month in expected.true_ups.items() if of == tenant)


def wallet_of(tenant: str, expected: ExpectedBooks, rows: Rows) -> ReplayedWallet:
    """A wallet after its moves, in the order in which the books have them; amounts are the oracle's."""
    keys = {
        each["id"]: each["idempotency_key"] for each in rows["wallet_grant"] if each["tenant_id"] == tenant
    }
    by_seq = sorted(
        (each for each in rows["usage_line"] if each["tenant_id"] == tenant), key=lambda row: row["seq"]
    )
    events = [each for each in rows["usage_event"] if each["tenant_id"] == tenant]
    accepted = {each["request_id"]: int(each["accepted_ms"]) for each in events}
    moves: list[Move] = []
    for txn in sorted(
        (each for each in rows["ledger_txn"] if each["tenant_id"] == tenant), key=lambda row: row["seq"]
    ):
        _, _, rest = txn["idempotency_key"].partition(":")
        match txn["kind"]:
            case "grant":
                moves += [each for key, each in expected.grants.items() if key == (tenant, rest)]
            case "void" | "claw_back" | "pay_out":
                moves += [
                    each for key, each in expected.taken.items() if key == (tenant, txn["idempotency_key"])
                ]
            case "expire":
                moves.append(GrantEnded(keys[rest.rpartition(":")[0]]))
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
