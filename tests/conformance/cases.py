"""Reads the YAML files of the suite into checked cases; what its language has not is an error here."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml
from msgspec import Struct

from engine.safety.documents import PolicyDocument
from tests.conformance.values import BadCase

Encoding = Literal["json", "msgpack"]
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
T = TypeVar("T")


class Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a case: other keys than its own are refused."""


class RawStep(Strict, frozen=True):
    """One frame as it is; exactly one of these."""

    text: Any = None
    base64: Any = None
    not_utf8: Any = None


class HttpRequest(Strict, frozen=True):
    """One HTTP request."""

    method: str
    path: Any
    key: str | None = None
    json: Any = None
    headers: dict[str, Any] = {}


class WorkerScript(Strict, frozen=True):
    """What a worker says, and how fast."""

    answer: str = "hello"
    repeat_answer: int = 1
    step_ms: float = 0
    holds_after: int | None = None

    @property
    def text(self) -> str:
        """The whole answer."""
        return self.answer * self.repeat_answer


class KeyFacts(Strict, frozen=True):
    """What is special about a key."""

    tenant: Literal["own", "other"] = "own"
    project: Literal["own", "other"] = "own"
    scopes: list[str] | None = None
    user: str = ""
    priority_max: str | None = None
    expires_in_ms: int | None = None


class WrittenLimit(Strict, frozen=True):
    """A limit on a rate or on concurrency, of the own tenant."""

    scope: str
    dimension: str
    limit: int
    burst: int | None = None


class BudgetFacts(Strict, frozen=True):
    """A hard budget of the own tenant."""

    scope: str
    period: str
    nano: int


class Setup(Strict, frozen=True):
    """What stands ready before the first step."""

    answer: str = "hello"
    repeat_answer: int = 1
    step_ms: float = 0
    holds_after: int | None = None
    worker: Literal["ready", "none"] = "ready"
    keys: dict[str, KeyFacts] = {}
    settings: dict[str, Any] = {}
    limits: list[WrittenLimit] = []
    budgets: list[BudgetFacts] = []
    policy: PolicyDocument | None = None

    @property
    def script(self) -> WorkerScript:
        """What the ready worker says."""
        facts = {name: getattr(self, name) for name in WorkerScript.__struct_fields__}
        return WorkerScript(**facts)


class Step(Strict, frozen=True):
    """One action. `within_ms` bounds every wait of it."""

    connection: str = "a"
    within_ms: int = 20_000


class Connect(Step, frozen=True, kw_only=True):
    """Open a socket; nothing is said."""

    connect: str
    headers: dict[str, Any] = {}
    subprotocol: Any = None
    refused: int | None = None


class Open(Step, frozen=True, kw_only=True):
    """Open a socket and a session."""

    open: str
    hello: dict[str, Any] = {}
    matching: dict[str, Any] = {}


class SendMessage(Step, frozen=True, kw_only=True):
    """Send one message."""

    send: Any
    times: int = 1


class SendRaw(Step, frozen=True, kw_only=True):
    """Send one frame."""

    raw: RawStep
    times: int = 1


class Expect(Step, frozen=True, kw_only=True):
    """The next message matches."""

    expect: Any
    not_before_ms: int = 0


class ExpectAll(Step, frozen=True, kw_only=True):
    """The next messages match in some order."""

    expect_all: list[Any]


class SkipUntil(Step, frozen=True, kw_only=True):
    """Pass over messages until one matches."""

    skip_until: Any
    not_before_ms: int = 0


class Quiet(Step, frozen=True, kw_only=True):
    """Nothing is on its way."""

    quiet: Literal[True]
    for_ms: int = 0


class ReadStep(Step, frozen=True, kw_only=True):
    """Read a request to its end as a client does."""

    read: Any
    text: Any = None
    end: Any = None


class ExpectClose(Step, frozen=True, kw_only=True):
    """The server closes, and says nothing before."""

    expect_close: int
    not_before_ms: int = 0


class SkipUntilClose(Step, frozen=True, kw_only=True):
    """The server closes."""

    skip_until_close: int


class CloseSocket(Step, frozen=True, kw_only=True):
    """The client closes."""

    close: str


class Cut(Step, frozen=True, kw_only=True):
    """The client loses its socket."""

    cut: str


class Http(Step, frozen=True, kw_only=True):
    """One HTTP request and what it answers."""

    http: HttpRequest
    status: int
    body: Any = None


class WaitEnd(Step, frozen=True, kw_only=True):
    """Until the end is in the log."""

    wait_end: Any


class WaitParked(Step, frozen=True, kw_only=True):
    """Until nobody works on a request because nobody reads it."""

    wait_parked: Any


class WaitStored(Step, frozen=True, kw_only=True):
    """Until the answer is stored."""

    wait_stored: Any


class Retire(Step, frozen=True, kw_only=True):
    """The log goes, as after its retention."""

    retire: Any


class StartWorker(Step, frozen=True, kw_only=True):
    """A worker comes."""

    worker: WorkerScript


