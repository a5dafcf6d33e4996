"""`python -m chaos bench safety`: the filter of answers against its definition, and what it costs."""

import asyncio
from collections.abc import Callable

import click

from chaos.bench.safety import costs
from chaos.bench.safety.differences import difference, json_difference
from chaos.bench.safety.overhead import overhead
from chaos.bench.safety.own_rules import own_rules
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from engine.safety.documents import DEFAULT_POLICY
from engine.safety.policy import BuiltInPolicies

EPOCHS = 100_000
SHOWN = 3
JSON_PERCENT = 15  # as many documents in JSON beside the others
PROGRESS_EACH = 500


@click.command()
@click.option("--documents", default=2_000, show_default=True, type=click.IntRange(0, 1_000_000))
@click.option("--first", default=0, show_default=True, help="Seed of the first document.")
@click.option(
    "--pairs", default=0, show_default=True, type=click.IntRange(0, 1000), help="Of rounds on real vLLM."
)
@click.option(
    "--streams", default=32, show_default=True, type=click.IntRange(1, 256), help="At once in each."
)
@json_option
def safety(documents: int, first: int, pairs: int, streams: int, as_json: bool) -> None:
    """Filter random documents, cut at random and taken over at random places, and compare with a brute-force
    reading of the definition; then measure hold-back and CPU on prose, code and Markdown.

    \b
    python -m chaos bench safety --documents 10000
    python -m chaos bench safety --documents 0 --pairs 7     32 answers at once on vLLM, with it and without

    Goals: no difference; hold-back p95 of one token; 15 µs of CPU a token; 8,000 tokens again in 10 ms; no
    time in milliseconds taken for a card; 1,000 own patterns or 10,000 words 20 µs more a token on prose; 200
    policies in 512 MiB; with vLLM 0.97 of the tokens a second.
    """
    seeds = range(first, first + documents)
    in_json = range(first, first + documents * JSON_PERCENT // 100)
    figures = [
        _differences("documents that differ from the definition", seeds, difference),
        _differences("JSON documents that differ", in_json, json_difference),
        *_costs(),
        *own_rules(),
        *(asyncio.run(overhead(streams, pairs)) if pairs else []),
    ]
    show("safety", figures, as_json, {"documents": documents, "first": first})
    raise SystemExit(0 if all(figure.reached is not False for figure in figures) else 1)


def _differences(name: str, seeds: range, difference: Callable[[int], str]) -> Figure:
    found = 0
    for number, seed in enumerate(seeds):
        if number % PROGRESS_EACH == 0:
            progress(f"{name}: {number:,} of {len(seeds):,}, {found} so far")
        if problem := difference(seed):
            found += 1
            if found <= SHOWN:
                progress(f"seed {seed}: {problem}")
    return Figure(name, found, f"of {len(seeds):,}", most=0)


def _costs() -> list[Figure]:
    policies = BuiltInPolicies()
    policy = policies.compiled(DEFAULT_POLICY)
    figures = [
        Figure("times in ms redacted", costs.epochs_redacted(policy, EPOCHS), f"of {EPOCHS:,}", most=0)
    ]
    for name, text in costs.texts().items():
        cost = costs.cost_of(policy, text)
        hold = cost.hold
        figures += [
            Figure(f"{name}: held, p50", percentile(hold, 0.5), "tokens"),
            Figure(f"{name}: held, p95", percentile(hold, 0.95), "tokens", most=1),
            Figure(f"{name}: held, most", hold[-1], "tokens"),
            Figure(f"{name}: CPU", cost.piece_us, "µs a token", most=15),
            Figure(f"{name}: {costs.REPLAYED:,} tokens again", cost.replay_ms, "ms", most=10),
            Figure(f"{name}: redacted", cost.redacted, ""),
        ]
    return figures
