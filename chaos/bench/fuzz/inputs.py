"""What strangers send: raw requests with anything in any header, query, path and body, by a seed. Pure."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

from chaos.bench.fuzz.frames import Frames
from chaos.bench.fuzz.values import LENGTHS, Values, read_names

METHODS = ("GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PROPFIND")
CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
LIES = (
    (b"content-length", b"10"),
    (b"content-length", b"-1"),
    (b"content-length", b"9" * 30),
    (b"transfer-encoding", b"chunked"),
    (b"transfer-encoding", b"gzip, chunked"),
    (b"expect", b"100-continue"),
)
UPGRADE = {
    b"connection": b"upgrade",
    b"upgrade": b"websocket",
    b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ==",
    b"sec-websocket-version": b"13",
    b"sec-websocket-protocol": b"parley.v1.json",
}

Header = tuple[bytes, bytes]


@dataclass(frozen=True)
class Input:
    """One request. `whole`: its head and body are what it says, so an answer must come."""

    pieces: tuple[bytes, ...]
    whole: bool
    peer: str
    shown: str


@dataclass(frozen=True)
class Route:
    """What is asked for. `path` may have `{id}`."""

    method: str
    path: str
    socket: bool = False


class Inputs:
    """Requests for one route. `proofs`: headers that let a caller in."""

    def __init__(self, seed: str, route: Route, proofs: Sequence[Header]) -> None:
        self._random = random.Random(f"{seed} {route.method} {route.path}")
        self._route = route
        self._proofs = proofs
        shown = [re.split(rb"[ =]", value, maxsplit=1)[1] for _, value in proofs]
        self._values = Values(self._random, shown)
        self._frames = Frames(self._random, self._values, shown[0].decode())

    def some(self, count: int) -> list[Input]:
        """So many more."""
        return [self.next() for _ in range(count)]

    def next(self) -> Input:
        """One more."""
        method = self._route.method if self._chance(0.97) else self._random.choice(METHODS)
        target = self._path() + self._query()
        body = self._body() if method not in ("GET", "HEAD") or self._chance(0.05) else b""
        headers, whole = self._head(body), self._chance(0.97)
        if not whole:
            headers.append(self._random.choice(LIES))
        lines = [f"{method} ".encode() + target + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in headers]
        data = b"\r\n".join(lines) + b"\r\n\r\n" + body
        pieces = self._cut(data)
        if self._route.socket and self._chance(0.7):
            pieces += (self._frames.some(b"parley.v1.msgpack" in data),)
        peer = ".".join(str(self._random.randrange(1, 255)) for _ in range(4))
        return Input(pieces, whole, peer, f"{method} {target[:80]!r} of {len(data)} bytes")

    def _chance(self, of: float) -> bool:
        return self._random.random() < of

    def _path(self) -> bytes:
        path = self._route.path.encode()
        while b"{id}" in path:
            path = path.replace(b"{id}", self._in_a_target(self._values.any()), 1)
        return path[:4000] or b"/"

    def _query(self) -> bytes:
        if self._chance(0.4):
            return b""
        names = [*read_names("query"), *read_names("query"), "", "x"]
        chosen = self._random.choices(names, k=self._random.choice((1, 1, 1, 1, 2, 5, 300)))
        pairs = [name.encode() + b"=" + self._in_a_target(self._values.of(name)) for name in chosen]
        return b"?" + b"&".join(pairs)[: 3900 if self._chance(0.97) else 20_000]

    def _in_a_target(self, value: bytes) -> bytes:
        quoted = quote_from_bytes(value, safe="").encode()
        return quoted if self._chance(0.95) else CONTROLS.sub(b"", value.replace(b" ", b"+"))

    def _head(self, body: bytes) -> list[Header]:
        headers = [
            (b"host", b"127.0.0.1:8080" if self._chance(0.9) else self._in_a_head(self._values.of("host")))
        ]
        if self._proofs and self._chance(0.7):
            headers.append(self._random.choice(self._proofs))
        count = self._random.choice((0, 1, 1, 2, 3, 8)) if self._chance(0.97) else 120
        names = self._random.choices(read_names("header"), k=count)
        headers += [(name.encode(), self._in_a_head(self._values.of(name))) for name in names]
        if self._chance(0.01):
            headers.append((self._in_a_head(self._values.any())[:50], b"x"))
        self._random.shuffle(headers)
        if self._chance(0.9 if self._route.socket else 0.5):
            headers.insert(0, (b"origin", b"http://127.0.0.1:8080"))
        if body and self._chance(0.95):
            headers.append((b"content-length", str(len(body)).encode()))
        return [*headers, *(self._upgrade() if self._route.socket else [(b"connection", b"close")])]

    def _upgrade(self) -> list[Header]:
        return [
            (name, value if self._chance(0.98) else self._in_a_head(self._values.any()))
            for name, value in self._wanted().items()
        ]

    def _wanted(self) -> dict[bytes, bytes]:
        return UPGRADE | ({b"sec-websocket-protocol": b"parley.v1.msgpack"} if self._chance(0.5) else {})

    def _in_a_head(self, value: bytes) -> bytes:
        """Mostly what an HTTP parser lets through, or nothing behind it would be tried."""
        kept = value.replace(b"\r", b"").replace(b"\n", b"")
        kept = kept if self._chance(0.01) else CONTROLS.sub(b"", kept)
        return kept[:8_000] if self._chance(0.95) else kept

    def _body(self) -> bytes:
        kind = self._random.random()
        if kind < 0.1:
            return self._values.any()
        if kind < 0.2:
            return self._random.choice((b"[", b'{"a":', b"[[1],")) * self._random.choice(LENGTHS)
        names = self._random.sample(read_names("field"), k=min(self._random.choice((1, 1, 2, 4)), 4))
        fields = {name: self._field(name) for name in names}
        if self._chance(0.1):
            fields[self._values.text()] = self._values.json()
        return json.dumps(fields, ensure_ascii=self._chance(0.9)).encode(errors="surrogatepass")

    def _field(self, name: str) -> object:
        return self._values.of(name).decode("latin-1")[:3000] if self._chance(0.5) else self._values.json()

    def _cut(self, data: bytes) -> tuple[bytes, ...]:
        if self._chance(0.8):
            return (data,)
        at = self._random.randrange(len(data))
        return data[:at], data[at:]
