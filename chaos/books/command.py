"""`python -m chaos run books`: customers ask, everything happens to their money, and the books are held
beside what an oracle of its own says they should be, to the nano."""

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

from chaos.books import rows
from chaos.books.agreements import Agreements
from chaos.books.asking import Askers, questions
from chaos.books.checks import SumCheck
from chaos.books.command_output import TWO_DAYS_MS, check_command_output
from chaos.books.customers import MODEL
from chaos.books.expected import booked_of
from chaos.books.judge import judge, judge_refused
from chaos.books.months import month_of, name_of
from chaos.books.operator_actions import Act, OperatorActions
from chaos.books.probing import Probes
from chaos.books.second_person import signed_in_second_person
from chaos.books.terms import Fact, MonthClosed
from chaos.books.testbed import BooksTestbed
from chaos.books.withdrawals import ALONE_CENTS_MAX, Moves
from chaos.failpoints import databases
from chaos.faults.context import FaultContext
from chaos.figures.figures import json_option, machine, progress
from chaos.installation.cluster import InstallationPlan, running_cluster
from chaos.installation.command_runner import CommandRunner, command_runner
from chaos.judge.collect import witnessed
from chaos.workload import Crowd as AnyCrowd
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs

CACHED_PERCENT = 23
AT_ONCE = 2
LATE_ANSWERS = 20
REST_SECONDS_MAX = 120.0
BOUNDS: dict[str, object] = {"correction_cents_max": ALONE_CENTS_MAX}
SETTINGS: dict[str, object] = {
    "chunk_tokens": 16,
    "worker_slots": 8,
    "deaths_max": 1000,
    "log_level": "error",
}


@dataclass(frozen=True)
class Size:
    """How long and how hard. `per_second`: answers; kills and orders in the same unit."""

    answers: int
    seconds: float
    kills_per_second: float
    orders_per_second: float
    flushes: int
    flush_unread: bool

    @property
    def per_second(self) -> float:
        """The pace of asking."""
        return self.answers / self.seconds


@dataclass
class BooksResult:
    """What a run came to."""

    database: str
    seed: int
    answers: int = 0
    billed_nano: int = 0
    done: dict[str, int] = field(default_factory=dict[str, int])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    checks: list[SumCheck] = field(default_factory=list[SumCheck])
    seconds: float = 0.0

    @property
    def off(self) -> int:
        """Everything that differs."""
        return sum(check.off for check in self.checks)


async def run(size: Size, seed: int, database_url: str | None) -> BooksResult:
    """One installation from its first customer to its last month."""
    began = time.monotonic()
    settings = SETTINGS | ({"database_url": database_url} if database_url else {})
    plan = InstallationPlan(
        workers=3,
        gateways=2,
        billers=2,
        kept=True,
        seed=seed,
        step_ms=4.0,
        settings=settings,
        cached_percent=CACHED_PERCENT,
    )
    async with (
        running_cluster(plan) as cluster,
        witnessed(cluster) as events,
        command_runner(cluster.site.environment(**settings, **BOUNDS)) as commands,
    ):
        testbed = BooksTestbed(cluster, commands, random.Random(f"prices {seed}"))
        await testbed.make(size.seconds)
        progress(
            f"{len(testbed.askers)} keys of {len(testbed.ids)} customers, {time.monotonic() - began:.0f} s"
        )
        crowd = Askers(cluster.balancer.url, MODEL, questions(seed))
        actions = OperatorActions(testbed, crowd, events, random.Random(f"acts {seed}"))
        second = await signed_in_second_person(cluster)
        moves = Moves(actions, second, random.Random(f"moves {seed}"))
        agreements = Agreements(testbed, random.Random(f"agreements {seed}"))
        await agreements.make()
        await _traffic(size, actions, [*moves.kinds, *agreements.kinds])
        refused = judge_refused(testbed.history, crowd.refused)
        probes = Probes(moves, SumCheck("sends: refused a nano below, let in with it"))
        await probes.all()
        facts = await _close_twice(actions)
        testbed.history.facts = facts
        done = actions.done + moves.done + agreements.done
        found = BooksResult(cluster.database.dialect, seed, len(crowd.told), done=dict(done))
        found.done["forgotten by Redis"] = len(crowd.forgotten)
        found.checks = [refused, probes.check, moves.answered]
        for (_, code), count in crowd.refused.items():
            found.refused[code] = found.refused.get(code, 0) + count
        for told in crowd.told:
            found.reasons[told.reason] = found.reasons.get(told.reason, 0) + 1
        await _judge(found, testbed, crowd)
        found.seconds = round(time.monotonic() - began, 1)
        return found


