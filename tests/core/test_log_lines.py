"""What log lines hold: an error's type and place, and nothing that it or a stranger says."""

import asyncio
import io
import json
import logging
import sqlite3
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from redis.exceptions import ResponseError
from sqlalchemy.exc import IntegrityError

from core.configuration.settings import Settings
from core.observability import error_facts
from core.observability.log_lines import LINE_BYTES_MAX
from core.observability.telemetry import configure_logs, logger
from core.runtime import crashes
from tests.support.patience import finished

CANARY = "canary-8f3a"
FORMATS = ("json", "console")


class Lines:
    """What was logged in one format."""

    def __init__(self, settings: Settings, format: str, patch: pytest.MonkeyPatch) -> None:
        self.written = io.StringIO()
        patch.setattr(sys, "stderr", self.written)
        configure_logs(settings.model_copy(update={"log_format": format}), "test")

    @property
    def all(self) -> list[str]:
        """Line by line."""
        return self.written.getvalue().splitlines()


@pytest.fixture
def _logs_restored() -> Generator[None]:
    """The run's own logging, once the test has changed it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture(params=FORMATS)
def lines(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch, _logs_restored: None
) -> Lines:
    """A log in each format."""
    return Lines(settings, request.param, monkeypatch)


def _raise(argument: str) -> None:
    local = argument.upper().lower()
    raise ValueError(f"no {local}") from KeyError(argument)


def test_an_error_is_its_type_and_its_place(lines: Lines):
    """Neither message nor cause nor any local or argument of the calls is written; the places are."""
    log = logger(__name__)
    try:
        _raise(CANARY)
    except ValueError as error:
        log.exception("broke", id="r1")
        log.error("broke", exc_info=error)
        log.error("broke", error=error, told=[error])
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
        logging.getLogger("some.library").error("not taken: %s", error)
        logging.getLogger("some.library").error("not taken: %s", {"key": CANARY})
        log.error("broke", exception=f"Traceback {error}", stack_info=f"Stack {error}", error=error)
        logging.getLogger("some.library").error("not taken: %s", error, stack_info=True)
    assert len(lines.all) == 8
    assert CANARY not in lines.written.getvalue()
    assert "Stack (" not in lines.written.getvalue()
    for line in [*lines.all[:5], *lines.all[6:]]:
        assert "ValueError" in line, line
        assert "test_log_lines.py:" in line, line
    assert "KeyError" in lines.all[0]
    assert "dict" in lines.all[5]


def test_a_line_is_short_and_one_line(lines: Lines):
    """However long what a stranger sent, and whatever control characters it has."""
    log = logger(__name__)
    log.warning("seen", origin="x" * 100_000)
    log.warning("seen", **{f"header_{n}": "\U0001f600" * 500 for n in range(100)})
    log.warning("seen", names=["y" * 300] * 1000, deep={"a": {"b": "z" * 5000}})
    log.warning("seen", name="a\nb\x1b[31mc\u202ed\x9be")
    log.warning("seen", number=10**4000)
    logging.getLogger("some.library").warning("w" * 100_000)
    assert len(lines.all) == 6
    assert max(len(line.encode()) for line in lines.all) <= LINE_BYTES_MAX
    for character in ("\x1b[31m", "\u202e", "\x9b"):
        assert character not in lines.written.getvalue()
    assert "seen" in lines.all[1]


async def test_what_the_event_loop_says_quotes_nothing(lines: Lines):
    """Neither a callback's arguments nor a forgotten task's error, by our handler or asyncio's own."""
    loop = asyncio.get_running_loop()
    for watch in (crashes.watch, lambda loop: loop.set_exception_handler(None)):
        watch(loop)
        loop.call_soon(_raise, CANARY)
        loop.call_exception_handler({"message": f"it broke (of {CANARY})", "task": CANARY})
        await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert len(lines.all) == 4
    assert CANARY not in lines.written.getvalue()
    assert ["it broke" in line for line in lines.all] == [True, False] * 2
    assert ["ValueError" in line for line in lines.all] == [False, True] * 2


