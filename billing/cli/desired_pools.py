"""Commands of `parley pools` for what pools should be."""

from typing import Any

import click

from billing.cli.operations import CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.pool_file import written
from billing.cli.run_command import show, show_table
from billing.operations import desired_pools
from billing.operations.desired_pools import CreatePool, EditPool, ListPools, NamePool, ResizePool
from billing.operations.pool_facts import ObservedPool, PoolFacts
from billing.operations.pools import SHARED
from core.terminal.terminal import print_line

POOL = ("pool",)
NAMES: dict[str, dict[str, Any]] = {"labels": {"names": ["--label"]}, "let_in": {"names": ["--let-in"]}}


@click.command("list")
@asks(desired_pools.list_pools, omitted=("limit", "after"))
def list_command(ask: ListPools, how: CommandTerms) -> None:
    """List what all pools should be, by name, and what the fleet sees of each.

    How many workers serve of those desired; why there are not as many, and since when.
    """
    rows = [_listed(each, how) for each in all_pages(desired_pools.list_pools, ask, how)]
    show_table(rows, how.as_json, "there are no pools: see `parley pools create --help`")


@click.command("export")
@asks(desired_pools.list_pools, omitted=("limit", "after"))
def export_command(ask: ListPools, how: CommandTerms) -> None:
    """Print what all pools should be as the file that `parley apply` takes."""
    pools = all_pages(desired_pools.list_pools, ask, how)
    if how.as_json:
        show_table([facts_of(each, True) for each in pools], True, "")
    else:
        for line in written(pools).splitlines():
            print_line(line)


@click.command("show")
@asks(desired_pools.show_pool, arguments=POOL)
def show_command(ask: NamePool, how: CommandTerms) -> None:
    """Show what POOL should be, and what the fleet sees of it."""
    show(_facts(answered(desired_pools.show_pool, ask, how), how), how.as_json)


@click.command("create")
@asks(desired_pools.create_pool, arguments=POOL, options={**NAMES, "workers": {"show_default": True}})
def create_command(ask: CreatePool, how: CommandTerms) -> None:
    """Create POOL: which model its workers run, how many, on which nodes, and who pays for its GPUs.

    Without --tenant it is shared. Example: `parley pools create big --model smollm2 --tenant acme`.
    """
    show(_facts(answered(desired_pools.create_pool, ask, how), how), how.as_json)


@click.command("edit")
@asks(desired_pools.edit_pool, arguments=POOL, options=NAMES)
def edit_command(ask: EditPool, how: CommandTerms) -> None:
    """Change POOL while it runs. What is not named stays as it is; `--label ''` takes all labels away.

    Who pays does so from now on; `--tenant none` shares the pool.
    """
    show(_facts(answered(desired_pools.edit_pool, ask, how), how), how.as_json)


@click.command("resize")
@asks(desired_pools.resize_pool, arguments=("pool", "workers"))
def resize_command(ask: ResizePool, how: CommandTerms) -> None:
    """Let POOL have so many WORKERS. Those that are too many drain first."""
    show(_facts(answered(desired_pools.resize_pool, ask, how), how), how.as_json)


@click.command("drain")
@asks(desired_pools.drain_pool, arguments=POOL)
def drain_command(ask: NamePool, how: CommandTerms) -> None:
    """Let POOL take nothing new: what it has goes on. `edit --state active` takes it back."""
    show(_facts(answered(desired_pools.drain_pool, ask, how), how), how.as_json)


@click.command("delete")
@asks(desired_pools.delete_pool, arguments=POOL)
def delete_command(ask: NamePool, how: CommandTerms) -> None:
    """Delete POOL, which was drained and has no requests or workers any more. Its history stays."""
    show(_facts(answered(desired_pools.delete_pool, ask, how), how), how.as_json)


def _facts(pool: PoolFacts, how: CommandTerms) -> dict[str, Any]:
    """Facts as `facts_of`, for people without what is nothing."""
    facts = facts_of(pool, how.as_json)
    if how.as_json:
        return facts
    labels = ", ".join(f"{name}={value}" for name, value in pool.labels.items())
    seen = facts.pop("observed", None) and observed_in_words(pool)
    if not pool.next_version:
        facts.pop("accept_gap")
    return facts | {
        "labels": labels,
        "tenant": pool.tenant or SHARED,
        "project": pool.project or "",
        "let_in": ", ".join(pool.let_in),
        **(seen or {}),
        "under_way": "; ".join(under_way(pool)),
    }


LISTED = ("pool", "model", "version", "observed", "why", "since", "tenant", "let_in", "labels", "state")


def _listed(pool: PoolFacts, how: CommandTerms) -> dict[str, Any]:
    facts = _facts(pool, how)
    if how.as_json:
        return facts
    return {name: facts[name] for name in LISTED} | {"version": versions_in_words(pool)}


def observed_in_words(pool: PoolFacts) -> dict[str, str]:
    """How many workers serve of those that should, and why there are not as many. Pure."""
    seen = pool.observed
    assert isinstance(seen, ObservedPool)
    ready = "?" if seen.ready is None else f"{seen.ready:,}"
    why = seen.why or ("as desired" if seen.as_desired else "")
    return {"observed": f"{ready} of {pool.workers:,}", "why": why, "since": seen.since or ""}


def versions_in_words(pool: PoolFacts) -> str:
    """The version that new requests get, with what is under way beside it. Pure."""
    if pool.next_version and not under_way(pool):
        return f"{pool.version}, next {pool.next_version}"
    return "; ".join([pool.version, *under_way(pool)])


def under_way(pool: PoolFacts) -> list[str]:
    """What the fleet sees of versions other than the one in use, in words: how many workers of the next one
    are ready, and what still needs an old one. Empty: nothing is under way, or nobody sees it. Pure."""
    seen = pool.observed
    versions = seen.versions if isinstance(seen, ObservedPool) else []
    told = list[str]()
    if versions and pool.next_version:
        ready = sum(each.ready for each in versions if each.version == pool.next_version)
        told.append(f"next {pool.next_version}, {ready:,} of {pool.workers:,} ready")
    for each in versions:
        if each.version in (pool.version, pool.next_version):
            continue
        needs = f"{each.requests:,} {'request' if each.requests == 1 else 'requests'}"
        until = f", at most until {each.until}" if each.until else ""
        workers = f"{each.workers:,} {'worker' if each.workers == 1 else 'workers'}"
        told.append(
            f"old {each.version}, {needs}{until}" if each.requests else f"old {each.version}, {workers}"
        )
    return told


POOL_COMMANDS = (
    list_command,
    export_command,
    show_command,
    create_command,
    edit_command,
    resize_command,
    drain_command,
    delete_command,
)
