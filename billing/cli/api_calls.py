"""Makes calls of the API of operations, and answers of its replies: the reverse of admin/api. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlsplit

import msgspec

from billing.unit_of_work.units import Terms
from core.errors import Refusal, Refused, SeeOperation, StartupError
from core.network.hosts import is_loopback
from core.operations import Operation, Secret

TOKEN = re.compile(r"pt_[0-9A-Za-z_-]{1,200}", re.ASCII)
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class ApiCall:
    """What is sent. `query`: names may stand several times; `body`: None, there is none."""

    method: str
    path: str
    query: list[tuple[str, str]]
    body: bytes | None


def checked_url(url: str) -> str:
    """A console's URL, without a slash at its end. Raises StartupError for another scheme, for plain http to
    another machine, which would show the token to the network, and for what does not belong there."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise StartupError(f"--url: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise StartupError("--url: expected a console's address, like https://console.example.org")
    if parts.username is not None or parts.query or parts.fragment:
        raise StartupError(
            "--url: name no user, query or fragment; the token comes from PARLEY_TOKEN or a file"
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise StartupError(f"--url: over plain http others could read the token: use https://{parts.netloc}")
    return url.rstrip("/")


def checked_token(text: str, source: str) -> str:
    """The token in a text. Raises StartupError, which does not quote it, where it is none. `source`: where it
    came from."""
    token = text.strip()
    if not TOKEN.fullmatch(token):
        raise StartupError(f"{source} holds no service token: `parley tokens create` makes one, like pt_…")
    return token


def call_of(declared: Operation, ask: msgspec.Struct, terms: Terms) -> ApiCall:
    """The call of an operation. Raises StartupError where a name in its path is empty."""
    facts: dict[str, Any] = msgspec.to_builtins(ask)
    path = {name: _segment(name, facts.pop(name)) for name in declared.path_fields}
    route = f"/api{declared.path.format(**path)}"
    if not declared.asks_by_body:
        return ApiCall(declared.method, route, _query(declared, facts), None)
    if terms.reason:
        facts.setdefault("reason", terms.reason)
    how = [("dry_run", "true")] if terms.dry_run else []
    if terms.meant_nano is not None:
        how.append(("meant_nano", str(terms.meant_nano)))
    return ApiCall(declared.method, route, how, msgspec.json.encode(facts))


def _segment(name: str, value: object) -> str:
    text = quote(str(value), safe="")
    if not text:
        raise StartupError(f"{name} is empty")
    return text.replace(".", "%2E") if text in (".", "..") else text


def _query(declared: Operation, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What differs from the struct's defaults: a query has no word for null."""
    named: list[tuple[str, str]] = []
    for field in msgspec.structs.fields(declared.asks):
        value = facts.get(field.encode_name)
        if value is None or value == msgspec.to_builtins(_default(field)):
            continue
        values = cast(list[Any], value) if isinstance(value, list) else [value]
        named += [(field.encode_name, _word(each)) for each in values]
    return named


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default in (msgspec.NODEFAULT, msgspec.UNSET) else field.default


def _word(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def answer_of_reply(declared: Operation, content: bytes, dry_run: bool = False) -> Any:
    """The answer's struct. Raises StartupError where the call had been done already, and its secret is not
    told again; and where the other installation answers otherwise than this one."""
    try:
        return answer_of_facts(declared, msgspec.json.decode(content), dry_run)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{_done(declared)}the reply is no JSON ({error})") from error


def answer_of_facts(declared: Operation, facts: object, dry_run: bool = False) -> Any:
    """As `answer_of_reply`, of what the JSON says."""

    def secret(kind: type, value: object) -> Secret:
        if kind is Secret and isinstance(value, str):
            return Secret(value)
        if kind is Secret and dry_run:
            return Secret("")
        if kind is Secret and value is None:
            lost = "its secret was lost with the connection: take it back, and make another"
            raise StartupError(f"{_done(declared)}{lost}")
        raise NotImplementedError(f"{kind.__name__} is not decoded")

    try:
        return msgspec.convert(facts, declared.answers, dec_hook=secret, str_keys=True)
    except msgspec.ValidationError as error:
        told = f"the reply is not as this version of parley knows it ({error}): is the console's another?"
        raise StartupError(f"{_done(declared)}{told}") from error


def _done(declared: Operation) -> str:
    return "it is done, but " if declared.writes else ""


class _Waits(msgspec.Struct, frozen=True):
    proposal: str
    expires: str | None = None
    why: str = ""


def waits_of_reply(content: bytes) -> str:
    """What is told of a call that waits for a second person."""
    try:
        said = msgspec.json.decode(content, type=_Waits)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "nothing is booked yet: it waits for a second person"
    until = f" until {said.expires}" if said.expires else ""
    why = f"{said.why}; " if said.why else ""
    return (
        f"nothing is booked yet: {why}it is proposed, and another owner or finance person approves it in the "
        f"console{until}: {said.proposal}"
    )


def version_of_tag(tag: str) -> int | None:
    """The version that an ETag names; None: none. Pure."""
    number = tag.strip('"')
    return int(number) if number.isdecimal() else None


class _Seen(msgspec.Struct, frozen=True):
    operation: str
    ask: dict[str, str] = {}
    help: bool = False


class _Problem(msgspec.Struct, frozen=True):
    type: str
    detail: str
    field: str | None = None
    see: _Seen | None = None


def refused_of_problem(status: int, content: bytes) -> Refused | None:
    """The refusal that a problem+json tells; None: the content is none."""
    try:
        said = msgspec.json.decode(content, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    code = said.type.rpartition(":")[2]
    seen = None if said.see is None else SeeOperation(said.see.operation, said.see.ask, said.see.help)
    unknown = status == 404
    return Refused(
        Refusal("bad_request" if unknown else code, said.detail, field=said.field, see=seen, unknown=unknown)
    )
