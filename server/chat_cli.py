"""`parley chat`: talk to a gateway in a terminal. Ctrl-C stops the answer, not the program; SIGTERM and a
terminal that closes stop both.

The client lives in a thread of its own: its connection stays alive while the terminal waits for a line.
"""

import asyncio
import contextlib
import importlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from core.api_address import api_address, runs_over_api
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.terminal.terminal import piped_text, print_json, print_line, stream, typed_line
from core.terminal.terminal_tables import working
from core.web.local_urls import UP_FILE
from parley_client import Answer, Client, ConnectionState, Ended, ProtocolError, Standing
from server.chat_words import answer_lines, policy_of, prompt_lines, refusal_facts, refused_text

CONNECT_SECONDS_MAX = 15.0
CANCEL_SECONDS_MAX = 10.0  # from a cancel to the answer's end
QUEUED_SECONDS = 1.0  # in line, after which the user is told
NANO_DIGITS = 9
INTERRUPTED = 130
SIGNALLED = 128  # and the signal's number
LEAVING = (signal.SIGTERM, signal.SIGHUP)
QUEUED = "In line for a worker. Ctrl-C gives up."
TAKEN_BACK = "Some of that was taken back. The answer is:"
HELP = "/new starts a new chat, /quit or Ctrl-D leaves, Ctrl-C stops an answer."


@dataclass(frozen=True)
class ChatTarget:
    """Gateway, key, model (None: the gateway's default) and the most tokens of an answer (None: what the
    model's context leaves) of a chat."""

    url: str
    key: str
    model: str | None
    max_tokens: int | None = None


def _given_prompt(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """The prompt. Raises UsageError for an option that stands where the prompt should."""
    if given is not None and given.startswith("--") and len(given.split()) == 1:
        raise click.UsageError(
            f"--once takes the prompt, but {given} follows it: put options before, as in "
            'parley chat --json --once "Name a river"'
        )
    return given


CONSOLE_URL = (
    "`--url` before `chat` (PARLEY_API_URL) names a console, and chat talks to a gateway: name that behind "
    "it, as in `parley chat --url http://HOST:8080`"
)


@click.command()
@click.option("--url", envvar="PARLEY_URL", help="Gateway; default: that of `parley up`.")
@click.option("--key", envvar="PARLEY_KEY", help="API key; default: the demo key of `parley up`.")
@click.option("--model", help="Model to ask; default: the gateway's.")
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Most tokens of an answer; default: the model's room."
)
@click.option(
    "--once",
    "prompt",
    callback=_given_prompt,
    help="Ask this, print the answer, leave. Piped input works too.",
)
@click.option("--json", "as_json", is_flag=True, help="With one answer: print it as one JSON object.")
@runs_over_api
def command(prompt: str | None, as_json: bool, **asked: Any) -> None:
    """Chat in the terminal; without options, with the platform that `parley up` started here."""
    if api_address() is not None and not asked["url"]:
        raise StartupError(CONSOLE_URL)
    target = _target(**asked)
    if prompt is None and not sys.stdin.isatty():
        prompt = piped_text()
    if prompt is None and as_json:
        raise click.UsageError("--json prints one answer: give a prompt with --once or by a pipe")
    with _loop_thread() as loop:
        terminal = Terminal(target, loop, as_json)
        try:
            _hear(terminal.interrupt)
            code = terminal.once(prompt) if prompt is not None else terminal.talk()
        except ProtocolError as error:
            raise StartupError(refused_text(error, now_ms()), refusal_facts(error)) from None
        finally:
            terminal.close()
    sys.exit(code)


