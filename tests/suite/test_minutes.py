"""What the suite costs is counted, and held to its budgets."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import check_minutes
from scripts.check_minutes import CPU_SECONDS_MAX, faults, renewed, total
from tests.support import minutes as plugin
from tests.support.minutes import COLLECTION, MINUTES, POSTGRES, Minutes, SpentMinutes, tree_cpu_seconds

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
NESTED = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]])
print(1, flush=True)
input()
"""


def lines(**seconds: float) -> check_minutes.Lines:
    return {name: {"cpu": cpu, "wall": cpu} for name, cpu in seconds.items()}


def test_what_a_process_and_its_own_spent_is_counted() -> None:
    """While they live, and once they were waited for."""
    before = tree_cpu_seconds(os.getpid())
    argv = [sys.executable, "-c", NESTED, BURN.format(seconds=0.3)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert tree_cpu_seconds(process.pid) >= 0.3  # of a grandchild that is gone
        assert tree_cpu_seconds(os.getpid()) - before >= 0.3
        process.communicate(b"\n")
    assert tree_cpu_seconds(os.getpid()) - before >= 0.3
    assert tree_cpu_seconds(2**22 + 1) == 0


def test_each_line_has_what_was_spent_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between files nothing is counted; workers' parts add up; a process out of sight takes nothing away."""
    clock = iter([1.0, 4.0, 4.5, 7.0, 8.0, 6.0])
    monkeypatch.setattr("tests.support.minutes.tree_cpu_seconds", lambda _: next(clock))  # pyright: ignore[reportUnknownLambdaType]
    minutes = Minutes()
    for line in ("a", "", "b", "(fixture x)", "b", ""):
        minutes.begin(line)
    found = {name: each.cpu for name, each in minutes.spent.items()}
    assert found == {COLLECTION: 1.0, "a": 3.0, "b": 2.5, "(fixture x)": 1.0}
    minutes.take(Minutes({"a": minutes.spent["b"]}).plain())
    assert minutes.spent["a"].cpu == 5.5


def test_what_is_over_its_budget_is_named() -> None:
    """By half and three seconds; what has no budget may cost three."""
    budgets = lines(a=10.0, b=0.1)
    assert list(faults(budgets, lines(a=17.9, b=3.1, new=3.0))) == []
    assert [each.split(":")[0] for each in faults(budgets, lines(a=18.1, b=3.2, new=3.1))] == [
        "a",
        "b",
        "new",
    ]


def test_the_sum_has_a_limit() -> None:
    """However cheap each file is."""
    many = lines(**{f"f{at}": 1.0 for at in range(int(CPU_SECONDS_MAX) + 1)})
    assert [each.split(":")[0] for each in faults(many, many)] == ["all"]


def test_renewing_keeps_what_did_not_run_and_forgets_what_is_gone() -> None:
    """A run of one file renews that one's budget; lines that files share stay."""
    budgets = lines(**{"a": 1.0, "gone": 2.0, "(fixture x)": 3.0, "b": 4.0})
    assert renewed(budgets, lines(a=1.5), {"a", "b"}) == lines(**{"(fixture x)": 3.0, "a": 1.5, "b": 4.0})


def test_no_renewal_raises_the_sum_over_the_limit() -> None:
    """One that lowers it is taken, from above the limit too."""
    full = lines(a=CPU_SECONDS_MAX)
    with pytest.raises(ValueError, match="long form"):
        renewed(full, lines(b=0.1), {"a", "b"})
    over = lines(a=CPU_SECONDS_MAX, b=50.0)
    assert total(renewed(over, lines(b=40.0), {"a", "b"})) == CPU_SECONDS_MAX + 40


class StartedRun(Minutes):
    """Which lines it began."""

    def begin(self, line: str) -> str:
        """See Minutes."""
        self.lines = [*getattr(self, "lines", []), line]
        return super().begin(line)


def around(wrapper: Any) -> None:
    """A hook with nothing in it."""
    next(wrapper)
    with pytest.raises(StopIteration):
        wrapper.send(None)


def test_a_file_lasts_from_its_first_test_to_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens between two files, and after the last, is nobody's."""
    monkeypatch.setattr(plugin, "tree_cpu_seconds", lambda _: 0.0)  # pyright: ignore[reportUnknownLambdaType]
    minutes = StartedRun()
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in ("a::1", "a::2", "b::1", "a::3")]
    for item, following in zip(items, [*items[1:], None], strict=True):
        around(minutes.pytest_runtest_protocol(item, following))
    assert minutes.lines == ["a", "", "b", "", "a", ""]


