"""What a restore could not bring back: ended requests in no book, and the differences that follow. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from admin.backup.restore_mark import CountedBefore
from billing.shared_commands import EndedPoolHour

NOTHING = CountedBefore(0, 0)


class InNoBook(msgspec.Struct, frozen=True):
    """Ended requests of a tenant that are in no book. `held`: quarantined, so people decide; `running`: their
    end is in a journal, and by Redis they still run; `lost`: Redis had counted them, and nothing else is
    known of them; `lost_nano`, `lost_output`: what they had cost, and their output tokens. `tenant` empty: of
    nobody who can be named; `stranger`: the backup has no such tenant."""

    tenant: str
    name: str
    held: int = 0
    running: int = 0
    lost: int = 0
    lost_nano: int = 0
    lost_output: int = 0
    stranger: bool = False


def lost_requests(
    before: Mapping[str, CountedBefore], after: Mapping[str, CountedBefore], held: Mapping[str, int]
) -> dict[str, CountedBefore]:
    """Of each tenant the ended requests that Redis had counted and that are in no book now, without those
    that are held."""
    lost: dict[str, CountedBefore] = {}
    for tenant, counted in before.items():
        now = after.get(tenant, NOTHING)
        missing = counted.requests - now.requests - held.get(tenant, 0)
        if missing > 0:
            cost, output = counted.cost_nano - now.cost_nano, counted.output - now.output
            lost[tenant] = CountedBefore(missing, max(0, cost), max(0, output))
    return lost


def in_no_book(
    names: Mapping[str, str],
    held: Mapping[str, int],
    running: Mapping[str, int],
    lost: Mapping[str, CountedBefore],
) -> list[InNoBook]:
    """Ended requests that are in no book, by tenant."""
    found: list[InNoBook] = []
    for tenant in sorted({*held, *running, *lost}):
        gone = lost.get(tenant, NOTHING)
        found.append(
            InNoBook(
                tenant,
                names.get(tenant, tenant or "(unreadable)"),
                held.get(tenant, 0),
                running.get(tenant, 0),
                gone.requests,
                gone.cost_nano,
                gone.output,
                bool(tenant) and tenant not in names,
            )
        )
    return found


def explained_hours(
    hours: Sequence[EndedPoolHour], missing: Collection[InNoBook], redis_survived: bool
) -> list[EndedPoolHour]:
    """Those hours since the backup whose ends are missing because they are told as lost: all, or none where
    more is missing than is told. A Redis that lost its counts tells of no number."""
    requests = sum(each.lost + each.running for each in missing)
    output = sum(each.lost_output for each in missing)
    counted = redis_survived and sum(each.lost_requests for each in hours) > requests
    told = redis_survived and not any(each.running for each in missing)
    if counted or (told and sum(each.lost_output for each in hours) > output):
        return []
    return list(hours)
