"""Click's arguments and options for an operation, made from its struct."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, cast

import click
import msgspec
from msgspec import NODEFAULT, UNSET, inspect

from billing.cli.arguments import nano_of
from billing.cli.run_command import NO_NUMBER, NUMBER_OR_NONE
from core.operations import MoneyAmount, Operation


class _Amount(click.ParamType[MoneyAmount]):
    """Money with its currency, like `250.00 USD`."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> MoneyAmount:
        """Return the amount."""
        return value if isinstance(value, MoneyAmount) else MoneyAmount.of(nano_of(value))


MONEY = _Amount()


def parameters_of(
    declared: Operation,
    arguments: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    omitted: Sequence[str],
) -> list[click.Parameter]:
    """Parameters for the fields of an operation's struct: those of `arguments` by their place, others as
    options. `options`: what differs from the rule, by field: click's own words, and `names` of the option."""
    fields = {each.encode_name: each for each in _fields(declared)}
    made: list[click.Parameter] = [
        click.Argument([name], **_argument(fields[name], options.get(name, {}))) for name in arguments
    ]
    for name, each in fields.items():
        if name not in arguments and name not in omitted:
            made.append(_option(each, dict(options.get(name, {}))))
    return made


def ask_of(declared: Operation, given: Mapping[str, Any]) -> msgspec.Struct:
    """The struct of what was typed. What was not named is left to the struct's defaults. Raises UsageError
    where a value breaks the struct's rules. Pure."""
    fields = {each.encode_name: each for each in _fields(declared)}
    named = {name: _value(fields[name], value) for name, value in given.items() if name in fields}
    plain = msgspec.to_builtins({name: value for name, value in named.items() if value is not UNSET})
    try:
        return msgspec.convert(plain, declared.asks)
    except msgspec.ValidationError as error:
        raise click.UsageError(str(error)) from error


def _fields(declared: Operation) -> Sequence[inspect.Field]:
    found = inspect.type_info(declared.asks)
    assert isinstance(found, inspect.StructType)
    return found.fields


def _value(field: inspect.Field, typed: Any) -> Any:
    if typed is None or (typed == () and not field.required):
        return UNSET
    if typed == NO_NUMBER and _takes_none(field):
        return None
    return list(cast(tuple[object, ...], typed)) if isinstance(typed, tuple) else typed


def _argument(field: inspect.Field, said: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": _click_type(_plain(field)), "required": field.required, **said}


def _option(field: inspect.Field, said: dict[str, Any]) -> click.Option:
    plain, name = _plain(field), field.encode_name
    names = said.pop("names", [f"--{name.replace('_', '-')}"])
    facts: dict[str, Any] = {"required": field.required, "default": None, "help": _description(field)}
    if isinstance(plain, inspect.BoolType):
        facts |= {"required": False, "is_flag": True}
    elif isinstance(plain, inspect.ListType):
        facts |= {"multiple": True, "type": _click_type(_inner(plain.item_type))}
    else:
        facts |= {"type": _click_type(plain, none=_takes_none(field))}
    if said.get("show_default"):
        default = field.default
        facts["default"] = default.value if isinstance(default, Enum) else default
    facts |= said
    if facts["required"]:
        del facts["default"]  # to click, None would be a value that is given
    return click.Option([*names, name], **facts)


def _click_type(plain: inspect.Type, none: bool = False) -> Any:
    match plain:
        case inspect.IntType() if none:
            return NUMBER_OR_NONE
        case inspect.IntType(ge=least, le=most) if (least, most) != (None, None):
            return click.IntRange(least, most)
        case inspect.IntType():
            return click.INT
        case inspect.FloatType():
            return click.FLOAT
        case inspect.LiteralType(values=values):
            return click.Choice([str(value) for value in values])
        case inspect.EnumType(cls=enum):
            return click.Choice([str(each.value) for each in _members(enum)])
        case inspect.StructType(cls=cls) if cls is MoneyAmount:
            return MONEY
        case _:
            return click.STRING


def _members(enum: type[Enum]) -> Sequence[Enum]:
    return list(enum)


def _plain(field: inspect.Field) -> inspect.Type:
    """The type without descriptions, `None` and UNSET."""
    return _inner(field.type)


def _inner(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.Metadata):
        return _inner(kind.type)
    if isinstance(kind, inspect.UnionType):
        rest = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _inner(rest[0]) if len(rest) == 1 else kind
    return kind


def _takes_none(field: inspect.Field) -> bool:
    """True where `null` clears the value, which is not the same as leaving it out."""
    kind = field.type.type if isinstance(field.type, inspect.Metadata) else field.type
    optional = isinstance(kind, inspect.UnionType) and any(
        isinstance(each, inspect.NoneType) for each in kind.types
    )
    return optional and field.default is NODEFAULT


def _description(field: inspect.Field) -> str | None:
    kind: Any = field.type
    while isinstance(kind, inspect.Metadata):
        schema = cast("dict[str, str]", cast(Any, kind).extra_json_schema or {})
        if "description" in schema:
            return schema["description"]
        kind = kind.type
    return None