class Terminal:
    """One chat on a terminal. Its methods block; the client runs on `loop`."""

    def __init__(self, target: ChatTarget, loop: asyncio.AbstractEventLoop, as_json: bool) -> None:
        self._target = target
        self._loop = loop
        self._as_json = as_json
        self._client: Client | None = None
        self._answer: Answer | None = None
        self._asked: str | None = None  # the request that has not ended
        self._left_by = 0
        self._why = ""
        self._stopping = False
        self._turning: asyncio.Task[Ended] | None = None

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Stop the request that has not ended, or without one what the terminal does: the handler of signals.
        It raises nothing while there is one, as that could hit any line of what waits for its end."""
        if number in LEAVING:
            self._left_by = number
        if self._asked is None:
            raise KeyboardInterrupt
        self._stopping = True
        self._loop.call_soon_threadsafe(self._stop)

    def once(self, prompt: str) -> int:
        """Send one prompt. Returns the exit code."""
        self._connect()
        ended = self._turn(prompt, None)
        if ended.reason == "cancelled":
            return SIGNALLED + self._left_by if self._left_by else INTERRUPTED
        return 0 if ended.reason in ("stop", "length") else 1

    def talk(self) -> int:
        """Chat until the user leaves. Returns the exit code."""
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")  # line editing and history, where Python has it
        client = self._connect()
        _note(f"Connected to {self._target.url}. {HELP}")
        conversation = client.new_id()
        while True:
            line = self._line()
            if self._left_by:
                return SIGNALLED + self._left_by
            match line:
                case None | "/quit":
                    return 0
                case "/help":
                    _note(HELP)
                case "/new":
                    conversation = client.new_id()
                    _note("A new chat.")
                case "":
                    continue
                case prompt:
                    self._talk_turn(prompt, conversation)

    def close(self) -> None:
        """Leave the session."""
        if self._client is not None:
            self._run(self._client.close())

    def _connect(self) -> Client:
        self._client = Client(self._target.url, self._target.key, on_state=self._stands)
        try:
            with working(f"Connecting to {self._target.url}"):
                self._run(self._enter(self._client))
        except TimeoutError:
            problem = _no_gateway(self._target.url, self._why)
            raise StartupError(problem, {"code": "unreachable"}) from None
        return self._client

    def _stands(self, state: ConnectionState) -> None:
        if state.state == "waiting" and state.why is not None:
            self._why = state.why.message

    async def _enter(self, client: Client) -> None:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            await client.__aenter__()

    def _line(self) -> str | None:
        """The line that the user typed; None at the end of input, or to leave."""
        while not self._left_by:
            try:
                return typed_line("› ").strip()
            except StartupError as error:
                print_line(str(error), err=True, colour="red")
            except EOFError:
                print_line()
                return None
            except KeyboardInterrupt:
                print_line()
                if not self._left_by:
                    _note("Ctrl-D leaves.")
        return None

    def _talk_turn(self, prompt: str, conversation: str) -> None:
        try:
            self._turn(prompt, conversation)
        except ProtocolError as error:
            if error.code in ("closed", "unauthorized", "superseded", "forbidden"):
                raise
            print_line(refused_text(error, now_ms()), err=True, colour="red")

    def _turn(self, prompt: str, conversation: str | None) -> Ended:
        """Send the prompt, print the answer as it comes, and its cost."""
        assert self._client is not None
        self._stopping, self._asked = False, self._client.new_id()
        try:
            ended = self._run(self._stream(self._client, self._asked, prompt, conversation))
        except CancelledError:
            raise StartupError(_not_ended(self._asked), {"code": "not_ended", "id": self._asked}) from None
        finally:
            self._asked = None
        assert self._answer is not None
        if self._as_json:
            facts = {name: value for name, value in asdict(ended).items() if name != "trace"}
            flags = [asdict(flag) for flag in self._answer.flags]
            of_prompt = [asdict(flag) for flag in self._answer.prompt_flags]
            said = {"id": self._answer.id, "text": self._answer.text, "flags": flags}
            print_json(said | {"prompt_flags": of_prompt} | facts)
        else:
            print_line()
            for line in answer_lines(self._answer.text, self._answer.flags):
                _note(line)
            _note(_facts(ended))
        return ended

    async def _stream(self, client: Client, id: str, prompt: str, conversation: str | None) -> Ended:
        self._answer, self._turning = None, asyncio.current_task()
        if self._stopping:
            self._stop()
        most = self._target.max_tokens
        self._answer = await client.send(
            prompt,
            id=id,
            conversation=conversation,
            model=self._target.model,
            options=None if most is None else {"max_tokens": most},
        )
        if self._stopping:
            self._stop()
        for line in () if self._as_json else prompt_lines(self._answer.prompt_flags):
            _note(line)
        queued = asyncio.create_task(_note_queued(self._answer))
        try:
            if not self._as_json:
                await self._print(self._answer)
            return await self._answer.end()
        finally:
            queued.cancel()

    async def _print(self, answer: Answer) -> None:
        """Print text as it comes; where the server takes some back, a note and the text that is left."""
        printed = ""
        async for _ in answer.events():
            if not answer.text.startswith(printed):
                print_line()
                _note(TAKEN_BACK)
                printed = ""
            stream(answer.text[len(printed) :])
            printed = answer.text

    def _stop(self) -> None:
        """Ask to stop the request; where it does not end, its reading does. On the loop."""
        if self._client is not None and self._asked is not None and self._turning is not None:
            self._cancelling = self._loop.create_task(self._client.cancel(self._asked))
            self._loop.call_later(CANCEL_SECONDS_MAX, self._turning.cancel)

    def _run(self, work: Any) -> Any:
        """Wait for work on the client's loop. Without a request Ctrl-C stops the work."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise


