"""`parley spend series`, `bridge`, `cache`: where a month goes, why it costs more, what the cache saved."""

from typing import Any

import click

from billing.cli.operations import CommandTerms, answered, asks, facts_of
from billing.cli.run_command import show_table
from billing.money import to_display
from billing.operations import spend_bridge, spend_cache, spend_series
from billing.operations.spend_bridge import AskBridge
from billing.operations.spend_cache import ModelCache
from billing.operations.spend_month import AskMonth
from billing.operations.spend_series import AskSeries, SeriesAmount, SeriesDay
from core.operations import MoneyAmount
from core.terminal.terminal import print_line


@click.command("series")
@asks(spend_series.show_series)
def series_command(ask: AskSeries, how: CommandTerms) -> None:
    """Show where a month goes: the five groups that cost most, the others as one.

    Reasons for jumps follow. With --json each line has its days, too.
    """
    found = answered(spend_series.show_series, ask, how)
    shown = [(each.id, each.name, each.month, each.days) for each in found.groups]
    if found.others is not None:
        shown.append(("", f"{found.others.count} others", found.others.month, found.others.days))
    if found.nobody is not None:
        shown.append(("", "(none)", found.nobody.month, found.nobody.days))
    shown.append(("", "total", found.total, [each.total for each in found.days]))
    rows = [
        {**({"id": id} if how.as_json else {}), found.by.value: name, **_amount(month, how.as_json)}
        | ({"days": _days(found.days, days)} if how.as_json else {})
        for id, name, month, days in shown
    ]
    show_table(rows, how.as_json, "nothing was used in this month")
    for mark in found.marks:
        print_line(f"{mark.letter}  {mark.date}  {mark.text}", err=True)
    if found.unmarked:
        print_line(f"{found.unmarked} smaller changes are not named", err=True)


def _days(days: list[SeriesDay], amounts: list[SeriesAmount]) -> list[dict[str, Any]]:
    return [
        {"date": day.date, **_amount(each, as_json=True)} for day, each in zip(days, amounts, strict=True)
    ]


def _amount(each: SeriesAmount, as_json: bool) -> dict[str, Any]:
    return facts_of(each, as_json)


@click.command("bridge")
@asks(spend_bridge.show_bridge)
def bridge_command(ask: AskBridge, how: CommandTerms) -> None:
    """Explain why a month costs more or less than the one before it.

    The parts add up to the nano. A day that is not over is left out. `parley usage compare` has the same by
    model and by meter, and of any two months.
    """
    found = answered(spend_bridge.show_bridge, ask, how)
    rows = [_step(found.before.name, "", found.before.cost, how.as_json)]
    rows += [_step(each.part.value, each.why, each.amount, how.as_json) for each in found.steps]
    rows.append(_step(found.after.name, "", found.after.cost, how.as_json))
    show_table(rows, how.as_json, "")


def _step(part: str, why: str, amount: MoneyAmount, as_json: bool) -> dict[str, Any]:
    money = {"amount_nano": amount.value} if as_json else {"amount": to_display(amount.value)}
    return {"part": part, **money, "why": why}


@click.command("cache")
@asks(spend_cache.show_cache)
def cache_command(ask: AskMonth, how: CommandTerms) -> None:
    """Show what reading input from the cache saved in a month, by model."""
    found = answered(spend_cache.show_cache, ask, how)
    rows = [_model(each.model, each, how.as_json) for each in found.models]
    if found.more:
        rows.append(_model(f"{found.more} others", found.others, how.as_json))
    if rows:
        rows.append(_model("total", found.total, how.as_json))
    show_table(rows, how.as_json, "no input was read in this month")
    if found.unpriced:
        print_line(f"of {found.unpriced} cached tokens the price is not known any more", err=True)


def _model(name: str, each: ModelCache, as_json: bool) -> dict[str, Any]:
    return facts_of(each, as_json) | {"model": name}
