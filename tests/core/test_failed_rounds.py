"""What a round may raise and go on, and what ends the loop; and whom a failure is blamed on."""

import asyncio

import pytest
from redis.exceptions import BusyLoadingError, OutOfMemoryError, RedisError, ResponseError
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from core.errors import StartupError, bad_request
from core.observability.telemetry import logger
from core.runtime.failed_rounds import is_store_down, logged_failures

CANARY = "hunter2canary"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(CANARY), "ValueError"),
        (RecursionError(CANARY), "RecursionError"),
        (ResponseError(f"OOM {CANARY}"), "ResponseError OOM"),
        (bad_request(CANARY), "Refused bad_request"),
        (StartupError(CANARY), "StartupError"),
        (ExceptionGroup(CANARY, [KeyError(CANARY)]), "ExceptionGroup of KeyError"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_raised_ends_this_round_alone(error: Exception, kind: str):
    """One line says its kind, where it was, and what the loop was about: nothing that the error quotes."""
    after = list[int]()
    with capture_logs() as lines:
        with logged_failures(logger(__name__), "a round failed", pool="p"):
            raise error
        after.append(1)
    assert after == [1]
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("a round failed", "warning")
    assert (line["pool"], line["error"]) == ("p", kind)
    assert line["at"]
    assert CANARY not in str(lines)


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_who_ends_the_process_or_the_task_is_obeyed(error: type[BaseException]):
    """A loop that outlived these could not be stopped."""
    with capture_logs() as lines, pytest.raises(error), logged_failures(logger(__name__), "a round failed"):
        raise error
    assert lines == []


def test_a_group_with_an_end_in_it_is_an_end():
    """One of several tasks was told to exit: so is the process."""
    ends = BaseExceptionGroup("", [ValueError(), SystemExit(1)])
    with pytest.raises(BaseExceptionGroup), logged_failures(logger(__name__), "a round failed"):
        raise ends


def test_what_goes_well_says_nothing():
    with capture_logs() as lines, logged_failures(logger(__name__), "a round failed"):
        pass
    assert lines == []


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (RedisError(), True),
        (OSError(), True),
        (TimeoutError(), True),
        (OperationalError("", {}, Exception()), True),
        (BusyLoadingError(), True),
        (OutOfMemoryError("OOM command not allowed"), True),
        (ResponseError("WRONGTYPE Operation against a key"), False),
        (ResponseError("ERR user_script:3: bad"), False),
        (ValueError(), False),
        (bad_request(""), False),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_whom_a_failure_is_blamed_on(error: Exception, away: bool):
    """A store that refuses everybody is waited for; what it answers of one entry is that entry's fault."""
    assert is_store_down(error) is away
