"""Whether a benchmark reached its goal is said by its figures: just within is reached, just beyond is missed.

Each builder of figures gets made-up measurements; the short forms with real processes are in test_bench.py.
"""

import ast
import inspect
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from admin.backup.backup import BackupReport
from admin.backup.manifest import CopiedDatabase, Manifest
from admin.backup.restore_report import RestoreReport
from chaos.__main__ import bench
from chaos.bench import (
    backup,
    bridge,
    console,
    export,
    fairness,
    forecast,
    masks,
    move_tenant,
    portal,
    roll,
    seams,
)
from chaos.bench.api_lists.cases import ReadCase
from chaos.bench.api_lists.timing import TimedCase
from chaos.bench.engine_testbed import BenchEngine
from chaos.bench.fairness import jain
from chaos.bench.session import capacity, drain, relay
from chaos.figures.figures import Figure, show
from chaos.installation.measure import CpuUsage
from core.operations import registered
from engine.api import Sampling

# These measure without a goal, and say so by printing none.
WITHOUT_GOALS = {
    "stream": "compares three servers beside each other",
    "prefill": "compares vLLM's settings",
    "against": "the ratios of any benchmark of two checkouts with their intervals",
}
WITH_GOALS = sorted(set(bench.commands) - WITHOUT_GOALS.keys())


def verdicts(figures: Sequence[Figure]) -> set[bool]:
    """Of those that have a goal."""
    return {each.reached for each in figures if each.reached is not None}


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (Figure("", 5.0, "", most=5), True),
        (Figure("", 5.001, "", most=5), False),
        (Figure("", 5.0, "", least=5), True),
        (Figure("", 4.999, "", least=5), False),
        (Figure("", 0.0, "", most=0), True),
        (Figure("", 1.0, "", most=0), False),
        (Figure("", math.nan, "", most=5), False),
        (Figure("", math.nan, "", least=5), False),
        (Figure("", 5.0, ""), None),
    ],
)
def test_a_goal_is_reached_or_missed_by_the_number(
    figure: Figure, reached: bool | None, capsys: pytest.CaptureFixture[str]
):
    """In the property, in the JSON and in the table; what was not measured reaches nothing."""
    assert figure.reached is reached
    show("made up", [figure], as_json=True)
    assert json.loads(capsys.readouterr().out)["figures"][0]["reached"] is reached
    show("made up", [figure], as_json=False)
    told = capsys.readouterr().out
    assert ("reached" in told, "missed" in told) == (reached is True, reached is False)


def within_and_beyond() -> dict[str, tuple[list[Figure], list[Figure]]]:
    """Of each builder: figures whose goals are all reached, and such of which every one is missed."""
    return {
        "sessions": (sessions(40 * 1024), sessions(40 * 1024 + 1)),
        "bridge": (bridge.figures_of([0, 0]), bridge.figures_of([0, 1])),
        "console": (answered(300.0), answered(300.1)),
        "export": (sent_file(30), sent_file(40)),
        "portal": (read(300.0), read(300.1)),
        "forecast": (forecast_at(90, 80), forecast_at(79, 100)),
        "drain": (drained(0.1, 100, 0), drained(0.1001, 99, 1)),
        "move-tenant": (moved(1.5, 100, 0), moved(1.51, 99, 1)),
        "roll": (rolled("length", 0.0), rolled("error", 0.02)),
        "relay": (relayed(1.0), relayed(1.01)),
        "seams": (continued([], 0.001), continued([3], 0.00101)),
        "backup": (backed_up(120.0, 1, 0, 0), backed_up(120.1, 0, 1, 1)),
        "masks": (masks.figures_of([walked(0.02)]), masks.figures_of([walked(0.001), walked(0.021)])),
    }


def answered(ms: float) -> list[Figure]:
    """A page's data, in this time."""
    client: Any = None
    page = console.TimedPage(client, ["/api/overview"], [ms], {"/api/overview": [ms]}, 1)
    return console.figures_of("a page", page, [ms], 1.0)


def sent_file(grown_mib: float) -> list[Figure]:
    """A file while which memory grew."""
    return export.figures_of(export.SentFile(100, 1000, 1.0, 100.0, 100.0 + grown_mib))


def forecast_at(expected: int, low: int) -> list[Figure]:
    """Of a month that cost 100 and that a straight line said would cost 80."""
    return forecast.figures_of([forecast.JudgedMonth(100, expected, low + 1, 120, 80)])


