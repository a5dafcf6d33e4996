"""A pytest plugin: a statement on tenants' data that names no tenant is refused where it is made (INV-16).

Who may make one is listed in tests/statements.yaml: a function, its tables, and why. In a whole run an entry
that nobody used fails the run. Statements that tests and chaos make themselves are their own affair.
"""

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from greenlet import getcurrent
from sqlalchemy import Engine, event

from tests.support.shared import is_worker
from tests.support.tenants_named import unbound

ROOT = Path(__file__).parent.parent.parent
ALLOWED = ROOT / "tests" / "statements.yaml"
PRODUCT = ("core/", "billing/", "engine/", "server/", "admin/")
OURS = (*PRODUCT, "chaos/", "tests/", "scripts/")
REMEDY = "bind tenant_id in its conditions, or list the function with a reason in tests/statements.yaml"
NOBODYS = "core/sql/database.py"  # hands on what others ask
MIGRATIONS = "core/migrations/"  # are of all tenants
READS_OR_CHANGES = ("SELECT", "UPDATE", "DELETE", "INSERT", "WITH", "(")
WATCH = pytest.StashKey["StatementWatch"]()


class NoTenantNamedError(AssertionError):
    """INV-16."""


def allowed_by(text: str) -> dict[str, set[str]]:
    """The list: `file function` and its tables."""
    listed = dict[str, set[str]]()
    for entry in yaml.safe_load(text):
        for maker, tables in entry["made"].items():
            if maker in listed:
                raise ValueError(f"{maker} is listed twice")
            listed[maker] = set(tables.split())
    return listed


class StatementWatch:
    """What one process' tests had SQL do."""

    def __init__(self, allowed: dict[str, set[str]]) -> None:
        self._allowed = allowed
        self._verdicts: dict[str, set[str]] = {}  # by text: a statement is judged once
        self.used: set[str] = set()
        self.refused: list[str] = []
        self.told = ""  # of a whole run

    def asked(
        self, _connection: Any, _cursor: Any, sent: str, _parameters: Any, context: Any, _: bool
    ) -> None:
        """Of each statement before it is sent."""
        compiled: Any = context.compiled if context else None
        text = sent if compiled is None else compiled.string
        tables = self._verdicts.get(text)
        if tables is None:
            tables = set[str]()
            if text.lstrip().upper().startswith(READS_OR_CHANGES):
                tables = unbound(sent if compiled is None else compiled.statement)
            self._verdicts[text] = tables
        if tables:
            self._judge(tables, text)

    def _judge(self, tables: set[str], text: str) -> None:
        maker = maker_of(sys._getframe(2))
        if not maker.startswith(PRODUCT) or maker.startswith(MIGRATIONS):
            return
        listed = self._allowed.get(maker, set())
        self.used |= {f"{maker} {table}" for table in tables & listed}
        if not tables <= listed:
            named = ", ".join(sorted(tables - listed))
            told = f"{maker} names no tenant of {named} (INV-16): {REMEDY}\n{text}"
            self.refused.append(told)  # a loop that is kept alive would swallow the exception
            raise NoTenantNamedError(told)

    def unused(self) -> list[str]:
        """What is allowed, and nobody made."""
        pairs = {f"{maker} {table}" for maker, tables in self._allowed.items() for table in tables}
        return sorted(pairs - self.used)


def maker_of(frame: FrameType | None) -> str:
    """The file and function of ours that has a statement made; empty: none is known."""
    for each in _callers(frame):
        file = each.f_code.co_filename
        name = file.removeprefix(f"{ROOT}/")
        if name != file and name.startswith(OURS) and name != NOBODYS:
            return f"{name} {each.f_code.co_qualname}"
    return ""


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """SQLAlchemy's own code runs in a greenlet; who awaits it is in the one before."""
    greenlet: Any = getcurrent()
    while frame is not None:
        yield frame
        frame = frame.f_back
        while frame is None and greenlet.parent is not None:
            greenlet = greenlet.parent
            frame = greenlet.gr_frame


def verdict(unused: list[str], is_whole: bool) -> str:
    """What is wrong with the list; empty: nothing. Pure."""
    if not unused or not is_whole:
        return ""
    return "nobody makes these statements of tests/statements.yaml any more: " + ", ".join(unused)


def pytest_configure(config: pytest.Config) -> None:
    """From here on all statements of this process."""
    watch = config.stash[WATCH] = StatementWatch(allowed_by(ALLOWED.read_text()))
    event.listen(Engine, "before_cursor_execute", watch.asked)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Of this run no more."""
    if WATCH in config.stash:
        event.remove(Engine, "before_cursor_execute", config.stash[WATCH].asked)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """A refusal fails the test, whatever became of the exception."""
    yield
    fail_if_refused(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """The same."""
    yield
    fail_if_refused(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """The same."""
    yield
    fail_if_refused(item)


def fail_if_refused(item: pytest.Item) -> None:
    watch = item.config.stash[WATCH]
    refused, watch.refused = watch.refused, []
    if refused:
        raise NoTenantNamedError("; ".join(refused))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker's tests used."""
    node.config.stash[WATCH].used |= set(getattr(node, "workeroutput", {}).get("statements", ()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands it over; who runs all judges."""
    config: Any = session.config
    watch: StatementWatch = config.stash[WATCH]
    if is_worker(config):
        config.workeroutput["statements"] = sorted(watch.used)
    elif session.exitstatus == pytest.ExitCode.OK:
        watch.told = verdict(watch.unused(), _is_whole(config))
        if watch.told:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_whole(config: pytest.Config) -> bool:
    asked = config.option
    fewer = asked.keyword or asked.collectonly or getattr(asked, "lf", False)
    chosen = fewer or asked.markexpr not in ("", "not long")
    return config.args_source is not pytest.Config.ArgsSource.ARGS and not chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell it."""
    if told := config.stash[WATCH].told:
        terminalreporter.section("statements without a tenant")
        terminalreporter.line(told)