def test_a_fixture_of_the_session_is_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the file goes on that needed it first; what a module makes is the file's."""
    monkeypatch.setattr(plugin, "tree_cpu_seconds", lambda _: 0.0)  # pyright: ignore[reportUnknownLambdaType]
    minutes = StartedRun()
    minutes.begin("a")
    for scope in ("session", "module"):
        around(minutes.pytest_fixture_setup(SimpleNamespace(scope=scope, argname=f"of_{scope}")))
    assert minutes.lines == ["a", "(fixture of_session)", "a"]


class Plugins(list[object]):
    """Those that were registered."""

    def register(self, plugin: object, _: str) -> None:
        """As pytest's."""
        self.append(plugin)


def run(workers: int, **more: Any) -> Any:
    """A run, as far as it is asked."""
    option = SimpleNamespace(numprocesses=workers, collectonly=False)
    config = SimpleNamespace(option=option, stash=pytest.Stash(), pluginmanager=Plugins(), **more)
    plugin.pytest_configure(config)  # pyright: ignore[reportArgumentType]
    return config


def test_workers_hand_over_what_they_counted() -> None:
    """Who only waits for them counts nothing."""
    alone, whole = run(0), run(2)
    worker = run(2, workerinput={}, workeroutput={})
    assert [len(each.pluginmanager) for each in (alone, whole, worker)] == [1, 0, 1]
    worker.stash[MINUTES].spent["a"] = SpentMinutes(1.0, 2.0)
    plugin.pytest_sessionfinish(SimpleNamespace(config=worker))  # pyright: ignore[reportArgumentType]
    for output in (worker.workeroutput, worker.workeroutput, {}):
        plugin.pytest_testnodedown(SimpleNamespace(config=whole, workeroutput=output))
    assert whole.stash[MINUTES].plain() == {"a": [2.0, 4.0]}


@pytest.mark.parametrize("is_long", [True, False])
def test_the_figures_of_a_run_are_written(
    is_long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its form, the dearest first; Postgres is a line where it ran. Who only collects leaves them."""
    monkeypatch.setattr(plugin, "TOLD", tmp_path / "folder" / "minutes.json")
    monkeypatch.setattr(plugin, "IS_LONG", is_long)
    monkeypatch.setattr(plugin, "tree_cpu_seconds", lambda _: 3.0)  # pyright: ignore[reportUnknownLambdaType]
    config, said = run(0), list[str]()
    reporter: Any = SimpleNamespace(section=said.append, line=said.append)
    config.stash[MINUTES].spent = {"a": SpentMinutes(1.0, 1.0), "b": SpentMinutes(2.0, 1.0)}
    monkeypatch.setattr(plugin, "postgres_process", lambda _: 0)  # pyright: ignore[reportUnknownLambdaType]
    config.option.collectonly = True
    plugin.pytest_terminal_summary(reporter, config)
    assert (said, plugin.TOLD.exists()) == ([], False)
    config.option.collectonly = False
    plugin.pytest_terminal_summary(reporter, config)
    told = json.loads(plugin.TOLD.read_text())
    assert (told["long"], told["cpu"], list(told["files"])) == (is_long, 3.0, ["b", "a"])
    monkeypatch.setattr(plugin, "postgres_process", lambda _: 7)  # pyright: ignore[reportUnknownLambdaType]
    plugin.pytest_terminal_summary(reporter, config)
    assert list(json.loads(plugin.TOLD.read_text())["files"]) == [POSTGRES, "b", "a"]
    assert (said[0], said[3]) == ("3 CPU seconds", "6 CPU seconds")
