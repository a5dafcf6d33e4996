"""Operations: what a person or a script may do, declared once. Commands, the API and pages only render them.

Decides nothing and reaches nothing: `billing/operations/perform.py` runs them. An operation is a function of
a unit of work (a look, a change, an order) and a struct; its answer is a struct, its sentence the docstring.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from hmac import compare_digest
from importlib.metadata import entry_points
from string import Formatter
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

GROUP = "parley.operations"
LISTED_DEFAULT = 100
LISTED_MAX = 1000


class Role(StrEnum):
    """A person's role. The first four are of the platform's staff, the others of one tenant's members."""

    OWNER = "owner"
    OPERATOR = "operator"
    FINANCE = "finance"
    SUPPORT = "support"
    ADMIN = "admin"
    BILLING = "billing"
    DEVELOPER = "developer"
    VIEWER = "viewer"


Roles = frozenset[Role]
OWNERS: Roles = frozenset({Role.OWNER})
OPERATORS: Roles = OWNERS | {Role.OPERATOR}
MONEY: Roles = OWNERS | {Role.FINANCE}
STAFF: Roles = OPERATORS | {Role.FINANCE, Role.SUPPORT}
ADMINS: Roles = frozenset({Role.ADMIN})
DEVELOPERS: Roles = ADMINS | {Role.DEVELOPER}
PAYERS: Roles = ADMINS | {Role.BILLING}
MEMBERS: Roles = DEVELOPERS | PAYERS | {Role.VIEWER}


class OperationKind(StrEnum):
    """A look reads. A change is one transaction. An order acts on Redis, once its audit row is committed."""

    LOOK = "look"
    CHANGE = "change"
    ORDER = "order"


@dataclass(frozen=True)
class Uses:
    """What an operation touches: tables (names separated by blanks; written ones may be read too), and kinds
    of Redis keys and channels as in core/access/processes.py. Rights of processes are the union of these."""

    reads: str = ""
    writes: str = ""
    keys: tuple[str, ...] = ()


class Unit:
    """The base of units of work; `kind` says which one it is."""

    kind: ClassVar[OperationKind]


class Secret:
    """A secret in an answer: shown once to who made it, and never in a log, a trace or a kept reply. Encoding
    it raises, but for who shows it (`shown_secrets`) or leaves it out (`no_secrets`). An empty one is not
    told: that of a dry run is good for nothing."""

    __slots__ = ("shown",)

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self.shown, other.shown)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def shown_secrets(value: object) -> object:
    """Encode secrets as they are, for their maker, untold ones as null: msgspec's `enc_hook`."""
    if isinstance(value, Secret):
        return value.shown or None
    raise NotImplementedError(f"{type(value).__name__} is not encoded")


def no_secrets(value: object) -> object:
    """Encode secrets as null, for what is kept: msgspec's `enc_hook`."""
    if isinstance(value, Secret):
        return None
    raise NotImplementedError(f"{type(value).__name__} is not encoded")


def without_secrets(answer: Any) -> Any:
    """An answer whose secrets are not told. Pure."""
    names = [each.name for each in msgspec.structs.fields(answer)]
    untold = {name: Secret("") for name in names if isinstance(getattr(answer, name), Secret)}
    return msgspec.structs.replace(answer, **untold) if untold else answer


class MoneyAmount(msgspec.Struct, frozen=True):
    """Money on the wire. `nano`: billionths of the currency's unit, as text, since JavaScript's numbers end
    at 2^53."""

    nano: Annotated[str, Meta(pattern=r"^-?[0-9]{1,19}$")]
    currency: Literal["USD"] = "USD"

    @classmethod
    def of(cls, nano: int) -> "MoneyAmount":
        """The amount of so many nano-USD."""
        return cls(str(nano))

    @property
    def value(self) -> int:
        """The amount in nano."""
        return int(self.nano)


def flat_facts(answer: msgspec.Struct) -> dict[str, Any]:
    """All facts of a struct and of those in it, with money as numbers: `cost` becomes `cost_nano`. Pure."""
    facts: dict[str, Any] = {}
    for each in msgspec.structs.fields(answer):
        name, value = each.encode_name, getattr(answer, each.name)
        if isinstance(value, MoneyAmount):
            facts[f"{name}_nano"] = value.value
        elif value is msgspec.UNSET:
            continue
        elif value is None and MoneyAmount in get_args(each.type):
            facts[f"{name}_nano"] = None
        else:
            facts[name] = _flat(value)
    return facts


