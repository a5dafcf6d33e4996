"""What the suite costs is counted, and held to its budgets."""

import os
import subprocess
import sys

import pytest

from scripts import check_minutes
from scripts.check_minutes import CPU_SECONDS_MAX, faults, renewed, total
from tests.support.minutes import COLLECTION, Minutes, tree_cpu_seconds

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
