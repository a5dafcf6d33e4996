"""Calls of the API's routes as its document describes them: valid ones, ones that break it, and valid ones
with a value that only a hostile caller sends. Pure; schemathesis makes the first two."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Err
from schemathesis.schemas import APIOperation

ApiRoute = APIOperation[Any, Any, Any, Any]
ApiExample = schemathesis.Case[ApiRoute]
TEXTS = (
    *("", " ", ".", "..", "%", "%00", "a\0b", "\0", "\ud800", "a\udfffb", "\u202e\u0085", "\U0010ffff"),
    *("é" * 300, "x" * 5000, "-1", "1e999", "nan", "inf", "9" * 5000, "1_000", "\uff11\uff12", "1" * 40),
    *("a/b", "%2F", "..%2f..%2f", "Etc/../../passwd", "/etc/passwd", "{}", "null"),
)
TIMES = (
    *(
        "2026-13-45",
        "0000-00-00",
        "9999-12-31T23:59:59.999999999+23:59",
        "0001-01-01",
        "1970-01-01T00:00:00Z",
    ),
    *("-2147483649-01-01", "2026-02-30T24:00:00Z", "P999999999D"),
)
NUMBERS = (
    *(2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, 10**300, -1, 0),
    *(1e308, -0.0, 1.5),
)
OTHERS = (
    *(True, None, [], {}, [[]], ["\0"], [2**70], {"nano": "9" * 19}, {"nano": "1"}),
    {"nano": "-1", "currency": "USD"},
)
CURSORS = ("kZ4wOWE2YmM", "kqEwwP8", "lKEwAQID", "k6EwzP/A", "khI")  # almost
HOSTILE: tuple[object, ...] = (*TEXTS, *TIMES, *NUMBERS, *OTHERS, *CURSORS)
DEEP = 20_000
DEEP_BODIES = (
    b"[" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b"1" * DEEP,
    b'"\\ud800"',
    b'{"\\u0000": 1}',
)
SENT_HEADERS = ("Idempotency-Key", "If-Match")
ANYWHERE = ("tenant", "project", "user", "plan", "pool", "person", "key")


@dataclass(frozen=True)
class ApiCase:
    """One call. `case`: schemathesis' own, which knows what may be answered; `moved`: the path may be another
    route's."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    case: ApiExample
    moved: bool

    @property
    def shown(self) -> str:
        """The call in a line."""
        return f"{self.method} {self.target[:300]} {dict(self.headers)} {self.body[:600]!r}"


def api_routes(document: Mapping[str, Any]) -> list[ApiRoute]:
    """The routes of a document's operations, each of which makes cases; not those of a session, as a sign-out
    would end the caller's. Raises for one that it misdescribes."""
    routes: list[ApiRoute] = []
    for each in schemathesis.openapi.from_dict(dict(document)).get_all_operations():
        if isinstance(each, Err):
            raise each.err()
        if "x-roles" in each.ok().definition.raw:
            routes.append(each.ok())
    return routes


def api_cases(route: ApiRoute, count: int, seed: str, known: Mapping[str, str]) -> Iterator[ApiCase]:
    """So many calls of a route: of each three one is valid, one is not, one is hostile. `known`: ids that
    there are, by the names of fields; about half of the calls name them."""
    chance = random.Random(f"{seed} {route.label}")
    valid = _made(route, GenerationMode.POSITIVE, 2 * count // 3 + 1, seed)
    broken = _made(route, GenerationMode.NEGATIVE, count // 3, seed) if count >= 3 else []
    for number, case in enumerate([*valid, *broken]):
        if chance.random() < 0.6:
            _name_known(case, known, chance)
        if number < len(valid) and number % 2:
            yield _hostile(case, chance)
        else:
            yield _call(case, case.path_parameters, case.query, case.body)


def _made(route: ApiRoute, mode: GenerationMode, count: int, begin: str) -> list[ApiExample]:
    made: list[ApiExample] = []

    @seed(begin)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list[HealthCheck](HealthCheck),  # pyright: ignore[reportArgumentType],
    )
    @given(route.as_strategy(generation_mode=mode))
    def make(case: ApiExample) -> None:
        made.append(case)

    try:
        make()
    except Unsatisfiable:  # a route that takes nothing has nothing to break
        return []
    return made[:count]


def _name_known(case: ApiExample, known: Mapping[str, str], chance: random.Random) -> None:
    case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
    for asked in (case.query, case.body):
        if isinstance(asked, dict):
            for name in ANYWHERE:
                if name in known and name in asked and chance.random() < 0.8:
                    cast(dict[str, Any], asked)[name] = known[name]


def _hostile(case: ApiExample, chance: random.Random) -> ApiCase:
    """A valid call with one value that is none."""
    path, query, body = dict(case.path_parameters), dict(case.query), cast(object, case.body)
    places: list[dict[str, Any]] = [path, query]
    if isinstance(body, dict):
        places.append(body := dict(cast(dict[str, Any], body)))
        if chance.random() < 0.1:
            return _call(case, path, query, chance.choice(DEEP_BODIES))
    names = [(place, name) for place in places for name in place]
    if names:
        place, name = chance.choice(names)
        place[name] = chance.choice(HOSTILE)
    return _call(case, path, query, body)


def _call(
    case: ApiExample, named: Mapping[str, object], query: Mapping[str, object], body: object
) -> ApiCase:
    path, moved = case.path, False
    for name, value in named.items():
        text = _text(value)
        moved = moved or text in ("", ".", "..") or "/" in text
        path = path.replace(f"{{{name}}}", quote(text.encode(errors="surrogatepass"), safe=""))
    asked = urlencode(
        [(name, _text(each)) for name, value in query.items() for each in _several(value)],
        errors="surrogatepass",
    )
    headers = {name: case.headers[name] for name in SENT_HEADERS if name in case.headers}
    return ApiCase(
        case.method,
        path + (f"?{asked}" if asked else ""),
        {name: value for name, value in headers.items() if value.isascii() and value.isprintable()},
        _encoded(body),
        case,
        moved,
    )


def _several(value: object) -> list[object]:
    return cast(list[object], value) if isinstance(value, list) else [value]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _encoded(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"" if type(body).__name__ == "NotSet" else json.dumps(body, default=str).encode()
