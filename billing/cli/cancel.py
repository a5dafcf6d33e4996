"""`--cancel` of the commands that shut somebody out: ends their queued and running requests too."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from billing.cli.operations import CommandTerms, answered
from core.errors import StartupError

if TYPE_CHECKING:
    from billing.operations.open_requests import CancelledRequests

cancel_option = click.option(
    "--cancel", is_flag=True, help="End what is queued and running too; what was sampled is billed."
)


def facts_of(cancelled: "CancelledRequests | None") -> dict[str, Any]:
    """Facts for `show`; None: nothing was to be cancelled."""
    if cancelled is None:
        return {}
    left = {"not_ended_yet": cancelled.not_ended_yet} if cancelled.not_ended_yet else {}
    return {"cancelled": cancelled.cancelled, **left}


def cancelled_after(how: CommandTerms, cancel: bool, tenant: str, **of: str) -> "CancelledRequests | None":
    """Cancel the requests of a tenant, or `of` its project, key or user, once a command has shut them out;
    None: nothing was to be cancelled."""
    if not cancel or how.dry_run:
        return None
    from billing.operations.open_requests import CancelRequests, cancel_requests  # most cancel nothing

    try:
        return answered(cancel_requests, CancelRequests(tenant=tenant, **of), how)
    except StartupError as error:
        raise StartupError(f"what is in the database is changed already, but {error}") from error


def cancelled_of_keys(
    how: CommandTerms, cancel: bool, tenant: str, keys: Sequence[str]
) -> "CancelledRequests | None":
    """As `cancelled_after`, of all of these keys together."""
    each = [cancelled_after(how, cancel, tenant, key=key) for key in keys]
    done = [one for one in each if one is not None]
    if not done:
        return None
    from billing.operations.open_requests import CancelledRequests  # most cancel nothing

    return CancelledRequests(sum(one.cancelled for one in done), sum(one.not_ended_yet for one in done))
