"""`parley limits`: rates and concurrency of a tenant, and their use."""

import click

from billing.cli.last_month import month_shown
from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.operations import limits
from billing.operations.limits import EditLimit, ListLimits, NameLimit, SetLimit, ShowLimit

LIMIT = ("limit_id",)


@click.group("limits")
def limits_command() -> None:
    """Limits on what a tenant may ask at once and a minute. Money is limited by `parley budgets`.

    \b
        parley limits set --tenant acme --scope tenant --dimension tokens_per_minute --limit 200000
        parley limits set --tenant acme --scope user --dimension concurrency --limit 4
        parley limits set --tenant acme --scope project --of web --dimension requests_per_minute --limit 60
        parley limits set --tenant acme --scope key --dimension requests_per_minute --limit 30 --mode shadow
        parley limits set --tenant acme --scope tenant --dimension answer_tokens --limit 1000

    Without --of, each project, key, user or model has the limit for itself; a key with those that it is
    rotated into has one. An edit counts within a second
    and forgets nothing of what was used. A limit in shadow mode refuses nobody: `list` says how often it
    would have. `answer_tokens` is how long an answer gets whose sender does not say: the least of all that
    apply, the plan's and the model's (`parley models answers`) too.
    """


@limits_command.command("set")
@asks(limits.set_limit, options={name: {"show_default": True} for name in ("models", "mode")})
def set_limit_command(ask: SetLimit, how: CommandTerms) -> None:
    """Set a limit, in place of the one that counts the same.

    --dry-run also tells in how many hours of last month more came than it lets through in one."""
    answer = answered(limits.set_limit, ask, how)
    show(facts_of(answer, how.as_json) | month_shown(answer.last_month, how.as_json), how.as_json)


@limits_command.command("edit")
@asks(limits.edit_limit, arguments=LIMIT)
def edit_limit_command(ask: EditLimit, how: CommandTerms) -> None:
    """Change the limit LIMIT_ID, which gets a new id. What is not named stays as it is.

    It counts within a second, and nothing of what was used is forgotten."""
    answer = answered(limits.edit_limit, ask, how)
    show(facts_of(answer, how.as_json) | month_shown(answer.last_month, how.as_json), how.as_json)


@limits_command.command("list")
@asks(limits.list_limits, omitted=("limit", "after"))
def list_limits_command(ask: ListLimits, how: CommandTerms) -> None:
    """List a tenant's limits with what is used of them now.

    Use is shown where a limit is of one: the tenant, or the one that --of named. For one that each has for
    itself, see `parley limits show --help`."""
    rows = [facts_of(each, how.as_json) for each in all_pages(limits.list_limits, ask, how)]
    show_table(rows, how.as_json, "no limits: see `parley limits set --help`")


@limits_command.command("show")
@asks(limits.show_limit, arguments=LIMIT)
def show_limit_command(ask: ShowLimit, how: CommandTerms) -> None:
    """Show the limit LIMIT_ID and how much of it is used."""
    show(facts_of(answered(limits.show_limit, ask, how), how.as_json), how.as_json)


@limits_command.command("end")
@asks(limits.end_limit, arguments=LIMIT)
def end_limit_command(ask: NameLimit, how: CommandTerms) -> None:
    """End the limit LIMIT_ID at once. What it counted is not forgotten, should it be set again."""
    show(facts_of(answered(limits.end_limit, ask, how), how.as_json), how.as_json)
