"""`parley chat`: as a process, against a peer whose every frame is written by hand, and its parts here."""

import asyncio
import json
import os
import pty
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.errors import StartupError
from parley_client import Client
from server import chat_cli
from server.chat_cli import ChatTarget, Terminal
from tests.support.patience import patience
from tests.support.processes import Piped, parley, piped
from tests.support.scripted_peer import Peer, Socket, scripted_peer


@pytest.fixture
async def peer() -> AsyncGenerator[Peer]:
    """A server that the test plays."""
    async with scripted_peer() as playing:
        yield playing


async def chat(home: Path, *arguments: str, stdin: int | None = None) -> Piped | Process:
    """Start the command with an own PARLEY_HOME."""
    return await piped(parley("chat", *arguments), os.environ | {"PARLEY_HOME": str(home)}, stdin)


async def finished(process: Piped | Process, typed: bytes | None = None) -> tuple[int | None, str, str]:
    """Its exit code, stdout and stderr."""
    async with patience():
        out, error = await process.communicate(typed)
    return process.returncode, out.decode(), error.decode()


def remember(home: Path, peer: Peer) -> None:
    """What `parley up` leaves for those who want to talk to it."""
    (home / "up.json").write_text(json.dumps({"url": peer.url, "key": "pk_good"}))


async def answer(socket: Socket, text: str, g: int = 1) -> None:
    """Answer a turn."""
    await socket.accept(g)
    await socket.delta(text, 1, g=g)
    await socket.end(text, 2, g=g)


async def test_once_prints_the_answer_and_its_cost(peer: Peer, home: Path):
    """The answer goes to stdout, what it cost to stderr; url and key come from up.json."""
    remember(home, peer)
    process = await chat(home, "--once", "Name a river.")
    socket = await peer.socket()
    assert (await socket.welcome())["token"] == "pk_good"
    await answer(socket, "The Nile.")
    code, out, error = await finished(process)
    assert (code, out) == (0, "The Nile.\n")
    assert "49 tokens (37 in, 12 out) · 0.0000061 USD" in error


async def test_a_consoles_url_is_not_passed_over(peer: Peer, home: Path):
    """Who names another installation's console before `chat` does not talk to this one unawares."""
    remember(home, peer)
    argv = parley("--url", "https://console.example.org", "chat", "--once", "hi")
    process = await piped(argv, os.environ | {"PARLEY_HOME": str(home)}, None)
    code, out, error = await finished(process)
    assert (code, out) == (1, "")
    assert "name that behind it" in error


async def test_text_that_is_taken_back_is_followed_by_what_is_left(peer: Peer, home: Path):
    """Print cannot be undone: a note, then the text as it is now and goes on."""
    remember(home, peer)
    process = await chat(home, "--once", "Name a river.")
    socket = await peer.socket()
    await socket.welcome()
    await socket.accept()
    await socket.delta("The Nile, bad", 1)
    await socket.tell("retract", g=1, o=2, p=8, category="x", policy="y")
    await socket.delta(".", 3, p=8)
    await socket.end("The Nile.", 4)
    code, out, error = await finished(process)
    assert (code, out) == (0, "The Nile, bad\nThe Nile.\n")
    assert "Some of that was taken back." in error


async def test_json_prints_one_object_and_a_pipe_is_a_prompt(peer: Peer, home: Path):
    """Machines get one JSON line with text, usage, cost and whether the hash was right."""
    process = await chat(home, "--json", "--url", peer.url, "--key", "pk_other", "--model", "smollm2")
    assert process.stdin is not None
    process.stdin.write(b"Name a river.")
    process.stdin.close()
    socket = await peer.socket()
    assert (await socket.welcome())["token"] == "pk_other"
    send = await socket.hear("send")
    assert (send["content"], send["model"]) == ("Name a river.", "smollm2")
    socket.heard.append(send)
    await answer(socket, "The Nile.")
    code, out, _ = await finished(process)
    told = json.loads(out)
    assert (told["flags"], told["safety"]) == ([], None)
    assert (code, told["text"], told["cost_nano"], told["verified"]) == (0, "The Nile.", 6100, True)
    assert told["usage"]["total"] == 49