def read(ms: float) -> list[Figure]:
    """A read of the portal, its slowest case in this time."""
    visit: Any = None
    declared = next(iter(registered().values()))
    took = {"": 1.0, "month": ms}
    cases = [TimedCase(visit, ReadCase(declared, shown, "/api"), [took[shown]]) for shown in took]
    return portal.read_figures(cases)


def rolled(reason: str, without: float) -> list[Figure]:
    """An answer that ended so, and this long without a ready worker."""
    well = int(not without)
    return roll.Seen(Counter({reason: 1}), [0.1], without, 9, well, well, [1.0, 1.0]).figures()


def sessions(each: int) -> list[Figure]:
    """Sessions that take so many bytes each."""
    return capacity.GatewayMemory(10, 10 * each, 0, 0, 1.0, 1.0, 0.1, 0, 0).figures()


def drained(pause: float, whole: int, code: int) -> list[Figure]:
    """A drain of a hundred answers."""
    return drain.Drained([pause] * 100, [0.0], 1.0, 0.02, whole, code, []).figures()


def moved(pause: float, whole: int, wrong: int) -> list[Figure]:
    """A move of a hundred answers, so many of them whole."""
    told = {"streams_moved": whole, "lost": wrong, "doubled": wrong, "longest_pause_ms": None}
    late = {"late": 1, "late_whole": 1 - wrong}
    found = move_tenant.MeasuredMove([pause] * 100, [0.0], told, whole, wrong, wrong, 1.0, **late)
    return found.figures(BenchEngine.SCRIPTED)


def relayed(cpu_seconds: float) -> list[Figure]:
    """As many tokens as are aimed at for a CPU second."""
    before, after = CpuUsage(0.0, 0.0, 0.0), CpuUsage(1.0, cpu_seconds, 0.0)
    fed = {"tokens": 1.0, "entries": 1.0, "kept_up": 1.0}
    return relay.Relayed(relay.GOAL, relay.GOAL // 2, 1.0, before, after, [0.1], fed).figures(1, 2.0)


def backed_up(seconds: float, written: int, missing: int, faults: int) -> list[Figure]:
    """A backup beside so many events that were posted, and a restore that misses so many."""
    database = CopiedDatabase("sqlite", "", "", {"usage_event": 10})
    made = Manifest(1, "", "", 0, database, [], [], [], [])
    copied = BackupReport(Path(), 1, seconds, seconds, made, [])
    told = [("t1", "a fault")] * faults
    report = RestoreReport(
        "", 0, Path(), "", 1, True, False, 0, 0, 0, {}, [], [], 0, [], told, [], [], 0, {"verify": 1.0}
    )
    return backup.figures_of(backup.Measured(1.0, written, copied, 10, 10 - missing, report, 1.0))


def continued(different: list[int], apart: float) -> list[Figure]:
    """Ten answers, some of which a seam changed."""
    row = seams.SeamCase("made up", lambda _: Sampling(max_tokens=1), checked=True)
    return seams._figures(seams.Result(row, 10, 20, different, apart))


def walked(seconds: float) -> dict[str, Any]:
    """A shape whose worst mask and token take so long."""
    return {"mask": seconds, "token": seconds}


@pytest.mark.parametrize("name", within_and_beyond())
def test_just_within_is_reached_and_just_beyond_is_missed(name: str):
    """So no figure is upside down, and none is in another unit than its goal."""
    within, beyond = within_and_beyond()[name]
    assert verdicts(within) == {True}
    assert verdicts(beyond) == {False}


def test_an_even_service_is_fair_and_an_uneven_one_is_not():
    """Jain's index about its goal."""
    assert jain([1.0, 1.1, 1.2]) >= fairness.JAIN_LEAST > jain([1.0, 1.2, 1.4])


def test_shapes_of_which_none_was_accepted_reach_nothing():
    """Nothing was measured."""
    assert masks.figures_of([]) == []


@pytest.mark.parametrize("name", bench.commands)
def test_a_benchmark_has_goals_or_a_reason(name: str):
    """A new one is told: it makes figures with goals, or stands in the list of those that have none."""
    module = inspect.getmodule(bench.commands[name].callback)
    assert module is not None
    assert has_goals(module) == (name in WITH_GOALS), WITHOUT_GOALS.get(name)


def has_goals(module: ModuleType) -> bool:
    """Whether it makes a figure with a goal; and it leaves to the figures what is said of that."""
    tree = ast.parse(inspect.getsource(module))
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    told = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    assert not {"reached", "[bold]missed[/bold]"} & {each for each in told if isinstance(each, str)}
    figures = [each for each in calls if ast.unparse(each.func) == "Figure"]
    return any(keyword.arg in ("most", "least") for each in figures for keyword in each.keywords)
