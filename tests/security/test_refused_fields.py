"""Every operation with a value that is none in each of its fields: what is refused names a field."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import pytest
from msgspec import inspect

from admin.api.reading import MONEY, read_call
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import perform
from billing.unit_of_work.units import Stores
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.operations import STAFF, MoneyAmount, Operation, Role, registered
from core.sql.database import Database
from tests.security.asked_operations import NAMES, ask_for, seeded
from tests.support.redis import Redis

TEXTS = ("", " ", "Mars", "nobody", "x" * 5000, "a\nb", "\u202eb", "-1", "1e999", "2026-13-45", "[", "*")
LISTS = ("x", 7, ["nonsense"], [7], [""])
BAD: Mapping[type[inspect.Type], tuple[object, ...]] = {
    inspect.StrType: (7, *TEXTS),
    inspect.IntType: ("many", -1, 0, 1.5, 2**62),
    inspect.FloatType: ("many", -1.0, 0.0, 1e300),
    inspect.BoolType: ("perhaps", 7),
    inspect.EnumType: ("nonsense", 7),
    inspect.LiteralType: ("nonsense", 7),
    inspect.ListType: LISTS,
    inspect.SetType: LISTS,
    inspect.VarTupleType: LISTS,
    inspect.DictType: ("x", 7, {"nonsense": "x"}, {"": 7}),
    inspect.StructType: ("x", 7, {}, {"nonsense": 1}),
}
NO_AMOUNTS = ("12.50", 7, {}, {"nano": "x"}, {"nano": 7}, {"nano": "1", "currency": "EUR"})
AMOUNTS = (*NO_AMOUNTS, {"nano": "-1"}, {"nano": "0"}, {"nano": "9" * 18})


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_refused_names_its_field(
    settings: Settings, sqlite: Database, redis: Redis, name: str
) -> None:
    """A wrong type, an unknown id, a value out of range: unless the call is refused for the same reason with
    a good value, what is refused names a field of the question."""
    stores, declared = Stores(settings, sqlite, lambda: redis), registered()[name]
    acme = await seeded(stores, "acme")
    role = next(each for each in Role if each in declared.may)
    who = OperationActor(Author("Mia", "api"), role, None if role in STAFF else acme.id, remote=True)
    fields = {each.encode_name: each for each in _fields(declared)}
    every = msgspec.to_builtins(ask_for(declared, acme.things))
    good = {each: every[each] for each in every if fields[each].required or each in acme.things}
    first = await refused(stores, who, declared, good)
    for field in fields:
        for bad in bad_values(fields[field].type):
            if field in declared.path_fields and (bad == "" or not isinstance(bad, str)):
                continue  # it would be another path, or any text
            said = await refused(stores, who, declared, {**good, field: bad})
            if said is None or said.code != "bad_request" or (first and first.message == said.message):
                continue
            assert said.field is not None, (field, bad, said.message)
            assert re.split(r"[.[]", said.field)[0] in fields, (field, bad, said.field)
            if bad in NO_AMOUNTS and _holds_money(fields[field].type):
                assert (said.message, re.split(r"[.[]", said.field)[0]) == (MONEY, field)


async def refused(
    stores: Stores, who: OperationActor, declared: Operation, facts: Mapping[str, Any]
) -> Refusal | None:
    """What an operation refuses of a call over the API, of which nothing is done; None: it would be done."""
    path = {name: str(value) for name, value in facts.items() if name in declared.path_fields}
    rest = {name: value for name, value in facts.items() if name not in path}
    if declared.writes:
        body, query = json.dumps({**rest, "reason": "r", "dry_run": True}).encode(), list[tuple[str, str]]()
    else:
        several = {name: value if isinstance(value, list) else [value] for name, value in rest.items()}
        body, query = b"", [(name, str(each)) for name, values in several.items() for each in values]
    try:
        call = read_call(declared, path, query, body, {})
        await perform(stores, who, declared, call.ask, call.terms)
    except Refused as error:
        return error.refusal
    return None


def bad_values(kind: inspect.Type) -> Iterator[object]:
    """Values that a field of this type may refuse."""
    match kind:
        case inspect.Metadata(type=inner):
            yield from bad_values(inner)
        case inspect.UnionType(types=types):
            for each in types:
                yield from bad_values(each)
        case inspect.StructType(cls=cls) if cls is MoneyAmount:
            yield from AMOUNTS
        case _:
            yield from BAD.get(type(kind), ())


def _holds_money(kind: inspect.Type) -> bool:
    return AMOUNTS[0] in bad_values(kind)


def _fields(declared: Operation) -> tuple[inspect.Field, ...]:
    return cast(inspect.StructType, inspect.type_info(declared.asks)).fields