async def test_failures_are_one_line(peer: Peer, home: Path):
    """No platform, a wrong key, a refused turn: one line that says what to do, and exit code 1."""
    code, _, error = await finished(await chat(home, "--once", "x"))
    assert (code, error.count("\n")) == (1, 1)
    assert "start the platform with `parley up`" in error
    remember(home, peer)
    process = await chat(home, "--once", "x")
    socket = await peer.socket()
    await socket.hear("hello")
    await socket.tell("error", re="hello", code="unauthorized", message="wrong key", retry=False)
    code, _, error = await finished(process)
    assert (code, error.splitlines()[-1]) == (1, "parley: wrong key (unauthorized)")
    process = await chat(home, "--once", "x", "--model", "nope")
    socket = await peer.socket()
    await socket.welcome()
    id = (await socket.hear("send"))["id"]
    await socket.tell("error", re="send", id=id, code="unknown_model", message="there are: a", retry=False)
    code, _, error = await finished(process)
    assert (code, error.splitlines()[-1]) == (1, "parley: there are: a (unknown_model)")


async def test_ctrl_c_stops_the_answer_not_the_program(peer: Peer, home: Path):
    """In a terminal, Ctrl-C cancels what runs; the chat goes on in the same conversation until Ctrl-D."""
    remember(home, peer)
    terminal, line = pty.openpty()
    try:
        process = await chat(home, stdin=line)
        socket = await peer.socket()
        await socket.welcome()
        os.write(terminal, b"A story\n")
        first = await socket.hear("send")
        socket.heard.append(first)
        id = await socket.accept()
        await socket.delta("Once upon", 1)
        assert process.stdout is not None
        async with patience():
            await process.stdout.readuntil(b"Once upon")
        process.send_signal(signal.SIGINT)
        assert (await socket.hear("cancel"))["id"] == id
        await socket.end("Once upon", 2, reason="cancelled")
        os.write(terminal, b"And then?\n")
        second = await socket.hear("send")
        assert second["conversation"] == first["conversation"]
        socket.heard.append(second)
        await answer(socket, "The end.", g=2)
        async with patience():
            await process.stdout.readuntil(b"The end.")
        os.write(terminal, b"\x04")
        code, _, error = await finished(process)
    finally:
        os.close(terminal)
        os.close(line)
    assert code == 0
    assert "cancelled" in error


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("stage", ["sent", "queued", "running"])
async def test_a_signal_cancels_what_was_asked(
    number: signal.Signals, code: int, stage: str, peer: Peer, home: Path
):
    """However far it came: nothing runs, or waits in line, for a reader who is gone."""
    remember(home, peer)
    process = await chat(home, "--once", "A story", "--max-tokens", "9")
    socket = await peer.socket()
    await socket.welcome()
    send = await socket.hear("send")
    assert send["options"] == {"max_tokens": 9}
    socket.heard.append(send)
    assert process.stderr is not None
    assert process.stdout is not None
    if stage != "sent":
        await socket.accept()
    async with patience():
        if stage == "queued":
            await process.stderr.readuntil(chat_cli.QUEUED.encode())
        if stage == "running":
            await socket.delta("Once upon", 1)
            await process.stdout.readuntil(b"Once upon")
    process.send_signal(number)
    assert (await socket.hear("cancel"))["id"] == send["id"]
    if stage == "sent":
        await socket.accept()
    text = "Once upon" if stage == "running" else ""
    await socket.end(text, 2 if text else 1, reason="cancelled")
    ended, _, error = await finished(process)
    assert ended == code, error
    assert "cancelled" in error


def test_a_request_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch):
    """The program ends all the same, and says what ends the request."""
    monkeypatch.setattr(chat_cli, "CANCEL_SECONDS_MAX", 0.0)

    class Deaf(Client):
        async def send(self, *_: Any, **asked: Any) -> Any:
            terminal.interrupt(signal.SIGINT, None)
            await asyncio.Event().wait()

    with chat_cli._loop_thread() as loop:
        terminal = Terminal(ChatTarget("http://gateway.test", "k", None), loop, as_json=False)
        terminal._client = Deaf("ws://gateway.test", "k")
        with pytest.raises(StartupError, match=r"`parley requests cancel [0-9a-f-]+`"):
            terminal._turn("x", None)


