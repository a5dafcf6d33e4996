"""`python -m chaos bench bridge`: whether the parts of two months' difference add up to it, to the nano."""

from collections.abc import Sequence

import click

from billing.api import comparison_remainders
from chaos.figures.figures import Figure, json_option, show


@click.command()
@click.option("--pairs", default=1000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--seed", default=40, show_default=True)
@json_option
def bridge(pairs: int, seed: int, as_json: bool) -> None:
    """Whether the parts of two months' difference add up to it, over random pairs of months.

    Months differ in models, kinds of tokens, quantities and prices, have tiers and corrections, and may be
    empty. By model and by meter the parts must add up for each group, and the groups to the total.
    """
    show("bridge", figures_of(comparison_remainders(pairs, seed)), as_json)


def figures_of(apart: Sequence[int]) -> list[Figure]:
    """Figures of the remainders of pairs."""
    exact = sum(each == 0 for each in apart)
    return [
        Figure("pairs of months whose parts add up exactly", exact, f"of {len(apart)}", least=len(apart)),
        Figure("largest remainder", max(apart), "nano", most=0),
    ]
