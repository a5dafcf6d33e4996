"""What the suite costs: CPU seconds of each test file, its processes included, told at the end of a run.

scripts/check_minutes.py holds the figures to the budgets in tests/minutes.json.
"""

import json
import os
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.support.shared import is_worker, postgres_process
from tests.support.tiers import IS_LONG

TOLD = Path(
    os.environ.get("PARLEY_TEST_MINUTES") or Path(__file__).parent.parent.parent / ".cache" / "minutes.json"
)
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = 15
COLLECTION = "(collection)"
POSTGRES = "(Postgres)"
MINUTES = pytest.StashKey["Minutes"]()


@dataclass
class SpentMinutes:
    """Of one file, or of what several share."""

    cpu: float = 0.0
    wall: float = 0.0

    def add(self, cpu: float, wall: float) -> None:
        """More of it. A process whose parent died first is out of sight: it takes nothing away."""
        self.cpu += max(cpu, 0.0)
        self.wall += wall


def tree_cpu_seconds(root: int) -> float:
    """CPU time of a process, of its living descendants, and of those that they have waited for."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        facts = stat.rpartition(")")[2].split()
        parents[int(name)] = int(facts[1])
        seconds[int(name)] = sum(map(int, facts[11:15])) / TICKS
    return sum(seconds[each] for each in seconds if _descends(each, root, parents))


def _descends(process: int, root: int, parents: dict[int, int]) -> bool:
    while process not in (root, 0):
        process = parents.get(process, 0)
    return process == root


@dataclass(eq=False)  # a plugin is told from others by its identity
class Minutes:
    """What one process' tests cost, by file; fixtures of the session have lines of their own."""

    spent: dict[str, SpentMinutes] = field(default_factory=dict[str, SpentMinutes])
    _line: str = COLLECTION
    _cpu: float = 0.0
    _wall: float = field(default_factory=monotonic)

    def begin(self, line: str) -> str:
        """What is spent from now on is of this line; the one before."""
        cpu, wall, before = tree_cpu_seconds(os.getpid()), monotonic(), self._line
        if before:
            self.spent.setdefault(before, SpentMinutes()).add(cpu - self._cpu, wall - self._wall)
        self._line, self._cpu, self._wall = line, cpu, wall
        return before

    def plain(self) -> dict[str, list[float]]:
        """As it goes to another process."""
        return {name: [each.cpu, each.wall] for name, each in self.spent.items()}

    def take(self, plain: dict[str, list[float]]) -> None:
        """Add another process' part."""
        for name, (cpu, wall) in plain.items():
            self.spent.setdefault(name, SpentMinutes()).add(cpu, wall)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """A file begins with its first test, and ends where the next test is another's."""
        file = _file(item)
        if self._line != file:
            self.begin(file)
        outcome = yield
        if nextitem is None or _file(nextitem) != file:
            self.begin("")
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        """Whichever file comes first pays for its own only."""
        if fixturedef.scope != "session":
            return (yield)
        before = self.begin(f"(fixture {fixturedef.argname})")
        try:
            return (yield)
        finally:
            self.begin(before)


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::", 1)[0]


def pytest_configure(config: pytest.Config) -> None:
    """Each process that runs tests counts its own."""
    config.stash[MINUTES] = Minutes()
    if is_worker(config) or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(config.stash[MINUTES], "minutes of this process")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its figures over."""
    if is_worker(session.config):
        output: Any = session.config
        output.workeroutput["minutes"] = session.config.stash[MINUTES].plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The figures of a worker that ended in order."""
    node.config.stash[MINUTES].take(getattr(node, "workeroutput", {}).get("minutes", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell and write them."""
    minutes = config.stash[MINUTES]
    server = postgres_process(config)
    if server:
        minutes.spent[POSTGRES] = SpentMinutes(tree_cpu_seconds(server))
    total = sum(each.cpu for each in minutes.spent.values())
    if not minutes.spent or config.option.collectonly:
        return
    files = {
        name: {"cpu": round(each.cpu, 2), "wall": round(each.wall, 2)} for name, each in _sorted(minutes)
    }
    TOLD.parent.mkdir(exist_ok=True)
    TOLD.write_text(json.dumps({"long": IS_LONG, "cpu": round(total, 1), "files": files}, indent=1) + "\n")
    terminalreporter.section(f"{total:.0f} CPU seconds")
    for name, each in _sorted(minutes)[:SHOWN]:
        terminalreporter.line(f"{each.cpu:7.1f} CPU s {each.wall:7.1f} s  {name}")


def _sorted(minutes: Minutes) -> list[tuple[str, SpentMinutes]]:
    return sorted(minutes.spent.items(), key=lambda item: -item[1].cpu)
