"""`parley requests find`: ended requests, and refused ones, from the books."""

from typing import Any

import click
import msgspec

from billing.cli.arguments import DURATION, NANO_AMOUNT
from billing.cli.operations import CommandTerms, answered, asks, facts_of
from billing.cli.run_command import show_table
from billing.money import to_display
from billing.operations.ended_requests import EndedRequestFacts, FindEnded, FindRefused, RefusedSends
from billing.operations.ended_requests import find_ended as find_ended_requests
from billing.operations.ended_requests import find_refused as find_refused_requests
from billing.requests.find import SCANNED_MAX
from billing.requests.refusal_views import LOOKED_MAX
from core.errors import StartupError
from core.terminal.terminal import print_json, print_line

OF_ENDED_ONES = {"over_ms": "longer-than", "cost_over_nano": "cost-over"}
OPTIONS = {
    "limit": {"show_default": True},
    "over_ms": {
        "names": ["--longer-than"],
        "type": DURATION,
        "help": "Took longer than this, as 2s or 500ms.",
    },
    "cost_over_nano": {
        "names": ["--cost-over"],
        "type": NANO_AMOUNT,
        "help": "Was billed more than this when it ended, as '0.05 USD'.",
    },
}


@click.command("find")
@click.option("--refused", is_flag=True, help="Instead: sends that were refused, counted by the minute.")
@asks(find_ended_requests, options=OPTIONS)
def find_command(ask: FindEnded, how: CommandTerms, refused: bool) -> None:
    """Requests that ended, the last first: whose, how long they took, what they cost.

    \b
    parley requests find --tenant acme --user ann --since 2h
    parley requests find --tenant acme --reason error --since 2026-10-01 --until 2026-10-02
    parley requests find --longer-than 30s --cost-over '0.50 USD'

    `parley requests explain ID` tells all of one. What still runs is in `parley requests list`. A request is
    found some seconds after its end. Prompts and answers are never shown.

    --refused goes with --tenant, --user, --key, --code and times. A row is a minute of one key, user and
    code, with the last ids; those that were refused least share a row (others).
    """
    if refused:
        _find_refused(ask, how)
        return
    page = answered(find_ended_requests, ask, how)
    rows = [facts_of(each, True) if how.as_json else _ended_row(each) for each in page.items]
    if rows or not how.as_json:
        show_table(rows, how.as_json, "no request fits")
    looked = "" if len(page.items) == ask.limit else f"{SCANNED_MAX:,} requests were looked at; "
    _print_more(page.next, looked, how.as_json)


def _find_refused(ask: FindEnded, how: CommandTerms) -> None:
    """Print refused requests. Raises StartupError for a condition that refusals are not counted by."""
    shared = FindRefused.__struct_fields__
    for name in FindEnded.__struct_fields__:
        if name not in shared and getattr(ask, name) is not None:
            option = OF_ENDED_ONES.get(name, name)
            raise StartupError(f"refusals are not counted by --{option}: use --tenant, --user, --key, --code")
    asked = FindRefused(**{name: getattr(ask, name) for name in shared})
    page = answered(find_refused_requests, asked, how)
    rows = [msgspec.to_builtins(each) if how.as_json else _refused_row(each) for each in page.items]
    show_table(rows, how.as_json, "nothing was refused")
    looked = "" if len(page.items) == ask.limit else f"{LOOKED_MAX:,} rows were looked at; "
    _print_more(page.next, looked, how.as_json)


def _print_more(onward: str | None, looked: str, as_json: bool) -> None:
    if onward is None:
        return
    if as_json:
        print_json({"next": onward})
    else:
        print_line(f"{looked}there may be more: --after {onward}", err=True)


def _ended_row(found: EndedRequestFacts) -> dict[str, Any]:
    corrected_nano = found.corrected.value
    return {
        "ended": found.ended,
        "id": found.id,
        "tenant": found.tenant_name,
        "user": found.user,
        "model": found.model,
        "reason": f"{found.reason} {found.code}".strip(),
        "input": found.input_uncached + found.input_cached,
        "output": found.output_text + found.output_reasoning,
        "cost": to_display(found.cost.value, found.currency),
        "corrected": to_display(corrected_nano, found.currency) if corrected_nano else None,
        "took_ms": found.took_ms,
        "first_ms": found.first_token_after_ms,
    }


def _refused_row(found: RefusedSends) -> dict[str, Any]:
    return {
        "minute": found.minute,
        "tenant": found.tenant_name or "(others)",
        "user": "(others)" if found.others else found.user,
        "key": "" if found.others else found.key,
        "code": found.code,
        "times": found.number,
        "limit": found.why,
        "last": " ".join(found.last_ids),
    }