async def _traffic(size: Size, actions: OperatorActions, more: list[Act]) -> None:
    """All answers but the late ones, and all that happens meanwhile."""
    cluster, crowd = actions.testbed.cluster, actions.crowd
    stop = asyncio.Event()
    crowd.gate.set()
    async with asyncio.TaskGroup() as group:
        scene = FaultContext(cluster, AnyCrowd(crowd.url, "", ""), group)
        background = [
            group.create_task(actions.orders(more, stop, size.orders_per_second)),
            group.create_task(actions.kills(scene, stop, size.kills_per_second)),
            group.create_task(_flushes(size, actions, stop)),
            group.create_task(_tell(size, crowd, stop)),
        ]
        await crowd.run(actions.testbed.askers, size.answers, size.per_second, AT_ONCE)
        stop.set()
        await asyncio.gather(*background)
    await actions.booked({each.id for each in crowd.told})
    await actions.dismiss_second_ends()


async def _flushes(size: Size, actions: OperatorActions, stop: asyncio.Event) -> None:
    for number in range(size.flushes):
        wanted = size.answers * (number + 1) // (size.flushes + 1)
        while len(actions.crowd.told) < wanted and not stop.is_set():  # noqa: ASYNC110  (nothing says when)
            await asyncio.sleep(0.1)
        if not stop.is_set():
            progress("Redis loses everything")
            await actions.flush(quiet=not size.flush_unread)


