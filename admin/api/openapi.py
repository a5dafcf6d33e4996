"""The OpenAPI document of the API, made from the registered operations. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from admin.api.session_calls import SESSION_ROUTES, SESSION_TYPES
from billing.api import MOVES, StartedRun, WaitingMove
from core.file_answer import FileAnswer
from core.operations import Operation, Secret

FILES = "text/csv"
REFS = "#/components/schemas/{name}"
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "What of the call is wrong."},
        "see": {"type": "object", "description": "The operation that helps on."},
        "changes": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Changes since your version.",
        },
    },
}
PROBLEMS = {
    "400": "Something of the call is not valid; `field` says what.",
    "401": "The caller is not signed in.",
    "403": "The caller's role may not do this.",
    "404": "There is no such thing, or it is another's.",
    "409": "Others changed it since, or a call of this key is under way.",
    "413": "The body is too large.",
    "414": "The address is too long.",
    "422": "The key was used for another call.",
    "429": "Too many calls.",
    "500": "This is our fault.",
    "503": "A store does not answer.",
}


def document(operations: Sequence[Operation], version: str, cookie: str) -> dict[str, Any]:
    """The document for these operations. `cookie`: that of a session."""
    types = [each.asks for each in operations] + [each.answers for each in operations]
    types += [*LATER.values(), *SESSION_TYPES]
    schemas, components = msgspec.json.schema_components(types, schema_hook=_schema, ref_template=REFS)
    paths: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(operations):
        answer = schemas[len(operations) + number]
        path = paths.setdefault(f"/api{each.path}", {})
        path[each.method.lower()] = _described(each, components, answer)
    refs = dict(zip(SESSION_TYPES, schemas[-len(SESSION_TYPES) :], strict=True))
    for route in SESSION_ROUTES:
        path = paths.setdefault(f"/api{route.path}", {})
        path[route.method.lower()] = route.described(refs, _refused())
    return {
        "openapi": "3.1.0",
        "info": {"title": "Parley", "version": version, "description": INTRODUCTION},
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": PROBLEM},
            "responses": _problems(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A service token."},
                "session": {"type": "apiKey", "in": "cookie", "name": cookie},
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


LATER: Mapping[bool, type[msgspec.Struct]] = {True: StartedRun, False: WaitingMove}  # by `long`
LOCATIONS = {True: "The run: how far it is, and where it is stopped.", False: "What waits, of all proposals."}
SECRET = "Shown this once: null in a dry run, and where the call is repeated."
INTRODUCTION = (
    "Writes take `dry_run=true` (nothing is done, the answer says what would be), `reason`, and an "
    "`Idempotency-Key`: a call that is repeated under its key is done once. What is edited has an `ETag`; "
    "send it as `If-Match`, and an edit of what others changed meanwhile is refused with their changes. "
    "Money is text of nano-units with its currency. A browser's session needs the header `X-Parley-Csrf` on "
    "writes, whose value `GET /api/me` says."
)


def _schema(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": ["string", "null"], "description": SECRET}
    if kind is FileAnswer:
        return {"type": "string", "format": "binary"}
    raise NotImplementedError


def _described(declared: Operation, components: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """One operation's entry."""
    fields = _fields(declared, components)
    in_path = [
        _parameter(name, "path", fields[name][0], True) for name in fields if name in declared.path_fields
    ]
    others = {name: each for name, each in fields.items() if name not in declared.path_fields}
    entry: dict[str, Any] = {
        "operationId": declared.name,
        "summary": declared.sentence,
        "tags": [declared.name.partition(".")[0]],
        "parameters": in_path,
        "responses": _responses(declared, answer),
        "x-roles": sorted(declared.may),
    }
    if not declared.asks_by_body:
        entry["parameters"] += [_parameter(name, "query", *each) for name, each in others.items()]
        return entry
    if declared.writes:
        entry["parameters"] += _HOW + (_EDITS if declared.edits else [])
    required = [name for name, (_, needed) in others.items() if needed]
    body: dict[str, Any] = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in others.items()}
        | ({"reason": _REASON} if declared.writes else {}),
        "additionalProperties": False,
    }
    if required or declared.reason:
        body["required"] = sorted({*required, *(["reason"] if declared.reason else [])})
    entry["requestBody"] = {"content": {"application/json": {"schema": body}}, "required": "required" in body}
    return entry


def _fields(declared: Operation, components: Mapping[str, Any]) -> dict[str, tuple[Any, bool]]:
    """Schema of each field of the struct, and whether it is required."""
    schema = components[declared.asks.__name__]
    required = schema.get("required", [])
    return {name: (each, name in required) for name, each in schema.get("properties", {}).items()}


def _parameter(name: str, where: str, schema: Any, required: bool) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": where, "required": required, "schema": schema, **described}


def _responses(declared: Operation, answer: Any) -> dict[str, Any]:
    """What an operation may be answered; done, begun or proposed, refused."""
    kind = FILES if declared.answers is FileAnswer else "application/json"
    done: dict[str, Any] = {
        "description": "Done." if declared.writes else "What is there.",
        "content": {kind: {"schema": answer}},
    }
    later = {"202": _later(declared)} if declared.long or not MOVES.isdisjoint(declared.audit) else {}
    return {"200": done, **later, **_refused()}


def _refused() -> dict[str, Any]:
    """What any call may be answered that is not done."""
    return {status: {"$ref": f"#/components/responses/{status}"} for status in PROBLEMS}


def _later(declared: Operation) -> dict[str, Any]:
    """The answer where nothing is done yet: a run, or what waits for a second person."""
    answer = {"$ref": REFS.format(name=LATER[declared.long].__name__)}
    location = {"description": LOCATIONS[declared.long], "schema": {"type": "string"}, "required": True}
    return {
        "description": "It goes on as a run." if declared.long else "It waits for a second person.",
        "headers": {"Location": location},
        "content": {"application/json": {"schema": answer}},
    }


def _problems() -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": content} for status, text in PROBLEMS.items()}


_REASON = {"type": "string", "minLength": 1, "maxLength": 500, "description": "Why; kept in the audit log."}
_DRY_RUN = {"type": "boolean", "description": "Do nothing, and say what would be."}
_KEY = {"type": "string", "maxLength": 200, "description": "Your name for this call, which is done once."}
_ETAG = {
    "type": "string",
    "pattern": '^(\\*|(W/)?"[0-9]{1,18}")$',
    "description": "The ETag of what you read.",
}
_MEANT = {
    "type": "string",
    "pattern": "^[0-9]{1,18}$",
    "description": "Refuse a move of more nano-USD; a dry run says how much it is (X-Parley-Moves).",
}
_HOW = [
    _parameter("dry_run", "query", _DRY_RUN, False),
    _parameter("meant_nano", "query", _MEANT, False),
    _parameter("Idempotency-Key", "header", _KEY, False),
]
_EDITS = [_parameter("If-Match", "header", _ETAG, False)]


@cache
def encoded(operations: tuple[Operation, ...], version: str, cookie: str) -> bytes:
    """The document as JSON, made once."""
    return msgspec.json.encode(document(operations, version, cookie))
