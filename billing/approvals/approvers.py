"""Decides who may approve a proposal: another than its proposer, who proves to be the second person by the
code that only they were sent."""

from billing.approvals.codes import is_code_of
from billing.approvals.second_person import second_person, shown_second
from billing.tables.approvals import Proposal
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import bad_request
from core.signing.signed_text import Keyring


def approver_for(settings: Settings, author: str) -> str:
    """Address to which a code goes for what this author proposes; empty: only people who sign in approve it.
    Raises StartupError where nothing can be sent there; Refused where it is the author."""
    second = second_person(settings)
    if second is None:
        return ""
    if second.casefold() in author.casefold():
        raise bad_request("the second person is another one than who proposes")
    return second


def approved_by(row: Proposal, code: str, keyring: Keyring) -> Author | None:
    """Who approves a proposal with this code; None: nobody, as it is not the one that was sent. Pure."""
    if not is_code_of(code, row, keyring):
        return None
    return Author(f"{shown_second(row.second)} by code", "code")
