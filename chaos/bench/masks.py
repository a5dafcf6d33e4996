"""`python -m chaos bench masks`: what the token masks of shapes that pass the trial cost.

Generated shapes go through the gateway's checks and the trial; those that pass are walked again, with other
choices than the trial's, 200 tokens four ways, each mask and each token timed by the thread's CPU clock. A
shape is tried in a fork, as the trials' host does it.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from chaos.bench.mask_shapes import generated_format
from chaos.figures.figures import Figure, json_option, show
from chaos.figures.samples import percentile
from core.configuration.settings import Settings
from engine.api import checked_format
from engine.grammar.response_format import Shape, format_of
from engine.trials.host import CPU_SECONDS_MAX, bound

GOAL_SECONDS = 0.02
WALKS = 2


@click.command()
@click.option("--shapes", default=300, show_default=True, help="How many to generate.")
@click.option("--seed", type=int, help="Of the shapes; by default another one each time.")
@click.option("--model", type=click.Path(exists=True, path_type=Path), help="A model's folder.")
@click.option("--patterns", type=click.Path(exists=True, path_type=Path), help="Instead: one pattern a line.")
@json_option
def masks(shapes: int, seed: int | None, model: Path | None, patterns: Path | None, as_json: bool) -> None:
    """The worst token mask and token of shapes that are accepted (goal: 20 ms of CPU)."""
    seed = random.randrange(1 << 32) if seed is None else seed
    rng = random.Random(seed)
    trial = _trial(model or _provisioned())
    found, outcomes = list[dict[str, Any]](), Counter[str]()
    asked = (
        [{"type": "regex", "pattern": line} for line in patterns.read_text().splitlines()]
        if patterns
        else [generated_format(rng) for _ in range(shapes)]
    )
    for raw in asked:
        outcome, facts = measured(trial, raw, rng.randrange(1 << 32))
        outcomes[outcome] += 1
        if outcome == "accepted":
            found.append({"shape": json.dumps(raw)[:160], **facts})
        elif patterns:
            click.echo(f"{outcome}: {raw['pattern']}")
    found.sort(key=lambda each: max(each["mask"], each["token"]), reverse=True)
    show("masks", figures_of(found), as_json, {"seed": seed, "outcomes": outcomes, "worst": found[:10]})
    if not as_json:
        _print(seed, outcomes, found)


def figures_of(found: Sequence[dict[str, Any]]) -> list[Figure]:
    """Of the accepted shapes, in ms of CPU; none were accepted: nothing is known. Pure."""
    figures: list[Figure] = []
    for name in ("mask", "token") if found else ():
        values = [1000 * each[name] for each in found]
        figures += [
            Figure(f"{name} of accepted shapes, CPU: worst", max(values), "ms", most=1000 * GOAL_SECONDS),
            Figure(f"{name}: p99 of shapes", percentile(values, 0.99), "ms"),
            Figure(f"{name}: median", percentile(values, 0.5), "ms"),
        ]
    return figures


def measured(trial: Any, raw: dict[str, Any], seed: int) -> tuple[str, dict[str, Any]]:
    """What became of a shape: refused by which check, or accepted, with its worst mask and token in s."""
    try:
        packed = checked_format(raw)
    except (ValueError, TypeError):
        return "refused before the trial", {}
    shape = format_of(packed) if packed else Shape(object=True)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            bound(CPU_SECONDS_MAX)
            problem = trial.problem(shape, lambda _: None)
            bound(30.0)
            os.write(
                write, json.dumps({"problem": problem} if problem else _walked(trial, shape, seed)).encode()
            )
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    facts = json.loads(said) if said else {"problem": "too large"}
    problem = facts.get("problem")
    words = ("ambiguous", "too large", "ms of CPU")
    kind = next((word for word in words if word in (problem or "")), "the compiler does not take it")
    return ("accepted", facts) if problem is None else (f"refused: {kind}", {})


def _walked(trial: Any, shape: Shape, seed: int) -> dict[str, Any]:
    began = time.process_time()
    compiled = trial.compiled(shape)
    facts: dict[str, Any] = {"compile": time.process_time() - began, "mask": 0.0, "token": 0.0, "tokens": 0}
    for number in range(WALKS):
        walked = trial.walk(compiled, random.Random(seed + number))
        facts["mask"] = max(facts["mask"], walked.mask)
        facts["token"] = max(facts["token"], walked.token)
        facts["tokens"] += walked.tokens
    return facts


def _trial(folder: Path) -> Any:
    from engine.trials.trial import ShapeTrial  # torch: only where it is measured

    return ShapeTrial(folder)


def _provisioned() -> Path:
    folders = sorted(Settings().home.glob("models/*/*/config.json"))
    if not folders:
        raise click.ClickException("no model is provisioned: name a folder with --model")
    return folders[-1].parent


def _print(seed: int, outcomes: Counter[str], found: list[dict[str, Any]]) -> None:
    click.echo(f"seed {seed}, {os.cpu_count()} cores")
    for outcome, count in outcomes.most_common():
        click.echo(f"{count:6}  {outcome}")
    if not found:
        return
    click.echo(f"{sum(each['tokens'] for each in found)} tokens walked; the worst shapes:")
    for each in found[:5]:
        worst = f"{each['mask'] * 1000:7.2f} ms mask {each['token'] * 1000:7.2f} ms token"
        click.echo(f"{worst}  {each['shape'][:110]}")
