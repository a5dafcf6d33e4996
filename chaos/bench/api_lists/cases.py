"""Calls of the API's reads: of each list the first page, a deep one, and each filter. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin
from urllib.parse import quote, urlencode

from msgspec import inspect

from core.file_answer import FileAnswer
from core.operations import ListedPage, Operation

PAGING = ("limit", "after")
SIZES = ("limit", "last")  # what lists that have no pages take


@dataclass(frozen=True)
class ReadCase:
    """One call, and which of its operation's it is."""

    operation: Operation
    shown: str
    path: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def target(self) -> str:
        """Path and query."""
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")

    def page(self, cursor: str) -> "ReadCase":
        """The same list from a cursor on."""
        return ReadCase(self.operation, "deep page", self.path, (*self.query, ("after", cursor)))


def is_list(declared: Operation) -> bool:
    """True for operations whose answers are lists, in pages or of a size that is asked for."""
    answers = get_origin(declared.answers) or declared.answers
    sized = any(name in SIZES for name in _asked(declared))
    return sized or (isinstance(answers, type) and issubclass(answers, ListedPage))


def answers_at_once(declared: Operation) -> bool:
    """False for what answers with a file, which takes as long as it is."""
    return declared.answers is not FileAnswer


def has_pages(declared: Operation) -> bool:
    """True for lists that go on from a cursor."""
    return "after" in _asked(declared)


def read_cases(declared: Operation, known: Mapping[str, Sequence[str]]) -> list[ReadCase]:
    """The calls of an operation but for deep pages. `known`: values by the names of fields; what is needed
    and not known, is not called."""
    named = {name: known.get(name, ()) for name in declared.path_fields}
    if not all(named.values()):
        return []
    path = "/api" + declared.path.format(
        **{name: quote(values[0], safe="") for name, values in named.items()}
    )
    needed = [field for field in _fields(declared) if field.required]
    if not all(known.get(field.encode_name) for field in needed):
        return []
    base = tuple((field.encode_name, known[field.encode_name][0]) for field in needed)
    first = ReadCase(declared, "first page" if is_list(declared) else "", path, base)
    filters = [
        (name, value)
        for field in _fields(declared)
        if not field.required and (name := field.encode_name) not in PAGING
        for value in _values(field, known)
    ]
    whose = [each for each in filters if each[0] == "tenant"]
    asked = [[each] for each in filters] + [[*whose, each] for each in filters if whose and each not in whose]
    return [first, *(ReadCase(declared, _shown(each), path, (*base, *each)) for each in asked)]


def _shown(query: Sequence[tuple[str, str]]) -> str:
    return "&".join(name if name in ("tenant", "project") else f"{name}={value}" for name, value in query)


def values_of(operation: str, answer: Any) -> Iterator[tuple[str, str]]:
    """What a first page tells: the values of fields by which other operations name its things."""
    first = next(iter(answer.get("items", [])), None) if isinstance(answer, dict) else None
    for of, column, field in NAMED_BY:
        if of == operation and first is not None and first.get(column):
            yield field, str(first[column])


NAMED_BY = (
    ("budgets.list", "budget", "budget"),
    ("limits.list", "limit_id", "limit_id"),
    ("people.list", "person", "person"),
    ("plans.list", "name", "plan"),
    ("projects.list", "project", "project"),
    ("runs.list", "run", "run"),
    ("users.list", "user", "user"),
    ("keys.list", "key", "key"),
)


def _fields(declared: Operation) -> list[inspect.Field]:
    found = inspect.type_info(declared.asks)
    assert isinstance(found, inspect.StructType)
    return [each for each in found.fields if each.encode_name not in declared.path_fields]


def _asked(declared: Operation) -> list[str]:
    return [each.encode_name for each in _fields(declared)]


def _values(field: inspect.Field, known: Mapping[str, Sequence[str]]) -> list[str]:
    kinds = _kinds(field.type)
    if any(isinstance(kind, inspect.BoolType) for kind in kinds):
        return ["true"]
    choices = [kind.cls for kind in kinds if isinstance(kind, inspect.EnumType)]
    return [str(each.value) for choice in choices for each in choice] or list(
        known.get(field.encode_name, ())
    )


def _kinds(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _kinds(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [each for inner in kind.types for each in _kinds(inner)]
    return [kind]
