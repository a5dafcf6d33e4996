"""Reads the YAML files of the clients' suite into checked cases (README.md has the language)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import field

from tests.conformance.cases import Strict, parse_step, read_yaml
from tests.conformance.values import BadCase


class Step(Strict, frozen=True):
    """One action. `within_ms` bounds every wait of it."""

    connection: str | None = None
    within_ms: int = 5000


class Open(Step, frozen=True, kw_only=True):
    """The client connects, says hello and is welcomed."""

    open: str
    hello: dict[str, Any] = {}
    welcome: dict[str, Any] = {}
    not_before_ms: int = 0


class Connect(Step, frozen=True, kw_only=True):
    """The client connects and says hello; nothing is answered."""

    connect: str
    path: str = "/v1/ws"
    hello: dict[str, Any] = {}
    not_before_ms: int = 0


class Greet(Step, frozen=True, kw_only=True):
    """The hello of a connection that was only connected is answered by a welcome."""

    greet: Any


class Refuse(Step, frozen=True, kw_only=True):
    """The next upgrade is refused with an HTTP status."""

    refuse: Any
    body: str = ""
    headers: dict[str, str] = {}


class Send(Step, frozen=True, kw_only=True):
    """The server sends a message. `text`: what an `end` has the hash of."""

    send: Any
    text: Any = None


class SendAll(Step, frozen=True, kw_only=True):
    """The server sends several messages."""

    send_all: Any


class Repeat(Step, frozen=True, kw_only=True):
    """Steps that are played N times; `#` in them is the number, from 1."""

    repeat: int
    steps: list[dict[str, Any]]


class Expect(Step, frozen=True, kw_only=True):
    """The client's next message of this type matches."""

    expect: Any
    not_before_ms: int = 0


class ExpectAcked(Step, frozen=True, kw_only=True):
    """The client has acknowledged exactly this, in whatever messages."""

    expect_acked: dict[Any, Any]


class Quiet(Step, frozen=True, kw_only=True):
    """The client has nothing (of these types) to say."""

    quiet: Literal[True] | list[str]
    for_ms: int = 0


class Close(Step, frozen=True, kw_only=True):
    """The server closes."""

    close: Any
    reason: str = ""


class Cut(Step, frozen=True, kw_only=True):
    """All sockets are lost without a word."""

    cut: Literal[True]


class ExpectClose(Step, frozen=True, kw_only=True):
    """The client closes a connection."""

    expect_close: str


class ExpectOpen(Step, frozen=True, kw_only=True):
    """The client has not closed a connection."""

    expect_open: str


class Do(Step, frozen=True, kw_only=True):
    """The application does something with the client."""

    do: Any


class ExpectAnswer(Step, frozen=True, kw_only=True):
    """What the application sees of an answer."""

    answer: Any
    is_: dict[str, Any] = field(name="is")


class ExpectState(Step, frozen=True, kw_only=True):
    """Where the client stands."""

    state: dict[str, Any]


class ExpectCounters(Step, frozen=True, kw_only=True):
    """What the client counted."""

    counters: dict[str, Any]


STEPS: dict[str, type[Step]] = {
    "open": Open,
    "connect": Connect,
    "greet": Greet,
    "refuse": Refuse,
    "send": Send,
    "send_all": SendAll,
    "repeat": Repeat,
    "expect": Expect,
    "expect_acked": ExpectAcked,
    "quiet": Quiet,
    "close": Close,
    "cut": Cut,
    "expect_close": ExpectClose,
    "expect_open": ExpectOpen,
    "do": Do,
    "answer": ExpectAnswer,
    "state": ExpectState,
    "counters": ExpectCounters,
}


class Options(Strict, frozen=True):
    """How the client under test is made."""

    window: dict[str, int] | None = None
    batch: bool = True
    trace: bool = False
    backoff_ms: int = 20


class WrittenCase(Strict, frozen=True):
    """A case as it stands in its file, its steps unparsed."""

    name: str
    why: str
    steps: list[dict[str, Any]]
    client: Options = Options()
    only: Literal["browser"] | None = None
    sees_http: bool = False
    for_each: dict[str, Any] | None = None


class WrittenFile(Strict, frozen=True):
    """A file of cases."""

    about: str
    cases: list[WrittenCase]
    shared: Any = None


@dataclass(frozen=True)
class Case:
    """One case to play, for one value of its `for_each`."""

    id: str
    why: str
    client: Options
    steps: tuple[Step, ...]
    each: Any
    only: str | None
    sees_http: bool


def cases_in(folder: Path) -> list[Case]:
    """All cases of a folder's files. Raises BadCase naming file and case."""
    return [case for path in sorted(folder.glob("*.yaml")) for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[Case]:
    written = read_yaml(path, WrittenFile)
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
            yield Case(id, case.why, case.client, steps, each, case.only, case.sees_http)


def parsed(written: list[dict[str, Any]]) -> Iterator[Step]:
    """The steps, those that are repeated written out. Raises BadCase."""
    for each in written:
        step = parse_step(each, STEPS)
        if isinstance(step, Repeat):
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