CRASHING = """
import asyncio, sys, threading
from core.runtime import service
from core.configuration.settings import Settings
home, format, secret = sys.argv[1:]
def broken(argument):
    local = argument + "!"
    raise ValueError(local)
class Closing:
    def __del__(self):
        broken(secret)
async def task(argument):
    broken(argument)
async def main(settings, stop):
    Closing()
    thread = threading.Thread(target=broken, args=(secret,))
    thread.start()
    thread.join()
    made = asyncio.create_task(task(secret))
    await asyncio.sleep(0.01)
    del made
    broken(secret)
service.run(Settings(home=home, log_format=format), "test", main)
"""


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_crash_prints_quotes_nothing(format: str, home: Path):
    """What ends a process, a thread, a forgotten task and a finalizer: one line each, of type and place."""
    argv = [sys.executable, "-c", CRASHING, str(home), format, CANARY]
    ended = finished(argv)
    assert ended.returncode == 1
    assert CANARY not in ended.stdout + ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == 4, ended.stderr
    for line, event in zip(
        lines, (".uncatchable_error", ".thread_crashed", ".event_loop_error", "process.crashed"), strict=True
    ):
        assert event in line
        assert "ValueError" in line


CHILD = """
import logging, sys
from core.runtime import crashes
crashes.install_in_child("engine")
try:
    raise ValueError(sys.argv[1])
except ValueError:
    logging.getLogger("vllm").exception("dump: %s", {"prompt": sys.argv[1]})
raise KeyError(sys.argv[1])
"""


def test_a_librarys_own_process_writes_logs_as_we_do(home: Path):
    """An engine process that vLLM starts anew has none of our handlers, and its errors hold requests."""
    ended = finished([sys.executable, "-c", CHILD, CANARY], env={"PARLEY_HOME": str(home)})
    assert CANARY not in ended.stdout + ended.stderr
    assert [name in ended.stderr for name in ("ValueError", "KeyError", "Traceback")] == [True, True, False]


def test_an_errors_codes_are_kept():
    """What a server or the system calls it: enough to act on, and no values."""
    orig = sqlite3.IntegrityError(CANARY)
    orig.sqlite_errorname = "SQLITE_CONSTRAINT_UNIQUE"
    told = {
        "ResponseError OOM": ResponseError(f"OOM command not allowed {CANARY}"),
        "ResponseError in line 12 of its script": ResponseError(f"user_script:12: {CANARY} script: abc"),
        "ResponseError": ResponseError(CANARY),
        "OSError ENOSPC": OSError(28, CANARY),
        "IntegrityError SQLITE_CONSTRAINT_UNIQUE": IntegrityError(f"INSERT {CANARY}", {"a": CANARY}, orig),
        "ExceptionGroup of KeyError, ValueError": ExceptionGroup(
            CANARY, [ValueError(CANARY), KeyError(CANARY)]
        ),
    }
    assert {name: error_facts.kind(error) for name, error in told.items()} == {name: name for name in told}


def _deep(left: int) -> None:
    if left:
        _deep(left - 1)
    json.loads("{")


def test_an_error_is_placed_where_our_code_led_to_it(monkeypatch: pytest.MonkeyPatch):
    """Not where a library raised it, nor where we began; of the calls and the causes there are a few."""
    monkeypatch.setattr(error_facts, "OURS", {"tests"})
    with pytest.raises(ValueError, match="Expecting") as raised:
        _deep(50)
    line = _deep.__code__.co_firstlineno + 3
    assert error_facts.raised_at(raised.value) == f"tests/core/test_log_lines.py:{line}"
    assert error_facts.error_facts(raised.value)["calls"].count(" > ") == error_facts.PLACES_MAX - 1
    error = ValueError(CANARY)
    for _ in range(50):
        cause, error = error, ValueError(CANARY)
        error.__cause__ = cause
    assert error_facts.error_facts(error)["cause"].count("ValueError") <= error_facts.CAUSES_MAX
    many = ExceptionGroup("", [type(f"E{number}", (Exception,), {})() for number in range(50)])
    assert error_facts.kind(many).count("E") - "ExceptionGroup".count("E") == error_facts.CAUSES_MAX