async def test_sigterm_ends_a_talk_with_its_answer(peer: Peer, home: Path):
    """Ctrl-C would go on to the next line."""
    remember(home, peer)
    terminal, line = pty.openpty()
    try:
        process = await chat(home, stdin=line)
        socket = await peer.socket()
        await socket.welcome()
        os.write(terminal, b"A story\n")
        id = await socket.accept()
        process.send_signal(signal.SIGTERM)
        assert (await socket.hear("cancel"))["id"] == id
        await socket.end("", 1, reason="cancelled")
        code, _, _ = await finished(process)
    finally:
        os.close(terminal)
        os.close(line)
    assert code == 143


async def test_what_was_taken_out_is_told(peer: Peer, home: Path):
    """Behind the answer, on stderr: each thing once, with the names that the chat page has."""
    remember(home, peer)
    process = await chat(home, "--once", "x")
    socket = await peer.socket()
    await socket.welcome()
    await socket.accept()
    text = "Pay [CARD_1], not [CARD_1] or [CARD_2], see a@b.example."
    await socket.delta(text, 1)
    placeholders = [("card", "redact", at, 8) for at in (4, 18, 30)]
    for o, (category, action, p, n) in enumerate([*placeholders, ("email", "flag", 44, 11)], 2):
        flag = {"category": category, "action": action, "scope": "platform", "p": p, "n": n}
        await socket.tell("event", g=1, o=o, k="flagged", v=flag)
    await socket.end(text, 6)
    code, out, error = await finished(process)
    assert (code, out) == (0, text + "\n")
    assert "Removed before it reached you: 2 card numbers.\nMarked in this answer: e-mail address.\n" in error


async def test_a_prompts_verdicts_are_told(peer: Peer, home: Path):
    """What the model got otherwise, and what was marked: in a line each, and in JSON by their places."""
    flags = [{"category": "card", "action": "redact", "scope": "tenant", "p": 0, "n": 16, "x": "[CARD_1]"}]
    for option in ((), ("--json",)):
        remember(home, peer)
        process = await chat(home, "--once", "4111111111111111", *option)
        socket = await peer.socket()
        await socket.welcome()
        await socket.accept(flags=flags)
        if not option:  # before the first word of the answer
            assert process.stderr is not None
            async with patience():
                await process.stderr.readuntil(b"before the model got it: 1 card number.\n")
        await socket.delta("The Nile.", 1)
        await socket.end("The Nile.", 2)
        code, out, _ = await finished(process)
        assert code == 0
        if option:
            assert json.loads(out)["prompt_flags"] == [{**flags[0], "m": None}]


async def test_a_refusal_in_json_has_its_code_and_place(peer: Peer, home: Path):
    """A program need not read a sentence."""
    remember(home, peer)
    process = await chat(home, "--once", "x", "--json")
    socket = await peer.socket()
    await socket.welcome()
    id = (await socket.hear("send"))["id"]
    place = {"category": "card", "scope": "tenant", "p": 0, "n": 1}
    error = {"code": "safety_blocked", "message": "not sent", "retry": False, "safety": place}
    await socket.tell("error", re="send", id=id, **error)
    code, out, _ = await finished(process)
    told = json.loads(out)
    assert (code, told["code"], told["safety"], told["retry"]) == (1, "safety_blocked", place, False)
    assert "lets no card numbers in (characters 1 to 1)" in told["error"]


@pytest.mark.parametrize(
    ("given", "kept", "target"),
    [
        (("u", "k"), "", ("u", "k")),
        (("u", None), '{"url": "v", "key": "l"}', ("u", "l")),
        ((None, "k"), '{"url": "v", "key": "l"}', ("v", "k")),
        ((None, None), '{"url": "v", "key": "l"}', ("v", "l")),
        (("", "k"), '{"url": "v"}', ("v", "k")),
        ((None, None), '{"url": "v"}', None),
        (("u", None), "{", None),
    ],
)
def test_what_is_not_given_is_what_up_left(
    given: tuple[str | None, str | None],
    kept: str,
    target: tuple[str, str] | None,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Where that does not tell it, what to do is said."""
    monkeypatch.setenv("PARLEY_HOME", str(home))
    if kept:
        (home / "up.json").write_text(kept)
    if target is None:
        with pytest.raises(StartupError, match=r"up\.json: start the platform with `parley up`, or give"):
            chat_cli._target(*given, "m")
    else:
        assert chat_cli._target(*given, "m") == ChatTarget(*target, "m")
