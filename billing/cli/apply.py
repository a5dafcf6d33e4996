"""The command `parley apply`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from billing.cli.operations import REASON, CommandTerms, all_read, with_performer
from billing.cli.performers import Performer
from billing.cli.pool_file import FilePool, PoolFileError, facts_in, pools_of
from billing.cli.pool_plan import PlannedAction, PlannedPool, differences, line_of, planned
from billing.cli.run_command import json_option
from billing.operations import desired_pools
from billing.operations.desired_pools import CreatePool, EditPool, ListPools, NamePool
from billing.operations.pool_facts import PoolFacts, PoolStateName
from billing.unit_of_work.units import Terms
from core.api_address import runs_over_api
from core.errors import Refused, StartupError, bad_request
from core.operations import operation_of
from core.terminal.refused_text import refused_text
from core.terminal.terminal import agrees, print_json, print_line

STDIN = "-"
BYTES_MAX = 1 << 20
Tell = Callable[[PlannedPool, str], None]  # why it is not done; empty: it is


@click.command("apply")
@click.option("-f", "--file", required=True, help="What pools should be; - is stdin.")
@click.option("--prune", is_flag=True, help="Drain pools that the file does not name, and delete empty ones.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reason", **REASON)
@click.option("--dry-run", is_flag=True, help="Show what it would do, and do nothing.")
@json_option
@runs_over_api
def apply_command(file: str, prune: bool, yes: bool, reason: str, dry_run: bool, as_json: bool) -> None:
    """Make pools what a file says; shows first what that changes, and asks.

    `parley pools export` prints the file to begin with. What it does not name of a pool stays as it is, and a
    pool that it does not name is left alone, unless --prune is given: such a pool drains, and is deleted by
    this or a later `apply` once it is empty. What others changed since the difference was shown is not
    overwritten. The same file again changes nothing.

    \b
        parley pools export > pools.yaml          # edit it, then
        parley apply -f pools.yaml --reason "acme grows"
    """
    if (file == STDIN or as_json) and not yes and not dry_run:
        raise click.UsageError("nobody can be asked with - or --json: say --yes")
    name = "stdin" if file == STDIN else Path(file).name
    asked = _read(file, name)
    plans = with_performer(lambda performer: _plans(performer, asked, prune, name))
    if not as_json:
        for plan in plans:
            print_line(line_of(plan))
    if not plans or dry_run:
        _show_undone(plans, dry_run, as_json, name)
        return
    if not yes and not agrees(f"do this to {len(plans)} pool{'' if len(plans) == 1 else 's'}?"):
        raise StartupError("nothing is changed; --yes does not ask")
    with_performer(lambda performer: _done(performer, plans, reason, name, _TELLS[as_json]))


def _tell_words(plan: PlannedPool, why: str) -> None:
    print_line(
        f"{plan.pool} is not deleted yet: {why}; apply the file again" if why else f"{plan.pool}: done"
    )


def _tell_json(plan: PlannedPool, why: str) -> None:
    print_json(_facts(plan, done=not why, why=why))


_TELLS: dict[bool, Tell] = {False: _tell_words, True: _tell_json}


def _show_undone(plans: Sequence[PlannedPool], dry_run: bool, as_json: bool, name: str) -> None:
    for plan in plans if as_json else ():
        print_json(_facts(plan, done=False, why=""))
    if not plans:
        print_line(f"all pools are as {name} says", err=True)
    elif dry_run:
        print_line("nothing is done: this was a dry run", err=True)


def _read(file: str, name: str) -> list[FilePool]:
    """The pools of the file. Raises StartupError with every line that is wrong."""
    try:
        with click.open_file(file, "rb") as stream:
            data = stream.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise StartupError(f"{name} has more than {BYTES_MAX:,} bytes")
        return pools_of(data.decode())
    except OSError as error:
        raise StartupError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartupError(f"{name} is not UTF-8") from error
    except PoolFileError as error:
        lines = [f"{name}:{line}: {told}" for line, told in error.faults]
        raise StartupError("\n".join(lines)) from error


async def _plans(
    performer: Performer, asked: Sequence[FilePool], prune: bool, name: str
) -> list[PlannedPool]:
    """What is to be done, as the installation says that it would be. Raises StartupError, with the line, for
    what it would refuse."""
    listed = await all_read(desired_pools.list_pools, performer, ListPools(), CommandTerms(False))
    there = {pool.pool for pool in listed}
    named = {each.pool for each in asked}
    pruned = sorted(there - named) if prune else []
    now = {pool: await _seen(performer, pool) for pool in sorted(there & named | {*pruned})}
    plans = list[PlannedPool]()
    for plan in planned(asked, now, pruned):
        before = now[plan.pool][0] if plan.pool in now else None
        tried = await _tried(performer, plan, before, any(each.frees for each in plans), name)
        if tried is not None:
            plans.append(tried)
    return plans


async def _seen(performer: Performer, pool: str) -> tuple[PoolFacts, int | None]:
    done = await performer.perform(operation_of(desired_pools.show_pool), NamePool(pool=pool), Terms())
    return done.answer, done.version


async def _tried(
    performer: Performer, plan: PlannedPool, before: PoolFacts | None, later: bool, name: str
) -> PlannedPool | None:
    """The plan with the facts as a dry run answers them: names of ids, the newest version. None: it changes
    nothing. `later`: what is done before it may make way for it, so that a refusal now says nothing."""
    if plan.asked is None:
        return plan
    try:
        would: PoolFacts = await _performed(performer, plan, Terms(reason="preview", dry_run=True))
    except Refused as refused:
        if later:
            return plan
        raise _at_line(plan, refused, name) from refused
    if before is None:
        after = {field: (None, value) for field, value in facts_in(would).items() if value}
        return replace(plan, changes=after)
    changes = differences(facts_in(before), facts_in(would))
    return replace(plan, changes=changes) if changes else None


async def _done(
    performer: Performer, plans: Sequence[PlannedPool], reason: str, name: str, tell: Tell
) -> None:
    """Do all, in order. Raises StartupError at the first that is refused: what was done before stays done."""
    for at, plan in enumerate(plans):
        try:
            why = ""
            if plan.action is PlannedAction.DELETE:
                why = await _deleted(performer, plan, reason)
            else:
                await _performed(performer, plan, Terms(reason=reason, version=plan.version))
        except Refused as refused:
            done = f"; {at} of {len(plans)} were done before" if at else ""
            again = "apply the file again, which shows what is left"
            raise StartupError(f"{_at_line(plan, refused, name)}{done}: {again}") from refused
        tell(plan, why)


async def _performed(performer: Performer, plan: PlannedPool, terms: Terms) -> PoolFacts:
    """Create or edit the pool of a plan."""
    assert plan.asked is not None
    facts = dict(plan.asked.facts)
    if "labels" in facts:
        facts["labels"] = [f"{name}={value}" for name, value in facts["labels"].items()]
    if plan.action is PlannedAction.CREATE:
        if facts.pop("state", PoolStateName.ACTIVE) is not PoolStateName.ACTIVE:
            raise bad_request("a new pool is active", field="state")
        if "model" not in facts:
            raise bad_request("it is new: name its model", field="model")
        ask = CreatePool(pool=plan.pool, **facts)
        return (await performer.perform(operation_of(desired_pools.create_pool), ask, terms)).answer
    edited = {name: value for name, value in facts.items() if name in plan.changes}
    ask = EditPool(pool=plan.pool, **edited)
    return (await performer.perform(operation_of(desired_pools.edit_pool), ask, terms)).answer


async def _deleted(performer: Performer, plan: PlannedPool, reason: str) -> str:
    """Drain a pool and delete it; why it is not deleted yet, as something is left in it."""
    ask, version = NamePool(pool=plan.pool), plan.version
    if not plan.draining:
        terms = Terms(reason=reason, version=version)
        await performer.perform(operation_of(desired_pools.drain_pool), ask, terms)
        version = None
    try:
        terms = Terms(reason=reason, version=version)
        await performer.perform(operation_of(desired_pools.delete_pool), ask, terms)
    except Refused as refused:
        if refused.refusal.field != "pool":
            raise
        return refused.refusal.message
    return ""


def _at_line(plan: PlannedPool, refused: Refused, name: str) -> StartupError:
    refusal = refused.refusal
    where = f"{name}:{plan.asked.line(refusal.field)}: " if plan.asked else ""
    return StartupError(f"{where}{plan.pool}: {refused_text(refusal)}")


def _facts(plan: PlannedPool, done: bool, why: str) -> dict[str, Any]:
    """A plan as `--json` prints it."""
    changes = {name: {"from": before, "to": after} for name, (before, after) in plan.changes.items()}
    told = {"pool": plan.pool, "action": plan.action.value, "changes": msgspec.to_builtins(changes)}
    return {**told, "done": done, "why": why}
