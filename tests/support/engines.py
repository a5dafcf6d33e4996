"""How often a run of the suite started vLLM: counted from the lines in which workers say so. More than
STARTS_MAX fails `make test`; each costs half a minute of two cores. `make test-long` only tells."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.shared import is_worker
from tests.support.tiers import IS_LONG

STARTS_MAX = 4
SAYS = "worker.started"
STARTS = pytest.StashKey[int]()


def started(logs: Iterable[Path]) -> int:
    """How many engines these logs of workers tell of."""
    return sum(log.read_text(errors="replace").count(SAYS) for log in logs)


def count(config: pytest.Config, logs: Iterable[Path]) -> None:
    """Who started vLLM says so when it is over, before its logs are gone."""
    config.stash[STARTS] += started(logs)


def verdict(starts: int, is_long: bool) -> str:
    """What is wrong with so many; empty: nothing. Pure."""
    if is_long or starts <= STARTS_MAX:
        return ""
    return f"vLLM was started {starts} times, at most {STARTS_MAX} are allowed: share an engine"


def pytest_configure(config: pytest.Config) -> None:
    """None yet."""
    config.stash[STARTS] = 0


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Those of a worker that ended."""
    node.config.stash[STARTS] += getattr(node, "workeroutput", {}).get("engines", 0)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its count over; who runs all judges."""
    config: Any = session.config
    if is_worker(config):
        config.workeroutput["engines"] = config.stash[STARTS]
    elif verdict(config.stash[STARTS], IS_LONG) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The number, where there is one."""
    starts = config.stash[STARTS]
    if starts:
        terminalreporter.section(verdict(starts, IS_LONG) or f"vLLM was started {starts} times")