def _hear(interrupt: Callable[[int, FrameType | None], None]) -> None:
    """Have signals call `interrupt`, but those that this process was started to ignore (nohup)."""
    ours = threading.current_thread() is threading.main_thread()
    for number in (signal.SIGINT, *LEAVING) if ours else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


async def _note_queued(answer: Answer) -> None:
    await asyncio.sleep(QUEUED_SECONDS)
    if answer.standing is Standing.QUEUED:
        _note(QUEUED)


def _not_ended(id: str | None) -> str:
    """What a user does about a cancelled request that did not end."""
    return f"not ended after {CANCEL_SECONDS_MAX:.0f} s: `parley requests cancel {id}` ends it for sure"


def _no_gateway(url: str, why: str) -> str:
    """What a user does who is not connected."""
    return f"no gateway answers at {url}{why and f' ({why})'}: is `parley up` running?"


def _note(text: str) -> None:
    print_line(text, err=True, dim=True)


def _target(url: str | None, key: str | None, model: str | None, max_tokens: int | None = None) -> ChatTarget:
    """The given target, completed by PARLEY_HOME/up.json."""
    if url and key:
        return ChatTarget(url, key, model, max_tokens)
    path = Settings().home / UP_FILE
    try:
        up = json.loads(path.read_text())
        return ChatTarget(url or up["url"], key or up["key"], model, max_tokens)
    except (OSError, ValueError, KeyError):
        raise StartupError(_how_to(path)) from None


def _how_to(path: Path) -> str:
    return f"cannot read {path}: start the platform with `parley up`, or give --url and --key"


def _facts(ended: Ended) -> str:
    usage = ended.usage
    facts = [f"{usage.total:,} tokens ({usage.input:,} in, {usage.output:,} out)"]
    if ended.cost_nano is not None and ended.currency is not None:
        facts.append(f"{_amount(ended.cost_nano)} {ended.currency.upper()}")
    if ended.reason != "stop":
        facts.append(ended.reason)
    if ended.safety is not None:
        category = ended.safety.category.replace("_", " ")
        facts.append(f"{category}, by {policy_of(ended.safety.scope)}")
    if not ended.verified:
        facts.append("the text does not have its hash")
    return " · ".join(facts)


def _amount(nano: int) -> str:
    """Nano-units as a decimal number with at least two places; no float touches money."""
    whole, fraction = divmod(nano, 10**NANO_DIGITS)
    return f"{whole}.{f'{fraction:0{NANO_DIGITS}}'.rstrip('0'):0<2}"


@contextlib.contextmanager
def _loop_thread() -> Generator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="client", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
