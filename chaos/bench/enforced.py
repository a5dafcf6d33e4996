"""`python -m chaos bench enforced`: how soon a correction counts for the next send, at every gateway."""

import asyncio
import time
from collections.abc import Sequence

import click
import uvloop

from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.clerk import OrderRunner, running_clerk
from chaos.installation.cluster import InstallationPlan, running_cluster
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs
from parley_client import Client, ProtocolError

GRANT = "0.30 USD"
TOKENS_MAX = 1_000_000  # of the answer that is corrected: far more than the wallet has
SECONDS_MAX = 30.0
AIM_MS = 1000.0


@click.command("enforced")
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(2), help="Of each direction.")
@json_option
def enforced(rounds: int, as_json: bool) -> None:
    """From a correction's return to the first send that goes by it, at the last of two gateways.

    A prepaid tenant's answer is corrected to more than its wallet holds, and sends are refused; then back to
    what it was, and they are accepted. Each correction is `parley usage correct`, and the time counts from
    the end of its process.
    """
    configure_logs(Settings.model_validate({"log_level": "error"}), "chaos")
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with runner:
        found = runner.run(_measured(rounds))
    show("correction to enforced", _figures(*found), as_json)


async def _measured(rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds until refused, until accepted, and of the commands themselves."""
    refused: list[float] = []
    accepted: list[float] = []
    commands: list[float] = []
    async with (
        running_cluster(InstallationPlan(workers=1, gateways=2, step_ms=1.0)) as cluster,
        running_clerk(cluster.site.environment()) as clerk,
        Client(cluster.gateways[0].url, cluster.tenant.key) as one,
        Client(cluster.gateways[1].url, cluster.tenant.key) as other,
    ):
        tenant = cluster.tenant.id
        await clerk.parley("wallets", "grant", "--tenant", tenant, "--amount", GRANT, "--key", "first")
        answer = await one.send("corrected again and again", options={"max_tokens": 4})
        output = (await answer.end()).usage.output
        while not await cluster.posted():  # noqa: ASYNC110  (nothing says when)
            await asyncio.sleep(0.1)
        for number in range(2 * rounds):
            up = number % 2 == 0
            tokens = TOKENS_MAX if up else output
            commands.append(await _corrected(clerk, tenant, answer.id, tokens, number))
            (refused if up else accepted).append(await _until([one, other], not up))
            progress(f"{number + 1} of {2 * rounds} corrections")
    return refused, accepted, commands


async def _corrected(clerk: OrderRunner, tenant: str, request: str, tokens: int, number: int) -> float:
    began = time.monotonic()
    of = ("--tenant", tenant, "--output", str(tokens), "--cause", f"round {number}")
    await clerk.parley("usage", "correct", request, *of)
    return 1000 * (time.monotonic() - began)


async def _until(clients: Sequence[Client], accepted: bool) -> float:
    """Until each of them sends with this outcome, in ms."""
    began = time.monotonic()
    async with asyncio.timeout(SECONDS_MAX):
        ended = await asyncio.gather(*(_first(client, accepted) for client in clients))
    return 1000 * (max(ended) - began)


async def _first(client: Client, accepted: bool) -> float:
    """When a send first has this outcome."""
    while True:
        try:
            answer = await client.send("now?", options={"max_tokens": 1})
            at, was = time.monotonic(), True
            await answer.end()
        except ProtocolError:
            at, was = time.monotonic(), False
        if was is accepted:
            return at


def _figures(refused: list[float], accepted: list[float], commands: list[float]) -> list[Figure]:
    figures: list[Figure] = []
    for name, found in (("refused", refused), ("accepted", accepted)):
        for share, word in ((0.5, "p50"), (0.99, "p99"), (1.0, "longest")):
            value = round(percentile(found, share), 1)
            figures.append(Figure(f"correction to first send {name}, {word}", value, "ms", most=AIM_MS))
    return [*figures, Figure("the command itself, p50", round(percentile(commands, 0.5), 1), "ms")]
