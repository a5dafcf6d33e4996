"""People's moves of money, each as data: preview it, or do it.

One operation writes the books and updates what enforces them. Repeated under its key, cause or grant, a move
does nothing more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from billing.booking.adjustments import Correction, correct
from billing.booking.adjustments import preview_correction as planned_correction
from billing.booking.amount_bounds import MoveCheck
from billing.enforcement.push_wallets import push_money_limits
from billing.enforcement.take_credit import take_credit
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.ledger.grant_spending import GrantKind
from billing.ledger.rows import LineRow
from billing.prices.rating import Meter
from billing.tables.wallets import WalletGrant
from billing.wallets.undo import Undo, UndoKind, UndoResult, preview_undo
from billing.wallets.wallets import GrantPreview, NewGrant, grant
from billing.wallets.wallets import preview_grant as planned_grant
from core.actor import current_author
from core.redis.client import RedisClient
from core.sql.database import Database


class GrantAction(msgspec.Struct, frozen=True, tag="grant"):
    """Money put into a wallet; as in NewGrant."""

    kind: GrantKind
    amount_nano: int
    key: str
    priority: int | None = None
    expires_ms: int | None = None
    note: str = ""

    def new(self) -> NewGrant:
        """The grant to make, with the present author."""
        author = current_author().name
        return NewGrant(
            self.kind, self.amount_nano, self.key, self.priority, self.expires_ms, author, self.note
        )


class UndoAction(msgspec.Struct, frozen=True, tag="undo"):
    """Money taken out of a wallet; as in Undo."""

    kind: UndoKind
    reason: str
    grant: str = ""
    amount_nano: int = 0
    key: str = ""

    def undo(self) -> Undo:
        """The undo for the books, with the present author."""
        return Undo(self.kind, self.grant, self.amount_nano, self.key, self.reason, current_author().name)


class CorrectionAction(msgspec.Struct, frozen=True, tag="correct"):
    """The true quantities of a request, by meter; None: refund it whole."""

    request: str
    quantities: Mapping[str, int] | None
    cause: str

    def correction(self) -> Correction:
        """The correction for the books."""
        given = self.quantities
        named = None if given is None else {Meter(meter): units for meter, units in given.items()}
        return Correction(self.request, named, self.cause)


Move = GrantAction | UndoAction | CorrectionAction


@dataclass(frozen=True)
class MoneyActionResult:
    """Amount of a move, and its details. `done`: it was done before, and does nothing now."""

    nano: int
    done: bool = False
    lines: list[LineRow] = field(default_factory=list[LineRow])
    taken: UndoResult | None = None
    plan: GrantPreview | None = None
    granted: WalletGrant | None = None


def action_kind(move: Move) -> str:
    """Kind of a move, in one word."""
    match move:
        case GrantAction():
            return "grant"
        case UndoAction():
            return str(move.kind)
        case CorrectionAction():
            return "refund" if move.quantities is None else "correct"


def action_text(kind: str) -> str:
    """A kind of move (`named`), in the words of its command. Pure."""
    return "correction" if kind == "correct" else kind.replace("_", "-")


def about(move: Move) -> str:
    """Describe a move in one line, from people's own words. Pure."""
    match move:
        case GrantAction():
            return f"{move.kind} grant {move.key} {move.note}".rstrip()
        case UndoAction():
            return f"grant {move.grant}: {move.reason}" if move.grant else f"{move.key}: {move.reason}"
        case CorrectionAction():
            return f"request {move.request}: {move.cause}"


async def preview_action(db: Database, tenant_id: str, move: Move) -> MoneyActionResult:
    """Return what the move would do now. Raises Refused as `book` does."""
    match move:
        case GrantAction():
            found = await planned_grant(db, tenant_id, move.new())
            return MoneyActionResult(move.amount_nano, found.known is not None, plan=found)
        case UndoAction():
            taken = await preview_undo(db, tenant_id, move.undo())
            return MoneyActionResult(taken.amount_nano, taken.done, taken=taken)
        case CorrectionAction():
            lines = await planned_correction(db, tenant_id, move.correction())
            return _moved(lines)


async def book(
    db: Database, redis: RedisClient, tenant_id: str, move: Move, check: MoveCheck | None
) -> MoneyActionResult:
    """Do the move. `check` looks at its amount under the lock that books it; where it refuses, nothing is
    booked."""
    match move:
        case GrantAction():
            row, new = await grant(db, tenant_id, move.new(), check)
            await publish_wallet_changed(db, redis, tenant_id)
            return MoneyActionResult(move.amount_nano, not new, granted=row)
        case UndoAction():
            taken = await take_credit(db, redis, tenant_id, move.undo(), check)
            return MoneyActionResult(taken.amount_nano, taken.done, taken=taken)
        case CorrectionAction():
            lines = await correct(db, tenant_id, move.correction(), check)
            await push_money_limits(db, redis, tenant_id, move.request)
            return _moved(lines)


def _moved(lines: list[LineRow]) -> MoneyActionResult:
    return MoneyActionResult(abs(sum(line.amount_nano for line in lines)), not lines, lines)