async def _tell(size: Size, crowd: Askers, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await asyncio.sleep(10)
        progress(f"{len(crowd.told)} of {size.answers} answers")


async def _close_twice(actions: OperatorActions) -> list[Fact]:
    """The month, then what came late, then the next month. All that is known, in its order."""
    testbed, crowd = actions.testbed, actions.crowd
    booked = booked_of(crowd.forgotten, await rows.read(testbed.cluster.database.engine, "usage_event"))
    facts: list[Fact] = [*crowd.told, *booked, *testbed.history.facts]
    testbed.history.facts = []
    facts += await _close(testbed, 0)
    before = len(crowd.told)
    await crowd.run(testbed.askers, LATE_ANSWERS, LATE_ANSWERS / 2, AT_ONCE)
    await actions.booked({each.id for each in crowd.told})
    for _ in range(3):
        await actions.correct()
        await actions.refund()
    facts += [*crowd.told[before:], *testbed.history.facts]
    facts += await _close(testbed, 1)
    return facts


async def _close(testbed: BooksTestbed, later: int) -> list[MonthClosed]:
    """Close the running month of every customer, or the one after it, as if it were over."""
    now = time.time_ns() // 1_000_000
    closed: list[MonthClosed] = []
    for customer in testbed.history.customers.values():
        start, end = month_of(now, customer.zone)
        for _ in range(later):
            start, end = end, month_of(end, customer.zone)[1]
        of = ("--tenant", customer.name, "--month", name_of(start, customer.zone))
        await testbed.commands.parley("prices", "close-period", *of, later_ms=end + TWO_DAYS_MS - now)
        closed.append(MonthClosed(customer.id, start))
    return closed


async def _judge(found: BooksResult, testbed: BooksTestbed, crowd: Askers) -> None:
    read = await rows.read(testbed.cluster.database.engine)
    lost = SumCheck("answers: came to their end")
    for _ in crowd.told:
        lost.add([])
    for answer in crowd.lost:
        lost.add([(0, f"{answer.id}: {answer.problem or answer.code}")])
    found.checks += [lost, *judge(testbed.history, read, lambda tokens: tokens * CACHED_PERCENT // 100)]
    found.checks += await check_command_output(testbed.history, testbed.commands, read)
    found.checks += await _own_checks(testbed.commands)
    found.billed_nano = -sum(
        int(each["amount_nano"]) for each in read["ledger_entry"] if each["account"].startswith("revenue:")
    )


async def _own_checks(commands: CommandRunner) -> list[SumCheck]:
    """R1 to R8 and `audit verify`, by their commands."""
    compared = await _reconciled(commands)
    checks: dict[str, SumCheck] = {}
    for each in compared:
        off = each["state"] != "equal"
        check = checks.setdefault(each["check"], SumCheck(f"parley reconcile: {each['check']}"))
        check.add([(0, json.dumps(each))] if off else [])
    verified = await commands.run("audit", "verify", "--json")
    audit = SumCheck("parley audit verify", len(verified.objects))
    if verified.code:
        audit.add((0, line) for line in verified.err.splitlines())
    return [*(checks[name] for name in sorted(checks)), audit]


async def _reconciled(commands: CommandRunner) -> list[dict[str, Any]]:
    """Once nothing waits; what Redis lost a biller counts anew by itself, at its minute's look."""
    until = time.monotonic() + REST_SECONDS_MAX
    while True:
        compared = (await commands.run("reconcile", "--from-first-row", "--show-equal", "--json")).objects
        settled = all(each["state"] == "equal" for each in compared if each["check"] in ("R4", "R5"))
        waiting = any(each["state"] == "waiting" for each in compared)
        if (settled and not waiting) or time.monotonic() > until:
            return compared
        await asyncio.sleep(2)


def show(found: BooksResult, as_json: bool) -> None:
    """A line a check, and what was found wrong."""
    if as_json:
        click.echo(json.dumps({**asdict(found), "off": found.off, "machine": machine()}))
        return
    title = f"books, {found.database}, seed {found.seed}: {found.answers} answers, {found.billed_nano:,} nano"
    table = Table(title=f"{title} ({machine()})", title_justify="left")
    for heading in ("check", "compared", "off", "off by, nano"):
        table.add_column(heading, justify="left" if heading == "check" else "right")
    for check in found.checks:
        table.add_row(check.name, f"{check.compared:,}", f"{check.off:,}", f"{check.off_nano:,}")
    Console(width=110).print(table)
    for name, counts in (("done", found.done), ("ended", found.reasons), ("refused", found.refused)):
        said = ", ".join(f"{key} {count}" for key, count in sorted(counts.items()))
        click.echo(f"{name}: {said or 'nothing'}")
    for check in found.checks:
        for detail in check.details:
            click.echo(f"OFF {check.name}: {detail}")


@click.command("books")
@click.option("--answers", default=200, show_default=True, type=click.IntRange(30))
@click.option("--seconds", default=100.0, show_default=True, help="In which they are asked for.")
@click.option("--database", default="sqlite", show_default=True, type=click.Choice(["sqlite", "postgres"]))
@click.option("--kills", default=0.5, show_default=True, help="Of workers, gateways, billers, a second.")
@click.option("--orders", default=1.0, show_default=True, help="Corrections, prices, grants …, a second.")
@click.option("--flushes", default=1, show_default=True, type=click.IntRange(0))
@click.option("--flush-unread", is_flag=True, help="Redis loses ends that no biller has read.")
@click.option("--seed", type=int, help="Of questions, prices and orders; printed.")
@json_option
def books(
    answers: int,
    seconds: float,
    database: str,
    kills: float,
    orders: float,
    flushes: int,
    flush_unread: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Prove the books by an oracle of their own, to the nano.

    Seven customers, prepaid and postpaid, with odd prices, cached input, tiers, minimums, commitments and
    other zones, ask through two gateways. Meanwhile prices change, are withdrawn and replaced, answers are
    corrected and refunded, money comes in, is voided, clawed back and paid out, some of it by two people,
    commitments end, projects charge-to to other cost centers, other ends of answers are held and decided on,
    workers, gateways and billers are killed and Redis loses everything. Sends a nano short of a wallet or
    budget must be refused. Then two months are closed, with usage that comes late between. What everybody
    should owe, and what each report should show, is computed a second time from what clients saw, by code
    that imports nothing of billing. Exit code 1 where anything differs by a nano.
    """
    seed = random.SystemRandom().getrandbits(31) if seed is None else seed
    configure_logs(Settings.model_validate({"log_level": "error"}), "chaos")
    progress(f"seed {seed}")
    size = Size(answers, seconds, kills, orders, flushes, flush_unread)
    with databases(database) as urls, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(run(size, seed, next(urls)))
    show(found, as_json)
    sys.exit(1 if found.off else 0)
