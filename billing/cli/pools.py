"""`parley pools`: owners of pools, use of their GPUs, tenants' commitments, and the platform's costs of
GPUs."""

from typing import Any

import click
import msgspec

from billing.cli.arguments import TAKEN_BACK, end_state, nano_of
from billing.cli.desired_pools import POOL_COMMANDS
from billing.cli.moves import check_booked, moved
from billing.cli.operations import REASON, REASON_NEEDED, CommandTerms, all_pages, answered, asks, facts_of
from billing.cli.run_command import show, show_table
from billing.money import to_display
from billing.operations import gpu_commitments, pool_usage, pools
from billing.operations.gpu_commitments import (
    CommitToGpus,
    EndGpuCommitment,
    ListGpuCommitments,
    SetGpuCost,
)
from billing.operations.pool_usage import AskPoolUsage, PoolUseFacts
from billing.unit_of_work.listing import ListQuestion
from core.errors import StartupError
from core.operations import MoneyAmount
from core.terminal.terminal import print_line

POOL = ("pool",)
SECONDS = ("ready", "busy", "idle", "committed", "overage", "reserved")


@click.group("pools")
def pools_command() -> None:
    """Dedicated pools: whose they are, their GPU-seconds, commitments, costs.

    A shared pool bills tokens. A dedicated one bills its owner each second that a GPU was ready, used or not;
    tokens are billed by the owner's price book all the same, so that its book should have them at 0:

    \b
        book = "acme"
        tenant = "acme"
        [models."*"]
        input = "0"
        output = "0"
        [gpus.h200]
        hour = "3.50"
    """


for each in POOL_COMMANDS:
    pools_command.add_command(each)


@pools_command.command("owners")
@asks(pools.list_pool_owners, omitted=("limit", "after"))
def owners_command(ask: ListQuestion, how: CommandTerms) -> None:
    """List pools' owners, present and past."""
    rows = [facts_of(each, how.as_json) for each in all_pages(pools.list_pool_owners, ask, how)]
    show_table(rows, how.as_json, "no pool was ever dedicated: all are shared")


@pools_command.command("usage")
@asks(pool_usage.show_pool_usage)
def usage_command(ask: AskPoolUsage, how: CommandTerms) -> None:
    """Show ready, busy and idle GPU-hours, the committed and overage part of them, earnings and costs.

    Whole hours; the one that runs is not over and not billed. --json: GPU-seconds and nano-USD.
    """
    shown = answered(pool_usage.show_pool_usage, ask, how)
    rows = [(_in_units if how.as_json else _in_words)(each) for each in shown.uses]
    print_line(f"From {shown.start} to {shown.end}:", err=True)
    show_table(rows, how.as_json, "no GPU was ready, and none was committed to")


def _in_units(use: PoolUseFacts) -> dict[str, Any]:
    margin, cost = use.margin_per_gpu_hour, use.cost
    return {
        "pool": use.pool,
        "tenant": use.tenant,
        "gpu_type": use.gpu_type,
        **{f"{name}_gpu_seconds": getattr(use, f"{name}_gpu_seconds") for name in SECONDS},
        "gpu_nano": use.gpu.value,
        "tokens_nano": use.tokens.value,
        "cost_nano": None if cost is None else cost.value,
        "margin_nano_per_gpu_hour": None if margin is None else margin.value,
    }


def _in_words(use: PoolUseFacts) -> dict[str, Any]:
    """Format GPU-hours and dollars."""
    margin, cost = use.margin_per_gpu_hour, use.cost
    return {
        "pool": use.pool or "(any)",
        "tenant": use.tenant or "(shared)",
        "gpu": use.gpu_type,
        **{name: f"{getattr(use, f'{name}_gpu_seconds') / 3600:.3f}" for name in SECONDS},
        "gpus": to_display(use.gpu.value),
        "tokens": to_display(use.tokens.value),
        "cost": "" if cost is None else to_display(cost.value),
        "margin/GPU-hour": "" if margin is None else to_display(margin.value),
    }


@pools_command.command("commit")
@asks(
    gpu_commitments.commit_to_gpus,
    options={"payment": {"show_default": True}, "notice_days": {"show_default": True}},
)
def commit_command(ask: CommitToGpus, how: CommandTerms) -> None:
    """Commit a tenant to GPUs from the next full hour on: paid whether they are used or not, and used first.

    \b
        parley pools commit --tenant acme --gpu h200 --gpus 8 --rate '2.40 USD' --days 365
    """
    move = moved(gpu_commitments.commit_to_gpus, ask, how, yes=True)
    if move.booked or how.dry_run:
        show(_facts(move.answer, how.as_json), how.as_json)
    check_booked(move, how)


@pools_command.command("commitments")
@asks(gpu_commitments.list_gpu_commitments, omitted=("limit", "after"))
def commitments_command(ask: ListGpuCommitments, how: CommandTerms) -> None:
    """List a tenant's commitments to GPUs. What was taken back holds in no hour."""
    found = all_pages(gpu_commitments.list_gpu_commitments, ask, how)
    rows = [_facts(each, how.as_json) for each in found]
    show_table(rows, how.as_json, "the tenant committed to no GPUs")


@pools_command.command("end-commitment")
@asks(
    gpu_commitments.end_commitment_to_gpus,
    arguments=("commitment",),
    options={"reason": REASON_NEEDED},
)
def end_commitment_command(ask: EndGpuCommitment, how: CommandTerms) -> None:
    """End COMMITMENT (its id) after its notice, with a full hour.

    What was paid upfront for the rest is owed no more.
    """
    move = moved(gpu_commitments.end_commitment_to_gpus, ask, how, yes=True)
    if move.booked or how.dry_run:
        state = end_state(ask.as_never_made, how.dry_run)
        show({**_facts(move.answer, how.as_json), "state": state}, how.as_json)
    check_booked(move, how)


@pools_command.command("costs")
@asks(gpu_commitments.list_gpu_costs, omitted=("limit", "after"))
@click.option("--gpu", help="Say what this type of GPU (`*`: any other) costs from now on.")
@click.option("--hour", help="For a GPU-hour, with its currency: '1.10 USD'.")
@click.option("--region", default="", help="Only there.")
@click.option("--reason", **REASON)
@click.option("--dry-run", is_flag=True, help="Show what it would do, and do nothing.")
def costs_command(
    ask: ListQuestion, how: CommandTerms, gpu: str | None, hour: str | None, region: str
) -> None:
    """List our costs of GPU-hours, for margins; with --gpu and --hour, set one from now on."""
    if (gpu is None) != (hour is None):
        raise StartupError("give --gpu and --hour, or neither")
    if gpu is not None and hour is not None:
        cost = SetGpuCost(gpu=gpu, hour=MoneyAmount.of(nano_of(hour)), region=region)
        show(_facts(answered(gpu_commitments.set_cost_of_gpu, cost, how), how.as_json), how.as_json)
        return
    found = all_pages(gpu_commitments.list_gpu_costs, ask, how)
    rows = [_facts(each, how.as_json) for each in found]
    show_table(rows, how.as_json, "nobody said what a GPU costs: margins are not known")


def _facts(answer: msgspec.Struct, as_json: bool) -> dict[str, Any]:
    """Facts as `facts_of`, money in nano-USD for people too: rates are of many digits."""
    shown: dict[str, Any] = {}
    for name, value in facts_of(answer, True).items():
        if name == "overage" and value is None:
            shown["overage_nano"] = None
        else:
            shown[name] = TAKEN_BACK if (name, value, as_json) == ("to", None, False) else value
    return shown
