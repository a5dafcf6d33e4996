"""What a Redis that came back without its last writes excuses, and nothing else does. Pure.

It comes back as it was at one moment: all that it was told before that is there, nothing of what came later.
So a request is forgotten only as a whole, and only one that was accepted in the time that is lost.
"""

from collections.abc import Sequence

from chaos.observations import Answered, Outage

# The second is for who asks for it again (attach, resume): nobody knows that it ever was.
FORGOTTEN = "log_lost", "not_resumable"

RECOVERY_SECONDS = 2.0  # after a restart, until everybody is connected again and a reaper has noticed it


def forgotten(answer: Answered, outages: Sequence[Outage]) -> bool:
    """Redis may know nothing of this request: its client heard `accepted` in the time that was lost."""
    accepted = answer.accepted_at
    return accepted is not None and any(
        outage.lost_from <= accepted <= outage.back_at and answer.sent_at <= outage.at for outage in outages
    )


def ended_forgotten(answer: Answered, outages: Sequence[Outage]) -> bool:
    """It ended for its client as a forgotten request must: with a code that says so."""
    return answer.code in FORGOTTEN and forgotten(answer, outages)


def end_was_lost(answer: Answered, outages: Sequence[Outage]) -> bool:
    """Its end was written in the time that was lost, so it may have been written, and published, again: the
    same by its worker, or, where the claim was lost too, another by another worker."""
    ended = answer.ended_at
    return ended is not None and any(outage.lost_from <= ended <= outage.back_at for outage in outages)


def event_was_trimmed(answer: Answered, outages: Sequence[Outage]) -> bool:
    """It ended around an outage: its event may have been posted and trimmed before it could be read here,
    where its row says so."""
    ended = answer.ended_at
    return ended is not None and any(
        outage.lost_from <= ended <= outage.back_at + RECOVERY_SECONDS for outage in outages
    )


def suffered(answer: Answered, outages: Sequence[Outage]) -> int:
    """How often Redis was gone while it was open, or back and not yet noticed to be another: its epoch may
    have risen so often."""
    ended = answer.ended_at or float("inf")
    return sum(
        answer.sent_at <= outage.back_at + RECOVERY_SECONDS and outage.lost_from <= ended
        for outage in outages
    )