def _flat(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            return flat_facts(value)
        case list():
            return [_flat(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return msgspec.to_builtins(value)


Item = TypeVar("Item")


class ListedPage(msgspec.Struct, Generic[Item], frozen=True):
    """Some things of a list, in its order. `next`: the cursor that asks for those behind; None: no more."""

    items: list[Item]
    next: str | None = None


@dataclass(frozen=True)
class Operation:
    """What may be done, by whom, and how it is recorded.

    `may`: the roles, no ladder. `audit`: actions of its audit rows; of a look, that reading is recorded.
    `reason`: over the API a reason is required. `edits`: it changes a thing that has a version (If-Match).
    `own`: a person sets up their second factor by it, and so needs none. `long`: over the API it goes on as a
    run. `before`: what a change does before its transaction begins, which nobody has to wait for; the unit
    has what it returns (`prepared`)."""

    name: str
    sentence: str
    method: str
    path: str
    may: Roles
    audit: tuple[str, ...]
    reason: bool
    edits: bool
    own: bool
    long: bool
    uses: Uses
    kind: OperationKind
    asks: type[msgspec.Struct]
    answers: Any
    run: Callable[..., Awaitable[Any]] = field(compare=False)
    before: Callable[..., Awaitable[Any]] | None = field(compare=False)

    @property
    def path_fields(self) -> tuple[str, ...]:
        """Fields of the struct that stand in the path."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.path) if name)

    @property
    def asks_by_body(self) -> bool:
        """True where what is asked comes in the body: of what writes, and of a look that is asked with words
        which belong in no address."""
        return self.method != "GET"

    @property
    def writes(self) -> bool:
        """True for changes and orders."""
        return self.kind is not OperationKind.LOOK


Run = TypeVar("Run", bound=Callable[..., Awaitable[Any]])
OPERATIONS = "__operation__"


def operation(
    name: str,
    route: str,
    *,
    may: Roles,
    uses: Uses,
    audit: str = "",
    reason: bool = False,
    edits: bool = False,
    own: bool = False,
    long: bool = False,
    before: Callable[..., Awaitable[Any]] | None = None,
) -> Callable[[Run], Run]:
    """Declare a function as an operation. `name`: like `limits.edit`; `route`: method and path below /api,
    whose `{fields}` are fields of its struct; `audit`: actions, separated by blanks."""
    method, _, path = route.partition(" ")

    def declare(run: Run) -> Run:
        declared = _declared(run, name, method, path, may, uses, audit, (reason, edits, own, long), before)
        setattr(run, OPERATIONS, declared)
        return run

    return declare


def operation_of(run: Callable[..., Any]) -> Operation:
    """The declaration of a function."""
    return getattr(run, OPERATIONS)


def _declared(
    run: Callable[..., Awaitable[Any]],
    name: str,
    method: str,
    path: str,
    may: Roles,
    uses: Uses,
    audit: str,
    flags: tuple[bool, bool, bool, bool],
    before: Callable[..., Awaitable[Any]] | None,
) -> Operation:
    hints = get_type_hints(run, include_extras=True)
    unit, asks = list(inspect.signature(run).parameters)[:2]
    sentence = (inspect.getdoc(run) or "").partition("\n\n")[0].replace("\n", " ")
    declared = Operation(
        name,
        sentence,
        method,
        path,
        may,
        tuple(audit.split()),
        *flags,
        uses,
        hints[unit].kind,
        hints[asks],
        hints["return"],
        run,
        before,
    )
    _check(declared)
    return declared


def _check(declared: Operation) -> None:
    names = {each.name for each in msgspec.structs.fields(declared.asks)}
    assert declared.sentence, f"{declared.name} has no docstring"
    assert names.issuperset(declared.path_fields), f"{declared.name}: its path has unknown fields"
    reads = ("GET", "POST")
    assert (declared.method != "GET") if declared.writes else (declared.method in reads), (
        f"{declared.name}: what reads is a GET, or a POST with words that belong in no address"
    )
    assert declared.audit or not declared.writes, f"{declared.name} changes something and records nothing"
    assert not declared.long or declared.kind is OperationKind.ORDER, f"{declared.name}: long ones are orders"
    assert declared.before is None or declared.kind is OperationKind.CHANGE, f"{declared.name} is no change"
    assert declared.may, f"nobody may {declared.name}"


@cache
def registered() -> Mapping[str, Operation]:
    """All operations by name, in the order of names. Imports every package that has some."""
    every: dict[str, Operation] = {}
    for entry in entry_points(group=GROUP):
        functions: Sequence[Callable[..., Any]] = entry.load()
        for each in map(operation_of, functions):
            assert each.name not in every, f"two operations {each.name}"
            every[each.name] = each
    return dict(sorted(every.items()))
