"""The process that tries shapes: what it reads, bounds and ends, and what it makes of a trial's end."""

import io
import json
import os
import resource
import signal
from typing import Any

import pytest

from engine.grammar.response_format import Shape
from engine.trials import host as module
from engine.trials.host import TrialHost


class _EndedError(Exception):
    """The process would have ended with this code."""


class StartedTrial(TrialHost):
    """Notes what it would begin."""

    begun: list[tuple[int, str]]

    def _begin(self, number: int, packed: str) -> None:
        self.begun.append((number, packed))


def a_host(kind: type[TrialHost] = TrialHost, trial: Any = None) -> tuple[Any, int, io.BytesIO]:
    """With the pipe that its requests come by, and what it answers."""
    read, write = os.pipe()
    answers = io.BytesIO()
    return kind(trial, os.fdopen(read, "rb"), answers), write, answers


@pytest.mark.parametrize(
    ("said", "code", "verdict"),
    [
        ("at the shape\nis \n", 0, ""),
        ("at the shape\nis pattern: ambiguous\n", 0, "pattern: ambiguous"),
        ("at the shape\n", 0, "the shape: too large: the grammar compiler fails at it"),
        (
            "at the shape\nat pattern\n",
            -signal.SIGPROF,
            "pattern: too large: not tried within 2 s of CPU, make it smaller",
        ),
        ("at pattern\n", -signal.SIGSEGV, "pattern: too large: the grammar compiler fails at it"),
        ("at pattern\n", 1, "pattern: too large: the grammar compiler fails at it"),
        ("is good\n", 1, "is good: too large: the grammar compiler fails at it"),
        ("at pattern\n", -signal.SIGKILL, None),
        ("", 1, None),
        ("", -signal.SIGPROF, None),
    ],
)
def test_what_a_trials_end_says(said: str, code: int, verdict: str | None):
    """Killed or never begun it does not count; else the last place that it named is what was too much."""
    assert module._verdict(said, code) == verdict


def test_requests_are_read_as_they_come():
    """Line by line, however they are cut; the end of them is the host's."""
    host, write, _ = a_host(StartedTrial)
    host.begun = []
    lines = b'{"n": 1, "shape": "a"}\n{"n": 2, "shape": "b"}\n'
    for piece in (lines[:9], lines[9:30], lines[30:]):
        os.write(write, piece)
        assert host._take()
    assert host.begun == [(1, "a"), (2, "b")]
    os.close(write)
    assert not host._take()
    host._requests.close()


def running(host: TrialHost, number: int, until: float) -> tuple[int, int]:
    """A trial that nobody began: where it is heard, and where it speaks."""
    read, write = os.pipe()
    host._running[read] = module._RunningTrial(number, 1_000 + number, until)
    host._selector.register(read, module.selectors.EVENT_READ)
    return read, write


def test_an_answer_is_given_once_its_trial_has_ended(monkeypatch: pytest.MonkeyPatch):
    """With the number that it was asked under; of one that does not count without a verdict."""
    host, write, answers = a_host()
    ends = {1_001: 0, 1_002: signal.SIGKILL}
    monkeypatch.setattr(module.os, "waitpid", lambda pid, options: (pid, ends.pop(pid)))
    for number, said in ((1, [b"at the shape\n", b"is bad\n"]), (2, [b"at the shape\n"])):
        read, speak = running(host, number, 0.0)
        for piece in said:
            os.write(speak, piece)
            host._hear(read)
        assert len(answers.getvalue().splitlines()) == number - 1
        os.close(speak)
        host._hear(read)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(read)
    assert list(map(json.loads, answers.getvalue().splitlines())) == [{"n": 1, "problem": "bad"}, {"n": 2}]
    assert (host._running, ends, list(host._selector.get_map())) == ({}, {}, [])
    os.close(write)
    host._requests.close()


def test_late_trials_are_killed_and_all_of_them_at_the_end(monkeypatch: pytest.MonkeyPatch):
    """Their pipes close, and are heard."""
    host, write, _ = a_host()
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(module.os, "kill", lambda pid, sign: killed.append((pid, sign)))
    monkeypatch.setattr(module.time, "monotonic", lambda: 10.0)
    pipes = [*running(host, 1, 9.9), *running(host, 2, 10.0), *running(host, 3, 50.0)]
    host._end_late()
    assert killed == [(1_001, signal.SIGKILL)]
    os.close(write)
    host.serve()
    assert killed[1:] == [(number, signal.SIGKILL) for number in (1_001, 1_002, 1_003)]
    assert not os.get_blocking(host._requests.fileno())
    host._requests.close()
    for pipe in pipes:
        os.close(pipe)


def test_a_trial_is_bounded_says_where_it_is_and_ends(monkeypatch: pytest.MonkeyPatch):
    """Before the shape is even read it is bounded."""
    done: list[Any] = []

    class _Trial:
        def problem(self, shape: Shape, say: Any) -> str:
            done.append(shape)
            say("pattern")
            return "ambiguous"

    def end(code: int) -> None:
        raise _EndedError(code)

    host, write, _ = a_host(trial=_Trial())
    monkeypatch.setattr(module, "bound", done.append)
    monkeypatch.setattr(module.os, "write", lambda pipe, data: done.append((pipe, data)))
    monkeypatch.setattr(module.os, "_exit", end)
    with pytest.raises(_EndedError, match="0"):
        host._try('{"pattern":"a"}', 7)
    said = [(7, b"at the shape\n"), Shape(pattern="a"), (7, b"at pattern\n"), (7, b"is ambiguous\n")]
    assert done == [2.0, *said]
    os.close(write)
    host._requests.close()


@pytest.mark.parametrize("most", [resource.RLIM_INFINITY, 1 << 40])
def test_what_a_trial_may_take(most: int, monkeypatch: pytest.MonkeyPatch):
    """So much CPU, no dump of its memory, and a gigabyte more than there is, unless less is allowed."""
    done: list[Any] = []
    monkeypatch.setattr(module.signal, "signal", lambda *facts: done.append(facts))
    monkeypatch.setattr(module.signal, "setitimer", lambda *facts: done.append(facts))
    monkeypatch.setattr(module.resource, "setrlimit", lambda *facts: done.append(facts))
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (0, most))
    monkeypatch.setattr(module.resource, "getpagesize", lambda: 0)
    module.bound(2.0)
    *before, (kind, limits) = done
    assert before == [
        (signal.SIGPROF, signal.SIG_DFL),
        (signal.ITIMER_PROF, 2.0),
        (resource.RLIMIT_CORE, (0, 0)),
    ]
    assert kind == resource.RLIMIT_AS
    assert limits == ((1 << 30, most) if most == resource.RLIM_INFINITY else (most, most))
