"""What a session benchmark found: figures beside their targets, printed as a table or as JSON. Pure but for
printing."""

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

GIB = 1 << 30
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Figure:
    """One figure. `most` or `least`: its target, where it has one."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether it is within its target; None without one."""
        if self.most is not None:
            return self.value <= self.most
        return None if self.least is None else self.value >= self.least

    @property
    def target(self) -> str:
        """The target in words."""
        if self.most is not None:
            return f"≤ {_number(self.most)}"
        return "" if self.least is None else f"≥ {_number(self.least)}"


def machine() -> str:
    """Where this runs."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores {platform.machine()}, {memory:.0f} GiB, {_system()}, load {load:.1f}"


def show(title: str, figures: Sequence[Figure], as_json: bool, facts: dict[str, Any] | None = None) -> None:
    """Print the figures on stdout. `facts` go into the JSON only."""
    stamp = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    if as_json:
        rows = [{**asdict(figure), "reached": figure.reached} for figure in figures]
        found = {"benchmark": title, "at": stamp, "machine": machine(), "figures": rows, **(facts or {})}
        click.echo(json.dumps(found))
        return
    table = Table(title=f"{title} ({stamp}; {machine()})", title_justify="left")
    for heading in ("figure", "value", "target", ""):
        table.add_column(heading, justify="right" if heading in ("value", "target") else "left")
    for figure in figures:
        mark = {True: "reached", False: "[bold]missed[/bold]", None: ""}[figure.reached]
        table.add_row(figure.name, f"{_number(figure.value)} {figure.unit}", figure.target, mark)
    Console(width=120).print(table)


def progress(line: str) -> None:
    """One line about what is under way, on stderr."""
    PROGRESS.print(f"[dim]{line}[/dim]")


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --json of every benchmark."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")(
        command
    )


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{3 if abs(value) < 10 else 2}f}".rstrip("0").rstrip(".")


def _system() -> str:
    release = Path("/etc/os-release")
    lines = release.read_text().splitlines() if release.exists() else []
    names = [line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    return names[0] if names else platform.system()
