"""`python -m chaos run SCENARIO`: attack an installation of its own and judge what became of every answer."""

import asyncio
import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import click
import uvloop

from chaos import scenarios
from chaos.books.command import books
from chaos.failpoints import failpoints
from chaos.figures.figures import json_option, progress
from chaos.installation.cluster import EngineKind, InstallationPlan
from chaos.judge import report
from chaos.judge.oracle import judge
from chaos.noisy import noisy_neighbour
from chaos.scenarios import Scenario
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs

PROGRESS_SECONDS = 5.0
ENGINES = click.Choice([engine.value for engine in EngineKind])


@dataclass(frozen=True)
class Run:
    """One run as it was asked for. `rate`: faults a second. `resumes`: rounds go on until readers have
    resumed so often, whatever `strikes` says."""

    scenario: Scenario
    plan: InstallationPlan
    strikes: int
    rate: float
    per_round: int
    resumes: int
    state: Path | None

    @property
    def replay(self) -> str:
        """The command that does the same again: the same questions, and faults at the same moments. What the
        operating system does in between is not repeated."""
        plan = self.plan
        parts = [f"--seed {plan.seed} --kills {self.strikes} --workers {plan.workers} --rate {self.rate:g}"]
        parts.append(f"--engine {plan.engine} --gateways {plan.gateways} --round {self.per_round}")
        parts += [f"--resumes {self.resumes}"] * (self.resumes > 0)
        parts += [f"--dtype {plan.dtype}"] * (plan.engine is EngineKind.VLLM)
        parts += ["--supervised"] * (not plan.forked)
        return f"python -m chaos run {self.scenario.name} {' '.join(parts)}"

    async def tally(self) -> report.ReportTally:
        """All rounds; those that a state file knows are not run again."""
        arguments = {
            "engine": self.plan.engine.value,
            "workers": self.plan.workers,
            "per_round": self.per_round,
            "forked": self.plan.forked,
        }
        tally = report.ReportTally(self.scenario.name, self.plan.seed, arguments)
        if self.state is not None:
            tally = report.load(self.state, tally)
            progress(report.describe(tally))
        while tally.strikes < self.strikes or tally.resumes < self.resumes:
            await self._round(tally)
            if self.state is not None:
                report.save(self.state, tally)
        return tally

    async def _round(self, tally: report.ReportTally) -> None:
        began = time.monotonic()
        before = tally.strikes
        due = [began + PROGRESS_SECONDS]

        def told(done: int) -> None:
            if time.monotonic() >= due[0]:
                due[0] = time.monotonic() + PROGRESS_SECONDS
                seconds = time.monotonic() - began
                progress(f"{before + done} of {self.strikes} faults, {seconds:.0f} s in this round")

        plan = scenarios.with_seed(self.plan, scenarios.round_seed(self.plan.seed, tally.rounds))
        left = self.strikes - tally.strikes
        strikes = min(self.per_round, left if left > 0 else self.scenario.strikes)
        facts = await scenarios.run_round(self.scenario, plan, strikes, self.rate, told)
        tally.add(facts, judge(facts, plan.engine is EngineKind.SCRIPTED))
        bad = f", WRONG: {tally.wrong}" if not tally.clean else ""
        done = f"{tally.strikes} of {self.strikes} faults, {tally.answers} answers"
        progress(f"round {tally.rounds}: {done}{bad}")


@click.group()
def run() -> None:
    """Scenarios; each starts its own installation, attacks it, and prints what it found."""


def _command(scenario: Scenario) -> click.Command:
    @click.command(scenario.name, help=scenario.about)
    @click.option("--seed", type=int, help="Of questions and faults; a random one by default, printed.")
    @click.option("--kills", "strikes", default=scenario.strikes, show_default=True, help="How many faults.")
    @click.option("--workers", default=4, show_default=True, type=click.IntRange(1, 64))
    @click.option("--gateways", default=scenario.gateways, show_default=True, type=click.IntRange(1, 8))
    @click.option("--engine", default=min(scenario.engines).value, show_default=True, type=ENGINES)
    @click.option("--dtype", default="float32", show_default=True, help="Of vLLM; auto: the model's own.")
    @click.option("--rate", type=float, help=f"Faults a second (scripted: {scenario.per_second:g}).")
    @click.option("--round", "per_round", default=500, show_default=True, help="Faults an installation.")
    @click.option("--resumes", default=0, help="Go on until readers have resumed so often.")
    @click.option("--supervised", is_flag=True, help="Workers under `parley supervisor`; always with vLLM.")
    @click.option("--state", type=click.Path(path_type=Path), help="Keep results here and go on from them.")
    @json_option
    def command(
        seed: int | None,
        strikes: int,
        workers: int,
        gateways: int,
        engine: str,
        dtype: str,
        rate: float | None,
        per_round: int,
        resumes: int,
        supervised: bool,
        state: Path | None,
        as_json: bool,
    ) -> None:
        chosen = EngineKind(engine)
        if chosen not in scenario.engines:
            raise click.UsageError(f"{scenario.name} does not apply to the {engine} engine")
        vllm = chosen is EngineKind.VLLM
        seed = random.SystemRandom().getrandbits(31) if seed is None else seed
        forked = scenario.forked and not supervised and not vllm
        settings = scenario.settings | (scenarios.VLLM_SETTINGS if vllm else {})
        plan = InstallationPlan(chosen, workers, gateways, forked, seed, dtype=dtype, settings=settings)
        plan = replace(plan, kept=scenario.kept)
        rate = rate or (scenario.vllm_per_second if vllm else scenario.per_second)
        asked = Run(scenario, plan, strikes, rate, per_round, resumes, state)
        configure_logs(Settings.model_validate({"log_level": "error"}), "chaos")
        progress(f"seed {seed}")
        tally = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(asked.tally())
        figures = tally.figures(scenario.pause_p50_ms, scenario.pause_p99_ms)
        report.print_report(tally, asked.replay, figures, as_json)
        sys.exit(0 if tally.clean else 1)

    return command


for _scenario in scenarios.ALL:
    run.add_command(_command(_scenario))
run.add_command(noisy_neighbour)
run.add_command(failpoints)
run.add_command(books)
