"""Operations on proposals, which need a second person: listing, approving and rejecting them."""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.approvals import proposals
from billing.approvals.approve import approve_proposal as book_proposal
from billing.approvals.proposed_operations import about
from billing.operations import corrections, gpu_commitments, wallets
from billing.operations.shared_fields import AUDIT
from billing.tables.approvals import Proposal
from billing.tenants.tenancy import tenant_names
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.operations import MONEY, STAFF, ListedPage, MoneyAmount, Uses, operation


class ListProposals(ListQuestion, frozen=True, kw_only=True):
    """Which proposals."""

    ended: Annotated[bool, Meta(description="Those that ended too, newest first.")] = False


class NameProposal(msgspec.Struct, frozen=True, kw_only=True):
    """Which proposal."""

    proposal: Annotated[str, Meta(description="The proposal's id.")]


class ProposalFacts(msgspec.Struct, frozen=True):
    """A proposal, and `why` it was not booked."""

    proposal: str
    tenant: str
    kind: str
    amount: MoneyAmount
    about: str
    author: str
    made: str | None
    until: str | None
    state: str
    why: str

    @classmethod
    def of(cls, row: Proposal, tenant: str, now_ms: int) -> "ProposalFacts":
        """The facts of a row, with its tenant's name."""
        return cls(
            proposal=row.id,
            tenant=tenant,
            kind=row.kind,
            amount=MoneyAmount.of(row.amount_nano),
            about=about(row),
            author=row.author,
            made=iso_time(row.created_ms),
            until=iso_time(row.expires_ms),
            state=proposals.state_of(row, now_ms),
            why=row.why,
        )


@operation("approvals.list", "GET /approvals", may=STAFF, uses=Uses(reads="tenant proposal"))
async def list_proposals(look: Look, ask: ListProposals) -> ListedPage[ProposalFacts]:
    """List the proposals that wait for a second person, oldest first; or those of any state, newest first."""
    now = look.now_ms()
    chosen = select(Proposal) if ask.ended else proposals.waiting_at(now)
    page: ListedPage[Proposal] = await listed_page(
        look, ask, chosen, col(Proposal.id), lambda row: row, newest_first=ask.ended
    )
    names = await tenant_names(look.db, (row.tenant_id for row in page.items))
    shown = (ProposalFacts.of(row, names.get(row.tenant_id, row.tenant_id), now) for row in page.items)
    return ListedPage(list(shown), page.next)


@operation(
    "approvals.approve",
    "POST /approvals/{proposal}/approve",
    may=MONEY,
    audit="proposal.approve",
    uses=Uses(
        reads=f"{corrections.READ} {wallets.READ} {gpu_commitments.READ} person membership service_token",
        writes=f"proposal {corrections.WRITTEN} {gpu_commitments.BOOKS}",
        keys=wallets.COUNTED,
    ),
)
async def approve_proposal(change: Change, ask: NameProposal) -> ProposalFacts:
    """Book what somebody else proposed, as it was proposed: only people who are signed in may."""
    row = await book_proposal(change, ask.proposal)
    tenant = await change.tenant(row.tenant_id)
    return ProposalFacts.of(row, tenant.name, change.now_ms())


@operation(
    "approvals.reject",
    "POST /approvals/{proposal}/reject",
    may=MONEY,
    audit="proposal.reject",
    reason=True,
    uses=Uses(reads="tenant", writes=f"proposal {AUDIT}"),
)
async def reject_proposal(change: Change, ask: NameProposal) -> ProposalFacts:
    """End a waiting proposal, with a reason. Its proposer may, too."""
    row = await proposals.reject(change.db, ask.proposal, change.terms.reason)
    tenant = await change.tenant(row.tenant_id)
    return ProposalFacts.of(row, tenant.name, change.now_ms())


OPERATIONS = (list_proposals, approve_proposal, reject_proposal)
