"""`chaos bench against`: a benchmark of this checkout and of another one, in turns, and their ratios."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from chaos.figures.figures import json_option, machine, progress
from chaos.figures.samples import interval

ROOT = Path(__file__).parents[2]
SLOWER_MAX = 1.03  # by how much the better end of an interval may be worse
STDERR_CHARS_MAX = 2000


@dataclass(frozen=True)
class Compared:
    """One figure of both checkouts: medians, and the median of the pairs' ratios (this by the other) with its
    95 % interval. `more_is_better` None: nobody says."""

    name: str
    unit: str
    this: float
    other: float
    ratio: float
    low: float
    high: float
    more_is_better: bool | None

    @property
    def not_worse(self) -> bool | None:
        """Whether the interval reaches what is at most SLOWER_MAX worse; None where nobody says what is."""
        if self.more_is_better is None:
            return None
        return self.high >= 1 / SLOWER_MAX if self.more_is_better else self.low <= SLOWER_MAX


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("benchmark")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--pairs", default=7, show_default=True, type=click.IntRange(1, 1000), help="Runs of each.")
@json_option
def against(checkout: Path, benchmark: str, arguments: tuple[str, ...], pairs: int, as_json: bool) -> None:
    """Run a benchmark of this checkout and of CHECKOUT in turns, and compare figure by figure.

    \b
    git worktree add ../before 94efb455
    python -m chaos bench against ../before relay --seconds 5
    python -m chaos bench against ../before queue --tenants 100 --requests 10000 --pairs 9

    Both run in this environment: the other checkout has to get along with its packages. What a pair's second
    run finds may hang on the first: who is first changes.
    """
    sides = {"this": ROOT, "other": checkout.resolve()}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for number in range(pairs):
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(_run(sides[name], benchmark, arguments))
        progress(f"{benchmark}: pair {number + 1} of {pairs}")
    compared = compare(found["this"], found["other"])
    if as_json:
        rows = [{**vars(each), "not_worse": each.not_worse} for each in compared]
        click.echo(
            json.dumps({"benchmark": benchmark, "machine": machine(), "pairs": pairs, "figures": rows})
        )
    else:
        _print(f"{benchmark} {' '.join(arguments)}, {pairs} pairs ({machine()})", compared)
    raise SystemExit(1 if any(each.not_worse is False for each in compared) else 0)


def compare(this: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> list[Compared]:
    """Each figure that all runs of both sides have and that is never 0, in the first run's order. Pure."""
    mine, theirs = [figures(run) for run in this], [figures(run) for run in other]
    compared: list[Compared] = []
    for name in mine[0]:
        if not all(run.get(name) for run in (*mine, *theirs)):
            continue
        values, others = [run[name] for run in mine], [run[name] for run in theirs]
        ratios = sorted(value / beside for value, beside in zip(values, others, strict=True))
        unit, better = _meaning(this[0], name)
        compared.append(
            Compared(
                name,
                unit,
                statistics.median(values),
                statistics.median(others),
                statistics.median(ratios),
                *interval(ratios),
                better,
            )
        )
    return compared


def figures(printed: Mapping[str, Any]) -> Mapping[str, float]:
    """The numbers of what a benchmark printed as JSON: its rows of `figures` by name; where there are none,
    each number by its path. Pure."""
    if rows := printed.get("figures"):
        return {row["name"]: float(row["value"]) for row in rows}
    return dict(_numbers(printed, ()))


def _numbers(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _numbers(each, (*path, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield " ".join(path), float(value)


def _meaning(printed: Mapping[str, Any], name: str) -> tuple[str, bool | None]:
    """A figure's unit, and whether more of it is better: as its goal says, else by its unit."""
    for row in printed.get("figures", ()):
        if row["name"] == name:
            unit = row["unit"]
            if row.get("most") is not None or row.get("least") is not None:
                return unit, row.get("least") is not None
            return unit, {"ms": False, "µs": False, "s": False, "KiB": False, "MiB": False}.get(unit)
    return "", True if "per_second" in name else False if name.endswith("_ms") else None


def _run(checkout: Path, benchmark: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What it printed as JSON. A missed goal (exit code 1) is a figure like others."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "bench", benchmark, "--json", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise click.ClickException(f"in {checkout}: {done.stderr[-STDERR_CHARS_MAX:]}") from None


def _print(title: str, compared: Sequence[Compared]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "this", "other", "ratio", "95 %", ""):
        table.add_column(heading, justify="left" if heading in ("figure", "") else "right")
    for each in compared:
        mark = {True: "not worse", False: "[bold]worse[/bold]", None: ""}[each.not_worse]
        between = f"{each.low:.3f} to {each.high:.3f}"
        table.add_row(
            each.name,
            f"{each.this:,.4g} {each.unit}",
            f"{each.other:,.4g} {each.unit}",
            f"{each.ratio:.3f}",
            between,
            mark,
        )
    Console(width=140).print(table)
