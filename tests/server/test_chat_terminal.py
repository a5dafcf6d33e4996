"""`parley chat` at a terminal: which turns a talk takes, and how it ends."""

import signal
from collections.abc import Sequence
from typing import Any, cast

import pytest

from parley_client import Client, Ended, ProtocolError, Usage
from server import chat_cli
from server.chat_cli import ChatTarget, Terminal


class Talk(Terminal):
    """A terminal whose user types these lines, and whose answers are these."""

    def __init__(
        self, typed: Sequence[str | type[BaseException] | BaseException], answers: Sequence[str] = ()
    ) -> None:
        self.made = Client("ws://gateway.test", "k")
        self.asked = list[tuple[str, int]]()
        self.typed, self.answers = list(typed), list(answers)
        self._ids = list[str]()
        super().__init__(ChatTarget("http://gateway.test", "k", None), cast(Any, None), as_json=False)

    def input(self, prompt: str) -> str:
        """As Python's."""
        assert prompt == "› "
        line = self.typed.pop(0)
        if isinstance(line, str):
            return line
        raise line

    def _connect(self) -> Client:
        return self.made

    def _turn(self, prompt: str, conversation: str | None) -> Ended:
        if conversation is not None and conversation not in self._ids:
            self._ids.append(conversation)
        self.asked.append((prompt, 0 if conversation is None else len(self._ids)))
        answer = self.answers.pop(0) if self.answers else "stop"
        if answer not in ("stop", "length", "error", "cancelled"):
            raise ProtocolError({"code": answer, "message": "because"})
        return Ended(answer, None, Usage(1, None, 1, 2), None, None, timing={}, verified=True)


@pytest.mark.parametrize(("reason", "code"), [("stop", 0), ("length", 0), ("cancelled", 130), ("error", 1)])
def test_one_answer_makes_the_exit_code(reason: str, code: int):
    """It is of no conversation."""
    terminal = Talk([], [reason])
    assert terminal.once("x") == code
    assert terminal.asked == [("x", 0)]


def test_a_talk_goes_on_until_the_user_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A refused turn is one line, so is one that is no text; an empty one is none; Ctrl-C ends nothing."""
    no_text = UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "")
    typed = ["  a ", "", "b", KeyboardInterrupt, "/new", "c", "/help", no_text, "d", EOFError, "never"]
    terminal = Talk(typed, ["stop", "overloaded"])
    monkeypatch.setattr("builtins.input", terminal.input)
    assert (terminal.talk(), terminal.typed) == (0, ["never"])
    assert terminal.asked == [("a", 1), ("b", 1), ("c", 2), ("d", 2)]
    out, error = capsys.readouterr()
    assert [out, *error.splitlines()] == [
        "\n\n",
        f"Connected to http://gateway.test. {chat_cli.HELP}",
        "because (overloaded)",
        "Ctrl-D leaves.",
        "A new chat.",
        chat_cli.HELP,
        "standard input is not UTF-8, at byte 0: nothing was done with it",
    ]


@pytest.mark.parametrize("code", ["closed", "unauthorized", "superseded", "forbidden"])
def test_a_talk_ends_where_no_turn_can_follow(code: str, monkeypatch: pytest.MonkeyPatch):
    """And with /quit."""
    terminal = Talk(["a", "/quit", "b"], [code])
    monkeypatch.setattr("builtins.input", terminal.input)
    with pytest.raises(ProtocolError, match=code):
        terminal.talk()
    assert (terminal.talk(), terminal.typed) == (0, ["b"])


def test_sigterm_ends_a_talk_that_waits_for_a_line(monkeypatch: pytest.MonkeyPatch):
    """With the exit code of a program that it ended."""
    terminal = Talk(["a"])

    def leaves(prompt: str) -> str:
        if not terminal.typed:
            terminal.interrupt(signal.SIGTERM, None)
        return terminal.input(prompt)

    monkeypatch.setattr("builtins.input", leaves)
    assert terminal.talk() == 143
    assert terminal.asked == [("a", 1)]