class LoseWorker(Step, frozen=True, kw_only=True):
    """The worker dies."""

    lose_worker: Literal[True]


class GoOn(Step, frozen=True, kw_only=True):
    """A held worker goes on."""

    go_on: Literal[True]


class Revoke(Step, frozen=True, kw_only=True):
    """A key is revoked."""

    revoke: str


class Drain(Step, frozen=True, kw_only=True):
    """The gateway is told to stop."""

    drain: Literal[True]


STEPS: dict[str, type[Step]] = {
    "connect": Connect,
    "open": Open,
    "send": SendMessage,
    "raw": SendRaw,
    "expect": Expect,
    "expect_all": ExpectAll,
    "skip_until": SkipUntil,
    "quiet": Quiet,
    "read": ReadStep,
    "expect_close": ExpectClose,
    "skip_until_close": SkipUntilClose,
    "close": CloseSocket,
    "cut": Cut,
    "http": Http,
    "wait_end": WaitEnd,
    "wait_parked": WaitParked,
    "wait_stored": WaitStored,
    "retire": Retire,
    "worker": StartWorker,
    "lose_worker": LoseWorker,
    "go_on": GoOn,
    "revoke": Revoke,
    "drain": Drain,
}


class WrittenCase(Strict, frozen=True):
    """A case as it stands in its file, its steps unparsed."""

    name: str
    why: str
    steps: list[dict[str, Any]]
    setup: Setup = Setup()
    encodings: tuple[Encoding, ...] = ("json", "msgpack")
    socket: Literal["only", "too", ""] = ""
    for_each: dict[str, Any] | None = None
    xfail: str | None = None


class WrittenFile(Strict, frozen=True):
    """A file of cases."""

    about: str
    cases: list[WrittenCase]
    shared: Any = None
    waits: bool = False


@dataclass(frozen=True)
class Case:
    """One case to play, in one encoding, for one value of its `for_each`. `lane` is not empty where it mostly
    waits: such cases are played beside the others, a lane's in order. `socket`: see sample.py."""

    id: str
    why: str
    encoding: Encoding
    setup: Setup
    steps: tuple[Step, ...]
    each: Any
    xfail: str | None
    lane: str
    socket: str

    @property
    def is_plain(self) -> bool:
        """Whether it needs no tenant of its own: one key, and nothing that outlives its connections."""
        limited = self.setup.limits or self.setup.budgets or self.setup.policy
        lasting = self.drains or any(isinstance(step, Revoke | Http) for step in self.steps)
        return not (self.setup.keys or limited or lasting)

    @property
    def drains(self) -> bool:
        """Whether it ends its gateway."""
        return any(isinstance(step, Drain) for step in self.steps)


def cases_in(folder: Path) -> list[Case]:
    """All cases of a folder's files. Raises BadCase naming file and case."""
    return [case for path in sorted(folder.glob("*.yaml")) for case in _cases_of(path)]


def read_yaml(path: Path, type: type[T]) -> T:
    """A checked YAML file. Raises BadCase."""
    loader = Loader(path.read_text())
    try:
        node = loader.get_single_node()
        _check_keys(node)
        return msgspec.convert(loader.construct_document(node) if node else None, type)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadCase(f"{path.name}: {error}") from error


def parse_step(written: dict[str, Any], kinds: dict[str, type[T]]) -> T:
    """The step that a map stands for: the one whose action it names. Raises BadCase."""
    actions = [key for key in written if key in kinds]
    if len(actions) != 1:
        raise BadCase(f"a step has one action, not {actions} in {written}")
    try:
        return msgspec.convert(written, kinds[actions[0]])
    except msgspec.ValidationError as error:
        raise BadCase(f"{error} in {written}") from error


def _cases_of(path: Path) -> Iterator[Case]:
    written = read_yaml(path, WrittenFile)
    names = [case.name for case in written.cases]
    for case in written.cases:
        if names.count(case.name) > 1:
            raise BadCase(f"{path.name}: two cases are named {case.name!r}")
        try:
            steps = tuple(parse_step(step, STEPS) for step in case.steps)
        except BadCase as error:
            raise BadCase(f"{path.name}: {case.name}: {error}") from error
        for label, each in (case.for_each or {"": None}).items():
            for encoding in case.encodings:
                parts = [path.stem, case.name, label, encoding]
                id = "-".join(part.replace(" ", "_") for part in parts if part)
                lane = path.stem if written.waits else ""
                yield Case(id, case.why, encoding, case.setup, steps, each, case.xfail, lane, case.socket)


def _check_keys(node: Any) -> None:
    seen: set[str] = set()
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name = f"{key.tag} {key.value}"
        if name in seen and key.value != "<<":
            raise BadCase(f"line {key.start_mark.line + 1}: {key.value!r} is given twice")
        seen.add(name)
        _check_keys(value)
    for value in node.value if isinstance(node, yaml.SequenceNode) else ():
        _check_keys(value)
