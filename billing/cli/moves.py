"""Moves money by command: shows a large move first, and proposes one that one person may not make."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import click
import msgspec

from billing.approvals.approver_mail import tell_approvers
from billing.approvals.proposals import propose
from billing.cli.operations import CommandTerms, with_performer
from billing.cli.performers import LocalPerformer, Performer
from billing.cli.run_command import iso_time
from billing.money import to_display
from billing.tables.approvals import Proposal
from billing.unit_of_work.actors import local_actor
from billing.unit_of_work.moves import NeedsSecondPerson
from core.errors import StartupError
from core.operations import Operation, operation_of
from core.terminal.terminal import print_line

yes_option = click.option("--yes", is_flag=True, help="It is meant to move more than $1.00 (or what is set).")

SECOND = {
    "needed": "for real, it would be proposed: it takes a second person, an owner or of finance",
    "missing": "for real, it would be refused: it takes a second person, and there is nobody: "
    "see `parley people invite --help`",
}

Ask = TypeVar("Ask", bound=msgspec.Struct)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class MoneyMove(Generic[Answer]):
    """What a move did, or would do (`booked` False), and how much it moves; `waits`: what is told where it
    waits for a second person; `second`: of what is only shown, whether it needs one, or lacks one."""

    answer: Answer
    nano: int
    booked: bool
    waits: str = ""
    second: str = ""

    @property
    def state(self) -> str:
        """State in a word or two, for the caller."""
        if self.waits:
            return "proposed"
        return "booked" if self.booked else "not booked"


def moved(
    run: Callable[[Any, Ask], Awaitable[Answer]], ask: Ask, how: CommandTerms, yes: bool
) -> MoneyMove[Answer]:
    """Perform an operation that moves money, only tell what it would do, or propose it. The caller shows the
    move, then calls `check_booked`. `yes`: a large one is meant."""
    return with_performer(lambda performer: move_by(performer, operation_of(run), ask, how, yes))


async def move_by(
    performer: Performer, operation: Operation, ask: msgspec.Struct, how: CommandTerms, yes: bool
) -> MoneyMove[Any]:
    """As `moved`, by this performer."""
    would = await performer.perform(operation, ask, replace(how.terms, dry_run=True))
    unasked_nano = would.unasked_nano
    shown = MoneyMove(would.answer, would.moved_nano, booked=False, second=would.second_person)
    if how.dry_run or (would.moved_nano > unasked_nano and not yes):
        return shown
    terms = replace(how.terms, meant_nano=None if yes else unasked_nano)
    try:
        done = await performer.perform(operation, ask, terms)
    except NeedsSecondPerson as needs:
        assert isinstance(performer, LocalPerformer), "over the API the console proposes it"
        stores = performer.stores
        proposal, new = await propose(stores, local_actor(), operation, ask, terms, needs)
        if new:
            await tell_approvers(stores, proposal)
        return replace(shown, waits=_told(proposal, needs.why))
    if done.waits:
        return replace(shown, waits=str(done.answer))
    return MoneyMove(done.answer, done.moved_nano, booked=True)


def check_booked(move: MoneyMove[Any], how: CommandTerms) -> None:
    """Raises StartupError where the move was proposed, or only shown without being asked to."""
    if move.waits:
        raise StartupError(move.waits)
    if not move.booked and move.second:
        print_line(SECOND[move.second], err=True)
    if not move.booked and not how.dry_run:
        raise StartupError(
            f"nothing is booked: this moves {to_display(move.nano)}. Where that is meant, say --yes"
        )


def _told(waiting: Proposal, why: str) -> str:
    return (
        f"nothing is booked yet: {why}; it is proposed, and another owner or finance person approves it "
        f"until {iso_time(waiting.expires_ms)}: `parley approvals approve {waiting.id}`"
    )
