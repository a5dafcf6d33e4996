"""Books a proposal as a second person approves it, signed in: approval and booking are one transaction."""

from billing.approvals.proposals import BOOKED, facts_of, fail_proposal, waiting_proposal
from billing.approvals.proposed_operations import proposed_in
from billing.approvals.proposers import proposer_of
from billing.audit.log import record
from billing.tables.approvals import Proposal
from billing.unit_of_work.moves import check_approved
from billing.unit_of_work.perform import perform_within
from billing.unit_of_work.second_people import second_people
from billing.unit_of_work.units import Change, Terms
from core.errors import Refused, bad_request, forbidden, see

BY_PEOPLE = "only a person who is signed in approves: no token, and no command alone"
NOT_YOURS = "somebody else approves this: not who proposed it, nor whose token did"
DONE_BEFORE = "what was proposed was done before"


async def approve_proposal(change: Change, id: str) -> Proposal:
    """Perform a waiting proposal in its proposer's name, and record that this caller approved it. Raises
    Refused where they may not; or where it would no longer do what was proposed: then it is over."""
    if not change.who.session:
        raise forbidden(BY_PEOPLE)
    async with change.db.transaction() as session:
        row = await waiting_proposal(session, id)
        if change.who.id not in {each.id for each in await second_people(session, row.by)}:
            raise forbidden(NOT_YOURS, see=see("approvals.list"))
    try:
        await _book(change, row)
    except Refused as refused:
        if not refused.refusal.retry:
            change.if_refused(fail_proposal, row.id, refused.refusal.message)
        raise
    async with change.db.transaction() as session:
        row = await waiting_proposal(session, id)
        row.state, row.ended_ms = BOOKED, change.now_ms()
        session.add(row)
        await record(session, row.tenant_id, "proposal.approve", row.id, None, facts_of(row))
    return row


async def _book(change: Change, row: Proposal) -> None:
    what = proposed_in(row)
    operation, ask = what.declared()
    async with change.db.session() as session:
        proposer = await proposer_of(session, row)
    terms = Terms(reason=what.reason, approved_nano=row.amount_nano)
    part = await perform_within(change, proposer, operation, ask, terms)
    if not part.moved_nano:
        raise bad_request(DONE_BEFORE)
    check_approved(part.moved_nano, row.amount_nano)
