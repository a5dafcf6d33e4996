"""When prepaid money ends, by a forecast: grants are spent in their order, and lapse at their ends. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from billing.ledger.grant_spending import Grant, spending_order
from billing.reports.forecast import CrossingDays, ExpectedSum, SpendForecast


def wallet_ends(
    grants: Sequence[Grant], path: SpendForecast, today_nano: int, begins_ms: Mapping[date, int]
) -> CrossingDays:
    """The days on which grants pay no more. `today_nano`: what they have paid of today; `begins_ms`: when
    each day of the path begins."""

    def ends(amount: Callable[[ExpectedSum], int]) -> date | None:
        open_ = [replace(each) for each in spending_order(grants)]
        before = today_nano
        for each in path.sums:
            missing, before = amount(each) - before, amount(each)
            if not _paid(open_, missing, begins_ms[each.day]):
                return each.day
        return None

    return CrossingDays(
        ends(lambda each: each.expected_nano),
        ends(lambda each: each.high_nano),
        ends(lambda each: each.low_nano),
    )


def _paid(grants: Sequence[Grant], missing: int, at_ms: int) -> bool:
    for each in grants:
        if each.pays_at(at_ms):
            taken = min(each.left_nano, max(0, missing))
            each.left_nano -= taken
            missing -= taken
    return missing <= 0 and any(each.left_nano > 0 for each in grants if each.pays_at(at_ms))
