"""Reads the YAML files of the clients' suite into checked cases (README.md has the language)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import field

from tests.conformance.cases import Strict, parse_step, read_yaml
from tests.conformance.values import BadCase


class ClientStep(Strict, frozen=True):
    """One action. `within_ms` bounds every wait of it."""

    connection: str | None = None
    within_ms: int = 5000


class OpenStep(ClientStep, frozen=True, kw_only=True):
    """The client connects, says hello and is welcomed."""

    open: str
    hello: dict[str, Any] = {}
    welcome: dict[str, Any] = {}
    not_before_ms: int = 0


class ConnectStep(ClientStep, frozen=True, kw_only=True):
    """The client connects and says hello; nothing is answered."""

    connect: str
    path: str = "/v1/ws"
    hello: dict[str, Any] = {}
    not_before_ms: int = 0


class Greet(ClientStep, frozen=True, kw_only=True):
    """The hello of a connection that was only connected is answered by a welcome."""

    greet: Any


class Refuse(ClientStep, frozen=True, kw_only=True):
    """The next upgrade is refused with an HTTP status."""

    refuse: Any
    body: str = ""
    headers: dict[str, str] = {}


class SendStep(ClientStep, frozen=True, kw_only=True):
    """The server sends a message. `text`: what an `end` has the hash of."""

    send: Any
    text: Any = None


class SendAll(ClientStep, frozen=True, kw_only=True):
    """The server sends several messages."""

    send_all: Any


class RepeatStep(ClientStep, frozen=True, kw_only=True):
    """Steps that are played N times; `#` in them is the number, from 1."""

    repeat: int
    steps: list[dict[str, Any]]


class ExpectStep(ClientStep, frozen=True, kw_only=True):
    """The client's next message of this type matches."""

    expect: Any
    not_before_ms: int = 0


class ExpectAcked(ClientStep, frozen=True, kw_only=True):
    """The client has acknowledged exactly this, in whatever messages."""

    expect_acked: dict[Any, Any]


class QuietStep(ClientStep, frozen=True, kw_only=True):
    """The client has nothing (of these types) to say."""

    quiet: Literal[True] | list[str]
    for_ms: int = 0


class CloseStep(ClientStep, frozen=True, kw_only=True):
    """The server closes."""

    close: Any
    reason: str = ""


class CutStep(ClientStep, frozen=True, kw_only=True):
    """All sockets are lost without a word."""

    cut: Literal[True]


class ExpectCloseStep(ClientStep, frozen=True, kw_only=True):
    """The client closes a connection."""

    expect_close: str


class ExpectOpen(ClientStep, frozen=True, kw_only=True):
    """The client has not closed a connection."""

    expect_open: str


class Do(ClientStep, frozen=True, kw_only=True):
    """The application does something with the client."""

    do: Any


class ExpectAnswer(ClientStep, frozen=True, kw_only=True):
    """What the application sees of an answer."""

    answer: Any
    is_: dict[str, Any] = field(name="is")


class ExpectState(ClientStep, frozen=True, kw_only=True):
    """Where the client stands."""

    state: dict[str, Any]


class ExpectCounters(ClientStep, frozen=True, kw_only=True):
    """What the client counted."""

    counters: dict[str, Any]


STEPS: dict[str, type[ClientStep]] = {
    "open": OpenStep,
    "connect": ConnectStep,
    "greet": Greet,
    "refuse": Refuse,
    "send": SendStep,
    "send_all": SendAll,
    "repeat": RepeatStep,
    "expect": ExpectStep,
    "expect_acked": ExpectAcked,
    "quiet": QuietStep,
    "close": CloseStep,
    "cut": CutStep,
    "expect_close": ExpectCloseStep,
    "expect_open": ExpectOpen,
    "do": Do,
    "answer": ExpectAnswer,
    "state": ExpectState,
    "counters": ExpectCounters,
}


class OptionsStep(Strict, frozen=True):
    """How the client under test is made."""

    window: dict[str, int] | None = None
    batch: bool = True
    trace: bool = False
    backoff_ms: int = 20


class WrittenClientCase(Strict, frozen=True):
    """A case as it stands in its file, its steps unparsed."""

    name: str
    why: str
    steps: list[dict[str, Any]]
    client: OptionsStep = OptionsStep()
    only: Literal["browser"] | None = None
    sees_http: bool = False
    for_each: dict[str, Any] | None = None


class WrittenClientFile(Strict, frozen=True):
    """A file of cases."""

    about: str
    cases: list[WrittenClientCase]
    shared: Any = None


@dataclass(frozen=True)
class ClientCase:
    """One case to play, for one value of its `for_each`."""

    id: str
    why: str
    client: OptionsStep
    steps: tuple[ClientStep, ...]
    each: Any
    only: str | None
    sees_http: bool


def cases_in(folder: Path) -> list[ClientCase]:
    """All cases of a folder's files. Raises BadCase naming file and case."""
    return [case for path in sorted(folder.glob("*.yaml")) for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[ClientCase]:
    written = read_yaml(path, WrittenClientFile)
    names = [case.name for case in written.cases]
    for case in written.cases:
        if names.count(case.name) > 1:
            raise BadCase(f"{path.name}: two cases are named {case.name!r}")
        try:
            steps = tuple(parsed(case.steps))
        except BadCase as error:
            raise BadCase(f"{path.name}: {case.name}: {error}") from error
        for label, each in (case.for_each or {"": None}).items():
            id = "-".join(str(part).replace(" ", "_") for part in (path.stem, case.name, label) if part)
            yield ClientCase(id, case.why, case.client, steps, each, case.only, case.sees_http)


def parsed(written: list[dict[str, Any]]) -> Iterator[ClientStep]:
    """The steps, those that are repeated written out. Raises BadCase."""
    for each in written:
        step = parse_step(each, STEPS)
        if isinstance(step, RepeatStep):
            for number in range(1, step.repeat + 1):
                yield from parsed(cast(list[dict[str, Any]], _numbered(step.steps, number)))
        else:
            yield step


def _numbered(written: Any, number: int) -> Any:
    match written:
        case "#":
            return number
        case str():
            return written.replace("#", str(number))
        case dict():
            return {key: _numbered(value, number) for key, value in cast(dict[Any, Any], written).items()}
        case list():
            return [_numbered(value, number) for value in cast(list[Any], written)]
        case _:
            return written
