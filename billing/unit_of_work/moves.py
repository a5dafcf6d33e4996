"""Decides whether a change may move an amount of money: alone, or as a second person approved it.

Looked at behind the change's audit row, in its transaction, and under one lock for all moves, so that moves
side by side count each other.
"""

from collections.abc import Sequence
from typing import Literal

from billing.booking.amount_bounds import AmountBounds
from billing.booking.recent_moves import MOVES, amount_of_audit_row, lock_recent_amounts
from billing.money import to_display
from billing.tables.audit import AuditLog
from billing.unit_of_work.actors import OperationActor
from core.actor import current_author
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, bad_request
from core.sql.database import Database

SecondPerson = Literal["", "needed", "missing"]


class NeedsSecondPerson(Refused):
    """A change that moves more (`nano`) than one person may alone; nothing of it is committed. Who runs the
    operation proposes it (billing/approvals). `lately_nano`: with what else its author, or anybody for this
    tenant, moved; `why` says it."""

    def __init__(self, tenant_id: str, nano: int, lately_nano: int, most_nano: int) -> None:
        others = "" if lately_nano == nano else f", {to_display(lately_nano)} with the last 24 hours' moves"
        most = f"one person moves at most {to_display(most_nano)} alone"
        self.why = f"this moves {to_display(nano)}{others}, and {most}"
        super().__init__(Refusal("bad_request", f"{self.why}: propose it"))
        self.tenant_id = tenant_id
        self.nano = nano


async def check_alone(
    db: Database, settings: Settings, who: OperationActor, tenant_id: str, nano: int
) -> None:
    """Raise NeedsSecondPerson where the author moved too much within 24 hours, this move included, whose
    audit row stands already. Raises Refused where it is too much, and there is no second person."""
    from billing.unit_of_work.second_people import second_people  # what moves no money loads no such table

    bounds = AmountBounds.of(settings)
    async with db.transaction() as session:  # committed, or the lock would end with it
        there = await second_people(session, who.proposes_as)
        lately_nano = await lock_recent_amounts(session, tenant_id, current_author().name) if there else nano
    if not there:
        bounds.check(nano)
        return
    assert lately_nano >= nano, "a move is looked at behind its audit row"
    if nano and lately_nano > bounds.most_nano:
        raise NeedsSecondPerson(tenant_id, nano, lately_nano, bounds.most_nano)


async def second_person_of(
    db: Database, settings: Settings, who: OperationActor, tenant_id: str, nano: int
) -> SecondPerson:
    """Whether a move, as `check_alone` takes it, needs a second person, or lacks one and is refused."""
    try:
        await check_alone(db, settings, who, tenant_id, nano)
    except NeedsSecondPerson:
        return "needed"
    except Refused:
        return "missing"
    return ""


def check_moved(recorded: Sequence[AuditLog], moved_nano: int) -> None:
    """Assert that a change said of all money in its audit rows that it moves it. Pure."""
    in_rows = sum(amount_of_audit_row(row.action, row.after) for row in recorded if row.action in MOVES)
    assert in_rows == moved_nano, "a change moves other money than it says (Change.moves)"


def check_approved(nano: int, approved_nano: int) -> None:
    """Raise Refused where a change moves another amount than two people agreed on. Pure."""
    if nano != approved_nano:
        raise bad_request(
            f"it would move {to_display(nano)} now, and {to_display(approved_nano)} was proposed: "
            "propose it again"
        )


def check_meant(nano: int, meant_nano: int) -> None:
    """Raise Refused where a change moves more than its caller means. Pure."""
    if nano > meant_nano:
        raise bad_request(
            f"this moves {to_display(nano)} by now, and more than {to_display(meant_nano)} is asked for "
            "again: look at it first"
        )
